"""Tables with a log: their options, and the topic that is made, altered and dropped with them; on the log in memory."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import (
    AddColumn,
    AlreadyExists,
    Catalog,
    FailedWork,
    InvalidRequest,
    NotFound,
    RenameColumn,
    SetOptions,
    StorageError,
    StoreUnavailable,
    Table,
    Unsupported,
)
from storage.log import log_systems, publish
from storage.log.debezium import decode_values
from storage.log.log_store import Topic, TopicDefinition
from storage.log.memory_log import MemoryLog

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.string())])


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """What `log.system` = `memory` is in this test."""
    log = MemoryLog()
    monkeypatch.setitem(log_systems._registered, "memory", lambda options: log)
    return log


@pytest.fixture
def catalog(tmp_path: Path, log: MemoryLog) -> Catalog:
    return Catalog(str(tmp_path / "warehouse"))


def made(catalog: Catalog, options: dict[str, Any] | None = None, *, key: bool = True) -> Table:
    """Table a.t, with a log and two buckets."""
    given = {"log.system": "memory", "bucket": 2, **({} if key else {"bucket-key": "k"}), **(options or {})}
    return catalog.create_table("a.t", COLUMNS, primary_key=["k"] if key else [], options=given)


def rows(*given: tuple[int, str | None]) -> pa.Table:
    return pa.table([list(column) for column in zip(*given, strict=True)], schema=COLUMNS)


def topic_of(log: MemoryLog, table: Table) -> Topic:
    topic = log.find_topic(table.schema.options["kafka.topic"])
    assert topic is not None
    return topic


def logged_rows(log: MemoryLog, table: Table) -> list[tuple[int | None, str | None, int, str | None]]:
    """Snapshot, kind and row of each record, by snapshot."""
    topic = topic_of(log, table)
    records: list[tuple[int | None, str | None, int, str | None]] = []
    for part in log.read(topic, log.first_offsets(topic), log.end_offsets(topic, committed=True)):
        part = part.filter(part["value"].is_valid())
        plain, _ = decode_values(part["value"].combine_chunks(), COLUMNS)
        columns = (part["snapshot_id"], part["kind"], plain["k"], plain["v"])
        records += zip(*(column.to_pylist() for column in columns), strict=True)
    return sorted(records, key=lambda record: (record[0] or 0, record[2]))


@pytest.mark.parametrize(
    ("key", "options", "message"),
    [
        (True, {"log.consistency": "eventual"}, "rows are sent to a log once they are committed"),
        (True, {"log.consistency": "eventual", "log.changelog-mode": "all"}, "exclude each other"),
        (True, {"log.changelog-mode": "all"}, "You cannot insert incomplete data into a table that has primary key"),
        (False, {"log.changelog-mode": "upsert"}, "is for tables with a primary key"),
        (True, {"log.changelog-mode": "some"}, "Supported: auto, upsert, all"),
        (True, {"log.format": "avro"}, "Supported: debezium-json"),
        (True, {"log.key.format": "avro"}, "Supported: json"),
        (True, {"log.system.partitions": 3}, "a partition for each bucket, 2 here"),
        (True, {"bucket": -2}, "postponed rows"),
        (True, {"merge-engine": "aggregation"}, "needs 'changelog-producer' = 'lookup' or 'full-compaction'"),
        (True, {"sequence.field": "v"}, "a 'sequence.field' needs 'changelog-producer'"),
        (True, {"log.system": "pulsar"}, "There are: none, kafka, memory"),
        (True, {"log.system": "kafka"}, "needs 'kafka.bootstrap.servers'"),
        (True, {"kafka.topic": "a b"}, "names no topic"),
        (True, {"kafka.plugin.library.paths": "/tmp/x.so"}, "how they find the brokers"),
        (True, {"log.kafka.plugin.library.paths": "/tmp/x.so"}, "how they find the brokers"),
        (True, {"log.scan": "latest"}, "said where it reads"),
        (True, {"log.scan.timestamp-mills": 1}, "said where it reads"),
        (True, {"log.retention": "soon"}, "not a duration"),
        (True, {"log.nothing": "1"}, "Unknown option 'log.nothing'"),
        (True, {"log.system": "none", "log.consistency": "eventual"}, "is for tables with a log"),
        (True, {"log.system": "none", "log.changelog-mode": "upsert"}, "is for tables with a log"),
        (True, {"log.system": "none", "log.retention": "1 d"}, "'log.retention' = '1 d' is for tables with a log"),
        (True, {"log.system": "none", "kafka.bootstrap.servers": "b:1"}, "is for tables with a log"),
        (True, {"log.system": "none", "log.kafka.linger.ms": "5"}, "'kafka.linger.ms' = '5' is for tables with a log"),
    ],
)
def test_what_a_log_cannot_be_is_refused_by_name(
    catalog: Catalog, log: MemoryLog, key: bool, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(StorageError, match=message):
        made(catalog, options, key=key)
    assert not catalog.exists("a.t")
    assert log.find_topic("a b") is None


@pytest.mark.parametrize(
    "options", [{"log.retention": "2 h"}, {"kafka.bootstrap.servers": "localhost:1"}, {"log.format": "debezium-json"}]
)
def test_options_of_a_log_need_a_log(catalog: Catalog, options: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="is for tables with a log"):
        catalog.create_table("a.t", COLUMNS, options=options)
    table = catalog.create_table("a.t", COLUMNS)
    with pytest.raises(InvalidRequest, match="is for tables with a log"):
        table.alter(SetOptions(options))


@pytest.mark.parametrize(
    ("key", "options", "mode"),
    [
        (True, {}, "upsert"),
        (True, {"changelog-producer": "lookup"}, "upsert"),
        (True, {"changelog-producer": "lookup", "log.changelog-mode": "all"}, "all"),
        (True, {"changelog-producer": "input", "log.changelog-mode": "ALL"}, "all"),
        (False, {}, "all"),
        (False, {"log.changelog-mode": "all", "log.consistency": "transactional"}, "all"),
    ],
)
def test_what_a_log_can_be_is_shown(catalog: Catalog, key: bool, options: dict[str, Any], mode: str) -> None:
    said = made(catalog, {"log.retention": "2 h", **options}, key=key).describe()
    assert (said["log.system"], said["log.changelog-mode"], said["log.consistency"]) == (
        "memory",
        mode,
        "transactional",
    )
    assert said["log.retention"] == "2 h"
    assert said["log.kafka.topic"].startswith("a_t_")


def test_the_topic_is_made_with_the_table_and_goes_with_it(catalog: Catalog, log: MemoryLog) -> None:
    table = made(catalog, {"log.kafka.topic": "orders", "log.retention": "2 h"})
    topic = topic_of(log, table)
    assert (topic.name, topic.partitions, topic.retention_ms) == ("orders", 2, 7_200_000)
    assert table.schema.options["log.topic-id"] == topic.id
    renamed = catalog.rename_table("a.t", "a.u")
    assert topic_of(log, renamed) == topic
    catalog.drop_table("a.u")
    assert log.find_topic("orders") is None
    catalog.drop_table("a.u", if_exists=True)


def test_options_of_a_catalog_are_those_of_its_tables(tmp_path: Path, log: MemoryLog) -> None:
    options = {"table-storage.log.system": "memory", "table-storage.log.retention": "3 h"}
    catalog = Catalog(str(tmp_path / "warehouse"), options=options)
    table = catalog.create_table("a.t", COLUMNS, primary_key=["k"], options={"bucket": 1})
    assert topic_of(log, table).retention_ms == 10_800_000
    plain = catalog.create_table("a.plain", COLUMNS, options={"log.system": "none"})
    assert plain.schema.options == {"log.system": "none"}
    assert catalog.create_table_like("a.like", "a.plain").schema.options == plain.schema.options
    with pytest.raises(InvalidRequest, match="is for tables with a log"):
        plain.alter(SetOptions({"log.retention": "1 d"}))


def test_a_topic_that_is_there_is_nobody_elses(catalog: Catalog, log: MemoryLog) -> None:
    log.create_topic(TopicDefinition("orders", 2))
    with pytest.raises(AlreadyExists, match="delete the topic, or name another one"):
        made(catalog, {"kafka.topic": "orders"})
    assert not catalog.exists("a.t")
    assert log.find_topic("orders") is not None


def test_if_a_table_exists_nothing_is_made(catalog: Catalog, log: MemoryLog) -> None:
    first = made(catalog, {"kafka.topic": "orders"})
    again = catalog.create_table(
        "a.t", COLUMNS, options={"log.system": "memory", "kafka.topic": "others"}, if_not_exists=True
    )
    assert again.schema == first.schema
    assert log.find_topic("others") is None
    with pytest.raises(AlreadyExists, match=r"Table a\.t exists"):
        made(catalog, {"kafka.topic": "others"})


def test_a_table_that_another_one_is_like_keeps_its_topic_to_itself(catalog: Catalog, log: MemoryLog) -> None:
    table = made(catalog)
    like = catalog.create_table_like("a.like", "a.t")
    assert topic_of(log, like) != topic_of(log, table)


def test_a_crash_between_the_topic_and_the_table_leaves_a_topic_alone(
    catalog: Catalog, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> bool:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("storage.create_table._create", kill)
        made(catalog)
    assert not catalog.exists("a.t")
    table = made(catalog)
    table.write(rows((1, "a")))
    assert logged_rows(log, table) == [(1, "+I", 1, "a")]


def test_retention_is_altered_and_what_is_fixed_is_not(catalog: Catalog, log: MemoryLog) -> None:
    table = made(catalog)
    table = table.alter(SetOptions({"log.retention": "4 h"}))
    assert topic_of(log, table).retention_ms == 14_400_000
    table = table.alter(SetOptions({}, removed=["log.retention"]))
    assert topic_of(log, table).retention_ms is None
    for key, value in {"log.system": "none", "kafka.topic": "x", "log.changelog-mode": "all"}.items():
        with pytest.raises(InvalidRequest, match="stands as long as the table"):
            table.alter(SetOptions({key: value}))
    for act in (lambda: table.rescale(4), lambda: table.alter(SetOptions({"bucket": 4}))):
        with pytest.raises(Unsupported, match="their number cannot change"):
            act()
    with pytest.raises(Unsupported, match="cannot be renamed"):
        table.alter(RenameColumn("v", "w"))
    with pytest.raises(InvalidRequest, match="was deleted and made anew"):
        table.alter(SetOptions({"log.topic-id": "x"}))
    assert table.alter(AddColumn("w", pa.int32())).schema.column_names == ["k", "v", "w"]


def test_the_id_of_a_topic_is_kept_by_the_store(catalog: Catalog, log: MemoryLog) -> None:
    given = {"log.topic-id": "abc"}
    with pytest.raises(InvalidRequest, match=r"'log\.topic-id' = 'abc': the store keeps it"):
        made(catalog, given)
    assert not catalog.exists("a.t")
    table = made(catalog)
    with pytest.raises(InvalidRequest, match="the store keeps it"):
        catalog.create_table_like("a.like", "a.t", options=given)
    options = {"log.system": "memory", "bucket": 2}
    with pytest.raises(InvalidRequest, match="the store keeps it"):
        catalog.redefined_table("a.t", COLUMNS, primary_key=["k"], options={**options, **given})
    own = {"log.topic-id": topic_of(log, table).id}
    new = catalog.redefined_table("a.t", COLUMNS, primary_key=["k"], options={**options, **own})
    new.overwrite(rows((2, "b")), dynamic=False)
    assert logged_rows(log, catalog.table("a.t")) == [(1, "+I", 2, "b")]
    assert log.drop_topic(table.schema.options["kafka.topic"])
    assert catalog.table("a.t").log.rebuild() == 1
    assert catalog.table("a.t").schema.options["log.topic-id"] == topic_of(log, table).id != own["log.topic-id"]


def test_the_log_of_a_plain_table_cannot_come_later(catalog: Catalog) -> None:
    table = catalog.create_table("a.t", COLUMNS)
    with pytest.raises(InvalidRequest, match="stands as long as the table"):
        table.alter(SetOptions({"log.system": "memory"}))


def test_a_new_definition_keeps_the_log(catalog: Catalog, log: MemoryLog) -> None:
    table = made(catalog)
    table.write(rows((1, "a")))
    options = {"log.system": "memory", "bucket": 2}
    new = catalog.redefined_table("a.t", COLUMNS, primary_key=["k"], options=options)
    new.overwrite(rows((2, "b")), dynamic=False)
    assert logged_rows(log, catalog.table("a.t")) == [(1, "+I", 1, "a"), (2, "-D", 1, "a"), (2, "+I", 2, "b")]
    with pytest.raises(InvalidRequest, match="stands as long as the table"):
        catalog.redefined_table("a.t", COLUMNS, primary_key=["k"], options={"bucket": 2})


def test_every_kind_of_commit_reaches_the_log(catalog: Catalog, log: MemoryLog) -> None:
    table = made(catalog)
    table.write(rows((1, "a"), (2, "b")))
    table.delete("k = 1")
    table.overwrite(rows((3, "c")))
    table.compact()
    table.write(rows((9, "unseen")), change_tracking=False)
    table.rollback_to(1)
    table.branches.create("fix")
    table.on_branch("fix").write(rows((4, "d")))
    assert not [record for record in logged_rows(log, table) if record[2] == 4]
    table.branches.merge("fix")
    assert logged_rows(log, table) == [
        (1, "+I", 1, "a"),
        (1, "+I", 2, "b"),
        (2, "-D", 1, "a"),
        (3, "-D", 2, "b"),
        (3, "+I", 3, "c"),
        (5, "+I", 1, "a"),
        (5, "+I", 2, "b"),
        (5, "-D", 3, "c"),
        (5, "-D", 9, "unseen"),
        (6, "+I", 4, "d"),
    ]
    position = log.position(topic_of(log, table))
    latest = table.snapshot()
    assert position is not None and latest is not None
    assert (position.snapshot_id, position.identity) == (latest.id, latest.identity)


def test_a_log_says_how_far_it_has_come(catalog: Catalog, log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(catalog)
    assert (table.log.status().sent, table.log.status().behind) == (0, 0)
    table.write(rows((1, "a")))

    def away(*_: object) -> None:
        raise StoreUnavailable("Kafka does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryLog, "publisher", away)
        patch.setattr(publish, "_REST_SECONDS", 0.0)
        snapshot = table.write(rows((2, "b")))
        assert snapshot is not None and snapshot.id == 2
    status = table.log.status()
    assert (status.sent, status.latest, status.behind) == (1, 2, 1)
    assert "sending to the log has failed" in status.trouble
    assert all(isinstance(each, FailedWork) for each in table.check()) and len(table.check()) == 2
    assert table.log.catch_up() == 2
    assert (table.log.status().behind, table.check()) == (0, [])
    assert table.log.rebuild() == 2
    plain = catalog.create_table("a.plain", COLUMNS)
    for act in (plain.log.status, plain.log.catch_up, plain.log.rebuild):
        with pytest.raises(InvalidRequest, match="has no log"):
            act()
    assert sorted(k for step in plain.follow() for k in step.rows["k"].to_pylist()) == []


def test_rows_of_which_a_compaction_tells_are_followed_once_and_the_status_says_that_they_wait(
    catalog: Catalog, log: MemoryLog
) -> None:
    table = made(catalog, {"changelog-producer": "full-compaction", "log.changelog-mode": "all"})
    table.write(rows((1, "a"), (2, "b")))
    assert table.log.status().waits
    stream = table.follow()
    changes = [row for step in stream for row in step.rows.to_pylist()]
    table.compact(full=True)
    assert not table.log.status().waits
    changes += [row for step in stream for row in step.rows.to_pylist()]
    assert sorted((row["rowkind"], row["k"]) for row in changes) == [("+I", 1), ("+I", 2)]


def test_a_stream_does_not_wait_for_a_snapshot_that_is_far_off(catalog: Catalog, log: MemoryLog) -> None:
    table = made(catalog)
    table.write(rows((1, "a")))
    with pytest.raises(NotFound, match=r"Snapshot 99 of .* does not exist: the latest is 1"):
        table.follow("from-snapshot", snapshot_id=99)
    table.follow("from-snapshot", snapshot_id=2)


def test_a_log_that_does_not_answer_is_left_alone_for_a_while(
    catalog: Catalog, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def away(self: MemoryLog, name: str) -> None:
        asked.append(name)
        raise StoreUnavailable("Kafka does not answer.")

    table = made(catalog)
    monkeypatch.setattr(publish, "_resting_until", {})
    with monkeypatch.context() as patch:
        patch.setattr(MemoryLog, "find_topic", away)
        for number in range(3):
            table.write(rows((number, "a")))
        # Why nothing is sent is said all the while.
        [trouble] = table.troubles()
        assert "Kafka does not answer. It is left alone for 30 s" in trouble.error
    assert len(asked) == 1
    assert table.log.catch_up() == 3 and table.troubles() == []
    table.write(rows((4, "d")))
    assert table.log.status().behind == 0


def test_a_consumer_lifetime_does_not_let_go_what_was_not_sent(
    catalog: Catalog, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(catalog, {"consumer.expiration-time": "1 ms"})
    with monkeypatch.context() as patch:
        patch.setattr(MemoryLog, "publisher", lambda *_: 1 / 0)
        for number in range(3):
            table.write(rows((number, "a")))
    table.expire(retain_last=1)
    assert table.snapshots.earliest_id() == 1
    table.log.catch_up()
    table.expire(retain_last=1)
    assert table.snapshots.earliest_id() == 3
