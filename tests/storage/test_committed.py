"""Commit ids outlive their snapshots: what is repeated after an expiry is recognised, or refused, and never lands twice."""

import datetime as dt
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import (
    BATCH_COMMIT_IDENTIFIER,
    AddColumn,
    Catalog,
    CommitConflict,
    CommitId,
    CorruptData,
    FixedClock,
    NotFound,
    Table,
)
from storage.file_io import FileIO
from storage.metadata import manifest
from storage.metadata.committed import Committed, CommittedFiles
from storage.metadata.snapshot import Snapshot
from storage.metadata.snapshot_files import SnapshotFiles
from tests.crash.failing_files import FailingFileIO

HOUR_MS = 3_600_000


@pytest.fixture
def log(catalog: Catalog) -> Table:
    """A table without a key: what lands twice is there twice."""
    return catalog.create_table("a.log", pa.schema([("id", pa.int64())]))


def write(table: Table, number: int, commit_id: CommitId | None = None) -> Snapshot | None:
    return table.write(pa.table({"id": [number]}), commit_id=commit_id)


@pytest.fixture
def before_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Has another process do something right before what is remembered is written for the first time."""

    def arrange(act: Callable[[], Any]) -> None:
        replace_if = FileIO.replace_if
        pending = [act]

        def sleeping(self: FileIO, path: str, expected: bytes | None, data: bytes) -> bool:
            if "/committed/" in path and pending:
                pending.pop()()
            return replace_if(self, path, expected, data)

        monkeypatch.setattr(FileIO, "replace_if", sleeping)

    return arrange


def ids(table: Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("exact", [False, True])
def test_a_commit_that_is_repeated_after_its_snapshot_expired_changes_nothing(log: Table, exact: bool) -> None:
    commit_id = CommitId("job/a", 1, exact=exact)
    write(log, 1, commit_id)
    write(log, 2)
    write(log, 3)
    log.expire(retain_last=1)
    again = write(log, 1, commit_id)
    assert ids(log) == [1, 2, 3]
    # The earliest that there is has the commit in it.
    assert again is not None
    assert again.id == 3
    write(log, 4, CommitId("job/a", 2, exact=exact))
    assert ids(log) == [1, 2, 3, 4]


def test_a_stream_that_is_started_again_after_the_retention_does_not_double_its_last_batch(
    catalog: Catalog, clock: FixedClock
) -> None:
    options = {"snapshot.time-retained": "1 h", "snapshot.num-retained.min": 1}
    log = catalog.create_table("a.log", pa.schema([("id", pa.int64())]), options=options)
    for batch in range(3):
        write(log, batch, CommitId("stream", batch))
    clock.advance_ms(10 * HOUR_MS)
    # Somebody else goes on, and with each commit old snapshots expire.
    for number in range(10, 13):
        write(log, number)
        clock.advance_ms(2 * HOUR_MS)
    assert all(snapshot.commit_user != "stream" for snapshot in log.store.snapshots.all())
    write(log, 2, CommitId("stream", 2))
    write(log, 3, CommitId("stream", 3))
    assert ids(log) == [0, 1, 2, 3, 10, 11, 12]
    assert [
        snapshot.commit_identifier for snapshot in log.store.snapshots.all() if snapshot.commit_user == "stream"
    ] == [3]


def test_rows_that_a_repeated_commit_takes_away_are_not_looked_for_again(log: Table) -> None:
    write(log, 1)
    rows = pa.table({"id": [1], "op": ["-D"]})
    log.write(rows, row_kind_column="op", commit_id=CommitId("job", 1))
    write(log, 2)
    log.expire(retain_last=1)
    log.write(rows, row_kind_column="op", commit_id=CommitId("job", 1))
    assert ids(log) == [2]


def test_the_files_of_a_commit_that_expired_outlive_its_repetition(log: Table) -> None:
    writer = log.new_write()
    writer.write(pa.table({"id": [1]}))
    message = writer.prepare_commit()
    log.commit_messages([message], commit_id=CommitId("job", 1))
    write(log, 2)
    log.expire(retain_last=1)
    log.commit_messages([message], commit_id=CommitId("job", 1))
    assert ids(log) == [1, 2]


def test_commits_that_nobody_repeats_are_not_remembered(log: Table) -> None:
    for number in range(3):
        write(log, number)
    log.expire(retain_last=1)
    assert not Path(log.store.paths.committed_directory).exists()


def test_an_identifier_that_is_not_remembered_is_refused_if_it_might_have_landed(log: Table, clock: FixedClock) -> None:
    write(log, 0, CommitId("job", 1, exact=True))
    write(log, 1)
    until = clock.now_ms()
    full = Committed("job", 0, 1).with_commits((2 * number, until + number) for number in range(1_001))
    assert (len(full.ranges), full.forgotten_until_ms) == (1_000, until)
    log.store.committed._add(full)
    log.expire(retain_last=1)
    with pytest.raises(CommitConflict, match="cannot be told whether commit 5001"):
        write(log, 2, CommitId("job", 5001, exact=True, not_before_ms=until))
    # After all that was forgotten: it cannot be one of those.
    clock.advance_ms(2 * HOUR_MS)
    write(log, 3, CommitId("job", 5002, exact=True, not_before_ms=clock.now_ms()))
    write(log, 4, CommitId("another job", 5001, exact=True, not_before_ms=until))
    assert ids(log) == [0, 1, 3, 4]


@pytest.mark.parametrize("expired", [False, True])
def test_a_commit_is_known_after_a_rollback_to_a_tag_of_a_branch_on_which_its_user_went_on(
    log: Table, expired: bool
) -> None:
    write(log, 1, CommitId("job", 1))
    write(log, 2)
    log.branches.create("fix")
    branch = log.on_branch("fix")
    write(branch, 3, CommitId("job", 5))
    write(branch, 4)
    branch.tags.create("theirs")
    log.branches.merge("fix")
    write(log, 9)
    log.rollback_to("theirs")
    if expired:
        log.expire(retain_last=1)
    write(log, 1, CommitId("job", 1))
    assert ids(log) == [1, 2, 3, 4]
    # That one nobody has.
    with pytest.raises(CommitConflict, match="has taken over commit 5 of 'job' from another branch, but not 3"):
        write(log, 5, CommitId("job", 3))


def test_identifiers_of_a_stream_take_no_room() -> None:
    remembered = Committed("stream", 0, 1).with_commits((number, number) for number in range(100_000))
    assert remembered.ranges == ((0, 99_999, 99_999),)
    assert remembered.union(Committed("stream", 100_000, 9, ((100_000, 100_000, 3),))) == Committed(
        "stream", 100_000, 9, ((0, 100_000, 99_999),)
    )


@pytest.mark.parametrize("user", ["a/b", "..", "x" * 400, "größer", "", "a b"])
def test_any_commit_user_is_remembered(log: Table, user: str) -> None:
    write(log, 1, CommitId(user, 7))
    write(log, 2)
    log.expire(retain_last=1)
    remembered = log.store.committed.find(user)
    assert remembered is not None
    assert (remembered.user, remembered.highest, remembered.highest_snapshot_id) == (user, 7, 1)
    assert remembered.highest != BATCH_COMMIT_IDENTIFIER


def test_orphan_cleaning_leaves_what_is_remembered_alone(log: Table) -> None:
    write(log, 1, CommitId("job", 1))
    write(log, 2)
    log.expire(retain_last=1)
    log.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    write(log, 1, CommitId("job", 1))
    assert ids(log) == [1, 2]


def test_a_branch_that_becomes_main_knows_the_commits_of_both(catalog: Catalog, log: Table) -> None:
    write(log, 1, CommitId("main's", 1))
    write(log, 2)
    log.branches.create("fix")
    branch = log.on_branch("fix")
    write(branch, 3, CommitId("branch's", 1))
    write(branch, 4)
    log.expire(retain_last=1)
    log.branches.replace_main("fix")
    log = catalog.table("a.log")
    assert log.store.snapshots.find(1) is None
    write(log, 1, CommitId("main's", 1))
    log.expire(retain_last=1)
    write(log, 3, CommitId("branch's", 1))
    assert ids(log) == [1, 2, 3, 4]


def test_a_table_that_is_renamed_keeps_what_it_remembers(catalog: Catalog, log: Table) -> None:
    write(log, 1, CommitId("job", 1))
    write(log, 2)
    log.expire(retain_last=1)
    renamed = catalog.rename_table("a.log", "a.other")
    write(renamed, 1, CommitId("job", 1))
    assert ids(renamed) == [1, 2]


def test_what_is_remembered_is_written_before_the_snapshots_go(log: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    write(log, 1, CommitId("job", 1))
    write(log, 2)
    gone: list[list[int]] = []
    remember = CommittedFiles.remember

    def watched(self: CommittedFiles, remembered: Iterable[Committed]) -> None:
        remembered = list(remembered)
        remember(self, remembered)
        gone.append(
            [
                number
                for committed in remembered
                for first, last, _ in committed.ranges
                for number in range(first, last + 1)
            ]
        )
        assert log.store.snapshots.ids() == [1, 2]

    monkeypatch.setattr(CommittedFiles, "remember", watched)
    log.expire(retain_last=1)
    assert gone == [[1]]
    assert log.store.snapshots.ids() == [2]


def test_a_commit_that_nobody_repeats_says_nothing_of_the_others_of_its_user(log: Table) -> None:
    write(log, 0, CommitId("etl"))
    made = write(log, 1, CommitId("etl", 1))
    assert made is not None
    assert made.id == 2
    write(log, 1, CommitId("etl", 1))
    assert ids(log) == [0, 1]


def test_two_who_expire_at_once_remember_what_either_lets_go(
    catalog: Catalog, log: Table, before_memory: Callable[[Callable[[], Any]], None]
) -> None:
    for number in range(1, 6):
        write(log, number, CommitId("job", number))
    write(log, 6)
    before_memory(lambda: catalog.table("a.log").expire(retain_last=1))
    log.expire(retain_last=4)
    assert log.store.snapshots.ids() == [6]
    for number in range(1, 6):
        write(log, number, CommitId("job", number))
        write(log, number, CommitId("job", number, exact=True))
    assert ids(log) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("remembers", [False, True])
def test_a_new_table_of_the_name_knows_nothing_of_what_the_old_one_lets_go(
    catalog: Catalog, log: Table, before_memory: Callable[[Callable[[], Any]], None], remembers: bool
) -> None:
    for number in range(1, 4):
        write(log, number, CommitId("job", number))

    def make_anew() -> None:
        catalog.drop_table("a.log")
        anew = catalog.create_table("a.log", log.schema.to_arrow())
        for number in range(10, 14):
            write(anew, number, CommitId("job", number) if remembers else None)
        if remembers:
            anew.expire(retain_last=1)

    before_memory(make_anew)
    with suppress(NotFound):
        log.expire(retain_last=1)
    anew = catalog.table("a.log")
    if remembers:
        # Nor has it lost its own.
        write(anew, 12, CommitId("job", 12))
    else:
        write(anew, 1, CommitId("job", 1))
        write(anew, 14)
        anew.expire(retain_last=1)
        write(anew, 2, CommitId("job", 2))
        write(anew, 1, CommitId("job", 1))
    assert ids(anew) == ([10, 11, 12, 13] if remembers else [1, 2, 10, 11, 12, 13, 14])


@pytest.mark.parametrize("exact", [False, True])
def test_the_commits_of_a_merged_branch_are_remembered(log: Table, exact: bool) -> None:
    write(log, 0)
    log.branches.create("fix")
    branch = log.on_branch("fix")
    for number in (1, 2):
        write(branch, number, CommitId("job", number, exact=exact))
    log.branches.merge("fix")
    write(log, 3)
    log.expire(retain_last=1)
    for number in (1, 2):
        write(log, number, CommitId("job", number, exact=exact))
    write(log, 4, CommitId("job", 3, exact=exact))
    assert ids(log) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("expires", [False, True])
def test_commits_that_expired_on_a_branch_are_known_once_it_is_merged(log: Table, exact: bool, expires: bool) -> None:
    write(log, 0)
    log.tags.create("fork")
    log.branches.create("fix", tag="fork")
    branch = log.on_branch("fix")
    for number in (1, 2, 3):
        write(branch, number, CommitId("job", number, exact=exact))
    branch.expire(retain_last=1)
    log.branches.merge("fix")
    if expires:
        write(log, 4)
        log.expire(retain_last=1)
    for number in (1, 2, 3):
        write(log, number, CommitId("job", number, exact=exact))
    assert ids(log) == [0, 1, 2, 3, *([4] if expires else [])]


def test_main_knows_its_own_commits_once_a_branch_is_main_whose_first_snapshots_expired(
    catalog: Catalog, log: Table
) -> None:
    write(log, 0, CommitId("job", 1))
    write(log, 1)
    log.tags.create("fork")
    log.branches.create("fix", tag="fork")
    branch = log.on_branch("fix")
    for number in (2, 3):
        write(branch, number)
    branch.expire(retain_last=1)
    log.branches.replace_main("fix")
    log = catalog.table("a.log")
    write(log, 0, CommitId("job", 1))
    assert ids(log) == [0, 1, 2, 3]


@pytest.mark.parametrize("expires", [False, True])
def test_an_identifier_before_one_that_was_taken_over_is_refused_unless_it_is_in(log: Table, expires: bool) -> None:
    write(log, 0)
    log.branches.create("fix")
    branch = log.on_branch("fix")
    for number in (5, 6):
        write(branch, number, CommitId("job", number))
    log.branches.merge("fix")
    if expires:
        write(log, 7)
        log.expire(retain_last=1)
    with pytest.raises(CommitConflict, match="not 4, which comes before it"):
        write(log, 4, CommitId("job", 4))
    write(log, 5, CommitId("job", 5))
    write(log, 4, CommitId("job", 4, exact=True))
    assert ids(log) == [0, 4, 5, 6, *([7] if expires else [])]


def test_a_branch_has_commit_ids_of_its_own(log: Table) -> None:
    write(log, 1, CommitId("job", 1, exact=True))
    write(log, 2)
    log.branches.create("fix")
    branch = log.on_branch("fix")
    write(branch, 10, CommitId("job", 1, exact=True))
    write(branch, 10, CommitId("job", 1, exact=True))
    assert ids(branch) == [1, 2, 10]
    log.branches.merge("fix")
    write(log, 1, CommitId("job", 1, exact=True))
    assert ids(log) == [1, 2, 10]


@pytest.mark.parametrize(
    "damaged", [b"", b"{", b"[]", b'{"user": "job"}', b'{"user": "job", "ranges": [[1, 2]]}', b"\xff", b'{"ranges": 5}']
)
def test_a_damaged_memory_is_named(log: Table, damaged: bytes) -> None:
    write(log, 1, CommitId("job", 1))
    write(log, 2)
    log.expire(retain_last=1)
    (path,) = Path(log.store.paths.committed_directory).iterdir()
    sound = path.read_bytes()
    for content in (damaged, sound.replace(b'"highest": 1', b'"highest": 0').replace(b"[[1, 1", b"[[0, 0")):
        assert content != sound
        path.write_bytes(content)
        with pytest.raises(CorruptData, match="user-job"):
            write(log, 1, CommitId("job", 1))
        assert any("user-job" in str(problem) for problem in log.check())
    path.write_bytes(sound)
    assert log.check() == []
    assert ids(log) == [1, 2]


def test_a_table_whose_first_schema_is_damaged_is_not_taken_for_another(catalog: Catalog, log: Table) -> None:
    write(log, 1, CommitId("job", 1))
    write(log, 2)
    log.expire(retain_last=1)
    log.alter(AddColumn("more", pa.int64()))
    path = Path(log.store.paths.schema(0))
    path.write_text(path.read_text().replace('"timeMillis": 1', '"timeMillis": 2'))
    with pytest.raises(CorruptData, match="schema-0"):
        write(catalog.table("a.log"), 1, CommitId("job", 1))
    assert log.store.snapshots.ids() == [2]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("expires", ["nothing", "on the branch", "on main"])
def test_the_commits_of_an_adopted_branch_are_remembered(log: Table, exact: bool, expires: str) -> None:
    write(log, 0)
    log.tags.create("fork")
    log.branches.create("fix", tag="fork")
    branch = log.on_branch("fix")
    for number in (1, 2, 3):
        write(branch, number, CommitId("job", number, exact=exact))
    if expires == "on the branch":
        branch.expire(retain_last=1)
    log.branches.adopt("fix", until=1, commit_id=CommitId("publication", 1, exact=True))
    if expires == "on main":
        write(log, 9)
        log.expire(retain_last=1)
    for number in (1, 2, 3):
        write(log, number, CommitId("job", number, exact=exact))
    assert ids(log) == [0, 1, 2, 3, *([9] if expires == "on main" else [])]
    # What the branch has not done lands.
    write(log, 4, CommitId("job", 4, exact=exact))
    assert ids(log).count(4) == 1


def test_the_commits_of_a_branch_whose_rows_main_has_already_are_remembered(log: Table) -> None:
    """They leave nothing to commit: their rows have gone again on the branch."""
    write(log, 0)
    for name in ("adopted", "merged"):
        latest = log.snapshot()
        assert latest is not None
        log.branches.create(name)
        write(log.on_branch(name), 1, CommitId(name, 1, exact=True))
        log.on_branch(name).delete("id = 1")
        if name == "adopted":
            log.branches.adopt(name, until=latest.id, commit_id=CommitId("publication", 1, exact=True))
        else:
            log.branches.merge(name)
        write(log, 1, CommitId(name, 1, exact=True))
        assert ids(log) == [0], name
        assert log.changes(after=latest.id).num_rows == 0


def test_a_repetition_that_comes_while_a_branch_is_adopted_lands_once(
    log: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(log, 0)
    log.branches.create("fix")
    write(log.on_branch("fix"), 1, CommitId("job", 1, exact=True))
    create, first = SnapshotFiles.create, iter([True])

    def late(self: SnapshotFiles, snapshot: Snapshot, *needed: Any) -> bool:
        if snapshot.commit_user == "job" and next(first, False):
            log.branches.adopt("fix", until=1, commit_id=CommitId("publication", 1, exact=True))
        return create(self, snapshot, *needed)

    monkeypatch.setattr(SnapshotFiles, "create", late)
    write(log, 1, CommitId("job", 1, exact=True))
    assert ids(log) == [0, 1]


def test_what_a_repetition_returns_after_the_expiry_is_said_to_be_no_snapshot_of_its_own(catalog: Catalog) -> None:
    notified: list[int] = []

    class Listener:
        def notify_commit_complete(self, identifier: Any, snapshot: Snapshot) -> None:
            notified.append(snapshot.id)

        def notify_table_renamed(self, identifier: Any, new: Any) -> None: ...

    catalog = Catalog(catalog.warehouse, listeners=[Listener()])
    log = catalog.create_table("a.log", pa.schema([("id", pa.int64())]))
    commit_id = CommitId("job", 1, exact=True)
    first = write(log, 1, commit_id)
    assert first is not None and commit_id.made(first)
    for number in (2, 3):
        write(log, number)
    log.expire(retain_last=2)
    again = write(log, 1, commit_id)
    assert again is not None and again.id == 2 and not commit_id.made(again)
    assert notified == [1, 2, 3]
    assert ids(log) == [1, 2, 3]


def test_no_snapshot_is_read_twice_to_look_for_commits_of_new_users(tmp_path: Path) -> None:
    counted = FailingFileIO()
    table = Catalog(str(tmp_path), file_io=counted).create_table("a.log", pa.schema([("id", pa.int64())]))
    for number in range(30):
        write(table, number)
    manifest.forget()

    def reads(commit_id: CommitId) -> int:
        before = len(counted.calls)
        write(table, 99, commit_id)
        return sum(call.startswith("read ") and "/snapshot-" in call for call in counted.calls[before:])

    assert reads(CommitId("first", 1)) >= 30
    assert max(reads(CommitId(user, 1, exact=True)) for user in ("second", "third")) < 8
    assert len(ids(table)) == 33


@pytest.mark.parametrize("exact", [False, True])
def test_a_commit_that_a_process_has_seen_is_known_to_it_once_it_has_expired(log: Table, exact: bool) -> None:
    for number in range(1, 4):
        write(log, number, CommitId("job", number, exact=exact))
    write(log, 4, CommitId("other", 1))
    log.expire(retain_last=1)
    # As Paimon's expiry leaves the table, which remembers nothing.
    log.store.file_io.delete_directory(log.store.paths.committed_directory)
    again = write(log, 2, CommitId("job", 2, exact=exact))
    assert again is not None and again.id == 4
    assert ids(log) == [1, 2, 3, 4]


def test_snapshots_whose_numbers_were_given_again_are_not_taken_for_those_that_were_seen(log: Table) -> None:
    """As Paimon's rollback does: it deletes the later snapshots."""
    for number in range(1, 5):
        write(log, number, CommitId("job", number, exact=True))
    write(log, 5, CommitId("other", 1))
    paths = log.store.paths
    for number in (3, 4, 5):
        log.store.file_io.delete(paths.snapshot(number))
    log.store.file_io.overwrite(f"{paths.snapshot_directory}/LATEST", b"2")
    for number in (6, 7, 8):
        write(log, number)
    write(log, 3, CommitId("job", 3, exact=True))
    write(log, 2, CommitId("job", 2, exact=True))
    assert ids(log) == [1, 2, 3, 6, 7, 8]
