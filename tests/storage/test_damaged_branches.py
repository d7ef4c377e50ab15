"""Damage that is met while main is replaced, a branch deleted or snapshots expire: each ends, and nothing stays closed."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CorruptData, Table
from storage.maintain import replace_main as replacing
from storage.maintain.expire import Removal
from storage.metadata.committed import Committed
from storage.metadata.manifest import forget
from storage.metadata.trouble import FILE_DELETION
from tests.storage.branched_tables import FIXED, NAMES, OLD, all_held, fork_tables, held, make_tables, rows

pytestmark = pytest.mark.pypaimon_differs("files are damaged on purpose")


@pytest.fixture
def forked(catalog: Catalog) -> Catalog:
    fork_tables(catalog, make_tables(catalog))
    return catalog


def replace_main(catalog: Catalog, how: str) -> None:
    """Let the branch become main of the first table, or of all three."""
    if how == "one":
        catalog.table(NAMES[0]).branches.replace_main("fix")
    else:
        catalog.branch_set("fix", NAMES).replace_main()


@pytest.mark.parametrize("how", ["one", "set"])
@pytest.mark.parametrize("content", ["garbage", '{"nextSnapshot": 0}'])
def test_a_damaged_consumer_is_handed_over_as_it_is(forked: Catalog, how: str, content: str) -> None:
    table = forked.table(NAMES[0])
    table.consumers.reset("sound", 3)
    Path(table.store.paths.consumer("feed")).write_text(content)
    replace_main(forked, how)
    table = forked.table(NAMES[0])
    with pytest.raises(CorruptData, match="Reset or delete the consumer"):
        table.consumers.get("feed")
    table.consumers.reset("feed", 1)
    assert [(one.name, one.next_snapshot_id) for one in table.consumers.list()] == [("feed", 1), ("sound", 3)]
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


@pytest.mark.parametrize("how", ["one", "set"])
@pytest.mark.parametrize("what", ["garbage", "gone"])
def test_what_was_main_is_dropped_though_a_list_of_its_history_is_damaged(forked: Catalog, how: str, what: str) -> None:
    damaged = list_of(forked.table(NAMES[0]), 1, base=True)
    damage(damaged, what)
    replace_main(forked, how)
    replaced = forked.table(NAMES[0])
    assert held(replaced) == FIXED
    assert forked.publications() == []
    replaced.write(rows(9))
    # Its files stay, and somebody is told.
    (trouble,) = replaced.store.troubles.all()
    assert trouble.kind == FILE_DELETION
    assert damaged in trouble.error
    if how == "one":
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
    assert [one.kind for one in replaced.store.troubles.all()] == [FILE_DELETION]


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


@pytest.mark.parametrize("how", ["one", "set"])
@pytest.mark.parametrize("what", ["tag", "committed"])
def test_mains_are_opened_again_where_what_a_branch_is_to_get_is_damaged(forked: Catalog, how: str, what: str) -> None:
    table = forked.table(NAMES[0])
    table.tags.create("kept")
    table.store.committed.remember([Committed("job", 1, 1)])
    paths = table.store.paths
    damage(paths.tag("kept") if what == "tag" else Path(paths.committed_directory) / "user-job", "garbage")
    with pytest.raises(CorruptData, match=r"kept|user-job"):
        replace_main(forked, how)
    assert forked.publications() == []
    assert all_held(forked) == [OLD, OLD, OLD]
    for name in NAMES:
        forked.table(name).write(rows(7))


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
