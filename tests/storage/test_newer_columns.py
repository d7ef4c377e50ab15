"""A table that was opened before others changed its columns, and wrote them: no value of theirs is lost."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, CommitConflict, DropColumn, RenameColumn, SetOptions, Table
from storage.maintain import compaction

SCHEMA = pa.schema([pa.field("k", pa.int64(), False), pa.field("v", pa.int64())])
KINDS = {
    "keyed": (["k"], {"bucket": "1"}),
    "keyed, vectors": (["k"], {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "plain": ([], {}),
    "plain, vectors": ([], {"deletion-vectors.enabled": "true"}),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def opened(catalog: Catalog, request: pytest.FixtureRequest) -> Table:
    key, options = request.param
    table = catalog.create_table("a.t", SCHEMA, primary_key=key, options=options)
    table.write(pa.table({"k": [1], "v": [1]}, SCHEMA))
    return catalog.table("a.t")


def shown(table: Table, *names: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row[name] for name in names) for row in table.to_arrow().to_pylist())


def widened(catalog: Catalog) -> Table:
    """The table with a column more, and rows of it."""
    table = catalog.table("a.t").alter(AddColumn("w", pa.int64()))
    for key in (2, 3):
        table.write(pa.table({"k": [key], "v": [key], "w": [key * 10]}))
    return table


def test_compactions_keep_columns_that_came_after_the_table_was_opened(catalog: Catalog, opened: Table) -> None:
    table = widened(catalog)
    for _ in range(6):
        opened.write(pa.table({"k": [4], "v": [4]}, SCHEMA))
    opened.compact(full=True)
    assert {(1, None), (2, 20), (3, 30), (4, None)} == set(shown(table, "k", "w"))
    assert table.check(deep=True) == [] and table.troubles() == []


CHANGES: dict[str, Callable[[Table], object]] = {
    "update": lambda table: table.update("k = 2", {"v": 9}),
    "delete": lambda table: table.delete("v = 2"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_changes_of_rows_with_columns_that_came_since_are_refused(
    catalog: Catalog, opened: Table, change: Callable[[Table], object]
) -> None:
    table = widened(catalog)
    with pytest.raises(CommitConflict, match=r"'w'.*Open the table again"):
        change(opened)
    assert shown(table, "k", "w") == [(1, None), (2, 20), (3, 30)]
    assert change(catalog.table("a.t")) is not None
    assert table.check(deep=True) == []


def test_columns_that_come_while_a_change_is_computed_are_not_lost(
    catalog: Catalog, opened: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks elsewhere work with the table as it was opened."""
    table = widened(catalog)
    store = opened.store
    original = compaction.compact_bucket
    monkeypatch.setattr(compaction, "compact_bucket", lambda _, plan: original(store, plan))
    with pytest.raises(CommitConflict, match="'w'"):
        opened.compact(full=True)
    assert shown(table, "k", "w") == [(1, None), (2, 20), (3, 30)]


def test_a_column_that_was_dropped_and_added_again_is_not_written_as_it_was(catalog: Catalog, opened: Table) -> None:
    table = catalog.table("a.t").alter(DropColumn("v")).alter(AddColumn("v", pa.int64()))
    with pytest.raises(CommitConflict, match=r"'v'.*another one of that name"):
        opened.write(pa.table({"k": [2], "v": [2]}, SCHEMA))
    with pytest.raises(CommitConflict, match=r"'v'.*another one of that name"):
        opened.overwrite(pa.table({"k": [2], "v": [2]}, SCHEMA))
    table.write(pa.table({"k": [2], "v": [2]}))
    opened.compact(full=True)
    assert shown(table, "k", "v") == [(1, None), (2, 2)]
    first = table.snapshot(1)
    assert first is not None
    table.rollback_to(first.id)
    assert shown(table, "k", "v") == [(1, None)] and table.check(deep=True) == []


def test_what_loses_nothing_goes_on(catalog: Catalog, opened: Table) -> None:
    """A column of another name is the same one, and options are no columns."""
    table = catalog.table("a.t").alter(RenameColumn("v", "x")).alter(SetOptions({"snapshot.num-retained.min": "5"}))
    table.write(pa.table({"k": [2], "x": [2]}))
    opened.write(pa.table({"k": [3], "v": [3]}, SCHEMA))
    opened.update("k = 2", {"v": 9})
    opened.delete("k = 1")
    opened.compact(full=True)
    assert shown(table, "k", "x") == [(2, 9), (3, 3)] and table.check(deep=True) == []
