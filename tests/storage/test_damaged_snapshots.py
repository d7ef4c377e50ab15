"""A snapshot whose file is damaged is made up for, and the file kept aside: what was committed before and after stays."""

import datetime as dt
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, CommitConflict, CommitId, CorruptData, KeptAside, Table
from storage.file_io import FileIO
from storage.metadata import manifest
from storage.metadata.branch_origin import read_origin
from tests.storage.branched_tables import (
    NAMES,
    SCHEMA,
    all_held,
    all_seen,
    fork_tables,
    half_publish,
    held,
    make_tables,
    rows,
)

pytestmark = pytest.mark.pypaimon_differs("files are damaged on purpose")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    """Five snapshots: three writes, an overwrite, a write."""
    made = catalog.create_table("a.t", SCHEMA, primary_key=["day", "id"], partition_by=["day"], options={"bucket": 1})
    for number in (1, 2, 3):
        made.write(rows(number), commit_id=CommitId("job", number))
    made.overwrite(rows(1, 4, v="again"), partition={"day": "x"})
    made.write(rows(5))
    return made


ROWS = [("x", 1, "again"), ("x", 4, "again"), ("x", 5, "main")]


def damage(table: Table, number: int) -> Path:
    path = Path(table.store.paths.snapshot(number))
    path.write_bytes(b'{"id": \xff')
    return path


def again(table: Table, catalog: Catalog) -> Table:
    return Catalog(catalog.warehouse).table(str(table.identifier))


def history(table: Table) -> list[Any]:
    return [held(table.at(number)) for number in table.store.snapshots.ids()]


def test_a_damaged_newest_snapshot_names_what_to_go_back_to_and_that_works(table: Table, catalog: Catalog) -> None:
    before = history(table)
    path = damage(table, 5)
    for act in (lambda: table.to_arrow(), lambda: table.write(rows(6)), lambda: catalog.consistent(["a.t"])):
        with pytest.raises(CorruptData, match=r"snapshot-5 .*`snapline rollback --version 4`, the last"):
            act()
    back = table.rollback_to(4)
    assert back is not None and (back.id, back.operation) == (5, "STAND IN")
    assert history(again(table, catalog)) == [*before[:4], before[3]]
    (kept,) = table.check(deep=True)
    assert isinstance(kept, KeptAside)
    assert Path(kept.where) == path.with_name("damaged-snapshot-5")
    assert Path(kept.where).read_bytes() == b'{"id": \xff'
    table.write(rows(6))
    assert held(table) == sorted([*before[3], ("x", 6, "main")])
    Path(kept.where).unlink()
    assert table.check(deep=True) == []


def test_a_table_whose_newest_snapshot_is_damaged_goes_back_further(table: Table, catalog: Catalog) -> None:
    before = history(table)
    damage(table, 5)
    back = table.rollback_to(2)
    assert back is not None and back.id == 6
    assert history(again(table, catalog)) == [*before[:4], before[3], before[1]]


def test_several_newest_snapshots_are_damaged(table: Table, catalog: Catalog) -> None:
    before = history(table)
    damage(table, 4)
    damage(table, 5)
    with pytest.raises(CorruptData, match=r"`snapline rollback --version 3`"):
        table.to_arrow()
    assert [str(mended_snapshot.snapshot.id) for mended_snapshot in table.mend_snapshots()] == ["4", "5"]
    assert history(again(table, catalog)) == [*before[:3], before[2], before[2]]


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_damaged_snapshot_in_between_has_its_rows_again(table: Table, catalog: Catalog, number: int) -> None:
    before = history(table)
    changes = table.changes(after=1).to_pylist() if number > 1 else None
    damage(table, number)
    table.write(rows(6))
    with pytest.raises(CorruptData, match=rf"snapshot-{number} .*`snapline mend-snapshots`"):
        again(table, catalog).at(number).to_arrow()
    (mended,) = table.mend_snapshots()
    assert "has its rows again" in str(mended)
    fresh = again(table, catalog)
    assert history(fresh)[:5] == before
    if changes is not None:
        after = fresh.changes(after=1, until=5).to_pylist()
        assert state(after) == state(changes)
    assert all(isinstance(problem, KeptAside) for problem in fresh.check(deep=True))
    fresh.expire(retain_last=1)
    assert held(fresh) == sorted([*ROWS, ("x", 6, "main")])
    assert fresh.mend_snapshots() == []


def state(changes: list[dict[str, Any]]) -> dict[Any, Any]:
    """The last change of each key."""
    return {(row["day"], row["id"]): (row["rowkind"] == "-D", row["v"]) for row in changes}


@pytest.mark.parametrize("number", [2, 5])
def test_a_damaged_snapshot_that_has_a_tag_is_restored(table: Table, catalog: Catalog, number: int) -> None:
    table.tags.create("kept", snapshot_id=number)
    sound = table.store.snapshots.get(number)
    damage(table, number)
    (mended,) = table.mend_snapshots()
    assert "restored" in str(mended)
    assert again(table, catalog).store.snapshots.get(number) == sound
    assert table.new_commit(CommitId("job", 2)).find_committed() is not None


def test_the_only_snapshot_is_damaged(catalog: Catalog) -> None:
    table = catalog.create_table("a.t", SCHEMA)
    table.write(rows(1))
    damage(table, 1)
    with pytest.raises(CorruptData, match="there is none before it"):
        table.to_arrow()
    with pytest.raises(CorruptData, match="no snapshot before it can be read"):
        table.mend_snapshots()


def test_a_branch_is_published_and_deleted_once_what_it_began_at_is_mended(catalog: Catalog) -> None:
    tables = fork_tables(catalog, make_tables(catalog))
    damage(tables[0], 2)
    tables[0].mend_snapshots()
    branches = catalog.branch_set("fix", NAMES)
    assert {verdict.kind for verdict in branches.verdicts().values()} == {"clean"}
    branches.publish()
    branches.delete()
    assert len({str(held_rows) for held_rows in all_held(catalog)}) == 1


@pytest.mark.parametrize("target", [1, 2])
@pytest.mark.parametrize("way", ["finish", "undo"])
def test_a_damaged_newest_snapshot_beside_an_open_publication_does_not_keep_it_open(
    catalog: Catalog, way: str, target: int
) -> None:
    tables = fork_tables(catalog, make_tables(catalog))
    half_publish(catalog)
    damage(tables[0], 3)
    with pytest.raises(CorruptData, match=r"`snapline rollback --version 2`"):
        catalog.recover()
    # It can be read again, but the publication decides what it goes back to.
    with nullcontext() if target == 2 else pytest.raises(CommitConflict, match="`snapline branch recover`"):
        catalog.table("a.one").rollback_to(target)
    catalog.recover(undo=way == "undo")
    assert all_held(catalog) == all_seen(catalog)
    assert len({str(held_rows) for held_rows in all_held(catalog)}) == 1


@pytest.mark.parametrize("numbers", [[99], [98, 99]])
def test_a_damaged_file_beyond_a_gap_is_set_aside(table: Table, catalog: Catalog, numbers: list[int]) -> None:
    before = history(table)
    for number in numbers:
        damage(table, number)
    with pytest.raises(CorruptData, match=r"snapshot-9\d .*`snapline mend-snapshots`"):
        table.expire(retain_last=1)
    mended = table.mend_snapshots()
    assert [mended_snapshot.snapshot.id for mended_snapshot in mended] == [5] * len(numbers)
    assert "99 lay beyond a gap" in str(mended[0])
    fresh = again(table, catalog)
    assert history(fresh) == before
    kept = fresh.check(deep=True)
    assert [type(problem) for problem in kept] == [KeptAside] * len(numbers)
    fresh.write(rows(6))
    assert fresh.store.snapshots.ids() == [1, 2, 3, 4, 5, 6]
    fresh.expire(retain_last=1)


def test_a_rollback_sets_a_damaged_file_beyond_a_gap_aside(table: Table, catalog: Catalog) -> None:
    before = history(table)
    damage(table, 99)
    back = table.rollback_to(4)
    assert back is not None and back.id == 6
    assert history(again(table, catalog)) == [*before, before[3]]


def test_a_damaged_newest_snapshot_above_what_a_sleeper_left_is_not_set_aside(table: Table) -> None:
    stale = Path(table.store.paths.snapshot(2)).read_bytes()
    table.expire(retain_last=1)
    Path(table.store.paths.snapshot(2)).write_bytes(stale)
    path = damage(table, 5)
    with pytest.raises(CorruptData, match="no snapshot before it can be read"):
        table.mend_snapshots()
    assert path.exists()


def test_a_damaged_older_snapshot_stops_no_commit_whose_id_is_new(table: Table) -> None:
    damage(table, 2)
    # A process that has read it before remembers what it said.
    manifest.forget()
    with pytest.raises(CorruptData, match="snapshot-2 "):
        table.write(rows(6), commit_id=CommitId("other", 7, exact=True))
    new = CommitId("other", 7, exact=True, is_new=True)
    made = table.write(rows(6), commit_id=new)
    assert made is not None and made.id == 6 and new.made(made)
    # Whoever repeats it says so by an id that is looked for.
    assert table.write(rows(6), commit_id=CommitId("other", 7, exact=True)) == made


@pytest.mark.parametrize("way", ["restored", "mended and written to"])
def test_a_file_that_can_be_read_again_meanwhile_is_not_replaced(
    table: Table, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    before = history(table)
    path = Path(table.store.paths.snapshot(5))
    sound = path.read_bytes()
    damage(table, 5)
    original, pending = FileIO.read_bytes, [True]

    def read_then_mend(self: FileIO, name: str) -> bytes:
        content = original(self, name)
        if name == str(path) and pending:
            pending.clear()
            other = again(table, catalog)
            if way == "restored":
                path.write_bytes(sound)
            else:
                assert len(other.mend_snapshots()) == 1
                other.write(rows(9))
        return content

    with monkeypatch.context() as patch, pytest.raises(CommitConflict, match="Somebody else has changed"):
        patch.setattr(FileIO, "read_bytes", read_then_mend)
        again(table, catalog).mend_snapshots()
    fresh = again(table, catalog)
    assert history(fresh)[:4] == before[:4]
    assert held(fresh) == (before[4] if way == "restored" else sorted([*before[3], ("x", 9, "main")]))
    assert all(isinstance(problem, KeptAside) for problem in fresh.check(deep=True))


def test_a_stand_in_shows_the_columns_that_came_before_it(table: Table, catalog: Catalog) -> None:
    wide = table.alter(AddColumn("w", "BIGINT"))
    wide.write(rows(6).append_column("w", pa.array([7])))
    wide.write(rows(7).append_column("w", pa.array([8])))
    before = wide.at(6).to_arrow()
    damage(wide, 6)
    wide.mend_snapshots()
    fresh = again(table, catalog)
    assert fresh.at(6).to_arrow().sort_by("id").equals(before.sort_by("id"))
    assert fresh.at(5).to_arrow().column_names == ["day", "id", "v"]


def damage_tag(table: Table, name: str) -> None:
    table.tags.create(name, snapshot_id=2)
    Path(table.store.paths.tag(name)).write_bytes(b'{"id": \xff')


@pytest.mark.parametrize("branch", ["main", "fix"])
@pytest.mark.parametrize("newest", [True, False], ids=["newest", "between"])
@pytest.mark.parametrize("act", ["mend", "rollback", "delete-tag"])
def test_a_damaged_snapshot_beside_a_damaged_tag_is_mended(
    table: Table, catalog: Catalog, branch: str, newest: bool, act: str
) -> None:
    if branch != "main":
        table.branches.create("fix", snapshot_id=2)
        table = table.on_branch("fix")
        for number in (3, 4, 5):
            table.write(rows(number))
    before, numbers = history(table), table.store.snapshots.ids()
    damage_tag(table, "g")
    damage(table, numbers[-1 if newest else -2])
    files = {path for path in Path(table.store.paths.root).rglob("*") if path.is_file()}
    if act == "delete-tag":
        assert table.tags.delete("g") == []
        assert table.tags.list() == []
        files -= {Path(table.store.paths.tag("g"))}
    if act == "rollback":
        table.rollback_to(numbers[-3])
        assert held(table) == before[-3]
    table.mend_snapshots()
    assert history(table)[: len(before) - 2] == before[:-2]
    assert files <= {path for path in Path(table.store.paths.root).rglob("*") if path.is_file()}
    if act != "delete-tag":
        table.tags.delete("g")
    assert all(isinstance(problem, KeptAside) for problem in again(table, catalog).check(deep=True))
    table.expire(retain_last=1)


@pytest.mark.parametrize("act", ["mend", "rollback"])
@pytest.mark.parametrize("what", ["ORIGIN", "schema/schema-0"])
def test_a_damaged_newest_snapshot_of_main_is_mended_beside_a_damaged_branch(
    table: Table, catalog: Catalog, act: str, what: str
) -> None:
    before = history(table)
    table.branches.create("br")
    damage(table, 5)
    Path(table.store.paths.root, "branch/branch-br", what).write_bytes(b'{"branch": "ma')
    back = table.rollback_to(4) if act == "rollback" else table.mend_snapshots()[0].snapshot
    assert back is not None and back.operation == "STAND IN"
    assert held(again(table, catalog)) == before[3]
    if what == "ORIGIN":
        with pytest.raises(CorruptData, match=r"ORIGIN is damaged.*`snapline delete-branch --name br`"):
            read_origin_of(table, "br")
        table.branches.delete("br")
        assert all(isinstance(problem, KeptAside) for problem in again(table, catalog).check(deep=True))
    table.write(rows(6))


def read_origin_of(table: Table, branch: str) -> None:
    store = table.on_branch(branch).store
    read_origin(store.file_io, store.paths)


def test_damaged_earliest_snapshots_are_set_aside(table: Table, catalog: Catalog) -> None:
    before = history(table)
    for number in (1, 2, 3):
        damage(table, number)
    with pytest.raises(CorruptData):
        table.expire(retain_last=1)
    mended = table.mend_snapshots()
    assert [Path(mended_snapshot.path).name for mended_snapshot in mended] == [
        f"damaged-snapshot-{number}" for number in (1, 2, 3)
    ]
    assert "the history begins after 1" in str(mended[0])
    fresh = again(table, catalog)
    assert fresh.store.snapshots.ids() == [3, 4, 5]
    assert fresh.store.snapshots.earliest_id() == 3
    assert history(fresh) == before[2:]
    assert len(fresh.check(deep=True)) == 3
    fresh.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert history(fresh) == before[2:]
    fresh.write(rows(6))
    fresh.expire(retain_last=1)
    assert held(fresh) == sorted([*ROWS, ("x", 6, "main")])


def test_a_damaged_earliest_snapshot_below_one_that_a_tag_has_is_made_up_for(table: Table, catalog: Catalog) -> None:
    before = history(table)
    table.tags.create("kept", snapshot_id=2)
    damage(table, 1)
    damage(table, 2)
    first, second = table.mend_snapshots()
    assert "has its rows again" in str(first) and "restored" in str(second)
    assert history(again(table, catalog)) == before


@pytest.mark.parametrize("number", [4, 5])
def test_a_directory_in_the_place_of_a_snapshot_is_named(table: Table, catalog: Catalog, number: int) -> None:
    before = history(table)
    path = Path(table.store.paths.snapshot(number))
    content = path.read_bytes()
    path.unlink()
    path.mkdir()
    act = table.mend_snapshots if number == 4 else table.to_arrow
    said = rf"snapshot-{number} is damaged: there is a directory in its place\. Move that away by hand"
    with pytest.raises(CorruptData, match=said) as raised:
        act()
    assert "mend-snapshots" not in str(raised.value)
    with pytest.raises(CorruptData, match=said):
        table.mend_snapshots()
    assert any(f"snapshot-{number} " in str(problem) for problem in table.check())
    path.rmdir()
    if number == 5:
        assert held(again(table, catalog)) == before[3]
    path.write_bytes(content)
    assert history(again(table, catalog)) == before
