"""Streams of Kafka tables on a real broker: each record once in the table, and the table knows which records those are."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lineage import offsets_of
from resources import Session
from resources.spark_session import start_spark
from storage import InvalidRequest, StorageError, TopicRange
from storage.engines import spark_stream
from storage.engines.kafka_stream import read_topic_stream
from storage.engines.spark_stream import write_stream

pytestmark = pytest.mark.spark
Define = Callable[..., None]
Send = Callable[..., None]


@pytest.fixture
def topic(broker: str, topic_name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic_name, 2, 1)])[topic_name].result(30)
    return topic_name


@pytest.fixture
def session(spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", str(tmp_path / "warehouse"))
    return Session()


@pytest.fixture
def define(session: Session, broker: str, topic: str) -> Define:
    """Creates the Kafka table `events`, read from its start."""

    def run(columns: str, **options: str) -> None:
        given = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": broker,
            "format": "json",
            **({} if options.get("connector") == "upsert-kafka" else {"scan.startup.mode": "earliest-offset"}),
            **{key.replace("__", "-").replace("_", "."): value for key, value in options.items()},
        }
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        session.sql(f"CREATE OR REPLACE TABLE events ({columns}) WITH ({listed})", "duckdb")

    return run


@pytest.fixture
def send(broker: str, topic: str) -> Send:
    """Sends values to a partition with a plain client, in a transaction if it is named."""
    plain = Producer({"bootstrap.servers": broker})

    def run(
        *values: Any, partition: int = 0, key: bytes | None = None, transaction: str = "", ends: bool = True
    ) -> Any:
        producer = Producer({"bootstrap.servers": broker, "transactional.id": transaction}) if transaction else plain
        if transaction:
            producer.init_transactions(30)
            producer.begin_transaction()
        for value in values:
            content = value if isinstance(value, bytes | None) else json.dumps(value).encode()
            producer.produce(topic, content, key, partition)
        assert producer.flush(30) == 0
        if transaction:
            producer.commit_transaction(30) if ends else producer.abort_transaction(30)

    return run


def stream(session: Session, insert: str, job: str = "job1") -> None:
    """Carry a job on until there is nothing left to read. Raises the first line of what stops it."""
    settings = f"SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.name' = '{job}'"
    session.sql(settings, "duckdb")
    try:
        query = session.sql(insert).stream
        assert query is not None
        query.awaitTermination()
    finally:
        session.sql("RESET 'execution.runtime-mode'; RESET 'pipeline.name'", "duckdb")


def rows(session: Session, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in session.table(f"default.{name}").to_arrow().to_pylist())


def ranges(session: Session, name: str) -> list[list[tuple[int, int, int]]]:
    """Partition and offsets that each snapshot of a table was made from."""
    snapshots = session.table(f"default.{name}").snapshots.all()
    return [[(each.partition, each.start, each.end) for each in offsets_of(snapshot)] for snapshot in snapshots]


def test_a_stream_goes_on_from_its_checkpoint_and_its_snapshots_know_their_offsets(
    session: Session, define: Define, send: Send, topic: str
) -> None:
    define("id BIGINT, name STRING, `offset` BIGINT METADATA VIRTUAL, twice AS id * 2")
    session.sql("CREATE TABLE t (id BIGINT, name STRING, at BIGINT, twice BIGINT)", "duckdb")
    insert = "INSERT INTO t SELECT id, upper(name), `offset`, twice FROM events WHERE id <> 2"
    send({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    send({"id": 3, "name": "c"}, partition=1)
    stream(session, insert)
    assert rows(session, "t") == [(1, "A", 0, 2), (3, "C", 0, 6)]
    # Nothing new, nothing committed.
    stream(session, insert)
    send({"id": 4, "name": "d"}, transaction="other")
    send({"id": 9, "name": "aborted"}, transaction="other", ends=False)
    stream(session, insert)
    assert rows(session, "t") == [(1, "A", 0, 2), (3, "C", 0, 6), (4, "D", 2, 8)]
    assert ranges(session, "t") == [[(0, 0, 2), (1, 0, 1)], [(0, 2, 6)]]
    ref = session.table("default.t").last_change()
    assert ref is not None
    graph = session.lineage(ref, "up")
    assert [(str(sink), each.place, each.start, each.end) for sink, each in graph.topics] == [
        ("default.t@2", f"{topic}/0", 2, 6)
    ]
    [startup, other] = session.lineage_store.startups(job="job1")
    assert (startup.table, startup.branch, startup.snapshot_id) == ("events", f"{topic}/0", 0)
    assert other.branch == f"{topic}/1"
    assert [row.table for row in session.lineage_store.tables("source", job="job1")] == ["events"]


def test_records_per_batch_a_bound_and_a_later_start(session: Session, define: Define, send: Send) -> None:
    define("id BIGINT")
    session.sql("CREATE TABLE t (id BIGINT); CREATE TABLE u (id BIGINT); CREATE TABLE v (id BIGINT)", "duckdb")
    send(*({"id": number} for number in range(7)))
    send(*({"id": number} for number in range(7, 10)), partition=1)
    hint = "/*+ OPTIONS('records-per-batch' = '4') */"
    stream(session, f"INSERT INTO t SELECT id FROM events {hint}")
    assert rows(session, "t") == [(number,) for number in range(10)]
    assert ranges(session, "t") == [[(0, 0, 2), (1, 0, 2)], [(0, 2, 5), (1, 2, 3)], [(0, 5, 7)]]
    bounded = "'scan.bounded.mode' = 'specific-offsets', 'scan.bounded.specific-offsets' = 'partition:0,offset:5"
    start = "'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:3"
    bounded, start = (f"{each};partition:1,offset:0'" for each in (bounded, start))
    stream(session, f"INSERT INTO u SELECT id FROM events /*+ OPTIONS({start}, {bounded}) */", "job2")
    assert rows(session, "u") == [(3,), (4,)]
    session.sql("SET 'pipeline.startup-from' = 'job2'", "duckdb")
    stream(session, "INSERT INTO v SELECT id FROM events", "job3")
    assert [row[0] for row in rows(session, "v")] == [3, 4, 5, 6, 7, 8, 9]


def test_changes_are_applied_with_their_kinds_and_the_last_of_a_key_stays(
    session: Session, define: Define, send: Send
) -> None:
    define("id BIGINT, state STRING, PRIMARY KEY (id) NOT ENFORCED", format="debezium-json")
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY NOT ENFORCED, state STRING)", "duckdb")
    session.sql("CREATE TABLE plain (id BIGINT, state STRING)", "duckdb")
    session.sql("CREATE TABLE counted (state STRING PRIMARY KEY NOT ENFORCED, n BIGINT)", "duckdb")

    def row(number: int, state: str) -> dict[str, Any]:
        return {"id": number, "state": state}

    changes: list[Any] = [{"before": None, "after": row(number, "new"), "op": "c"} for number in range(3)]
    for state, later in (("new", "open"), ("open", "done"), ("done", "late")):
        changes.append({"before": row(0, state), "after": row(0, later), "op": "u"})
    changes.append({"before": row(1, "new"), "after": None, "op": "d"})
    send(*changes)
    insert = "INSERT INTO t SELECT * FROM events WHERE state <> 'done'"
    stream(session, insert)
    assert rows(session, "t") == [(0, "late"), (2, "new")]
    # What a condition leaves out goes.
    send({"before": row(2, "new"), "after": row(2, "done"), "op": "u"})
    stream(session, insert)
    assert rows(session, "t") == [(0, "late")]
    with pytest.raises(InvalidRequest, match=r"default\.plain has no primary key"):
        stream(session, "INSERT INTO plain SELECT * FROM events", "job2")
    with pytest.raises(InvalidRequest, match="holds changes, and a stream applies them row by row: GROUP"):
        stream(session, "INSERT INTO counted SELECT state, count(*) FROM events GROUP BY state", "job2")
    define("id BIGINT, state STRING, PRIMARY KEY (id) NOT ENFORCED", connector="upsert-kafka", key_format="json")
    with pytest.raises(InvalidRequest, match=r"a condition of a stream speaks of its PRIMARY KEY \(id\) alone"):
        stream(session, insert, "job3")


def test_what_retention_has_deleted_and_a_topic_made_again_are_refused(
    session: Session, define: Define, send: Send, broker: str, topic: str
) -> None:
    define("id BIGINT")
    session.sql("CREATE TABLE t (id BIGINT)", "duckdb")
    insert = "INSERT INTO t SELECT id FROM events"
    send({"id": 0})
    stream(session, insert)
    send(*({"id": number} for number in range(1, 4)))
    admin = AdminClient({"bootstrap.servers": broker})
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 3)]).values()
    deleted.result(30)
    with pytest.raises(Exception, match=r"is to be read from offset 1 of partition 0 .* before 3 is gone"):
        stream(session, insert)
    admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + 30
    while topic in admin.list_topics(timeout=10).topics and time.monotonic() < deadline:
        time.sleep(0.05)
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    send(*({"id": number} for number in range(10, 20)))
    with pytest.raises(Exception, match="was deleted and made again since it was read"):
        stream(session, insert)
    assert rows(session, "t") == [(0,)]


def test_malformed_records_end_a_stream_or_are_left_out_as_configured(
    session: Session, define: Define, send: Send
) -> None:
    define("id BIGINT")
    session.sql("CREATE TABLE t (id BIGINT)", "duckdb")
    send({"id": 1}, b"broken", {"id": 2})
    with pytest.raises(Exception, match=r"partition 0 of '\w+', offset 1 is no json"):
        stream(session, "INSERT INTO t SELECT id FROM events")
    hint = "/*+ OPTIONS('value.json.ignore-parse-errors' = 'true') */"
    # The same batch, as the checkpoint has it, with another way of reading.
    stream(session, f"INSERT INTO t SELECT id FROM events {hint}")
    assert rows(session, "t") == [(1,), (2,)]


def test_a_batch_insert_knows_its_offsets(session: Session, define: Define, send: Send, topic: str) -> None:
    define("id BIGINT", scan_bounded_mode="latest-offset")
    send({"id": 1}, {"id": 2})
    session.sql("CREATE TABLE t AS SELECT id FROM events", "duckdb")
    session.sql("INSERT INTO t SELECT id + 10 FROM events", "duckdb")
    assert rows(session, "t") == [(1,), (2,), (11,), (12,)]
    assert ranges(session, "t") == [[(0, 0, 2)], [(0, 0, 2)]]
    [made] = offsets_of(session.table("default.t").snapshots.all()[-1])
    assert made.topic_id and (made.database, made.table, made.topic) == ("default", "events", topic)
    session.rebuild_lineage()
    assert len(session.lineage_store.offsets(topic=topic)) == 2
    offsets = session.sql(
        "SELECT topic, `partition`, offset_start, offset_end FROM paimon.source_offset_lineage", "duckdb"
    )
    assert offsets.rows is not None and offsets.rows.to_pylist()[0] == {
        "topic": topic,
        "partition": 0,
        "offset_start": 0,
        "offset_end": 2,
    }


WORKER = """
import os, signal
from resources import Session
from storage.engines import spark_stream
session, write = Session(), spark_stream.write_frame
def dying(*given, **named):
    write(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
spark_stream.write_frame = dying
session.sql("SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.name' = 'job1'", "duckdb")
session.sql("INSERT INTO t SELECT id FROM events /*+ OPTIONS('records-per-batch' = '4') */").stream.awaitTermination()
"""


def test_a_stream_that_dies_before_or_after_its_commit_has_each_record_once(
    session: Session, define: Define, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    define("id BIGINT")
    session.sql("CREATE TABLE t (id BIGINT)", "duckdb")
    insert = "INSERT INTO t SELECT id FROM events /*+ OPTIONS('records-per-batch' = '4') */"
    send(*({"id": number} for number in range(6)))
    send(*({"id": number} for number in range(6, 10)), partition=1)

    def dying(*given: Any, **named: Any) -> None:
        raise OSError("the machine stops")

    with monkeypatch.context() as patch, pytest.raises(Exception, match="the machine stops"):
        patch.setattr(spark_stream, "write_frame", dying)
        stream(session, insert)
    worker = subprocess.run([sys.executable, "-c", WORKER], env=dict(os.environ), timeout=300)
    assert worker.returncode == -signal.SIGKILL
    assert len(rows(session, "t")) == 4
    stream(session, insert)
    assert rows(session, "t") == [(number,) for number in range(10)]
    assert len(session.table("default.t").snapshots.all()) == 3


def test_a_stream_in_python(session: Session, define: Define, send: Send, tmp_path: Path) -> None:
    spark = start_spark(session.settings)
    define("id BIGINT, state STRING, PRIMARY KEY (id) NOT ENFORCED", format="debezium-json")
    send({"before": None, "after": {"id": 1, "state": "a"}, "op": "c"})
    events = session.catalog.kafka_tables.get("default.events")
    assert events is not None
    with pytest.raises(InvalidRequest, match="mean nothing without their kinds"):
        read_topic_stream(spark, events, "paimon")
    with pytest.raises(StorageError, match="has no option 'rows'"):
        read_topic_stream(spark, events, "paimon", {"rows": "1"}, kinds=True)
    with pytest.raises(StorageError, match=r"default\.events is a Kafka table, which no stream writes"):
        session.sql("SET 'execution.runtime-mode' = 'streaming'; INSERT INTO events VALUES (1, 'a')", "duckdb")
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY NOT ENFORCED, state STRING)", "duckdb")
    frame = read_topic_stream(spark, events, "paimon", kinds=True, order=True)
    write_stream(
        frame,
        session.table("default.t"),
        session.catalog.warehouse,
        commit_user="py",
        checkpoint=str(tmp_path / "checkpoint"),
        row_kind_column="__snapline_kind",
        order_column="__snapline_order",
        trigger={"availableNow": True},
    ).awaitTermination()
    assert rows(session, "t") == [(1, "a")]
    assert TopicRange("paimon", "d", "t", "x", 0, 1, 2).place == "x/0"
