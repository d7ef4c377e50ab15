"""Main is replaced with a branch: it is the branch from then on, and whoever holds the old main is told."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, AlreadyExists, Catalog, CommitConflict, CommitId, InvalidRequest, NotFound, Table
from storage.maintain import replace_main as replacing
from storage.metadata.schema import SchemaFiles
from storage.metadata.snapshot import Snapshot
from storage.metadata.snapshot_files import SnapshotFiles
from storage.metadata.table_store import TableStore
from storage.write.close import DELETION, REPLACEMENT, close


def batch(*ids: int, item: str = "main") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "item": [item] * len(ids)})


def rows(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(**options).to_pylist())


@pytest.fixture
def forked(orders: Table) -> Table:
    """Two snapshots on main, tagged, and a branch `fix` from the second that has one more."""
    orders.write(batch(1))
    orders.tags.create("one")
    orders.write(batch(2))
    orders.tags.create("two")
    orders.branches.create("fix", tag="two")
    orders.on_branch("fix").write(batch(1, item="fixed"))
    return orders


FIXED = [(1, "fixed"), (2, "main")]


def test_main_is_the_branch_with_its_history_and_its_writers_go_on(forked: Table, catalog: Catalog) -> None:
    name = str(forked.identifier)
    writer = forked.on_branch("fix")
    forked.consumers.reset("reader", 2)
    assert forked.branches.replace_main("fix").kind == "clean"
    table = catalog.table(name)
    assert rows(table) == FIXED
    assert rows(table, version=1) == [(1, "main")]
    assert rows(table, version="one") == [(1, "main")]
    assert rows(table, version="two") == [(1, "main"), (2, "main")]
    assert [consumer.name for consumer in table.consumers.list()] == ["reader"]
    writer.write(batch(9, item="fixed"))
    assert rows(table) == [*FIXED, (9, "fixed")]
    table.write(batch(8))
    assert rows(catalog.table(f"{name}$branch_fix")) == rows(table)
    assert str(catalog.table(f"{name}$branch_fix").identifier) == name
    assert table.branches.names() == []
    assert catalog.tables() == [name]
    assert table.check(deep=True) == []


def test_who_holds_the_old_main_is_told_to_open_the_table_again(forked: Table, catalog: Catalog) -> None:
    held = catalog.table(str(forked.identifier))
    writer = held.new_write()
    writer.write(batch(5))
    message = writer.prepare_commit()
    forked.branches.replace_main("fix")
    with pytest.raises(CommitConflict, match=r"replaced with branch 'fix'.*Open it again"):
        held.commit_messages([message])
    with pytest.raises(CommitConflict, match="Open it again"):
        held.to_arrow()
    assert rows(catalog.table(str(forked.identifier))) == FIXED


def test_a_table_is_opened_though_its_main_is_replaced_at_that_moment(
    forked: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = SchemaFiles.ids
    wanted = ["fix"]

    def list_then_replace(self: SchemaFiles) -> list[int]:
        schema_ids = listed(self)
        if wanted:
            forked.branches.replace_main(wanted.pop())
        return schema_ids

    monkeypatch.setattr(SchemaFiles, "ids", list_then_replace)
    assert rows(catalog.table(str(forked.identifier))) == FIXED


def test_what_main_did_elsewhere_is_put_on_top_of_the_branch(catalog: Catalog) -> None:
    schema = pa.schema([("day", pa.string()), ("id", pa.int64())])
    table = catalog.create_table("a.t", schema, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 1})
    table.write(pa.table({"day": ["x"], "id": [1]}))
    table.branches.create("fix")
    table.on_branch("fix").overwrite(pa.table({"id": [2]}), partition={"day": "x"})
    table.write(pa.table({"day": ["y"], "id": [3]}), commit_id=CommitId("nightly", 4))
    table.tags.create("late")
    assert table.branches.replace_main("fix").kind == "disjoint"
    table = catalog.table("a.t")
    assert rows(table) == [("x", 2), ("y", 3)]
    assert rows(table, version="late") == [("x", 1), ("y", 3)]
    # A commit that is repeated is recognized on the new main.
    table.write(pa.table({"day": ["y"], "id": [3]}), commit_id=CommitId("nightly", 4))
    assert [snapshot.commit_user for snapshot in table.store.snapshots.all()].count("nightly") == 1


def test_a_main_that_diverged_is_replaced_only_on_demand(forked: Table, catalog: Catalog) -> None:
    forked.write(batch(1, item="nightly"), commit_id=CommitId("nightly", 1))
    with pytest.raises(CommitConflict, match=r"diverged.*WRITE by nightly"):
        forked.branches.replace_main("fix")
    assert rows(forked) == [(1, "nightly"), (2, "main")]
    forked.branches.replace_main("fix", discard_main=True)
    assert rows(catalog.table(str(forked.identifier))) == FIXED


@pytest.mark.parametrize("way", ["merge", "replace_main", "publish", "replace all"])
@pytest.mark.parametrize("kind", ["taken over", "taken over with more", "in common"])
def test_what_the_branch_has_taken_back_is_lost_or_stays_on_main_only_on_demand(
    catalog: Catalog, way: str, kind: str
) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = catalog.create_table("a.t", schema, primary_key=["id"], options={"bucket": 1})
    table.write(pa.table({"id": [1]}, schema))
    if kind == "in common":
        table.write(pa.table({"id": [666]}, schema))
        table.branches.create("fix")
        table.branches.lengthen("fix", 1)
        target = 1
    else:
        table.branches.create("fix")
        if kind == "taken over with more":
            table.on_branch("fix").write(pa.table({"id": [2]}, schema))
        target = len(table.on_branch("fix").to_arrow())
        table.on_branch("fix").write(pa.table({"id": [666]}, schema))
        table.branches.merge("fix")
    branch = table.on_branch("fix")
    undo = branch.rollback_to(target)
    assert undo is not None
    kept, all_rows = list(range(1, target + 1)), [*range(1, target + 1), 666]

    def act(**options: bool) -> object:
        if way in ("merge", "replace_main"):
            return getattr(catalog.table("a.t").branches, way)("fix", **options)
        branches = catalog.branch_set("fix", ["a.t"])
        return branches.publish(**options) if way == "publish" else branches.replace_main(**options)

    with pytest.raises(CommitConflict, match="the branch had as well, and has taken back"):
        act()
    assert sorted(catalog.table("a.t").to_arrow()["id"].to_pylist()) == all_rows
    assert sorted(catalog.read("a.t$branch_fix")["id"].to_pylist()) == kept
    # Nothing is in the way once the branch has the rows again.
    again = catalog.table("a.t$branch_fix").rollback_to(undo.id - 1)
    assert again is not None and table.branches.verdict("fix").kind == "clean"
    catalog.table("a.t$branch_fix").rollback_to(undo.id)
    act(discard_main=True)
    assert sorted(catalog.table("a.t").to_arrow()["id"].to_pylist()) == kept
    assert catalog.table("a.t").check(deep=True) == []
    if way in ("merge", "publish"):
        assert table.branches.verdict("fix").kind == "clean"


def test_main_is_replaced_again_and_the_branch_before_is_gone(forked: Table, catalog: Catalog, tmp_path: Path) -> None:
    name = str(forked.identifier)
    forked.branches.replace_main("fix")
    table = catalog.table(name)
    with pytest.raises(InvalidRequest, match="main branch cannot be deleted"):
        table.branches.delete("fix")
    with pytest.raises(AlreadyExists):
        table.branches.create("fix")
    table.branches.create("again")
    table.on_branch("again").alter(AddColumn("more", pa.int64()))
    table.on_branch("again").write(batch(7).append_column("more", pa.array([1])))
    table.branches.replace_main("again")
    table = catalog.table(name)
    assert table.schema.column_names == ["id", "item", "more"]
    assert rows(table) == [(1, "fixed", None), (2, "main", None), (7, "main", 1)]
    with pytest.raises(NotFound):
        table.on_branch("fix")
    table.branches.create("fix")
    assert rows(table.on_branch("fix")) == rows(table)
    table.branches.delete("fix")
    assert table.branches.replace_main("again").new == ()
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert table.check(deep=True) == []
    catalog.drop_table(name)
    assert catalog.tables() == []
    assert catalog.create_table(name, pa.schema([("id", pa.int64())])).count() == 0


def test_nothing_of_a_closed_main_changes_and_the_branch_gets_what_was_there_before(
    forked: Table, catalog: Catalog
) -> None:
    name = str(forked.identifier)
    forked.tags.create("late", snapshot_id=1)
    forked.consumers.reset("reader", 2)
    close(forked.store, forked.store.snapshots.latest(), f"{REPLACEMENT} fix")
    for act in (
        lambda: forked.write(batch(5)),
        lambda: forked.rollback_to(1),
        lambda: forked.tags.create("later", snapshot_id=1),
        lambda: forked.tags.create("late", snapshot_id=2, replace=True),
        lambda: forked.tags.rename("late", "later"),
        lambda: forked.tags.delete("late"),
        lambda: forked.consumers.reset("other", 2),
        lambda: forked.consumers.delete("reader"),
        lambda: forked.branches.create("another"),
        lambda: forked.alter(AddColumn("more", pa.int64())),
        lambda: catalog.rename_table(name, "other.name"),
    ):
        with pytest.raises(CommitConflict, match="closed to writers"):
            act()
    forked.branches.replace_main("fix")
    table = catalog.table(name)
    assert rows(table) == FIXED
    assert table.schema.column_names == ["id", "item"]
    assert [tag.name for tag in table.tags.list()] == ["late", "one", "two"]
    assert [consumer.name for consumer in table.consumers.list()] == ["reader"]
    assert table.check(deep=True) == []


def test_a_main_that_was_closed_in_vain_is_opened_again_and_the_branch_is_as_before(
    forked: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = replacing.close

    def late(store: TableStore, latest: Snapshot | None, reason: str) -> Snapshot | None:
        # Both sides are altered, in different ways, once it was judged.
        forked.on_branch("fix").alter(AddColumn("more", pa.int64()))
        forked.alter(AddColumn("less", pa.int64()))
        return original(store, latest, reason)

    with monkeypatch.context() as patch:
        patch.setattr(replacing, "close", late)
        with pytest.raises(CommitConflict, match="both were altered"):
            forked.branches.replace_main("fix")
    table = catalog.table(str(forked.identifier))
    assert [tag.name for tag in table.on_branch("fix").tags.list()] == ["two"]
    table.write(batch(8).append_column("less", pa.array([1])))
    assert table.check(deep=True) == []


def test_what_was_decided_before_a_crash_holds_though_the_branch_is_about_to_be_deleted(
    forked: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked.consumers.reset("reader", 2)

    def crash(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(replacing, "name_main", crash)
        with pytest.raises(KeyboardInterrupt):
            forked.branches.replace_main("fix")
    branch = forked.on_branch("fix").store
    close(branch, branch.snapshots.latest(), f"{DELETION} fix")
    assert forked.branches.replace_main("fix").kind == "clean"
    table = catalog.table(str(forked.identifier))
    assert rows(table) == FIXED
    assert [consumer.name for consumer in table.consumers.list()] == ["reader"]
    with pytest.raises(InvalidRequest, match="main branch cannot be deleted"):
        table.branches.delete("fix")
    table.write(batch(8))
    assert table.check(deep=True) == []


def test_a_branch_that_stays_gets_no_consumers_of_a_main_that_was_closed_in_vain(
    forked: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    forked.consumers.reset("reader", 2)

    def crash(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(replacing, "decide", crash)
        with pytest.raises(KeyboardInterrupt):
            forked.branches.replace_main("fix")
    branch = forked.on_branch("fix").store
    close(branch, branch.snapshots.latest(), f"{DELETION} fix")
    with pytest.raises(CommitConflict, match="closed to writers"):
        forked.branches.replace_main("fix")
    assert forked.on_branch("fix").consumers.list() == []
    assert [consumer.name for consumer in forked.consumers.list()] == ["reader"]
    forked.write(batch(8))


def test_a_branch_whose_own_first_snapshot_has_expired_gets_none_of_main_in_its_place(
    forked: Table, catalog: Catalog
) -> None:
    fix = forked.on_branch("fix")
    fix.write(batch(2, item="fixed"))
    fix.expire(retain_last=1)
    forked.consumers.reset("reader", 2)
    forked.branches.replace_main("fix")
    table = catalog.table(str(forked.identifier))
    assert [snapshot.id for snapshot in table.store.snapshots.all()] == [4]
    assert [consumer.name for consumer in table.consumers.list()] == ["reader"]
    assert rows(table) == [(1, "fixed"), (2, "fixed")]
    assert table.check(deep=True) == []


def test_what_was_main_is_not_dropped_from_a_table_that_came_to_its_place(
    forked: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, schema = str(forked.identifier), pa.schema([("id", pa.int64())])
    original, first = replacing.files_of_branch, iter([True])

    def late(old: TableStore) -> Any:
        needed = original(old)
        if next(first, False):
            catalog.drop_table(name)
            made = catalog.create_table(name, schema)
            for number in range(4):
                made.write(pa.table({"id": [number]}))
            made.consumers.reset("own", 2)
        return needed

    monkeypatch.setattr(replacing, "files_of_branch", late)
    forked.branches.replace_main("fix")
    table = catalog.table(name)
    assert rows(table) == [(0,), (1,), (2,), (3,)]
    assert [consumer.name for consumer in table.consumers.list()] == ["own"]


def test_an_empty_main_is_replaced_and_its_writers_stopped(catalog: Catalog) -> None:
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]))
    table.branches.create("first", empty=True)
    table.on_branch("first").write(pa.table({"id": [1]}))
    held = catalog.table("a.t")
    table.branches.replace_main("first")
    with pytest.raises(CommitConflict, match="Open it again"):
        held.write(pa.table({"id": [2]}))
    assert rows(catalog.table("a.t")) == [(1,)]


def test_a_rollback_that_meets_a_writer_loses_nothing(
    orders: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that was about to follow the last snapshot comes on top of the rollback, or the rollback is refused."""
    for number in range(4):
        orders.write(batch(number))
    late = catalog.table(str(orders.identifier))
    create = SnapshotFiles.create
    waiting = iter([True])

    def slow(self: SnapshotFiles, snapshot: Any, *needed: Any) -> bool:
        if snapshot.commit_user == "late" and next(waiting, False):
            orders.rollback_to(2)
        return create(self, snapshot, *needed)

    with monkeypatch.context() as patch:
        patch.setattr(SnapshotFiles, "create", slow)
        late.write(batch(9), commit_id=CommitId("late", 1))
    assert rows(orders) == [(0, "main"), (1, "main"), (9, "main")]
    late.write(batch(9), commit_id=CommitId("late", 1))
    assert rows(orders) == [(0, "main"), (1, "main"), (9, "main")]

    hasty = iter([True])

    def too_late(self: SnapshotFiles, snapshot: Any, *needed: Any) -> bool:
        if snapshot.operation == "ROLLBACK" and next(hasty, False):
            late.write(batch(10), commit_id=CommitId("late", 2))
        return create(self, snapshot, *needed)

    monkeypatch.setattr(SnapshotFiles, "create", too_late)
    with pytest.raises(CommitConflict, match="A writer came first"):
        orders.rollback_to(2)
    assert rows(orders) == [(0, "main"), (1, "main"), (9, "main"), (10, "main")]
    assert orders.check(deep=True) == []
