"""Damage that is met while main is replaced, a branch deleted or snapshots expire: each ends, and nothing stays closed."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, CommitId, CorruptData, Table
from storage.branches import Branches
from storage.maintain import replace_main as replacing
from storage.maintain.delete_branch import delete_branches, origins_of
from storage.maintain.expire import Removal
from storage.metadata.committed import Committed
from storage.metadata.manifest import forget
from storage.metadata.trouble import FILE_DELETION
from storage.write.close import REPLACEMENT, close, decide
from tests.storage.branched_tables import (
    FIXED,
    NAMES,
    OLD,
    SCHEMA,
    Died,
    all_held,
    dying_before,
    fork_tables,
    half_publish,
    held,
    make_tables,
    rows,
)

pytestmark = pytest.mark.pypaimon_differs("files are damaged on purpose")


@pytest.fixture
def forked(catalog: Catalog) -> Catalog:
    fork_tables(catalog, make_tables(catalog))
    return catalog


def replace_main(catalog: Catalog, scope: str) -> None:
    """Let the branch become main of the first table, or of all three."""
    if scope == "one":
        catalog.table(NAMES[0]).branches.replace_main("fix")
    else:
        catalog.branch_set("fix", NAMES).replace_main()


@pytest.mark.parametrize("scope", ["one", "set"])
@pytest.mark.parametrize("content", ["garbage", '{"nextSnapshot": 0}'])
def test_a_damaged_consumer_is_handed_over_as_it_is(forked: Catalog, scope: str, content: str) -> None:
    table = forked.table(NAMES[0])
    table.consumers.reset("sound", 3)
    Path(table.store.paths.consumer("feed")).write_text(content)
    replace_main(forked, scope)
    table = forked.table(NAMES[0])
    with pytest.raises(CorruptData, match="Reset or delete the consumer"):
        table.consumers.get("feed")
    table.consumers.reset("feed", 1)
    assert [(consumer.name, consumer.next_snapshot_id) for consumer in table.consumers.list()] == [
        ("feed", 1),
        ("sound", 3),
    ]
    table.write(rows(9))
    assert table.check(deep=True) == []


def damage(path: str | Path, what: str) -> None:
    """Let a file hold garbage, or be gone, also from what this process remembers."""
    path = Path(path)
    if what == "gone":
        path.unlink()
    else:
        path.write_text("garbage")
    forget()


def list_of(table: Table, number: int, *, base: bool = False) -> str:
    """The path of a manifest list of a snapshot."""
    snapshot = table.store.snapshots.get(number)
    return table.store.paths.manifest(snapshot.base_manifest_list if base else snapshot.delta_manifest_list)


@pytest.mark.parametrize("scope", ["one", "set"])
@pytest.mark.parametrize("what", ["garbage", "gone"])
def test_what_was_main_is_dropped_though_a_list_of_its_history_is_damaged(
    forked: Catalog, scope: str, what: str
) -> None:
    damaged = list_of(forked.table(NAMES[0]), 1, base=True)
    damage(damaged, what)
    replace_main(forked, scope)
    replaced = forked.table(NAMES[0])
    assert held(replaced) == FIXED
    assert forked.publications() == []
    replaced.write(rows(9))
    # Its files stay, and somebody is told.
    (trouble,) = replaced.store.troubles.all()
    assert trouble.kind == FILE_DELETION
    assert damaged in trouble.error
    if scope == "one":
        replaced.branches.create("next")
        replaced.branches.replace_main("next")
        assert held(forked.table(NAMES[0])) == [*FIXED, ("x", 9, "main")]


@pytest.mark.parametrize("path", ["snapshot/snapshot-1", "tag/tag-kept"])
def test_what_was_main_is_dropped_though_its_metadata_is_damaged(
    forked: Catalog, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = forked.table(NAMES[0])
    table.tags.create("kept")
    with monkeypatch.context() as patch:
        patch.setattr(replacing, "_end", lambda *_: None)
        table.branches.replace_main("fix")
    old = Path(table.store.paths.root) / path
    damage(old, "garbage")
    replaced = forked.table(NAMES[0])
    replaced.branches.replace_main("fix")
    assert held(replaced) == FIXED
    assert not old.exists()
    assert [name.name for name in (Path(table.store.paths.root) / "snapshot").glob("snapshot-*")] == ["snapshot-3"]
    assert [trouble.kind for trouble in replaced.store.troubles.all()] == [FILE_DELETION]


@pytest.mark.parametrize("what", ["garbage", "gone"])
def test_a_branch_goes_though_a_list_of_its_history_is_damaged(forked: Catalog, what: str) -> None:
    branch = forked.table(NAMES[1]).on_branch("fix")
    branch.write(rows(7))
    damage(list_of(branch, 3), what)
    forked.branch_set("fix", NAMES).delete()
    assert [forked.table(name).branches.names() for name in NAMES] == [[], [], []]
    assert all_held(forked) == [OLD, OLD, OLD]
    table = forked.table(NAMES[1])
    (trouble,) = table.store.troubles.all()
    assert "The branch is deleted" in trouble.error
    assert table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True) != []
    assert table.check(deep=True) == []


@pytest.mark.parametrize("base", [False, True], ids=["delta", "base"])
@pytest.mark.parametrize("what", ["garbage", "gone"])
def test_a_branch_goes_though_a_list_of_its_newest_snapshot_is_damaged(forked: Catalog, what: str, base: bool) -> None:
    table = forked.table(NAMES[1])
    branch = table.on_branch("fix")
    damage(list_of(branch, 3, base=base), what)
    forked.branch_set("fix", NAMES).delete()
    assert [forked.table(name).branches.names() for name in NAMES] == [[], [], []]
    assert all_held(forked) == [OLD, OLD, OLD]
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert table.check(deep=True) == []


@pytest.mark.parametrize("back", [False, True], ids=["lost", "restored"])
@pytest.mark.parametrize("what", ["garbage", "gone"])
def test_a_branch_that_must_stay_shows_a_commit_whose_list_was_lost_once_that_is_back(
    forked: Catalog, what: str, back: bool
) -> None:
    table = forked.table(NAMES[0])
    branch = table.on_branch("fix")
    branch.write(rows(7))
    path = Path(list_of(branch, 4))
    content, asked = path.read_bytes(), []
    damage(path, what)

    def refuse() -> None:
        asked.append(table.on_branch("fix").store.snapshots.latest().operation)  # type: ignore[union-attr]
        if len(asked) == 2:
            if back:
                path.write_bytes(content)
                forget()
            raise CommitConflict("A publication has just begun.")

    with pytest.raises(CommitConflict, match="just begun"):
        delete_branches(origins_of([table.store], "fix"), "fix", refuse)
    assert asked == ["WRITE", "CLOSE"]
    branch = forked.table(f"{NAMES[0]}$branch_fix")
    assert held(branch) == ([*FIXED, ("x", 7, "main")] if back else FIXED)
    assert [snapshot.operation for snapshot in branch.store.snapshots.all()][-2:] == ["CLOSE", "OPEN"]
    branch.write(rows(8))
    path.write_bytes(content)
    forget()
    if not back:
        branch.rollback_to(4)
        assert held(branch) == [*FIXED, ("x", 7, "main")]
    assert branch.check(deep=True) == []
    expected = held(branch)
    forked.branch_set("fix", NAMES).publish()
    assert held(forked.table(NAMES[0])) == expected
    assert table.check(deep=True) == []
    table.branches.delete("fix")


def test_a_branch_that_cannot_be_read_is_untouched_where_another_keeps_it_from_going(forked: Catalog) -> None:
    branches = [forked.table(name).on_branch("fix") for name in NAMES]
    path = Path(list_of(branches[0], 3))
    content = path.read_bytes()
    damage(path, "gone")
    damage(branches[2].store.paths.snapshot(3), "garbage")
    with pytest.raises(CorruptData, match="snapshot-3"):
        forked.branch_set("fix", NAMES).delete()
    path.write_bytes(content)
    assert held(forked.table(f"{NAMES[0]}$branch_fix")) == FIXED
    assert branches[0].store.snapshots.latest() == branches[0].store.snapshots.get(3)


def test_a_branch_that_is_becoming_main_keeps_a_commit_whose_list_was_lost(forked: Catalog) -> None:
    table = forked.table(NAMES[0])
    assert close(table.store, table.store.snapshots.latest(), f"{REPLACEMENT} fix") is not None
    path = Path(list_of(table.on_branch("fix"), 3))
    content = path.read_bytes()
    damage(path, "gone")
    with pytest.raises(CommitConflict, match="becoming main"):
        table.branches.delete("fix")
    path.write_bytes(content)
    table.branches.replace_main("fix")
    assert held(forked.table(NAMES[0])) == FIXED


def test_branches_that_were_closed_are_opened_again_where_another_is_damaged(forked: Catalog) -> None:
    branches = [forked.table(name).on_branch("fix") for name in NAMES]
    damage(branches[1].store.paths.snapshot(3), "garbage")
    with pytest.raises(CorruptData, match="snapshot-3"):
        forked.branch_set("fix", NAMES).delete()
    for branch in (branches[0], branches[2]):
        branch.write(rows(7))
    branches[1].mend_snapshots()
    forked.branch_set("fix", NAMES).delete()
    assert all_held(forked) == [OLD, OLD, OLD]


def test_a_branch_is_opened_again_where_main_is_damaged(forked: Catalog) -> None:
    table = forked.table(NAMES[0])
    damage(table.store.paths.snapshot(2), "garbage")
    with pytest.raises(CorruptData, match="snapshot-2"):
        table.branches.delete("fix")
    branch = table.on_branch("fix")
    branch.write(rows(7))
    assert held(branch) == [*FIXED, ("x", 7, "main")]


@pytest.mark.parametrize("scope", ["one", "set"])
@pytest.mark.parametrize("what", ["tag", "committed"])
def test_mains_are_opened_again_where_what_a_branch_is_to_get_is_damaged(
    forked: Catalog, scope: str, what: str
) -> None:
    table = forked.table(NAMES[0])
    table.tags.create("kept")
    table.store.committed.remember([Committed("job", 1, 1)])
    paths = table.store.paths
    damage(paths.tag("kept") if what == "tag" else Path(paths.committed_directory) / "user-job", "garbage")
    with pytest.raises(CorruptData, match=r"kept|user-job"):
        replace_main(forked, scope)
    assert forked.publications() == []
    assert all_held(forked) == [OLD, OLD, OLD]
    for name in NAMES:
        forked.table(name).write(rows(7))


@pytest.mark.parametrize("side", ["main", "branch"])
@pytest.mark.parametrize("what", ["tag", "committed"])
def test_what_is_damaged_once_mains_are_being_replaced_is_handed_over_as_it_is(
    forked: Catalog, what: str, side: str
) -> None:
    name = "a.two"
    table = forked.table(name)
    for store in (table.store, table.on_branch("fix").store):
        store.committed.remember([Committed("job", 1, 1, ((1, 1, 1),))])
    table.tags.create("kept", snapshot_id=1)
    table.tags.create("sound", snapshot_id=2)
    if side == "branch":
        table.on_branch("fix").tags.create("kept")
    half_publish(forked, before=name, replacing=True)
    paths = (table if side == "main" else table.on_branch("fix")).store.paths
    damage(paths.tag("kept") if what == "tag" else Path(paths.committed_directory) / "user-job", "garbage")
    forked.recover()
    assert forked.publications() == []
    assert all_held(forked) == [FIXED] * 3
    replaced = forked.table(name)
    assert replaced.store.paths.branch == "fix"
    if what == "tag":
        with pytest.raises(CorruptData, match=r"tag-kept.*delete-tag"):
            replaced.tags.get("kept")
        # It may keep files: nothing goes until it is deleted.
        replaced.tags.delete("kept")
    else:
        damaged = Path(replaced.store.paths.committed_directory) / "user-job"
        with pytest.raises(CorruptData, match=r"user-job.*Delete it"):
            replaced.write(rows(7), commit_id=CommitId("job", 1))
        damaged.unlink()
    assert "sound" in [tag.name for tag in replaced.tags.list()]
    replaced.write(rows(9))
    # What the tag may have kept stayed, and somebody was told.
    replaced.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert replaced.check(deep=True) == []


def test_a_kept_changelog_that_is_damaged_once_mains_are_being_replaced_stops_nothing(catalog: Catalog) -> None:
    options = {
        "bucket": 1,
        "changelog-producer": "input",
        "changelog.num-retained.max": 20,
        "changelog.num-retained.min": 9,
    }
    table = catalog.create_table("a.two", SCHEMA, primary_key=["day", "id"], options=options)
    for number in range(4):
        table.write(rows(number))
    table.expire(retain_last=1)
    table.branches.create("fix")
    with dying_before("a.two"):
        catalog.branch_set("fix", ["a.two"]).replace_main()
    (first, *_) = table.store.changelogs.ids()
    damage(table.store.paths.changelog(first), "garbage")
    catalog.recover()
    replaced = catalog.table("a.two")
    assert replaced.store.changelogs.ids()[0] == first
    with pytest.raises(CorruptData):
        replaced.store.changelogs.find(first)
    replaced.write(rows(9))


@pytest.mark.parametrize("what", ["garbage", "gone"])
def test_a_snapshot_with_a_damaged_list_is_named_and_expires(orders: Table, what: str) -> None:
    for number in range(4):
        orders.write(pa.table({"id": [number], "item": ["a"]}))
    damaged = list_of(orders, 2)
    damage(damaged, what)
    orders.consumers.reset("slow", 1)
    # Said to go, and kept by the consumer.
    assert orders.expire(retain_last=1).snapshot_ids == ()
    with pytest.raises(CorruptData, match=rf"{damaged} .*needed by snapshot 2: restore the file, or let .* expire"):
        orders.remove_orphan_files()
    orders.consumers.delete("slow")
    assert orders.expire(retain_last=1, dry_run=True).snapshot_ids == (1, 2, 3)
    assert orders.expire(retain_last=1) == Removal((1, 2, 3), (), ())
    (trouble,) = orders.store.troubles.all()
    assert trouble.kind == FILE_DELETION
    assert damaged in trouble.error
    assert orders.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True) != []
    assert orders.check(deep=True) == []
    assert orders.count() == 4


def test_a_tag_goes_though_its_list_is_damaged(forked: Catalog) -> None:
    table = forked.table(NAMES[1])
    branch = table.on_branch("fix")
    branch.tags.create("kept")
    damaged = list_of(branch, 3)
    branch.write(rows(7))
    branch.expire(retain_last=1)
    damage(damaged, "garbage")
    branch.tags.delete("kept")
    assert branch.tags.list() == []
    assert damaged in branch.store.troubles.all()[0].error


@pytest.mark.parametrize("ended", ["finish", "undo"])
@pytest.mark.parametrize("lost", [False, True], ids=["lists there", "lists lost"])
@pytest.mark.parametrize("died", ["close_main", "settle_main", "replace_closed_main"])
def test_a_main_that_was_closed_late_by_somebody_who_died_is_replaced_or_opened(
    forked: Catalog, died: str, lost: bool, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = getattr(Branches, died)

    def die(self: Branches, branch: str, **named: object) -> object:
        # The mains of the first two are closed by then.
        if self._store.identifier.full_name == "b.three":
            raise Died
        return original(self, branch, **named)

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(Branches, died, die)
        forked.branch_set("fix", NAMES).replace_main()
    name = "a.two" if died == "close_main" else "b.three"
    main = forked.table(name).store
    closing = main.snapshots.latest()
    assert closing is not None
    # Late, he was about to put the closing on top once more.
    assert decide(main, closing, "opened")
    if lost:
        damage(main.paths.manifest(closing.base_manifest_list), "gone")
    if ended == "undo" and died == "replace_closed_main":
        with pytest.raises(CommitConflict, match="cannot be undone"):
            forked.recover(undo=True)
        ended = "finish"
    forked.recover(undo=ended == "undo")
    assert forked.publications() == []
    assert all_held(forked) == ([FIXED] * 3 if ended == "finish" else [OLD] * 3)
    for each in NAMES:
        forked.table(each).write(rows(9))
        assert forked.table(each).check(deep=True) == []


@pytest.mark.parametrize("content", [b'{"b\xf2anch": "main"}', b'{"branch": "ma', b""])
def test_a_main_whose_origin_is_damaged_is_read_and_written_and_goes_by_another_one(
    forked: Catalog, content: bytes
) -> None:
    replace_main(forked, "one")
    table = forked.table(NAMES[0])
    origin = Path(table.store.paths.origin)
    rows_before = held(table)
    origin.write_bytes(content)
    table = Catalog(forked.warehouse).table(NAMES[0])
    assert held(table) == rows_before
    table.write(rows(9))
    assert len(table.check()) == 1
    table.branches.create("sound")
    assert len(table.on_branch("sound").store.table_id) == 32
    table.branches.replace_main("sound", discard_main=True)
    table = Catalog(forked.warehouse).table(NAMES[0])
    assert len(held(table)) == len(rows_before) + 1
    assert table.check(deep=True) == []
    table.expire(retain_last=1)
