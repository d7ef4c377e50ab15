"""What every lineage store does, whatever database it lies in."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from lineage import ColumnLineage, JobStartup, LineageStore, SnapshotLineage, TableLineage, open_lineage_store
from lineage.database_url import database_url
from lineage.entities import Reconciled
from lineage.migrations import CURRENT_VERSION
from lineage.schema import sink_by_time
from storage import InvalidRequest, Unsupported
from tests.scale import amount

MOMENT = datetime(2024, 1, 2, 3, 4, 5, 678000)
LATER = MOMENT + timedelta(milliseconds=1)
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def store(store_options: dict[str, str]) -> Iterator[LineageStore]:
    with closing(open_lineage_store(store_options)) as store:
        yield store


def lineage(job: str, barrier: int, snapshot_id: int, *, table: str = "t", time: datetime = MOMENT) -> SnapshotLineage:
    return SnapshotLineage(job, barrier, "d", table, "main", snapshot_id, time, time)


def test_storing_twice_changes_nothing(store: LineageStore) -> None:
    first = lineage("j", 1, 5)
    store.store_snapshots("source", [first])
    store.store_snapshots("source", [lineage("j", 1, 5, time=LATER), lineage("j", 1, 6)])
    assert store.snapshots("source") == [first, lineage("j", 1, 6)]
    table = TableLineage("j", "d", "t", "main", MOMENT)
    store.store_tables("sink", [table, table])
    store.store_tables("sink", [TableLineage("j", "d", "t", "main", LATER)])
    assert store.tables("sink") == [table]
    store.store_tables("sink", [TableLineage("j", "d", "t", "main", LATER)], replace=True)
    assert store.tables("sink") == [TableLineage("j", "d", "t", "main", LATER)]
    startup = JobStartup("j", "d", "t", "main", 5)
    store.store_startups([startup])
    store.store_startups([JobStartup("j", "d", "t", "main", 6)])
    assert store.startups(job="j") == [startup]
    column = ColumnLineage("j", "d", "t", "main", "a", "c", "d", "s", "b")
    store.store_columns([column, column])
    assert store.columns(job="j") == [column]


def test_nothing_to_store_is_nothing(store: LineageStore) -> None:
    store.store_snapshots("sink", [])
    store.store_tables("sink", [], replace=True)
    assert not store.snapshots("sink")


def test_times_are_kept_to_the_millisecond_and_names_to_the_letter(store: LineageStore) -> None:
    rows = [lineage(job, 1 << 60, 1) for job in ("J", "j", "jöb/数据", 'it\'s "x" 100% \\')]
    store.store_snapshots("sink", rows)
    assert sorted(store.snapshots("sink")) == sorted(rows)
    for row in rows:
        assert store.snapshots("sink", job=row.job) == [row]


def test_rows_are_found_by_any_of_their_fields_and_deleted_by_job(store: LineageStore) -> None:
    rows = [lineage(job, barrier, barrier) for job in ("j", "k") for barrier in (1, 2, 3)]
    store.store_snapshots("sink", rows)
    assert store.snapshots("sink", job="k", barrier_id=[2, 9]) == [rows[4]]
    assert store.snapshots("sink", snapshot_id=(1, 3), job="j") == [rows[0], rows[2]]
    assert store.snapshots("sink", table="none") == []
    assert (store.has_snapshots("sink", table="none"), store.has_snapshots("sink", job="k")) == (False, True)
    assert store.delete_snapshots("j", [1, 2]) == 2
    assert store.delete_snapshots("j") == 1
    assert {row.job for row in store.snapshots("sink")} == {"k"}
    store.store_tables("source", [TableLineage("j", "d", "t", "main", MOMENT)])
    store.store_columns([ColumnLineage("j", "d", "t", "main", "a", "c", "d", "s", "b")])
    store.store_startups([JobStartup("j", "d", "t", "main", 5)])
    assert store.delete_tables("j") == 1
    assert store.delete_tables("j") == 0
    assert not store.columns()
    assert store.delete_startups("j") == 1


def test_what_was_committed_since_a_moment_comes_in_order_of_time(store: LineageStore) -> None:
    rows = [lineage("j", 1, 1, time=LATER), lineage("k", 1, 2), lineage("j", 2, 3, time=LATER + timedelta(hours=1))]
    store.store_snapshots("sink", rows)
    assert store.committed_since(MOMENT) == [rows[1], rows[0], rows[2]]
    assert store.committed_since(LATER) == [rows[0], rows[2]]


def test_how_far_a_branch_was_read_is_replaced(store: LineageStore) -> None:
    for number in (3, 7, 2):
        store.store_reconciled(Reconciled("d", "t", "main", number, MOMENT))
    assert store.reconciled(database="d", table="t", branch="main") == [Reconciled("d", "t", "main", 2, MOMENT)]


def test_a_table_is_renamed_everywhere(store: LineageStore) -> None:
    store.store_snapshots("sink", [lineage("j", 1, 1)])
    store.store_snapshots("source", [lineage("k", 1, 1), lineage("k", 1, 1, table="other")])
    store.store_tables("source", [TableLineage("k", "d", "t", "main", MOMENT)])
    store.store_columns([ColumnLineage("k", "d", "x", "main", "a", "c", "d", "t", "b")])
    store.store_startups([JobStartup("run", "d", "t", "main", 1)])
    store.rename_table(("d", "t"), ("e", "u"))
    assert [(row.database, row.table) for row in store.snapshots("source")] == [("d", "other"), ("e", "u")]
    for rows in (store.snapshots("sink"), store.tables("source"), store.startups()):
        assert [(row.database, row.table) for row in rows] == [("e", "u")]  # type: ignore[attr-defined]
    assert [(row.source_database, row.source_table) for row in store.columns()] == [("e", "u")]


def test_snapshots_that_share_a_number_are_told_apart(store: LineageStore) -> None:
    store.store_snapshots("sink", [lineage("j", 1, 5)])
    store.store_snapshots("source", [lineage("k", 1, 5), lineage("k", 2, 5, time=LATER)])
    new = lineage("j", 2, 5, time=LATER)
    store.set_apart(new)
    store.store_snapshots("sink", [new])
    assert [(row.branch, row.barrier_id) for row in store.snapshots("sink")] == [
        ("main~20240102T030405678", 1),
        ("main", 2),
    ]
    assert sorted((row.branch, row.barrier_id) for row in store.snapshots("source")) == [
        ("main", 2), ("main~20240102T030405678", 1),
    ]  # fmt: skip


def test_a_snapshot_that_was_set_apart_and_has_its_number_gets_its_own_name_again(store: LineageStore) -> None:
    first, second = lineage("j", 1, 5), lineage("j", 2, 5, time=LATER)
    store.store_snapshots("source", [lineage("k", 1, 5), lineage("l", 3, 5)])
    store.set_apart(second)
    # Told once more by its own name, beside what was set apart.
    store.store_snapshots("source", [lineage("k", 1, 5), lineage("k", 2, 5, time=LATER)])
    store.set_apart(first)
    assert sorted((row.branch, row.job, row.barrier_id) for row in store.snapshots("source")) == [
        ("main", "k", 1), ("main", "l", 3), (f"main~{LATER:%Y%m%dT%H%M%S}{LATER.microsecond // 1000:03d}", "k", 2),
    ]  # fmt: skip


def test_a_name_that_is_too_long_is_refused(store: LineageStore) -> None:
    with pytest.raises(InvalidRequest, match="191 characters, of at most 190"):
        store.store_tables("sink", [TableLineage("j" * 191, "d", "t", "main", MOMENT)])
    store.store_tables("sink", [TableLineage("ü" * 190, "d" * 190, "t" * 190, "b" * 190, MOMENT)])


def test_two_stores_of_one_database_see_each_other(store: LineageStore, store_options: dict[str, str]) -> None:
    with closing(open_lineage_store(store_options)) as other:
        store.store_tables("sink", [TableLineage("j", "d", "t", "main", MOMENT)])
        assert other.tables("sink") == store.tables("sink")


_WRITER = """
import sys
from datetime import datetime
from lineage import SnapshotLineage, open_lineage_store
import json
store = open_lineage_store(json.loads(sys.argv[1]))
job, moment = sys.argv[2], datetime(2024, 1, 1)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    store.store_snapshots("source", [SnapshotLineage(job, number, "d", "s", "main", number, moment, moment)])
    store.store_snapshots("sink", [SnapshotLineage(job, number, "d", job, "main", number, moment, moment)])
    print(number, flush=True)
"""


def test_many_processes_record_at_once_and_each_row_is_seen_when_it_was_written(store_options: dict[str, str]) -> None:
    """16 processes and many barriers each; of a row that its writer has announced, a reader knows."""
    barriers = amount(100, 5000, full=1000)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, json.dumps(store_options), f"job {number}", str(barriers)],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(16)
    ]  # fmt: skip
    missing: list[str] = []

    def follow(number: int) -> None:
        process = writers[number]
        assert process.stdout is not None
        reader = open_lineage_store(store_options)
        for line in process.stdout:
            # To ask for every row would take the machine from the writers.
            if int(line) % 50 == number:
                found = reader.snapshots("sink", job=f"job {number}", barrier_id=int(line))
                if not found:
                    missing.append(f"job {number}, barrier {line}")
        reader.close()

    followers = [threading.Thread(target=follow, args=(number,)) for number in range(len(writers))]
    for process, follower in zip(writers, followers, strict=True):
        follower.start()
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process, follower in zip(writers, followers, strict=True):
        follower.join(timeout=300)
        assert process.stderr is not None
        assert process.wait(timeout=10) == 0, process.stderr.read()[-2000:]
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
    assert missing == []
    with closing(open_lineage_store(store_options)) as store:
        for side in ("source", "sink"):
            found = {(row.job, row.barrier_id) for row in store.snapshots(side)}  # type: ignore[arg-type]
            assert found == {(f"job {number}", barrier) for number in range(16) for barrier in range(barriers)}


# --- the database


def first_version(options: dict[str, str]) -> None:
    """The tables as the first version made them, with a row in each that a step changes."""
    open_lineage_store(options).close()
    engine = create_engine(database_url(options))
    with engine.begin() as connection:
        for name in ("reconciled", "column_lineage", "lineage_schema_version"):
            connection.execute(text(f"DROP TABLE {name}"))
        for name in ("source_snapshot_lineage", "sink_snapshot_lineage"):
            connection.execute(text(f"ALTER TABLE {name} DROP COLUMN snapshot_time"))
            if name.startswith("sink"):
                sink_by_time.drop(connection)
            quoted = ", ".join(map(engine.dialect.identifier_preparer.quote, ("database", "table")))
            connection.execute(
                text(
                    f"INSERT INTO {name} (job, barrier_id, {quoted}, branch, snapshot_id, create_time) "
                    "VALUES ('j', 1, 'd', 't', 'main', 5, '2024-01-02 03:04:05.678000')"
                )
            )
    engine.dispose()


def test_an_old_database_is_upgraded_in_place_by_whoever_comes_first(store_options: dict[str, str]) -> None:
    first_version(store_options)
    opened: list[LineageStore] = []
    threads = [threading.Thread(target=lambda: opened.append(open_lineage_store(store_options))) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(opened) == 4
    for store in opened:
        (sink,) = store.snapshots("sink")
        assert (sink, sink.snapshot_time) == (lineage("j", 1, 5), MOMENT)
        (source,) = store.snapshots("source")
        assert (source, source.snapshot_time) == (lineage("j", 1, 5), None)
        store.store_reconciled(Reconciled("d", "t", "main", 5, MOMENT))
        store.close()
    engine = create_engine(database_url(store_options))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version FROM lineage_schema_version")).fetchall() == [(CURRENT_VERSION,)]
    engine.dispose()


def test_an_upgraded_database_is_like_a_new_one(store_options: dict[str, str]) -> None:
    open_lineage_store(store_options).close()
    engine = create_engine(database_url(store_options))

    def tables() -> dict[str, object]:
        found = inspect(engine)
        return {
            name: (
                [(column["name"], str(column["type"])) for column in found.get_columns(name)],
                sorted(str(index["name"]) for index in found.get_indexes(name)),
            )
            for name in found.get_table_names()
        }

    new = tables()
    engine.dispose()
    first_version(store_options)
    open_lineage_store(store_options).close()
    assert tables() == new
    engine.dispose()


def test_a_database_of_a_later_version_is_refused(store_options: dict[str, str]) -> None:
    open_lineage_store(store_options).close()
    engine = create_engine(database_url(store_options))
    with engine.begin() as connection:
        connection.execute(text("UPDATE lineage_schema_version SET version = 99"))
    engine.dispose()
    with pytest.raises(Unsupported, match="is of version 99"):
        open_lineage_store(store_options)
    if "jdbc.database" in store_options:
        with pytest.raises(InvalidRequest, match="cannot be opened"):
            open_lineage_store({**store_options, "jdbc.url": "jdbc:postgresql://127.0.0.1:1/"})
