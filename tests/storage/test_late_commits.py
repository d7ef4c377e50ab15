"""A writer that slept for days before its commit landed, while its files were cleaned as orphans."""

import datetime as dt
import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, CommitId, CommitOutcomeUnknown, FixedClock, NotFound, Table, branch_set
from storage.clock import Clock
from storage.file_io import FileIO
from storage.maintain import orphan_files
from storage.maintain.references import needed_files
from storage.metadata import manifest
from storage.metadata.cleaning import Cleaning, CleaningFiles
from storage.read.changes import plan_changes
from storage.read.split_read import ReadRequest
from storage.write.close import fence

DAY_MS = 86_400_000


class Dies(BaseException):
    """The process is killed."""


def die() -> None:
    raise Dies


def full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)})


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(int(time.time() * 1000))


@pytest.fixture
def log(catalog: Catalog) -> Table:
    """A table of two snapshots."""
    log = catalog.create_table("a.log", pa.schema([("id", pa.int64())]))
    log.write(rows(1))
    log.write(rows(2))
    return log


@pytest.fixture
def sleeps(
    log: Table, clock: FixedClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Callable[[], None]], None]:
    """Makes a writer sleep for two days right before snapshot 3, and then, once that is there, fail in what it writes."""

    def arrange(fails: Callable[[], None], *, lost: str = "*", looks: bool = False) -> None:
        create, write = FileIO.create_exclusively, FileIO.write_bytes
        before = set(tmp_path.rglob("*"))
        slept: list[bool] = []

        def sleeping(self: FileIO, path: str, data: bytes, **named: Any) -> bool:
            if path.endswith("snapshot-3") and not slept:
                slept.append(True)
                clock.advance_ms(2 * DAY_MS)
                past = time.time() - 2 * 86_400
                for file in set(tmp_path.rglob(lost)) - before:
                    os.utime(file, (past, past))
                Catalog(str(tmp_path / "warehouse")).table("a.log").remove_orphan_files()
                manifest.forget()
                if not looks:
                    # As on object stores, where nobody can look for the files in the moment of the creation.
                    named["of"] = replace(named["of"], needed=())
            return create(self, path, data, **named)

        def failing(self: FileIO, path: str, data: bytes) -> None:
            if slept and "manifest-list" in path:
                monkeypatch.undo()
                fails()
            write(self, path, data)

        monkeypatch.setattr(FileIO, "create_exclusively", sleeping)
        monkeypatch.setattr(FileIO, "write_bytes", failing)

    return arrange


def test_a_late_commit_is_taken_back_and_can_be_repeated_under_its_id(
    log: Table, sleeps: Callable[[Callable[[], None]], None]
) -> None:
    sleeps(lambda: None)
    with pytest.raises(CommitConflict, match="The commit is taken back"):
        log.write(rows(3), commit_id=CommitId("job", 1, exact=True))
    assert ids(log) == [1, 2]
    log.write(rows(3), commit_id=CommitId("job", 1, exact=True))
    assert ids(log) == [1, 2, 3]


def test_a_commit_whose_files_were_cleaned_away_before_its_snapshot_does_not_land_on_a_local_disk(
    log: Table, sleeps: Callable[..., None]
) -> None:
    sleeps(lambda: None, looks=True)
    with pytest.raises(CommitConflict, match=r"is not there any more.*it counted as an orphan.*Nothing is committed"):
        log.write(rows(3), commit_id=CommitId("job", 1, exact=True))
    assert log.store.snapshots.ids() == [1, 2]
    log.write(rows(3), commit_id=CommitId("job", 1, exact=True))
    assert ids(log) == [1, 2, 3]
    assert log.check(deep=True) == []


def test_a_late_commit_that_cannot_be_taken_back_is_an_unknown_outcome(
    log: Table, sleeps: Callable[[Callable[[], None]], None]
) -> None:
    sleeps(full)
    with pytest.raises(CommitOutcomeUnknown, match="roll back to 2"):
        log.write(rows(3))
    log.rollback_to(2)
    assert ids(log) == [1, 2]


@pytest.mark.parametrize("lost", ["*", "data-*"])
@pytest.mark.parametrize("target", [1, 2])
def test_a_rollback_takes_a_late_commit_back_whose_writer_died(
    catalog: Catalog, log: Table, sleeps: Callable[..., None], target: int, lost: str
) -> None:
    sleeps(die, lost=lost)
    with pytest.raises(Dies):
        log.write(rows(3), commit_id=CommitId("job", 1, exact=True))
    log = catalog.table("a.log")
    with pytest.raises(NotFound):
        ids(log)
    if lost == "*":
        with pytest.raises(NotFound, match=r"the newest, cannot be read.*roll back to the one before"):
            log.write(rows(4))
    # Those before it are the last that can be read.
    with pytest.raises(NotFound, match=r"Nothing expires.*Roll back to snapshot 2"):
        log.expire(retain_last=1)
    assert log.store.snapshots.ids() == [1, 2, 3]
    assert log.check() != []

    made = log.rollback_to(target)
    assert made is not None
    assert ids(log) == list(range(1, target + 1))
    assert log.check(deep=True) == []
    assert log.rollback_to(target) is None
    log.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    log.write(rows(3), commit_id=CommitId("job", 1, exact=True))
    newest = log.store.snapshots.latest_id() or 0
    request = ReadRequest(log.store, ("id",), None)
    changes = [row for split in plan_changes(request, 1, newest) for batch in split.read() for row in batch.to_pylist()]
    assert [(row["rowkind"], row["id"]) for row in changes] == [
        ("+I", 2),
        *([("-D", 2)] if target == 1 else []),
        ("+I", 3),
    ]
    log.expire(retain_last=1)
    assert not log.troubles()
    assert ids(log) == [*range(1, target + 1), 3]
    assert log.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True) == []
    # Nor is the commit that was taken back remembered twice.
    log.write(rows(3), commit_id=CommitId("job", 1, exact=True))
    assert ids(log) == [*range(1, target + 1), 3]


def test_a_branch_is_merged_into_a_main_with_a_commit_that_was_taken_back(
    catalog: Catalog, log: Table, sleeps: Callable[[Callable[[], None]], None]
) -> None:
    log.branches.create("fix")
    log.on_branch("fix").write(rows(5))
    sleeps(die)
    with pytest.raises(Dies):
        log.write(rows(3), commit_id=CommitId("job", 1))
    log = catalog.table("a.log")
    log.rollback_to(2)
    log.branches.merge("fix")
    assert ids(log) == [1, 2, 5]
    log.expire(retain_last=1)
    log.write(rows(3), commit_id=CommitId("job", 1))
    assert ids(log) == [1, 2, 3, 5]


def make_old(directory: Path) -> None:
    past = time.time() - 2 * 86_400
    for file in directory.rglob("*"):
        os.utime(file, (past, past))


def clean_beside(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen when the next cleaning has looked who needs what, and has deleted nothing yet."""

    def looked(*arguments: object) -> object:
        needed = needed_files(*arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(orphan_files, "needed_files", needed_files)
        act()
        return needed

    monkeypatch.setattr(orphan_files, "needed_files", looked)


def test_a_late_writer_beside_a_cleaning_that_has_looked_before_commits_nothing(
    catalog: Catalog, log: Table, clock: FixedClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    writer = log.new_write()
    writer.write(rows(3))
    message = writer.prepare_commit()
    clock.advance_ms(2 * DAY_MS)
    make_old(tmp_path)

    def commit() -> None:
        with pytest.raises(CommitConflict, match=r"data-.* may be deleted at any moment.*Nothing is committed"):
            log.commit_messages([message])

    clean_beside(monkeypatch, commit)
    catalog.table("a.log").remove_orphan_files()
    assert ids(log) == [1, 2]
    assert log.store.snapshots.ids() == [1, 2]
    # One that was still in time is not asked, and a repetition writes files that are young.
    log.write(rows(3))
    assert ids(log) == [1, 2, 3]


def test_a_writer_that_sleeps_right_before_its_snapshot_takes_it_back_though_its_files_are_there(
    catalog: Catalog, log: Table, clock: FixedClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create = FileIO.create_exclusively

    def sleeping(self: FileIO, path: str, data: bytes, **named: bool) -> bool:
        if not path.endswith("snapshot-3"):
            return create(self, path, data, **named)
        monkeypatch.setattr(FileIO, "create_exclusively", create)
        clock.advance_ms(2 * DAY_MS)
        make_old(tmp_path)
        made: list[bool] = []
        clean_beside(monkeypatch, lambda: made.append(create(self, path, data, **named)))
        catalog.table("a.log").remove_orphan_files()
        return made[0]

    monkeypatch.setattr(FileIO, "create_exclusively", sleeping)
    with pytest.raises(CommitConflict, match="The commit is taken back"):
        log.write(rows(3))
    assert ids(log) == [1, 2]
    assert log.check(deep=True) == []


def test_a_late_rollback_whose_target_expired_beside_it_is_taken_back(
    catalog: Catalog, log: Table, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.overwrite(rows(3))
    create = FileIO.create_exclusively

    def sleeping(self: FileIO, path: str, data: bytes, **named: bool) -> bool:
        if path.endswith("snapshot-4"):
            monkeypatch.setattr(FileIO, "create_exclusively", create)
            clock.advance_ms(2 * DAY_MS)
            other = catalog.table("a.log")
            other.expire(retain_last=1)
            (hold,) = other.store.tags.all()
            assert other.store.tags.delete_if(hold)
        return create(self, path, data, **named)

    monkeypatch.setattr(FileIO, "create_exclusively", sleeping)
    with pytest.raises(CommitConflict, match=r"not held any more.*taken back"):
        log.rollback_to(2)
    assert ids(log) == [3]


def test_old_files_are_added_again_and_moved_between_levels_after_a_cleaning(
    catalog: Catalog, clock: FixedClock, tmp_path: Path
) -> None:
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), primary_key=["id"], options={"bucket": 1})
    table.write(rows(1))
    table.write(rows(2))
    clock.advance_ms(2 * DAY_MS)
    make_old(tmp_path)
    catalog.table("a.t").remove_orphan_files()
    table.compact(full=True)
    table.rollback_to(1)
    table.rollback_to(2)
    assert ids(table) == [1, 2]
    assert table.check(deep=True) == []


def test_a_late_fence_is_put_once_more_with_lists_that_no_cleaning_takes(
    catalog: Catalog, log: Table, clock: FixedClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    create = FileIO.create_exclusively

    def sleeping(self: FileIO, path: str, data: bytes, **named: bool) -> bool:
        if not path.endswith("snapshot-3"):
            return create(self, path, data, **named)
        monkeypatch.setattr(FileIO, "create_exclusively", create)
        clock.advance_ms(2 * DAY_MS)
        make_old(tmp_path)
        made: list[bool] = []
        clean_beside(monkeypatch, lambda: made.append(create(self, path, data, **named)))
        catalog.table("a.log").remove_orphan_files()
        return made[0]

    monkeypatch.setattr(FileIO, "create_exclusively", sleeping)
    fence(log.store, "a test")
    manifest.forget()
    newest = log.store.snapshots.latest()
    assert newest is not None and newest.id == 4
    assert newest.takes_back(log.store.snapshots.get(3))
    assert (newest.properties or {})["snapline.fence"] == "a test"
    assert ids(log) == [1, 2]
    assert log.check(deep=True) == []
    log.write(rows(3))
    assert ids(log) == [1, 2, 3]


def test_a_branch_that_is_closed_late_stays_closed_by_what_is_put_on_top(
    catalog: Catalog, log: Table, clock: FixedClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log.branches.create("fix")
    log.on_branch("fix").write(rows(5))
    create = FileIO.create_exclusively

    def sleeping(self: FileIO, path: str, data: bytes, **named: bool) -> bool:
        if not path.endswith("log/snapshot/snapshot-3"):
            return create(self, path, data, **named)
        monkeypatch.setattr(FileIO, "create_exclusively", create)
        clock.advance_ms(2 * DAY_MS)
        make_old(tmp_path)
        made: list[bool] = []
        clean_beside(monkeypatch, lambda: made.append(create(self, path, data, **named)))
        catalog.table("a.log").remove_orphan_files()
        manifest.forget()
        return made[0]

    monkeypatch.setattr(FileIO, "create_exclusively", sleeping)
    log.branches.replace_main("fix")
    log = catalog.table("a.log")
    assert ids(log) == [1, 2, 5]
    assert log.check(deep=True) == []


def test_a_commit_in_time_does_not_ask_what_cleaning_takes(log: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CleaningFiles, "paths", lambda self: die())
    log.write(rows(3))
    log.overwrite(rows(4))


@pytest.mark.parametrize("place", ["", "memory://late-commits"])
def test_cleaning_says_how_old_files_it_takes_while_it_lasts_and_a_dry_run_says_nothing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Catalog(place or str(tmp_path)).create_table("a.t", pa.schema([("id", pa.int64())]))
    table.write(rows(1))
    said: list[list[Cleaning]] = []
    needed = orphan_files.needed_files
    monkeypatch.setattr(
        orphan_files, "needed_files", lambda store: (said.append(table.store.cleanings.all()), needed(store))[1]
    )
    table.remove_orphan_files(dry_run=True)
    table.remove_orphan_files(older_than=dt.timedelta(hours=1))
    newest = table.snapshot()
    assert newest is not None
    nobody, (cleaning,) = said
    assert nobody == []
    assert abs(cleaning.until_ms - (time.time() - 3600) * 1000) < 60_000
    assert cleaning.newest == {"main": (1, newest.identity)}
    assert table.store.cleanings.has_seen(cleaning, newest)
    assert table.store.cleanings.all() == []
    # What one has left that died goes with a later one, once a day is over or there are no writers.
    table.store.cleanings.begin("dead", cleaning)
    table.remove_orphan_files(older_than=dt.timedelta(hours=1))
    assert table.store.cleanings.all() == [cleaning]
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert table.store.cleanings.all() == []


def test_a_commit_that_a_cleaning_has_seen_stays_however_late_its_writer_wakes_up(
    catalog: Catalog, log: Table, clock: FixedClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is there for everybody by then: others have it by a tag and a branch, and were told that it landed."""
    create = FileIO.create_exclusively
    others = catalog.table("a.log")

    def sleeping(self: FileIO, path: str, data: bytes, **named: bool) -> bool:
        made = create(self, path, data, **named)
        if path.endswith("snapshot-3"):
            monkeypatch.setattr(FileIO, "create_exclusively", create)
            clock.advance_ms(2 * DAY_MS)
            make_old(tmp_path)
            # One that is still under way has seen it as well.
            newest = others.snapshot()
            assert newest is not None
            others.store.cleanings.begin("other", Cleaning(2**60, {"main": (newest.id, newest.identity)}))
            assert others.remove_orphan_files() == []
            others.tags.create("kept")
            assert others.write(rows(3), commit_id=CommitId("job", 1)).id == 3
        return made

    monkeypatch.setattr(FileIO, "create_exclusively", sleeping)
    log.write(rows(3), commit_id=CommitId("job", 1))
    assert ids(log) == [1, 2, 3]
    assert ids(log.at("kept")) == [1, 2, 3]
    assert log.check(deep=True) == []


def test_what_a_cleaning_may_take_is_neither_held_nor_the_last_that_is_left(
    log: Table, clock: FixedClock, tmp_path: Path
) -> None:
    """The writer of the newest snapshot was late, and is about to take it back: by the one before it."""
    clock.advance_ms(2 * DAY_MS)
    make_old(tmp_path)
    path = log.store.cleanings.begin("slow", Cleaning(2**60, {"main": (1, "another")}))
    for work in (
        lambda: log.tags.create("kept"),
        lambda: log.branches.create("fix"),
        lambda: log.expire(retain_last=1),
        lambda: log.rollback_to(2),
    ):
        with pytest.raises(CommitConflict, match=r"orphan cleaning that is under way.*Try again"):
            work()
    assert log.tags.list() == []
    Path(path).unlink()
    log.tags.create("kept")
    log.expire(retain_last=1)
    assert ids(log) == [1, 2]


def test_a_writer_whose_clock_was_put_back_looks_for_his_files(
    catalog: Catalog, log: Table, clock: FixedClock, tmp_path: Path
) -> None:
    clock.advance_ms(2 * 3_600_000)
    write = log.new_write()
    write.write(rows(3))
    message = write.prepare_commit()
    clock.advance_ms(-2 * 3_600_000)
    make_old(tmp_path)
    assert catalog.table("a.log").remove_orphan_files(older_than=dt.timedelta(hours=1))
    with pytest.raises(CommitConflict, match="count as orphans"):
        log.commit_messages([message])
    assert ids(log) == [1, 2]


def test_a_clock_that_is_set_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    assert not clock.was_set()
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() - 7_200_000_000_000)
    assert clock.was_set()


# --- what is lost below the newest snapshot


def _shared_manifest(table: Table) -> str:
    """The manifest that all snapshots but the first few share."""
    first = table.store.snapshots.get(2)
    (manifest_file,) = table.store.manifests.read_list(first.delta_manifest_list)
    return table.store.paths.manifest(manifest_file.name)


def test_a_rollback_to_what_has_lost_the_same_manifest_does_nothing_and_names_another(catalog: Catalog) -> None:
    table = catalog.create_table("a.shared", pa.schema([("id", pa.int64())]))
    for number in range(6):
        table.write(rows(number))
    table.store.file_io.delete(_shared_manifest(table))
    manifest.forget()
    for target in (5, 2):
        with pytest.raises(NotFound, match=rf"Snapshot {target} .* cannot be read: .* Roll back to snapshot 1\."):
            catalog.table("a.shared").rollback_to(target)
    assert catalog.table("a.shared").store.snapshots.latest_id() == 6
    assert catalog.table("a.shared").rollback_to(1) is not None
    assert catalog.table("a.shared").to_arrow()["id"].to_pylist() == [0]
    catalog.table("a.shared").write(rows(9))


@pytest.mark.parametrize("target", [4, 3])
def test_beside_a_publication_only_what_cannot_be_read_is_rolled_back(
    catalog: Catalog, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.one", "a.two"):
        options = {"bucket": 1, "write-only": True}
        table = catalog.create_table(name, pa.schema([("id", pa.int64())]), primary_key=["id"], options=options)
        for number in range(5):
            table.write(rows(number))
    both = catalog.branch_set("fix", ["a.one", "a.two"])
    both.create()
    for name in ("a.one", "a.two"):
        catalog.table(f"{name}$branch_fix").write(rows(77))
    two = catalog.table("a.two")
    newest = two.store.snapshots.get(5)
    two.store.file_io.delete(two.store.paths.manifest(newest.base_manifest_list))
    manifest.forget()
    with pytest.raises(NotFound, match="does not exist"):
        both.publish()
    assert catalog.publications() == []
    # As if it were lost only after the look.
    monkeypatch.setattr(branch_set, "refuse_unmergeable", lambda *given: None)
    with pytest.raises(NotFound, match="roll back to the one before it"):
        both.publish()
    with pytest.raises(NotFound, match=r"If the newest snapshot of a\.two cannot be read, roll it back"):
        catalog.recover(undo=True)
    if target == 3:
        with pytest.raises(CommitConflict, match="Publication 1 of branch 'fix' is open"):
            catalog.table("a.two").rollback_to(target)
        assert catalog.table("a.two").store.snapshots.latest_id() == 5
        return
    assert catalog.table("a.two").rollback_to(target) is not None
    catalog.recover(undo=True)
    assert catalog.publications() == []
    assert sorted(catalog.table("a.two").to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
    assert sorted(catalog.table("a.one").to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4]
