"""Where readers skip files of level 0, a compaction follows whatever brings such files back, as it follows a write."""

from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitId, NotFound, Table
from storage.maintain import compaction

SCHEMA = pa.schema([("k", pa.int32()), ("s", pa.string())])
NAME = "a.b"


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "s": [f"row {key}" for key in keys]}, SCHEMA)


def keys(table: Table, **options: Any) -> list[int]:
    return sorted(table.to_arrow(**options)["k"].to_pylist())


@pytest.fixture(params=[{}, {"changelog-producer": "lookup"}], ids=["silent", "lookup"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    options = {"bucket": 1, "merge-engine": "first-row", **request.param}
    return catalog.create_table(NAME, SCHEMA, primary_key=["k"], options=options)


def written(table: Table) -> list[int]:
    """The snapshots that three writes returned: each is shown by the one that a compaction put on top."""
    made = [table.write(rows(key)) for key in (1, 2, 3)]
    return [snapshot.id for snapshot in made if snapshot is not None]


def replayed(table: Table) -> list[int]:
    state: set[int] = set()
    for row in table.changes().to_pylist():
        (state.add if row["rowkind"] in ("+I", "+U") else state.discard)(row["k"])
    return sorted(state)


def test_a_rollback_to_what_a_write_returned_shows_its_rows(table: Table) -> None:
    _, second, third = written(table)
    table.tags.create("third", snapshot_id=third)
    table.rollback_to(second)
    assert keys(table) == [1, 2]
    table.rollback_to("third")
    assert keys(table) == [1, 2, 3]
    assert table.check(deep=True) == []
    if table.store.options.changelog_producer == "lookup":
        assert replayed(table) == [1, 2, 3]
    table.expire(retain_last=1)
    assert keys(table) == [1, 2, 3]


def test_a_rollback_to_the_newest_shows_what_nobody_has_compacted(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wrote it died before he could."""
    table.write(rows(1))
    with monkeypatch.context() as patched:
        patched.setattr("storage.maintain.follow.compact_after", lambda *_: None)
        last = table.write(rows(2))
    assert keys(table) == [1]
    assert last is not None
    table.rollback_to(last.id)
    assert keys(table) == [1, 2]


def test_a_branch_shows_the_rows_of_the_write_that_it_begins_at(catalog: Catalog, table: Table) -> None:
    _, second, third = written(table)
    table.branches.create("one", snapshot_id=second)
    catalog.branch_set("two", [NAME]).create({NAME: third})
    table.tags.create("second", snapshot_id=second)
    table.branches.create("three", tag="second")
    table.branches.create("four")
    keys_by_branch = {name: keys(table.on_branch(name)) for name in table.branches.names()}
    assert keys_by_branch == {"one": [1, 2], "two": [1, 2, 3], "three": [1, 2], "four": [1, 2, 3]}
    # Of the latest state nothing is left to compact.
    assert len(table.on_branch("four").store.snapshots.ids()) == 1


@pytest.mark.parametrize("way", ["merge", "fast_forward", "replace_main", "adopt"])
def test_what_main_takes_over_is_shown(
    catalog: Catalog, table: Table, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(table)
    table.branches.create("fix")
    with monkeypatch.context() as patched:
        patched.setattr("storage.maintain.follow.compact_after", lambda *_: None)
        table.on_branch("fix").write(rows(4))
    if way == "adopt":
        until = table.store.snapshots.latest_id() or 0
        table.branches.adopt("fix", until=until, commit_id=CommitId("adopter", 1))
    else:
        getattr(table.branches, way)("fix")
    assert keys(catalog.table(NAME)) == [1, 2, 3, 4]
    assert catalog.table(NAME).check(deep=True) == []


def test_a_merge_that_discards_main_shows_what_the_branch_began_at(catalog: Catalog, table: Table) -> None:
    _, second, _ = written(table)
    table.branches.create("fix", snapshot_id=second)
    table.branches.merge("fix", discard_main=True)
    assert keys(catalog.table(NAME)) == [1, 2]


def test_a_set_that_cannot_be_made_leaves_no_branch(catalog: Catalog, table: Table) -> None:
    """It is compacted once all branches are there: what has been compacted would stay as changed by others."""
    first, *_ = written(table)
    catalog.create_table("a.c", SCHEMA)
    with pytest.raises(NotFound, match="Snapshot 7"):
        catalog.branch_set("fix", [NAME, "a.c"]).create({NAME: first, "a.c": 7})
    assert catalog.table(NAME).branches.names() == []


def test_a_compaction_that_fails_afterwards_is_kept_as_a_trouble(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError("disk")

    with monkeypatch.context() as patched:
        patched.setattr(compaction, "compact_bucket", fails)
        first = table.write(rows(1))
    table.write(rows(2))
    assert first is not None and table.troubles() == []
    with monkeypatch.context() as patched:
        patched.setattr(compaction, "compact_bucket", fails)
        table.rollback_to(first.id)
    assert [trouble.kind for trouble in table.troubles()] == ["compaction"]
    table.compact()
    assert keys(table) == [1]
    assert table.troubles() == []


def test_a_table_that_compacts_elsewhere_waits_for_that(catalog: Catalog) -> None:
    options = {"bucket": 1, "merge-engine": "first-row", "write-only": True}
    table = catalog.create_table(NAME, SCHEMA, primary_key=["k"], options=options)
    made = table.write(rows(1))
    assert made is not None
    table.write(rows(2))
    table.compact()
    table.rollback_to(made.id)
    assert keys(table) == []
    table.compact()
    assert keys(table) == [1]
