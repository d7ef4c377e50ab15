"""What a commit left in tables whose readers see rows once they are compacted: who reads it by its number gets all of it."""

import pytest
from pyarrow import Table as Rows
from pyarrow import int64, schema

from storage import Catalog, Table, Unsupported

_SCHEMA = schema([("k", int64()), ("v", int64())])
_HIDING = {
    "merged": {"deletion-vectors.enabled": "true", "write-only": "true"},
    "compacted": {"deletion-vectors.enabled": "true"},
    "input": {"deletion-vectors.enabled": "true", "write-only": "true", "changelog-producer": "input"},
}


@pytest.fixture(params=_HIDING)
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    options = {"bucket": "1", **_HIDING[request.param]}
    table = catalog.create_table("d.t", _SCHEMA, primary_key=["k"], options=options)
    write(table, {1: 100})
    table.compact(full=True)
    write(table, {2: 200, 1: 101})
    return table


def write(table: Table, rows: dict[int, int]) -> None:
    table.write(Rows.from_pydict({"k": [*rows], "v": [*rows.values()]}, _SCHEMA))


def by_key(rows: Rows) -> dict[int, int]:
    return {row["k"]: row["v"] for row in rows.to_pylist()}


def test_the_change_that_lineage_names_has_the_rows_that_it_brought(table: Table) -> None:
    change = table.last_change()
    assert change is not None
    assert by_key(table.after_commit(change.snapshot_id).to_arrow()) == {1: 101, 2: 200}


def test_a_copy_that_begins_there_and_follows_the_changes_equals_the_table(table: Table) -> None:
    begun = table.last_change()
    assert begun is not None
    copy = by_key(table.after_commit(begun.snapshot_id).to_arrow())
    write(table, {3: 300, 1: 102})
    table.compact(full=True)
    came, went = table.net_changes(begun.snapshot_id)
    assert by_key(came) == {3: 300, 1: 102}
    assert not went.num_rows
    for row in table.changes(after=begun.snapshot_id).to_pylist():
        if row["rowkind"] in ("+I", "+U"):
            copy[row["k"]] = row["v"]
    assert copy == by_key(table.to_arrow()) == {1: 102, 2: 200, 3: 300}


def test_postponed_rows_are_seen_in_the_compaction_that_follows_and_told_by_no_net_change(catalog: Catalog) -> None:
    table = catalog.create_table("d.t", _SCHEMA, primary_key=["k"], options={"bucket": "-2"})
    write(table, {1: 100})
    begun = table.last_change()
    assert begun is not None
    assert by_key(table.after_commit(begun.snapshot_id).to_arrow()) == {}
    table.compact(full=True)
    assert by_key(table.after_commit(begun.snapshot_id).to_arrow()) == {1: 100}
    write(table, {2: 200})
    with pytest.raises(Unsupported, match="rows that its readers see once they are compacted"):
        table.net_changes(begun.snapshot_id)
