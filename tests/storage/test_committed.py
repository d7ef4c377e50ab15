"""Commit ids outlive their snapshots: what is repeated after an expiry is recognised, or refused, and never lands twice."""

from pathlib import Path

import pyarrow as pa
import pytest

from storage import BATCH_COMMIT_IDENTIFIER, Catalog, CommitConflict, CommitId, FixedClock, Table
from storage.metadata.committed import Committed, CommittedFiles
from storage.metadata.snapshot import Snapshot

HOUR_MS = 3_600_000


@pytest.fixture
def log(catalog: Catalog) -> Table:
    """A table without a key: what lands twice is there twice."""
    return catalog.create_table("a.log", pa.schema([("id", pa.int64())]))


def write(table: Table, number: int, commit_id: CommitId | None = None) -> Snapshot | None:
    return table.write(pa.table({"id": [number]}), commit_id=commit_id)


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
    assert all(one.commit_user != "stream" for one in log.store.snapshots.all())
    write(log, 2, CommitId("stream", 2))
    write(log, 3, CommitId("stream", 3))
    assert ids(log) == [0, 1, 2, 3, 10, 11, 12]
    assert [one.commit_identifier for one in log.store.snapshots.all() if one.commit_user == "stream"] == [3]


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


def test_orphan_cleaning_leaves_what_is_remembered_alone(log: Table, clock: FixedClock) -> None:
    write(log, 1, CommitId("job", 1))
    write(log, 2)
    log.expire(retain_last=1)
    clock.advance_ms(10 * 365 * 24 * HOUR_MS)
    log.remove_orphan_files()
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

    def watched(self: CommittedFiles, snapshots: list[Snapshot]) -> None:
        remember(self, snapshots)
        gone.append([one.id for one in snapshots])
        assert log.store.snapshots.ids() == [1, 2]

    monkeypatch.setattr(CommittedFiles, "remember", watched)
    log.expire(retain_last=1)
    assert gone == [[1]]
    assert log.store.snapshots.ids() == [2]
