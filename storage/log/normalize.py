"""Complete changes from those of an upsert log: what became of each key, by the last row that was seen of it.

A row of a key that is not known comes (+I), of one that is known and equal says nothing, of another one is an update (-U of the
row before, +U); a delete takes the whole row before away (-D), or says nothing. Works on batches, and holds a row for each key.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..lsm.row_multiset import row_codes
from .debezium import encode_keys

_KEY = "_KEY"
_COMES = ("+I", "+U")


class Normalizer:
    """The last row of each key. `rows`: those that are known from the start, each key once."""

    def __init__(self, key_columns: tuple[str, ...], rows: pa.Table) -> None:
        self._key_columns = key_columns
        self._held = self._keyed(rows)

    @property
    def rows(self) -> pa.Table:
        """The rows that stand, in no particular order."""
        return self._held.drop_columns([_KEY])

    def apply(self, kinds: pa.Array, rows: pa.Table) -> tuple[pa.Array, pa.Table, pa.Array]:
        """The complete changes that rows of some kinds, in order, make: kinds, rows, and the place of the row that made each."""
        given = self._keyed(rows)
        before, pool = self._before(kinds, given)
        count = rows.num_rows
        alive = pc.is_in(kinds, pa.array(_COMES)).to_numpy(zero_copy_only=False)
        own = np.arange(count)
        codes = row_codes([pool.drop_columns([_KEY])]) if pool.num_rows else np.zeros(0, np.int64)
        known = before >= 0
        same = known & alive
        same[same] = codes[own[same]] == codes[before[same]]
        updates = known & alive & ~same
        goes, comes = known & (~alive | updates), alive & ~same
        # What goes comes before what takes its place.
        places = np.concatenate([own[goes], own[comes]])
        taken = np.concatenate([before[goes], own[comes]])
        change_kinds = np.concatenate([np.where(updates[goes], "-U", "-D"), np.where(updates[comes], "+U", "+I")])
        order = np.argsort(np.concatenate([own[goes] * 2, own[comes] * 2 + 1]), kind="stable")
        self._keep(given, alive)
        changed = pool.drop_columns([_KEY]).take(pa.array(taken[order], pa.int64()))
        return pa.array(change_kinds[order].tolist(), pa.string()), changed, pa.array(places[order], pa.int64())

    def become(self, rows: pa.Table) -> tuple[pa.Array, pa.Table]:
        """The changes by which what stands becomes other rows, each key once."""
        wanted = self._keyed(rows)
        gone = self._held.filter(pc.invert(pc.is_in(self._held[_KEY], value_set=_whole(wanted[_KEY]))))
        gone = gone.drop_columns([_KEY])
        deletes = pa.array(["-D"] * gone.num_rows, pa.string())
        kinds, changed, _ = self.apply(
            pa.concat_arrays([deletes, pa.array(["+I"] * rows.num_rows, pa.string())]), pa.concat_tables([gone, rows])
        )
        return kinds, changed

    def _before(self, kinds: pa.Array, given: pa.Table) -> tuple[np.ndarray, pa.Table]:
        """For each row the place of the row of its key that stood before it, -1 for none; and what those are places in: the rows
        that were given, behind them those that were held.
        """
        keys = _whole(given[_KEY])
        at = pc.index_in(keys, value_set=_whole(self._held[_KEY]))
        is_held = at.is_valid().to_numpy(zero_copy_only=False)
        places = at.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        needed, inverse = np.unique(places[is_held], return_inverse=True)
        pool = pa.concat_tables([given, self._held.take(pa.array(needed))])
        count = given.num_rows
        before = np.full(count, -1, np.int64)
        before[is_held] = count + inverse
        codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        follows = np.flatnonzero(codes[order][1:] == codes[order][:-1])
        earlier, later = order[follows], order[follows + 1]
        alive = pc.is_in(kinds, pa.array(_COMES)).to_numpy(zero_copy_only=False)
        before[later] = np.where(alive[earlier], earlier, -1)
        return before, pool

    def _keep(self, given: pa.Table, alive: np.ndarray) -> None:
        """Hold the last row of each key that was given, and none of those that went."""
        keys = _whole(given[_KEY])
        codes = keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        _, from_the_end = np.unique(codes[::-1], return_index=True)
        last = np.sort(len(codes) - 1 - from_the_end)
        stays = self._held.filter(pc.invert(pc.is_in(self._held[_KEY], value_set=keys)))
        self._held = pa.concat_tables([stays, given.take(pa.array(last[alive[last]], pa.int64()))])

    def _keyed(self, rows: pa.Table) -> pa.Table:
        plain = pa.schema([field.with_nullable(True) for field in rows.schema])
        return rows.cast(plain).append_column(pa.field(_KEY, pa.binary()), encode_keys(rows, self._key_columns))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
