"""A writer that slept for days before its commit landed, while its files were cleaned as orphans."""

import datetime as dt
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, CommitId, CommitOutcomeUnknown, FixedClock, NotFound, Table
from storage.file_io import FileIO
from storage.metadata import manifest
from storage.read.changes import plan_changes
from storage.read.split_read import ReadRequest

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

    def arrange(fails: Callable[[], None], *, lost: str = "*") -> None:
        create, write = FileIO.create_exclusively, FileIO.write_bytes
        before = set(tmp_path.rglob("*"))
        slept: list[bool] = []

        def sleeping(self: FileIO, path: str, data: bytes, **how: bool) -> bool:
            if path.endswith("snapshot-3") and not slept:
                slept.append(True)
                clock.advance_ms(2 * DAY_MS)
                past = time.time() - 2 * 86_400
                for file in set(tmp_path.rglob(lost)) - before:
                    os.utime(file, (past, past))
                Catalog(str(tmp_path / "warehouse")).table("a.log").remove_orphan_files()
                manifest.forget()
            return create(self, path, data, **how)

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
    with pytest.raises(NotFound, match=r"Nothing expires.*roll back to 2"):
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
    told = [row for split in plan_changes(request, 1, newest) for one in split.read() for row in one.to_pylist()]
    assert [(row["rowkind"], row["id"]) for row in told] == [
        ("+I", 2), *([("-D", 2)] if target == 1 else []), ("+I", 3),
    ]  # fmt: skip
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
