"""Tables whose log is in Kafka: whoever dies, sleeps or is away, the log says what the table says."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from storage import Catalog, SetOptions, Table
from storage.log import kafka_log, log_systems, publish
from storage.log.definition import own_topic
from storage.log.kafka_log import KafkaLog
from storage.log.read import LogStream
from tests.kafka.broker_process import BrokerProcess

ROOT = Path(__file__).parents[2]
COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.string())])


class Killed(BaseException):
    """What ends a process in the middle."""


class DyingProducer:
    """A producer whose process ends before, or after, one of its calls: nothing of it works any more then."""

    def __init__(self, settings: dict[str, Any], call: str, *, after: bool) -> None:
        self._producer, self._call, self._after, self._is_dead = Producer(settings), call, after, False

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if self._is_dead:
                raise Killed
            if name == self._call and not self._after:
                self._is_dead = True
                raise Killed
            returned = getattr(self._producer, name)(*given, **named)
            if name == self._call:
                self._is_dead = True
                raise Killed
            return returned

        return call


@pytest.fixture(autouse=True)
def _asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_resting_until", {})
    monkeypatch.setattr(publish, "_REST_SECONDS", 0.0)


def made(path: Path, servers: str, *, key: bool = True, **options: Any) -> Table:
    given = {"log.system": "kafka", "kafka.bootstrap.servers": servers, "bucket": 2, **options}
    return Catalog(str(path / "w")).create_table(
        "a.t", COLUMNS, primary_key=["k"] if key else [], options=given if key else {"bucket-key": "k", **given}
    )


def rows(*given: tuple[int, str]) -> pa.Table:
    return pa.table([list(column) for column in zip(*given, strict=True)], schema=COLUMNS)


def held(table: Table) -> dict[int, str]:
    return {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}


def follow(stream: LogStream, known: dict[int, str]) -> None:
    """Apply what has come; an update or a delete that does not fit what is known fails."""
    for step in stream:
        for row in step.rows.to_pylist():
            if row["rowkind"] in ("+I", "+U"):
                assert (row["k"] in known) == (row["rowkind"] == "+U"), row
                known[row["k"]] = row["v"]
            else:
                assert known[row["k"]] == row["v"], row
                if row["rowkind"] == "-D":
                    del known[row["k"]]


def foreign(servers: str, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Partition, key and value of all records, as a consumer reads them that knows nothing of tables."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "foreign", "isolation.level": "read_committed"})
    partitions = [TopicPartition(topic, number, 0) for number in range(2)]
    consumer.assign(partitions)
    ends = {each.partition: consumer.get_watermark_offsets(each, timeout=10)[1] for each in partitions}
    consumed: list[tuple[int, bytes | None, bytes | None]] = []
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(
        each.offset < ends[each.partition] for each in consumer.position(partitions)
    ):
        consumed += [
            (each.partition(), each.key(), each.value()) for each in consumer.consume(100, 0.2) if not each.error()
        ]
    consumer.close()
    return consumed


@contextlib.contextmanager
def dying(call: str, *, after: bool) -> Iterator[None]:
    """Whoever publishes dies at a call of his producer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka_log, "_opened", {})
        patch.setitem(
            log_systems._registered,
            "kafka",
            lambda options: KafkaLog(
                {"bootstrap.servers": options["kafka.bootstrap.servers"]},
                new_producer=lambda settings: DyingProducer(settings, call, after=after),  # type: ignore[arg-type,return-value]
            ),
        )
        yield


def test_the_topic_comes_and_goes_with_the_table_and_others_read_it(tmp_path: Path, broker: str) -> None:
    table = made(tmp_path, broker, **{"log.retention": "2 h"})
    name = table.schema.options["kafka.topic"]
    admin = AdminClient({"bootstrap.servers": broker})
    assert len(admin.list_topics(timeout=10).topics[name].partitions) == 2
    assert table.alter(SetOptions({"log.retention": "3 h"})).describe()["log.retention"] == "3 h"
    table.write(rows((1, "a"), (2, "b")))
    table.delete("k = 1")
    records = foreign(broker, name)
    assert sorted((key, value) for _, key, value in records) == [
        (b'{"k":1}', b'{"before":null,"after":{"k":1,"v":"a"},"op":"c"}'),
        (b'{"k":1}', b'{"before":{"k":1,"v":"a"},"after":null,"op":"d"}'),
        (b'{"k":2}', b'{"before":null,"after":{"k":2,"v":"b"},"op":"c"}'),
    ]
    Catalog(str(tmp_path / "w")).drop_table("a.t")
    assert name not in admin.list_topics(timeout=10).topics


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("init_transactions", False),
        ("init_transactions", True),
        ("begin_transaction", True),
        ("produce", True),
        ("flush", True),
        ("send_offsets_to_transaction", True),
        ("commit_transaction", True),
    ],
)
def test_whoever_publishes_may_die_at_each_call(tmp_path: Path, broker: str, call: str, after: bool) -> None:
    table = made(tmp_path, broker)
    stream, known = table.follow(), dict[int, str]()
    table.write(rows((1, "a"), (2, "b"), (3, "c")))
    follow(stream, known)
    with dying(call, after=after), pytest.raises(Killed):
        table.write(rows((1, "x"), (2, "y"), (4, "d")))
    late, late_known = table.follow(), dict[int, str]()
    follow(late, late_known)
    assert late_known == held(table)
    table.delete("k = 3")
    for each, its in ((stream, known), (late, late_known)):
        follow(each, its)
        assert its == held(table) == {1: "x", 2: "y", 4: "d"}
    again, its = table.follow(position=stream.position), dict(known)
    table.write(rows((5, "e")))
    follow(again, its)
    assert its == held(table)
    assert table.check() == []


def test_commits_go_on_while_the_broker_is_away(tmp_path: Path, own_broker: BrokerProcess) -> None:
    table = made(tmp_path, own_broker.address)
    stream, known = table.follow(), dict[int, str]()
    table.write(rows((1, "a")))
    follow(stream, known)
    own_broker.kill()
    begun = time.monotonic()
    assert table.write(rows((1, "b"), (2, "c"))) is not None
    assert time.monotonic() - begun < 60
    assert "sending to the log has failed" in " ".join(map(str, table.check()))
    assert table.log.status().behind == 1
    own_broker.start()
    table.write(rows((3, "d")))
    follow(stream, known)
    assert known == held(table) == {1: "b", 2: "c", 3: "d"}
    assert table.check() == []


class KillingProducer:
    """A producer whose broker dies between the acknowledgement of a commit and its end."""

    def __init__(self, settings: dict[str, Any], broker: BrokerProcess) -> None:
        self._producer, self._broker = Producer(settings), broker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, patience: float) -> None:
        self._broker.ends_of_transactions.shut()
        self._producer.commit_transaction(patience)
        self._broker.kill()


@contextlib.contextmanager
def broker_dies_at_the_commit(broker: BrokerProcess) -> Iterator[None]:
    """The broker dies once it has acknowledged a commit, before it writes the end, and is started again."""
    with pytest.MonkeyPatch.context() as patch:
        log = KafkaLog(
            {"bootstrap.servers": broker.address},
            new_producer=lambda settings: KillingProducer(settings, broker),  # type: ignore[arg-type,return-value]
        )
        patch.setitem(log_systems._registered, "kafka", lambda options: log)
        yield
    broker.start()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("options", [{}, {"log.changelog-mode": "all"}], ids=str)
@pytest.mark.parametrize("may_end", [False, True])
def test_a_commit_whose_end_a_dead_broker_never_wrote_holds_up_nobody(
    tmp_path: Path, own_broker: BrokerProcess, options: dict[str, str], may_end: bool
) -> None:
    """Kafka acknowledges a commit before it writes its end: a broker that dies in between often leaves it open for ever.
    `may_end`: nothing keeps it from writing the end once it is started again; else it may only once all have read.
    """
    table = made(tmp_path, own_broker.address, **{"changelog-producer": "input", **options})
    topic = own_topic(table.schema, "a.t")
    early, early_known = table.follow(), dict[int, str]()
    table.write(rows((0, "a"), (1, "a")))
    follow(early, early_known)
    with broker_dies_at_the_commit(own_broker):
        table.write(rows((10, "b"), (11, "b")))
        if may_end:
            own_broker.ends_of_transactions.open()
    if not may_end:
        log = KafkaLog({"bootstrap.servers": own_broker.address})
        assert log.end_offsets(topic, committed=True) != log.end_offsets(topic, committed=False)
    # Who reads meanwhile, and who reads once it is ended, get the same.
    late, late_known = table.follow(), dict[int, str]()
    follow(late, late_known)
    own_broker.ends_of_transactions.open()
    table.write(rows((20, "c")))
    assert table.check() == []
    for stream, known in ((early, early_known), (late, late_known)):
        follow(stream, known)
        assert known == held(table) == {0: "a", 1: "a", 10: "b", 11: "b", 20: "c"}


def test_processes_that_are_killed_at_any_moment_lose_and_double_nothing(tmp_path: Path, broker: str) -> None:
    table = made(tmp_path, broker)
    script = """
import sys, pyarrow as pa, random
from storage import Catalog
table, own = Catalog(sys.argv[1]).table("a.t"), random.Random(sys.argv[2])
for number in range(1000):
    table.write(pa.table({"k": pa.array([own.randrange(6)], pa.int64()), "v": [f"{sys.argv[2]}-{number}"]}))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    stream, known = table.follow(), dict[int, str]()
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "w"), str(number)], cwd=ROOT, env=environment)
        for number in range(3)
    ]
    deadline = time.monotonic() + 40
    while (table.store.snapshots.latest_id() or 0) < 12 and time.monotonic() < deadline:
        time.sleep(0.1)
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
        writer.wait(30)
    late, late_known = table.follow(), dict[int, str]()
    follow(late, late_known)
    table.write(rows((100, "after")))
    for each, its in ((stream, known), (late, late_known)):
        follow(each, its)
        assert its == held(table)
    assert (table.store.snapshots.latest_id() or 0) >= 4
    assert table.log.status().behind == 0


def test_a_topic_that_was_made_anew_is_taken_by_rebuild(tmp_path: Path, broker: str) -> None:
    table = made(tmp_path, broker)
    stream, known = table.follow(), dict[int, str]()
    table.write(rows((1, "a"), (2, "b")))
    follow(stream, known)
    admin = AdminClient({"bootstrap.servers": broker})
    name = table.schema.options["kafka.topic"]
    admin.delete_topics([name])[name].result(30)
    table.write(rows((3, "c")))
    assert "is gone" in " ".join(map(str, table.check()))
    assert table.log.rebuild() == 2
    Catalog(str(tmp_path / "w")).table("a.t").delete("k = 1")
    follow(stream, known)
    assert known == held(table) == {2: "b", 3: "c"}
    assert table.check() == []


def test_a_group_that_was_deleted_is_made_up_for_by_the_log_itself(tmp_path: Path, broker: str) -> None:
    table = made(tmp_path, broker)
    stream, known = table.follow(), dict[int, str]()
    table.write(rows((1, "a"), (2, "b")))
    follow(stream, known)
    table.write(rows((1, "x")))
    admin = AdminClient({"bootstrap.servers": broker})
    group = f"snapline.{table.schema.options['kafka.topic']}"
    admin.delete_consumer_groups([group])[group].result(30)
    table.write(rows((3, "c")))
    follow(stream, known)
    assert known == held(table) == {1: "x", 2: "b", 3: "c"}
