"""Branches: forked, written apart, taken over or refused."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, AlreadyExists, Catalog, CommitConflict, InvalidRequest, NotFound, SetNotNull, Table
from storage.directory_lock import Witness
from storage.file_io import FileIO
from storage.maintain import replace_main as replacing
from storage.metadata.snapshot_files import SnapshotFiles
from storage.metadata.table_store import TableStore


def batch(*ids: int, item: str = "main") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "item": [item] * len(ids)})


def rows(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(**options).to_pylist())


@pytest.fixture
def forked(orders: Table) -> Table:
    """Two snapshots on main, and a branch `fix` from the tag of the second."""
    orders.write(batch(1))
    orders.write(batch(2))
    orders.tags.create("two")
    orders.branches.create("fix", tag="two")
    return orders


def test_a_branch_reads_what_main_had_and_is_written_apart(forked: Table, tmp_path: Path) -> None:
    files = set(tmp_path.rglob("*.parquet"))
    fix = forked.on_branch("fix")
    assert rows(fix) == rows(forked)
    assert set(tmp_path.rglob("*.parquet")) == files
    fix.write(batch(1, item="fixed"))
    forked.write(batch(3))
    assert rows(fix) == [(1, "fixed"), (2, "main")]
    assert rows(forked) == [(1, "main"), (2, "main"), (3, "main")]
    assert forked.branches.names() == ["fix"]
    assert rows(forked, version="fix.3") == rows(fix)
    assert rows(forked, version="fix.two") == [(1, "main"), (2, "main")]


def test_a_merge_beside_an_alter_of_main_is_refused_and_loses_no_column(forked: Table) -> None:
    fix = forked.on_branch("fix").alter(AddColumn("salary", pa.int64()))
    fix.write(pa.table({"id": [7], "item": ["fixed"], "salary": [99]}))
    altered: list[Table] = []

    class AlteredMeanwhile(FileIO):
        """Somebody alters main right before it gets the branch's schema."""

        def create_exclusively(self, path: str, data: bytes, **arguments: Any) -> bool:
            if path.endswith("/schema/schema-1") and not altered:
                altered.append(forked.alter(AddColumn("age", pa.int64())))
            return super().create_exclusively(path, data, **arguments)

    with pytest.raises(CommitConflict, match="both were altered"):
        through(forked, AlteredMeanwhile("file://")).branches.merge("fix")
    assert altered[0].schema.column_names == ["id", "item", "age"]
    assert rows(forked.on_branch("fix"))[-1] == (7, "fixed", 99)
    assert forked.check(deep=True) == []


def test_a_branch_that_begins_at_a_rollback_is_merged(orders: Table) -> None:
    for number in range(1, 4):
        orders.write(batch(number))
    orders.rollback_to(1)
    orders.branches.create("fix")
    orders.on_branch("fix").write(batch(9))
    orders.write(batch(5))
    orders.rollback_to(4)
    # Main has gone on, and back to the very rollback that the branch began at.
    verdict = orders.branches.merge("fix")
    assert (verdict.kind, verdict.common) == ("clean", 4)
    assert rows(orders) == [(1, "main"), (9, "main")]
    assert orders.check(deep=True) == []


def test_a_rollback_that_main_does_not_build_on_any_more_is_nothing_in_common(orders: Table) -> None:
    for number in range(1, 4):
        orders.write(batch(number))
    orders.rollback_to(2)
    orders.branches.create("fix")
    orders.on_branch("fix").write(batch(9))
    orders.rollback_to(1)
    assert orders.branches.verdict("fix").kind != "clean"
    with pytest.raises(CommitConflict):
        orders.branches.merge("fix")


def test_a_branch_begins_at_a_tag_a_snapshot_the_latest_state_or_empty(forked: Table) -> None:
    forked.branches.create("old", snapshot_id=1)
    forked.branches.create("new")
    forked.branches.create("bare", empty=True)
    assert rows(forked.on_branch("old")) == [(1, "main")]
    assert rows(forked.on_branch("new")) == rows(forked)
    assert rows(forked.on_branch("bare")) == []
    forked.on_branch("bare").write(batch(9))
    assert forked.on_branch("bare").snapshot().id == 1  # type: ignore[union-attr]


def test_main_takes_over_a_branch_with_its_schema_and_tags(forked: Table) -> None:
    fix = forked.on_branch("fix").alter(AddColumn("why", pa.string()))
    fix.write(pa.table({"id": [1], "item": ["fixed"], "why": ["typo"]}))
    fix.compact()
    fix.tags.create("done")
    assert forked.branches.verdict("fix").kind == "clean"
    verdict = forked.branches.fast_forward("fix")
    assert [snapshot.id for snapshot in verdict.new] == [3, 4]
    main = Catalog(forked.store.paths.root.rsplit("/", 2)[0]).table("shop.orders")
    assert rows(main) == [(1, "fixed", "typo"), (2, "main", None)]
    assert [tag.name for tag in main.tags.list() if not tag.name.startswith("snapline-")] == ["two", "done"]
    assert main.branches.verdict("fix").new == ()
    main.write(pa.table({"id": [5], "item": ["after"], "why": [None]}))
    fix.write(pa.table({"id": [6], "item": ["apart"], "why": ["again"]}))
    assert main.count() == fix.count() == 3


def test_a_main_that_has_moved_is_not_overwritten_and_the_loss_is_named(forked: Table) -> None:
    forked.on_branch("fix").write(batch(1, item="fixed"))
    from storage import CommitId

    forked.write(batch(1, 3), commit_id=CommitId("nightly", 1))
    with pytest.raises(CommitConflict, match=r"diverged.*3 \(WRITE by nightly\)"):
        forked.branches.fast_forward("fix")
    assert rows(forked) == [(1, "main"), (2, "main"), (3, "main")]
    verdict = forked.branches.fast_forward("fix", discard_main=True)
    assert [snapshot.commit_user for snapshot in verdict.lost] == ["nightly"]
    assert rows(forked) == [(1, "fixed"), (2, "main")]


def test_an_empty_branch_is_taken_over_by_an_empty_main_only(catalog: Catalog) -> None:
    for name in ("a.b", "a.c"):
        table = catalog.create_table(name, pa.schema([("id", pa.int64()), ("item", pa.string())]))
        table.branches.create("first", empty=True)
        table.on_branch("first").write(batch(1))
    catalog.table("a.b").branches.fast_forward("first")
    assert catalog.table("a.b").count() == 1
    catalog.table("a.c").write(batch(7))
    with pytest.raises(CommitConflict, match="diverged"):
        catalog.table("a.c").branches.fast_forward("first")


class Stops(FileIO):
    """Stops before the change number `left`, or lets a rival act then."""

    def __init__(self, left: int, act: Callable[[], object]) -> None:
        super().__init__("file://")
        self.left = left
        self.act = act

    def _change(self) -> None:
        self.left -= 1
        if self.left == -1:
            self.act()

    def create_exclusively(self, path: str, data: bytes, *, of: Witness | None = None) -> bool:
        self._change()
        return super().create_exclusively(path, data, of=of)

    def delete_if(self, path: str, expected: bytes) -> bool:
        self._change()
        return super().delete_if(path, expected)

    def move_directory(self, path: str, target: str) -> None:
        self._change()
        super().move_directory(path, target)

    def write_bytes(self, path: str, data: bytes) -> None:
        self._change()
        super().write_bytes(path, data)

    def overwrite(self, path: str, data: bytes, *, of: Witness | None = None) -> None:
        self._change()
        super().overwrite(path, data, of=of)

    def delete(self, path: str) -> None:
        self._change()
        super().delete(path)

    def delete_directory(self, path: str) -> None:
        self._change()
        super().delete_directory(path)


class Crash(Exception):
    """The process is gone."""


def crash() -> None:
    raise Crash


def through(table: Table, file_io: FileIO) -> Table:
    store = table.store
    return Table(TableStore(file_io, store.paths.root, store.identifier, clock=store.clock), "snapline")


def test_creating_a_branch_can_stop_anywhere_and_be_repeated(orders: Table) -> None:
    orders.write(batch(1))
    orders = orders.alter(AddColumn("more", pa.int32()))
    step, done = 0, False
    while not done:
        try:
            through(orders, Stops(step, crash)).branches.create(f"b{step}", snapshot_id=1)
            done = True
        except Crash:
            assert orders.count() == 1
            if f"b{step}" not in orders.branches.names():
                orders.branches.create(f"b{step}", snapshot_id=1)
        assert rows(orders.on_branch(f"b{step}")) == [(1, "main")]
        step += 1
    assert step > 4


def test_a_takeover_can_stop_anywhere_and_be_repeated(forked: Table) -> None:
    fix = forked.on_branch("fix").alter(AddColumn("why", pa.string()))
    states = [[(1, "main", None), (2, "main", None)]]
    for number in (1, 2, 3):
        fix.write(pa.table({"id": [number], "item": ["fixed"], "why": ["x"]}))
        states.append(rows(fix))
    fix.tags.create("done")
    old = [row[:2] for row in states[0]]
    for step in count():
        try:
            # Every call goes on from where the one before it stopped.
            through(forked, Stops(step, crash)).branches.fast_forward("fix")
            break
        except Crash:
            assert rows(through(forked, FileIO("file://"))) in [old, states[0], states[-1]]
    main = through(forked, FileIO("file://"))
    assert rows(main) == states[-1]
    assert [tag.name for tag in main.tags.list() if not tag.name.startswith("snapline-")] == ["two", "done"]
    assert main.store.snapshots.ids() == [1, 2, 3]


@pytest.mark.parametrize("step", range(4))
def test_a_writer_who_comes_first_during_a_takeover_loses_nothing(forked: Table, step: int) -> None:
    fix = forked.on_branch("fix")
    fix.write(batch(1, item="fixed"))
    fix.write(batch(2, item="fixed"))
    rival = through(forked, FileIO("file://"))
    slow = through(forked, Stops(step, lambda: rival.write(batch(99, item="rival"))))
    with pytest.raises(CommitConflict, match=r"3 \(WRITE by"):
        slow.branches.fast_forward("fix")
    assert rows(rival) == [(1, "main"), (2, "main"), (99, "rival")]
    assert forked.check(deep=True) == []


def test_a_deleted_branch_goes_with_the_files_that_only_it_needs(forked: Table, tmp_path: Path) -> None:
    files = set(tmp_path.rglob("*.parquet"))
    forked.on_branch("fix").write(batch(1, item="fixed"))
    forked.branches.delete("fix")
    assert set(tmp_path.rglob("*.parquet")) == files
    assert forked.branches.names() == []
    assert rows(forked) == [(1, "main"), (2, "main")]


def test_what_cannot_be_is_refused(forked: Table) -> None:
    with pytest.raises(AlreadyExists, match="Delete it first"):
        forked.branches.create("fix")
    for name in ("main", "12", "a.b"):
        with pytest.raises(InvalidRequest, match="cannot name a branch"):
            forked.branches.create(name)
    with pytest.raises(NotFound, match="Existing tags: two"):
        forked.branches.create("x", tag="three")
    with pytest.raises(NotFound, match="Existing branches: fix"):
        forked.branches.fast_forward("fox")
    with pytest.raises(InvalidRequest, match="give one of these"):
        forked.branches.create("x", tag="two", empty=True)
    with pytest.raises(InvalidRequest, match="main branch"):
        forked.branches.delete("main")


def test_tables_are_altered_on_both_sides(forked: Table) -> None:
    forked.on_branch("fix").alter(AddColumn("x", pa.int32()))
    forked.alter(AddColumn("y", pa.int32()))
    with pytest.raises(CommitConflict, match="both were altered"):
        forked.branches.fast_forward("fix")


def test_two_who_merge_the_same_branch_at_once_merge_it_once(
    forked: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        forked.on_branch("fix").write(batch(10 + number, item="fixed"))
    create = SnapshotFiles.create
    waiting = iter([True])

    def slow(self: SnapshotFiles, snapshot: Any, *needed: Any) -> bool:
        if next(waiting, False):
            catalog.table(str(forked.identifier)).branches.merge("fix")
        return create(self, snapshot, *needed)

    monkeypatch.setattr(SnapshotFiles, "create", slow)
    forked.branches.merge("fix")
    assert rows(forked) == rows(forked.on_branch("fix"))
    assert forked.store.snapshots.ids() == [1, 2, 3]
    forked.write(batch(99))
    assert forked.check(deep=True) == []


def test_what_users_name_is_not_taken_for_what_the_store_names(catalog: Catalog, forked: Table) -> None:
    for name in ("merge-of-fix", "publication-00000001"):
        forked.branches.create(name)
    forked.on_branch("fix").write(batch(3))
    forked.branches.merge("fix")
    forked.on_branch("fix").write(batch(4))
    catalog.branch_set("fix", [forked.identifier.full_name]).publish()
    assert forked.branches.names() == ["fix", "merge-of-fix", "publication-00000001"]
    for name in ("snapline-hold-mine", "snapline-publication-00000001"):
        with pytest.raises(InvalidRequest, match="the store's own"):
            forked.tags.create(name)
        with pytest.raises(InvalidRequest, match="the store's own"):
            forked.tags.rename("two", name)


def test_what_both_sides_altered_is_told_before_anything_is_done_and_each_way_out_works(
    forked: Table, catalog: Catalog
) -> None:
    fix = forked.on_branch("fix").alter(AddColumn("x", pa.int32()))
    fix.write(pa.table({"id": [7], "item": ["fixed"], "x": pa.array([1], pa.int32())}))
    forked.alter(AddColumn("y", pa.int32()))
    verdict = forked.branches.verdict("fix")
    assert (verdict.kind, verdict.altered) == ("diverged", 1)
    assert "both were altered: version 1 of the schema" in verdict.describe()
    fixes = catalog.branch_set("fix", [str(forked.identifier)])
    for act in (forked.branches.merge, forked.branches.fast_forward):
        for discards in (False, True):
            with pytest.raises(
                CommitConflict, match="replacing main with the branch, with discard-main; or alter main"
            ):
                act("fix", discard_main=discards)
    for discards in (False, True):
        with pytest.raises(CommitConflict, match="replacing main with the branch, with discard-main; or alter main"):
            fixes.publish(discard_main=discards)
    assert catalog.publications() == []
    for refused in (lambda: forked.branches.replace_main("fix"), lambda: fixes.replace_main()):
        with pytest.raises(CommitConflict, match="both were altered"):
            refused()
    # One way: main is altered likewise, and gets the rows.
    by_hand = forked.alter(AddColumn("x", pa.int32()))
    by_hand.write(
        catalog.table(str(forked.identifier)).on_branch("fix").to_arrow().select(["id", "item", "x"]).slice(0, 1)
    )
    # The other: main becomes the branch.
    fixes.replace_main(discard_main=True)
    table = catalog.table(str(forked.identifier))
    assert table.schema.column_names == ["id", "item", "x"]
    assert rows(table)[-1] == (7, "fixed", 1)
    assert table.check(deep=True) == []


def test_the_same_change_on_both_sides_is_no_difference(forked: Table) -> None:
    for side in (forked.on_branch("fix"), forked):
        altered = side.alter(AddColumn("x", pa.int32()))
    assert altered.branches.verdict("fix").kind == "clean"
    forked.on_branch("fix").write(pa.table({"id": [7], "item": ["fixed"], "x": pa.array([1], pa.int32())}))
    altered.branches.merge("fix")
    assert rows(altered)[-1] == (7, "fixed", 1)


@pytest.mark.parametrize("case", ["alone", "in a set", "written meanwhile"])
def test_nulls_of_a_branch_do_not_come_to_a_main_that_takes_none_by_its_replacement(
    forked: Table, catalog: Catalog, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, fix = str(forked.identifier), forked.on_branch("fix")
    null = pa.table({"id": [7], "item": pa.array([None], pa.string())})
    forked.alter(SetNotNull("item"))
    if case != "written meanwhile":
        fix.write(null)
    else:
        copy = replacing.copy_schemas

        def late(source: TableStore, target: TableStore) -> None:
            fix.write(null)
            copy(source, target)

        monkeypatch.setattr(replacing, "copy_schemas", late)
    with pytest.raises(CommitConflict, match=r"'item' .* is NOT NULL since its schema 1"):
        if case == "in a set":
            catalog.branch_set("fix", [name]).replace_main()
        else:
            forked.branches.replace_main("fix")
    monkeypatch.undo()
    table = catalog.table(name)
    table.write(batch(8))
    assert [row for row in rows(table) if row[1] is None] == []
    fix = table.on_branch("fix")
    fix.update("item IS NULL", {"item": "none"})
    fix.compact(full=True)
    table.branches.replace_main("fix", discard_main=True)
    assert (7, "none") in rows(catalog.table(name))


def test_a_branch_has_the_schema_that_is_asked_for(catalog: Catalog) -> None:
    table = catalog.create_table("d.altered", pa.schema([("id", pa.int32())]))
    table.write(pa.table({"id": pa.array([1], pa.int32())}))
    for name in ("a", "b"):
        table = table.alter(AddColumn(name, "INT"))
    table.write(pa.table({"id": pa.array([2], pa.int32()), "a": [1], "b": [2]}))
    columns = {}
    for number in (0, 1, 2):
        table.branches.create(f"at{number}", snapshot_id=1, schema_id=number)
        table.branches.create(f"empty{number}", empty=True, schema_id=number)
        columns[number] = [table.on_branch(f"{kind}{number}").schema.column_names for kind in ("at", "empty")]
        assert table.on_branch(f"at{number}").to_arrow()["id"].to_pylist() == [1]
    assert columns == {0: [["id"]] * 2, 1: [["id", "a"]] * 2, 2: [["id", "a", "b"]] * 2}
    for wrong in ({"snapshot_id": 2, "schema_id": 1}, {"schema_id": 3}, {"empty": True, "schema_id": 7}):
        with pytest.raises(InvalidRequest, match=r"has schema \d or a later one, not \d\. Schemas: 0, 1, 2"):
            table.branches.create("other", **wrong)  # type: ignore[arg-type]
    assert "other" not in table.branches.names()
