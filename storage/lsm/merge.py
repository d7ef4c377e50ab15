"""Merge sorted runs by key, whole batches at a time.

The runs advance together to a frontier, the smallest last key among their current batches. Of the rows up to it, the
largest slice stays in place and is filtered; the others are small and are compared with it by key. So a large old run
under many small new ones costs little more than reading it, and memory holds one batch of each run.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .key_order import ranks, stable_order, whole_numbers
from .merge_engines import Deduplicate, MergeEngine, merge_groups
from .system_columns import INSERT, LEVEL, SEQUENCE_NUMBER, UPDATE_AFTER, VALUE_KIND, WHOLE

_LAST_ROW_WINS = Deduplicate()
_ROWS_AT_ONCE = 1 << 20


@dataclass(slots=True)
class RunCursor:
    """A run being read: batches in key order, and how far the current one is used up.

    `rank` orders runs by age where sequence numbers are equal or not read: the higher is the newer. `row_count`: how many rows
    are still to come in batches after the current one, if that is known.
    """

    batches: Iterator[pa.RecordBatch]
    rank: int
    batch: pa.RecordBatch | None = None
    start: int = 0
    row_count: int | None = None

    def advance(self) -> bool:
        """Make sure that there are rows; False at the end of the run."""
        while self.batch is None or self.start >= self.batch.num_rows:
            self.batch, self.start = next(self.batches, None), 0
            if self.batch is None:
                return False
            if self.row_count is not None:
                self.row_count -= self.batch.num_rows
        return True

    def take_until(self, frontier: tuple[Any, ...] | None, key_count: int) -> pa.RecordBatch:
        """The rows with keys up to and including the frontier (None: all), which are used up."""
        assert self.batch is not None
        end = self.batch.num_rows if frontier is None else _end_of(self.batch, self.start, frontier, key_count)
        rows = self.batch.slice(self.start, end - self.start)
        self.start = end
        return rows


def merge_sorted_runs(
    runs: Sequence[RunCursor],
    key_count: int,
    engine: MergeEngine = _LAST_ROW_WINS,
    *,
    columns: Sequence[str] | None = None,
    keep_deletes: bool = False,
    sort: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield one row of each key, made by the engine; deletes are left out unless `keep_deletes`.

    The batches rise by key; rows within a batch do so only if `sort`, which readers have no need of and which takes whole
    rows. `columns`: all that is wanted of a row; None is everything.

    The first `key_count` columns of every batch are the key, without nulls; each run is ordered by it and has no key
    twice. All batches have the same columns. A column `_SEQUENCE_NUMBER` decides who wins, and if there is none the
    rank of the run; a column `_VALUE_KIND` tells deletes, and if there is none there are none. A column `_LEVEL` comes out as
    the lowest level of each key; an engine that looks up needs it, and a column `_WHOLE`, which means nothing any more then.
    """
    for slices in advance_together(runs, key_count):
        kept = None if columns is None else [*columns, *({VALUE_KIND} & set(slices[0][0].schema.names) - set(columns))]
        for rows in _merge_slices(slices, key_count, engine, kept, sort=sort):
            rows = rows if keep_deletes else without_deletes(rows)
            if rows.num_rows:
                yield rows if columns is None else rows.select(columns)


def advance_together(runs: Sequence[RunCursor], key_count: int) -> Iterator[list[tuple[pa.RecordBatch, int]]]:
    """Rows of all runs up to the same key, again and again: those of one step hold every row of their keys, with the
    rank of their run.
    """
    active = [run for run in runs if run.advance()]
    while active:
        waiting = sum(run.batch.num_rows - run.start for run in active if run.batch is not None)
        # As long as there are few rows, a batch that is the last of its run holds nobody back.
        bounds = [
            run.batch for run in active if run.batch is not None and (run.row_count != 0 or waiting > _ROWS_AT_ONCE)
        ]
        frontier = min((_key_at(batch, batch.num_rows - 1, key_count) for batch in bounds), default=None)
        yield [(rows, run.rank) for run in active if (rows := run.take_until(frontier, key_count)).num_rows]
        active = [run for run in active if run.advance()]


def within_keys(
    batches: Iterator[pa.RecordBatch], low: tuple[Any, ...] | None, high: tuple[Any, ...] | None, key_count: int
) -> Iterator[pa.RecordBatch]:
    """The rows of a sorted run with keys from `low` on and below `high` (of `comparable_key`)."""
    for batch in batches:
        start = 0 if low is None else _first_from(batch, low, key_count)
        end = batch.num_rows if high is None else _first_from(batch, high, key_count)
        if start < end:
            yield batch.slice(start, end - start)
        if end < batch.num_rows:
            return


def comparable_key(values: Sequence[pa.Scalar]) -> tuple[Any, ...]:
    """A key as it is compared here with those of batches."""
    return tuple(_comparable(value) for value in values)


def _first_from(batch: pa.RecordBatch, key: tuple[Any, ...], key_count: int) -> int:
    return bisect_left(range(batch.num_rows), key, key=lambda row: _key_at(batch, row, key_count))


def match_keys(batch: pa.RecordBatch, other: pa.RecordBatch, key_count: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of each, by number, whose keys are in both. Neither may hold a key twice; both are sorted by key."""
    codes, other_codes = _codes(batch, other, key_count)
    order = np.argsort(codes, kind="stable")
    hits, rivals = _find(codes[order], other_codes, sorted_base=key_count == 1 and _is_numeric(other))
    return order[hits], rivals


def _key_at(batch: pa.RecordBatch, row: int, key_count: int) -> tuple[Any, ...]:
    return tuple(_comparable(batch.column(index)[row]) for index in range(key_count))


def _comparable(scalar: pa.Scalar) -> Any:
    # Temporal scalars hold whole numbers, which are faster to compare and lose no nanoseconds.
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()


def _end_of(batch: pa.RecordBatch, start: int, frontier: tuple[Any, ...], key_count: int) -> int:
    """The first row behind `start` whose key is beyond the frontier."""
    if key_count == 1 and (numbers := _numbers_in_place(batch.column(0))) is not None:
        limit = numbers.dtype.type(frontier[0])
        return start + int(np.searchsorted(numbers[start:], limit, side="right"))
    if _key_at(batch, batch.num_rows - 1, key_count) <= frontier:
        return int(batch.num_rows)
    return bisect_right(range(batch.num_rows), frontier, lo=start, key=lambda row: _key_at(batch, row, key_count))


def _numbers_in_place(column: pa.Array) -> np.ndarray | None:
    """The column as whole numbers without a copy; None for types that are not held like that."""
    kind = column.type
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not pa.types.is_integer(kind):
        return None
    numbers: np.ndarray = column.to_numpy()
    return numbers


def _merge_slices(
    slices: Sequence[tuple[pa.RecordBatch, int]],
    key_count: int,
    engine: MergeEngine,
    columns: list[str] | None,
    *,
    sort: bool,
) -> Sequence[pa.RecordBatch]:
    """One row for each key of the slices, each of which has a key once."""
    if len(slices) == 1:
        return [_only(_alone(slices[0][0], engine), columns)]
    base_index = max(range(len(slices)), key=lambda index: slices[index][0].num_rows)
    base, base_rank = slices[base_index]
    others = [each for index, each in enumerate(slices) if index != base_index]
    small = pa.Table.from_batches([rows for rows, _ in others]).combine_chunks().to_batches()[0]
    small_ranks = np.concatenate([np.full(rows.num_rows, rank, np.int64) for rows, rank in others])
    untouched, made = (_keep_last if engine.last_row_wins else _merge_by_engine)(
        base, base_rank, small, small_ranks, key_count, engine, columns
    )
    parts = [rows for rows in (untouched, made) if rows.num_rows]
    # What was made of several rows is in no order, even where nothing of the base is left.
    return [_sorted_by_key(parts, key_count)] if sort and made.num_rows else parts


def _merge_by_engine(
    base: pa.RecordBatch,
    base_rank: int,
    small: pa.RecordBatch,
    small_ranks: np.ndarray,
    key_count: int,
    engine: MergeEngine,
    columns: list[str] | None,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Rows of the base that no other row has to do with, and the merged others."""
    small_codes, base_codes = _codes(small, base, key_count)
    wanted = np.unique(small_codes)
    hits, rivals = _find(wanted, base_codes, sorted_base=key_count == 1 and _is_numeric(base))
    together = pa.Table.from_batches([small, base.take(pa.array(rivals))]).combine_chunks().to_batches()[0]
    codes = np.append(small_codes, wanted[hits])
    ages = _ages(together)
    assert ages is not None, "engines other than deduplicate always read sequence numbers"
    by_age = [np.append(small_ranks, np.full(len(rivals), base_rank)), ages]
    by_field = [engine.order_of(together.column(name)) for name in reversed(engine.order_by)]
    order = np.lexsort((*by_age, *by_field, codes))
    ordered = codes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    merged = _merge_ordered(together.take(pa.array(order)), starts, engine)
    untouched = np.ones(base.num_rows, bool)
    untouched[rivals] = False
    if engine.merges_single_rows:
        return _only(_alone(base.filter(pa.array(untouched)), engine), columns), _only(merged, columns)
    return _only(base, columns).filter(pa.array(untouched)), _only(merged, columns)


def _merge_ordered(rows: pa.RecordBatch, starts: np.ndarray, engine: MergeEngine) -> pa.RecordBatch:
    """One row of each key, of rows in merge order."""
    if LEVEL not in rows.schema.names:
        assert not engine.looks_up, "engines that look up always read levels"
        return merge_groups(rows, starts, engine)
    levels = rows.column(LEVEL).to_numpy()
    lowest = np.minimum.reduceat(levels, starts)
    if engine.looks_up:
        whole = rows.column(WHOLE).to_numpy(zero_copy_only=False)
        last = np.minimum.reduceat(np.where(whole, levels, np.iinfo(levels.dtype).max), starts)
        counts = levels <= np.repeat(last, np.diff(np.append(starts, len(levels))))
        rows = rows.filter(pa.array(counts))
        starts = np.append(0, np.cumsum(np.add.reduceat(counts.astype(np.int64), starts))[:-1])
    merged = merge_groups(rows, starts, engine)
    index = merged.schema.get_field_index(LEVEL)
    return merged.set_column(index, merged.schema.field(index), pa.array(lowest))


def _alone(rows: pa.RecordBatch, engine: MergeEngine) -> pa.RecordBatch:
    """What becomes of rows that are the only ones of their keys."""
    return merge_groups(rows, np.arange(rows.num_rows), engine) if engine.merges_single_rows and rows.num_rows else rows


def _keep_last(
    base: pa.RecordBatch,
    base_rank: int,
    small: pa.RecordBatch,
    small_ranks: np.ndarray,
    key_count: int,
    _: MergeEngine,
    columns: list[str] | None,
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Rows of the base that no newer row replaces, and the newer ones."""
    small_ages, base_ages = _ages(small), _ages(base)
    small_codes, base_codes = _codes(small, base, key_count)

    by_age = (small_ranks,) if small_ages is None else (small_ranks, small_ages)
    order = np.lexsort((*by_age, small_codes))
    codes = small_codes[order]
    winners = order[np.append(codes[1:] != codes[:-1], True)]
    winner_codes = small_codes[winners]
    hits, rivals = _find(winner_codes, base_codes, sorted_base=key_count == 1 and _is_numeric(base))
    newer = small_ranks[winners[hits]] > base_rank
    if small_ages is not None and base_ages is not None:
        ours, theirs = small_ages[winners[hits]], base_ages[rivals]
        # Writers that did not see each other may give the same number: then the rank decides, always alike.
        newer = (ours > theirs) | ((ours == theirs) & newer)
    # What only told who wins need not be copied.
    base, small = _only(base, columns), _only(small, columns)
    if newer.any():
        kept = np.ones(base.num_rows, bool)
        kept[rivals[newer]] = False
        base = base.filter(pa.array(kept))
    if not newer.all():
        keep_winner = np.ones(len(winners), bool)
        keep_winner[hits[~newer]] = False
        winners = winners[keep_winner]
    return base, small.take(pa.array(winners))


def _only(rows: pa.RecordBatch, columns: list[str] | None) -> pa.RecordBatch:
    return rows if columns is None else rows.select(columns)


def _sorted_by_key(parts: Sequence[pa.RecordBatch], key_count: int) -> pa.RecordBatch:
    rows = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
    columns = [ranks(rows.column(index)) for index in range(key_count)]
    return rows.take(pa.array(stable_order(columns, rows.num_rows)))


def _is_numeric(batch: pa.RecordBatch) -> bool:
    kind = batch.schema.field(0).type
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind))


def _ages(batch: pa.RecordBatch) -> np.ndarray | None:
    """Numbers that are larger for newer rows; None where the ranks of the runs tell."""
    if SEQUENCE_NUMBER not in batch.schema.names:
        return None
    ages: np.ndarray = batch.column(SEQUENCE_NUMBER).to_numpy() * 2
    if VALUE_KIND in batch.schema.names:
        # With equal sequence numbers retractions come before additions.
        ages = ages + np.isin(batch.column(VALUE_KIND).to_numpy(), (INSERT, UPDATE_AFTER))
    else:
        ages = ages + 1
    return ages


def _codes(small: pa.RecordBatch, base: pa.RecordBatch, key_count: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers that are equal for equal keys; -1 for keys of the base that the small batch does not have."""
    if key_count == 1 and _is_numeric(base):
        small_numbers, base_numbers = whole_numbers(small.column(0)), whole_numbers(base.column(0))
        assert small_numbers is not None
        assert base_numbers is not None
        return small_numbers, base_numbers
    small_codes = np.zeros(small.num_rows, np.int64)
    base_codes = np.zeros(base.num_rows, np.int64)
    cardinality = 1
    for index in range(key_count):
        encoded = small.column(index).dictionary_encode()
        indices = pc.index_in(base.column(index), value_set=encoded.dictionary)
        column_codes = indices.fill_null(-1).to_numpy().astype(np.int64)
        size = len(encoded.dictionary)
        if cardinality > 2**62 // max(size, 1):
            unique, small_codes = np.unique(small_codes, return_inverse=True)
            places = np.minimum(np.searchsorted(unique, base_codes), len(unique) - 1)
            base_codes = np.where(unique[places] == base_codes, places, -1)
            cardinality = len(unique)
        missing = (column_codes < 0) | (base_codes < 0)
        small_codes = small_codes * size + encoded.indices.to_numpy()
        base_codes = np.where(missing, -1, base_codes * size + column_codes)
        cardinality *= size
    return small_codes, base_codes


def _find(wanted: np.ndarray, base: np.ndarray, *, sorted_base: bool) -> tuple[np.ndarray, np.ndarray]:
    """Where the wanted codes (ascending) occur in the base: indices into `wanted`, and the rows of the base."""
    if not len(wanted) or not len(base):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if sorted_base:
        places = np.minimum(np.searchsorted(base, wanted), len(base) - 1)
        hits = np.flatnonzero(base[places] == wanted)
        return hits, places[hits]
    candidates = np.flatnonzero(base >= 0)
    places = np.minimum(np.searchsorted(wanted, base[candidates]), len(wanted) - 1)
    matching = wanted[places] == base[candidates]
    return places[matching], candidates[matching]


def without_deletes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that are there: those whose `_VALUE_KIND`, if that column is read, is no retraction."""
    if VALUE_KIND not in rows.schema.names:
        return rows
    kinds = rows.column(VALUE_KIND).to_numpy()
    added = (kinds == INSERT) | (kinds == UPDATE_AFTER)
    return rows if added.all() else rows.filter(pa.array(added))
