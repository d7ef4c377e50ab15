"""What every lineage store does, whatever database it lies in."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text

from lineage import LineageStore, OffsetLineage, TableLineage, open_lineage_store
from lineage.database_url import database_url
from lineage.entities import Reconciled
from lineage.migrations import CURRENT_VERSION
from lineage.schema import sink_by_time
from lineage.testing import MOMENT, LineageStoreContract, snapshot_lineage
from storage import InvalidRequest, TopicRange, Unsupported
from tests.scale import amount

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def store(store_options: dict[str, str]) -> Iterator[LineageStore]:
    with closing(open_lineage_store(store_options)) as store:
        yield store


class TestSqlStore(LineageStoreContract):
    """Each kind of database."""


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
    """Many processes and many barriers each; of a row that its writer has announced, a reader knows."""
    barriers = amount(60, 5000, full=1000)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, json.dumps(store_options), f"job {number}", str(barriers)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(amount(8, 16, full=16))
    ]
    missing: list[str] = []

    def follow(number: int) -> None:
        process = writers[number]
        assert process.stdout is not None
        reader = open_lineage_store(store_options)
        for line in process.stdout:
            # To ask for every row would take the machine from the writers.
            if int(line) % 50 == number:
                rows = reader.snapshots("sink", job=f"job {number}", barrier_id=int(line))
                if not rows:
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
            recorded = {(row.job, row.barrier_id) for row in store.snapshots(side)}  # type: ignore[arg-type]
            assert recorded == {
                (f"job {number}", barrier) for number in range(len(writers)) for barrier in range(barriers)
            }


def test_offsets_are_kept_once_and_go_with_their_barrier(store: LineageStore) -> None:
    moment = MOMENT
    kept = [
        OffsetLineage("job", barrier, "raw", "events", "flights", partition, 5 * barrier, 5 * barrier + 5, "id", moment)
        for barrier in (1, 2)
        for partition in (0, 1)
    ]
    for _ in range(2):
        store.store_offsets(kept)
    assert store.offsets(job="job") == kept
    store.delete_snapshots("job", [1])
    assert store.offsets(topic="flights") == kept[2:]
    assert kept[2].range_in("paimon") == TopicRange("paimon", "raw", "events", "flights", 0, 10, 15, "id")


# --- the database


def first_version(options: dict[str, str]) -> None:
    """The tables as the first version made them, with a row in each that a step changes."""
    open_lineage_store(options).close()
    engine = create_engine(database_url(options))
    with engine.begin() as connection:
        for name in ("reconciled", "column_lineage", "source_offset_lineage", "lineage_schema_version"):
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
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    for store in opened:
        (sink,) = store.snapshots("sink")
        assert (sink, sink.snapshot_time) == (snapshot_lineage("j", 1, 5), MOMENT)
        (source,) = store.snapshots("source")
        assert (source, source.snapshot_time) == (snapshot_lineage("j", 1, 5), None)
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
        inspector = inspect(engine)
        return {
            name: (
                [(column["name"], str(column["type"])) for column in inspector.get_columns(name)],
                sorted(str(index["name"]) for index in inspector.get_indexes(name)),
            )
            for name in inspector.get_table_names()
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
