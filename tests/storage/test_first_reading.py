"""A reading of changes that begins at any snapshot, and what follows: each change once, however late a compaction tells of it."""

import random

import pytest
from pyarrow import Table as Rows
from pyarrow import int64, schema

from storage import Catalog, Table
from tests.storage.told_rows import applied, by_key

_SCHEMA = schema([("k", int64()), ("v", int64())])
_TABLES = {
    "lookup": {"changelog-producer": "lookup"},
    "lookup, compacted by others": {"changelog-producer": "lookup", "write-only": "true"},
    "lookup, deletion vectors": {
        "changelog-producer": "lookup",
        "deletion-vectors.enabled": "true",
        "write-only": "true",
    },
    "full compaction": {"changelog-producer": "full-compaction"},
    "full compaction of many levels": {"changelog-producer": "full-compaction", "num-levels": "6"},
    "lookup, added up": {
        "changelog-producer": "lookup",
        "write-only": "true",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
    },
}


@pytest.fixture(params=_TABLES)
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    """A table with commits, some of which no compaction has told of, in an order that a seed decides."""
    table = catalog.create_table("d.t", _SCHEMA, primary_key=["k"], options={"bucket": "2", **_TABLES[request.param]})
    _go_on(table, random.Random(request.param), 12)
    return table


def _go_on(table: Table, chance: random.Random, count: int) -> None:
    adds_up = table.schema.options.get("merge-engine") == "aggregation"
    for _ in range(count):
        keys = chance.sample(range(8), 3)
        if chance.random() < 0.3 and not adds_up:
            table.delete(f"k in ({keys[0]}, {keys[1]})")
        else:
            _write(table, {key: chance.randrange(100) for key in keys})
        if chance.random() < 0.3:
            table.compact(full=chance.random() < 0.5)


def _write(table: Table, rows: dict[int, int]) -> None:
    table.write(Rows.from_pydict({"k": [*rows], "v": [*rows.values()]}, _SCHEMA))


def test_a_stream_that_begins_at_any_snapshot_tells_each_change_once(table: Table) -> None:
    streams = {"full": table.follow()}
    for number in range(1, (table.snapshots.latest_id() or 0) + 1):
        streams[f"from {number}"] = table.follow("from-snapshot-full", snapshot_id=number)
    states = {name: applied({}, stream.step().rows.to_pylist()) for name, stream in streams.items()}  # type: ignore[union-attr]
    _go_on(table, random.Random(7), 6)
    table.compact(full=True)
    for name, stream in streams.items():
        for step in stream:
            states[name] = applied(states[name], step.rows.to_pylist())
        assert states[name] == by_key(table.to_arrow()), name


def test_a_copy_begins_with_what_changes_have_told(table: Table) -> None:
    begun = {
        number: by_key(table.as_told(number).to_arrow()) for number in range(1, (table.snapshots.latest_id() or 0) + 1)
    }
    table.compact(full=True)
    for number, rows in begun.items():
        assert applied(rows, table.changes(after=number).to_pylist()) == by_key(table.to_arrow()), number


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_rollback_that_marks_rows_and_takes_no_file_away_tells_that_they_go(catalog: Catalog, producer: str) -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "changelog-producer": producer}
    table = catalog.create_table("d.t", _SCHEMA, primary_key=["k"], options=options)
    # So many that no compaction of few rows takes their file away.
    _write(table, {number: 10 * number for number in range(1, 5_000)})
    table.compact(full=True)
    before = table.snapshots.latest_id()
    assert before is not None
    _write(table, {2: 21})
    table.delete("k = 3")
    after = table.snapshots.latest_id()
    assert after is not None
    table.rollback_to(before)
    begun, copy = table.snapshots.latest_id(), by_key(table.to_arrow())
    assert copy[3] == 30
    table.rollback_to(after)
    assert applied(copy, table.changes(after=begun).to_pylist()) == by_key(table.to_arrow())


def test_a_merge_on_top_of_other_rows_is_told_with_those_that_it_replaces(catalog: Catalog) -> None:
    options = {"bucket": "1", "changelog-producer": "lookup"}
    table = catalog.create_table("d.t", _SCHEMA, primary_key=["k"], options=options)
    _write(table, {number: number for number in range(1, 5_000)})
    table.compact(full=True)
    begun, copy = table.snapshots.latest_id(), by_key(table.to_arrow())
    table.branches.create("fix")
    _write(table.on_branch("fix"), {2: 22, 9_999: 1})
    table.on_branch("fix").delete("k = 3")
    table.branches.merge("fix")
    assert applied(copy, table.changes(after=begun).to_pylist()) == by_key(table.to_arrow())


def test_a_rollback_of_keys_in_several_partitions_is_told(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", _SCHEMA, primary_key=["k"], partition_by=["v"], options={"bucket": "-1"})
    _write(table, {1: 0, 2: 0})
    table.truncate()
    _write(table, {3: 1})
    begun, copy = table.snapshots.latest_id(), by_key(table.to_arrow())
    table.rollback_to(1)
    assert applied(copy, table.changes(after=begun).to_pylist()) == {1: 0, 2: 0}
