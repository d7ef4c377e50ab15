"""Changes from any snapshot on make of the rows that were told by then what the table is, whatever was done in between.

Where a compaction writes complete changes (`lookup`, `full-compaction`) each must fit the rows that there are: nothing comes that
is there, and nothing goes but as it is.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, InvalidRequest, Table, Unsupported
from tests.histories import random_of, try_histories
from tests.scale import seeds

Row = tuple[int | None, ...]
_SCHEMA = pa.schema([("p", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
_VECTORS, _LEFT = {"deletion-vectors.enabled": "true"}, {"write-only": "true"}
_LOOKUP, _FULL = {"changelog-producer": "lookup"}, {"changelog-producer": "full-compaction"}
_SUM = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
_OF_KEYS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "none, vectors": _VECTORS,
    "none, vectors, write-only": _VECTORS | _LEFT,
    "input": {"changelog-producer": "input"},
    "input, vectors": {"changelog-producer": "input"} | _VECTORS,
    "lookup": _LOOKUP,
    "lookup, write-only": _LOOKUP | _LEFT,
    "lookup, vectors": _LOOKUP | _VECTORS,
    "lookup, vectors, write-only": _LOOKUP | _VECTORS | _LEFT,
    "lookup, sum": _LOOKUP | _SUM,
    "lookup, sum, vectors": _LOOKUP | _SUM | _VECTORS,
    "lookup, partial-update": _LOOKUP | {"merge-engine": "partial-update"},
    "lookup, sequence field": _LOOKUP | {"sequence.field": "v"},
    "lookup, equal pairs dropped": _LOOKUP | {"changelog-producer.row-deduplicate": "true"},
    "full": _FULL,
    "full, sum": _FULL | _SUM,
    "full, sequence field": _FULL | {"sequence.field": "v"},
}
# By name: the key, the partition, and options.
TABLES: Mapping[str, tuple[list[str], list[str], Mapping[str, str]]] = {
    **{name: (["k"], [], {"bucket": "2", **options}) for name, options in _OF_KEYS.items()},
    **{f"{name}, partitions": (["p", "k"], ["p"], {"bucket": "2", **options}) for name, options in _OF_KEYS.items()},
    "no key": ([], [], {"bucket": "-1"}),
    "no key, partitions": ([], ["p"], {"bucket": "-1"}),
    "no key, vectors": ([], ["p"], {"bucket": "-1", **_VECTORS}),
    "no key, buckets": ([], [], {"bucket": "2", "bucket-key": "k"}),
    "none, keys that move": (["k"], ["p"], {"bucket": "-1"}),
    "lookup, keys that move": (["k"], ["p"], {"bucket": "-1", **_LOOKUP}),
    "lookup, vectors, keys that move": (["k"], ["p"], {"bucket": "-1", **_LOOKUP, **_VECTORS}),
    "lookup, postponed": (["k"], [], {"bucket": "-2", **_LOOKUP}),
    "lookup, first-row": (["k"], [], {"bucket": "2", "merge-engine": "first-row", **_LOOKUP}),
}


class _History:
    """A table to which anything is done, with the rows that were told at each snapshot."""

    def __init__(self, catalog: Catalog, name: str) -> None:
        self.keys, self._parts, options = TABLES[name]
        self._chance = random.Random(0)
        self.table = catalog.create_table(
            "d.t", _SCHEMA, primary_key=self.keys, partition_by=self._parts, options=options
        )
        self.is_complete = name.startswith(("lookup", "full"))
        self.told: dict[int, Any] = {}
        self.done: list[str] = []
        self._branches = 0

    def go_on(self, chance: random.Random) -> None:
        self._chance, latest = chance, self.table.snapshots.latest_id() or 0
        steps = {
            self._write: 45,
            self._delete: 10,
            self._update: 7,
            self._overwrite: 5,
            self._truncate: 3,
            **({self._roll_back: 8, self._merge_branch: 12, self._rescale: 3} if latest else {}),
        }
        (step,) = chance.choices(list(steps), list(steps.values()))
        self.done.append(step.__name__.lstrip("_"))
        # What a table of a kind does not do, or what is there already.
        with suppress(InvalidRequest, Unsupported, CommitConflict):
            step()
        if chance.random() < 0.3:
            self.done.append("compact")
            self.table.compact(full=chance.random() < 0.5)
        number = self.table.snapshots.latest_id()
        if number is not None and number not in self.told:
            self.told[number] = self.rows(self.table.as_told(number).to_arrow())

    def rows(self, rows: pa.Table) -> Any:
        """Rows by their key; without one how often each is there."""
        values = [tuple(row.values()) for row in rows.to_pylist()]
        if not self.keys:
            return Counter(values)
        rows_by_key = {self._key(value): value for value in values}
        assert len(rows_by_key) == len(values), f"a key is there twice: {values}"
        return rows_by_key

    def applied(self, before: Any, changes: Iterable[Mapping[str, Any]]) -> Any:
        """What changes make of rows."""
        now = before.copy()
        for change in changes:
            row: Row = tuple(change[name] for name in _SCHEMA.names)
            comes = change["rowkind"] in ("+I", "+U")
            if not self.keys:
                now[row] += 1 if comes else -1
                assert now[row] >= 0, f"{change} goes from {now}"
            elif comes:
                assert not (self.is_complete and self._key(row) in now), f"{change} comes to {now}"
                now[self._key(row)] = row
            else:
                assert not self.is_complete or now.get(self._key(row)) == row, f"{change} goes from {now}"
                now.pop(self._key(row), None)
        return now if self.keys else +now

    def _key(self, row: Row) -> Row:
        return tuple(row[_SCHEMA.names.index(name)] for name in self.keys)

    # --- steps

    def _write(self, table: Table | None = None) -> None:
        chance = self._chance
        keys = chance.sample(range(7), chance.randrange(1, 4))
        places = [chance.randrange(2) if self._parts else 0 for _ in keys]
        values = [chance.randrange(99) for _ in keys]
        (table or self.table).write(pa.table({"p": places, "k": keys, "v": values}, schema=_SCHEMA))

    def _delete(self) -> None:
        self.table.delete(f"k in ({self._chance.randrange(7)}, {self._chance.randrange(7)})")

    def _update(self) -> None:
        self.table.update(f"k = {self._chance.randrange(7)}", {"v": self._chance.randrange(99)})

    def _overwrite(self) -> None:
        values = [self._chance.randrange(99)] * 2
        self.table.overwrite(pa.table({"p": [0, 0], "k": [1, 2], "v": values}, schema=_SCHEMA))

    def _truncate(self) -> None:
        self.table.truncate()

    def _roll_back(self) -> None:
        self.table.rollback_to(self._chance.randrange(1, (self.table.snapshots.latest_id() or 0) + 1))

    def _merge_branch(self) -> None:
        chance, table, name = self._chance, self.table, f"b{self._branches}"
        self._branches += 1
        table.branches.create(name)
        branch = table.on_branch(name)
        for _ in range(chance.randrange(1, 3)):
            if chance.random() < 0.7:
                self._write(branch)
            else:
                branch.delete(f"k = {chance.randrange(7)}")
        if chance.random() < 0.3:
            branch.compact(full=True)
        if chance.random() < 0.3:
            self._write()
        table.branches.merge(name, discard_main=True)

    def _rescale(self) -> None:
        self.table.rescale(self._chance.randrange(1, 4))


def _run(name: str, seed: int, steps: Sequence[int], directory: Path) -> None:
    history = _History(Catalog(str(directory)), name)
    for step in steps:
        history.go_on(random_of(seed, step))
    history.table.compact(full=True)
    now = history.rows(history.table.to_arrow())
    for number, rows in history.told.items():
        where = f"{name}, seed {seed}, after snapshot {number} of {history.done}"
        try:
            replayed = history.applied(rows, history.table.changes(after=number).to_pylist())
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from None
        assert replayed == now, where
    assert history.table.check(deep=True) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", TABLES)
def test_changes_make_of_what_was_told_what_the_table_is(name: str, tmp_path: Path) -> None:
    try_histories(partial(_run, name), seeds(1, 200, full=10), 16, tmp_path)
