"""Kafka tables on a real broker: written and read in SQL, and by a client that knows nothing of them."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from resources import Session
from storage import CorruptData, InvalidRequest, NotFound, StorageError
from storage.engines.kafka_rows import scan_topic, with_options, write_topic
from storage.kafka import fetch

Define = Callable[..., None]
Send = Callable[..., None]


@pytest.fixture
def topic(broker: str, topic_name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic_name, 2, 1)])[topic_name].result(30)
    return topic_name


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", str(tmp_path / "warehouse"))
    return Session()


@pytest.fixture
def define(session: Session, broker: str, topic: str) -> Define:
    """Creates the table `t` on the topic, read from its start to its end."""

    def run(columns: str, **options: str) -> None:
        given = {
            "connector": "kafka",
            "topic": topic,
            "properties.bootstrap.servers": broker,
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
            **{key.replace("__", "-").replace("_", "."): value for key, value in options.items()},
        }
        if given["connector"] == "upsert-kafka":
            del given["scan.startup.mode"]
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        session.sql(f"CREATE TABLE t ({columns}) WITH ({listed})", "duckdb")

    return run


@pytest.fixture
def send(broker: str, topic: str) -> Send:
    """Sends a record with a plain client."""
    producer = Producer({"bootstrap.servers": broker})

    def run(value: Any, key: bytes | None = None, partition: int = 0, **more: Any) -> None:
        content = value if isinstance(value, bytes | None) else json.dumps(value).encode()
        producer.produce(topic, content, key, partition, **more)
        assert producer.flush(30) == 0

    return run


def records(broker: str, topic: str) -> list[Any]:
    """All records that are committed, by a plain client, in the order of their values."""
    consumer = Consumer(
        {"bootstrap.servers": broker, "group.id": "plain", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    messages, ended = [], 0
    while ended < 2:
        for message in consumer.consume(1000, 10):
            if message.error():
                ended += 1
            else:
                messages.append(message)
    consumer.close()
    return sorted(messages, key=lambda each: each.value() or b"")


def rows(session: Session, text: str, engine: str = "duckdb") -> list[tuple[Any, ...]]:
    result = session.sql(text, engine)
    table = result.rows if result.rows is not None else result.frame.toArrow()
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=str)


def test_key_and_value_of_flip_107(session: Session, define: Define, broker: str, topic: str) -> None:
    """All fields of the key are in the value as well."""
    define(
        "id BIGINT, name STRING, col1 INT, col2 INT",
        key_fields="id, name",
        key_format="csv",
        value_format="json",
        fields_verify__integrity="true",
    )
    session.sql("INSERT INTO t VALUES (1, 'ABC', 100, 200)", "duckdb")
    [record] = records(broker, topic)
    assert record.key() == b"1,ABC"
    assert record.value() == b'{"id":1,"name":"ABC","col1":100,"col2":200}'
    assert rows(session, "SELECT * FROM t") == [(1, "ABC", 100, 200)]


def test_value_without_the_key_of_flip_107(session: Session, define: Define, broker: str, topic: str) -> None:
    define(
        "k_id BIGINT, k_name STRING, col1 INT",
        key_fields="k_id;k_name",
        key_fields__prefix="k_",
        key_format="json",
        value_format="json",
        value_fields__include="EXCEPT_KEY",
    )
    session.sql("INSERT INTO t VALUES (1, 'ABC', 100)", "duckdb")
    [record] = records(broker, topic)
    assert record.key() == b'{"id":1,"name":"ABC"}' and record.value() == b'{"col1":100}'
    assert rows(session, "SELECT col1, k_name FROM t") == [(100, "ABC")]


@pytest.mark.parametrize("name", ["csv", "avro", "json"])
def test_some_columns_of_a_message_are_those_of_the_whole(session: Session, define: Define, name: str) -> None:
    """Messages of some formats are read by position: what a query leaves out is in them all the same."""
    define(
        "a INT, b STRING, k INT, c BIGINT, l STRING",
        key_fields="l;k",
        key_format="csv",
        value_format=name,
        value_fields__include="EXCEPT_KEY",
    )
    session.sql("INSERT INTO t VALUES (1, 'x', 7, 10, 'm'), (2, NULL, 8, 20, 'n')", "duckdb")
    for columns in ("c", "b, a", "k", "c, l", "l, k, b"):
        of_all = rows(session, f"SELECT {columns} FROM (SELECT a, b, k, c, l FROM t)")
        assert rows(session, f"SELECT {columns} FROM t") == of_all
    assert rows(session, "SELECT c, k FROM t") == [(10, 7), (20, 8)]
    assert rows(session, "SELECT count(*) FROM t") == [(2,)]


def test_every_metadata_key_of_a_record_is_read(session: Session, define: Define, send: Send, topic: str) -> None:
    headers = [("a", b"1"), ("b", None), ("a", b"2")]
    send({"id": 1}, b"key", 1, timestamp=1714564800123, headers=headers)
    define(
        """id BIGINT, topic STRING METADATA VIRTUAL, p BIGINT METADATA FROM 'partition' VIRTUAL,
        headers MAP<STRING, BYTES> METADATA, texts MAP<STRING, STRING> METADATA FROM 'headers' VIRTUAL,
        listed ARRAY<ROW<key STRING, value BYTES>> METADATA FROM 'header-list' VIRTUAL,
        epoch INT METADATA FROM 'leader-epoch' VIRTUAL, `offset` INT METADATA VIRTUAL,
        `timestamp` TIMESTAMP(3) WITH LOCAL TIME ZONE METADATA, millis BIGINT METADATA FROM 'timestamp' VIRTUAL,
        plain TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, kind STRING METADATA FROM 'timestamp-type' VIRTUAL""",
        format="json",
    )
    table = session.catalog.kafka_tables.get("default.t")
    assert table is not None
    scan, ranges = scan_topic(table)
    [row] = scan.to_arrow(ranges).to_pylist()
    assert list(row) == [column.name for column in table.columns]
    assert (row["id"], row["topic"], row["p"], row["epoch"], row["offset"]) == (1, topic, 1, 0, 0)
    assert dict(row["headers"]) == {"a": b"2", "b": None} and dict(row["texts"]) == {"a": "2", "b": None}
    assert [tuple(each.values()) for each in row["listed"]] == headers
    moment = datetime(2024, 5, 1, 12, 0, 0, 123000)
    assert (row["timestamp"], row["plain"], row["millis"]) == (moment.replace(tzinfo=UTC), moment, 1714564800123)
    assert row["kind"] == "CreateTime"


def test_only_what_a_query_needs_is_asked_of_the_records(
    session: Session, define: Define, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    send({"id": 1, "name": "broken", "many": "x"})
    define(
        "id BIGINT, name STRING, many INT, `offset` BIGINT METADATA VIRTUAL, `timestamp` BIGINT METADATA,"
        " headers MAP<STRING, BYTES> METADATA",
        format="json",
    )
    asked: list[str] = []
    for key, column in fetch._COLUMNS.items():
        monkeypatch.setitem(fetch._COLUMNS, key, lambda each, key=key, column=column: asked.append(key) or column(each))
    assert rows(session, "SELECT id FROM t") == [(1,)]
    assert asked == []
    assert rows(session, "SELECT `offset` * 2 FROM t WHERE id = 1") == [(0,)]
    assert asked == ["offset"]
    asked.clear()
    # In the order of the connector's listing, whatever that of the columns.
    table = session.catalog.kafka_tables.get("default.t")
    assert table is not None
    scan, ranges = scan_topic(table, ["timestamp", "offset", "headers"])
    assert scan.requested("connector") == ("headers", "offset", "timestamp")
    assert scan.to_arrow(ranges).column_names == ["timestamp", "offset", "headers"]
    with pytest.raises(CorruptData, match="Field 'many'"):
        rows(session, "SELECT * FROM t")


def test_metadata_is_written_on_both_engines(
    spark_home: Path, session: Session, define: Define, broker: str, topic: str
) -> None:
    define(
        """id BIGINT, name STRING, event_time TIMESTAMP(3) WITH LOCAL TIME ZONE METADATA FROM 'timestamp',
        headers MAP<STRING, BYTES> METADATA, `offset` BIGINT METADATA VIRTUAL, later AS id + 1""",
        value_format="json",
    )
    # An older record would be deleted at once.
    now = datetime.now(UTC).replace(microsecond=123000)
    insert = f"INSERT INTO t VALUES (1, 'ABC', TIMESTAMP '{now.isoformat()}', MAP('checksum', X'01FF'))"
    session.sql(insert, "spark")
    session.sql("INSERT INTO t (name, id) VALUES ('left out', 2)", "duckdb")
    session.sql("INSERT INTO t SELECT id + 10, name, NULL, NULL FROM t", "spark")
    records_by_id = {json.loads(each.value())["id"]: each for each in records(broker, topic)}
    assert sorted(records_by_id) == [1, 2, 11, 12]
    assert records_by_id[1].headers() == [("checksum", b"\x01\xff")] and records_by_id[1].timestamp()[1] == round(
        now.timestamp() * 1000
    )
    assert not records_by_id[2].headers() and records_by_id[2].timestamp()[1] > now.timestamp() * 1000
    query = "SELECT id, name, later FROM t WHERE id < 11"
    assert rows(session, query, "spark") == rows(session, query) == [(1, "ABC", 2), (2, "left out", 3)]
    for column, kind in (("offset", "VIRTUAL"), ("later", "computed")):
        with pytest.raises(InvalidRequest, match=f"is {kind}: it is read, and not written"):
            session.sql(f"INSERT INTO t (id, `{column}`) VALUES (1, 2)", "duckdb")
    with pytest.raises(InvalidRequest, match="takes 4 columns"):
        session.sql("INSERT INTO t VALUES (1, 'x')", "duckdb")


def test_connector_and_format_both_tell_metadata(session: Session, define: Define, send: Send) -> None:
    """FLIP-107's Canal message."""
    head = {"database": "inventory", "table": "products", "es": 1589374013000, "ts": 1589374013680}
    send({**head, "data": [{"id": "102", "name": "car battery"}, {"id": "103", "name": "x"}], "type": "INSERT"})
    send({**head, "data": [{"id": "102", "name": "car battery"}], "type": "DELETE"})
    define(
        """id BIGINT, name STRING, event_timestamp BIGINT METADATA FROM 'canal-json.ingestion-timestamp' VIRTUAL,
        db STRING METADATA FROM 'value.database' VIRTUAL, `offset` BIGINT METADATA VIRTUAL,
        PRIMARY KEY (id) NOT ENFORCED""",
        value_format="canal-json",
    )
    assert rows(session, "SELECT * FROM t") == [(103, "x", 1589374013680, "inventory", 0)]
    table = session.catalog.kafka_tables.get("default.t")
    assert table is not None
    scan, ranges = scan_topic(table, ["id", "offset"])
    [(changed, kinds)] = scan.changes(ranges)
    assert changed.to_pylist() == [{"id": 102, "offset": 0}, {"id": 103, "offset": 0}, {"id": 102, "offset": 1}]
    assert kinds.to_pylist() == [0, 0, 3]


def test_a_malformed_record_is_told_or_left_out_and_counted(
    session: Session, define: Define, send: Send, topic: str
) -> None:
    send({"id": 1})
    send(b"\x00broken")
    send({"id": 2})
    send(None)
    define("id BIGINT", format="json")
    with pytest.raises(CorruptData) as raised:
        rows(session, "SELECT * FROM t")
    assert f"record at partition 0 of '{topic}', offset 1 is no json: It is no JSON" in str(raised.value)
    assert "It is b'\\x00broken'" in str(raised.value)
    table = session.catalog.kafka_tables.get("default.t")
    assert table is not None
    scan, ranges = scan_topic(with_options(table, {"json.ignore-parse-errors": "true"}))
    assert scan.to_arrow(ranges).column("id").to_pylist() == [1, 2]
    assert scan.skipped == 1


def test_upserts_are_rows_and_tombstones(session: Session, define: Define, send: Send, broker: str, topic: str) -> None:
    define(
        "id BIGINT, name STRING, `offset` BIGINT METADATA VIRTUAL, PRIMARY KEY (id) NOT ENFORCED",
        connector="upsert-kafka",
        key_format="json",
        value_format="json",
    )
    session.sql("INSERT INTO t VALUES (1, 'one'), (2, 'two')", "duckdb")
    session.sql("INSERT INTO t VALUES (1, 'uno')", "duckdb")
    assert rows(session, "SELECT id, name FROM t") == [(1, "uno"), (2, "two")]
    table = session.catalog.kafka_tables.get("default.t")
    assert table is not None
    gone = pa.table({"id": [2, 3], "name": ["two", "three"]})
    assert write_topic(table, [gone], [pa.array([3, 2], pa.int8())]) == 2
    assert [each.key() for each in records(broker, topic) if each.value() is None] == [b'{"id":2}']
    assert rows(session, "SELECT id, name FROM t") == [(1, "uno"), (3, "three")]
    assert rows(session, "SELECT count(*) FROM t") == [(2,)]
    send({"id": 5}, None)
    with pytest.raises(CorruptData, match="has no key"):
        rows(session, "SELECT * FROM t")


def test_a_row_of_a_topic_has_its_key(session: Session, define: Define) -> None:
    columns = "id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED"
    define(columns, connector="upsert-kafka", key_format="json", value_format="json")
    with pytest.raises(InvalidRequest, match="part of the PRIMARY KEY"):
        session.sql("INSERT INTO t VALUES (NULL, 'one')", "duckdb")


def test_what_could_not_be_read_again_is_not_written(session: Session, define: Define) -> None:
    define("id BIGINT", format="debezium-json", **{"debezium-json_schema__include": "true"})
    with pytest.raises(InvalidRequest, match="written without a schema"):
        session.sql("INSERT INTO t VALUES (1)", "duckdb")


def test_a_query_leaves_out_what_it_says(session: Session, define: Define, send: Send) -> None:
    define("id BIGINT", format="json")
    send(b"broken")
    send({"id": 1})
    with pytest.raises(CorruptData, match=r"or in OPTIONS\(…\) of the query"):
        rows(session, "SELECT * FROM t")
    assert rows(session, "SELECT * FROM t /*+ OPTIONS('value.json.ignore-parse-errors' = 'true') */") == [(1,)]
    with pytest.raises(InvalidRequest, match="is none of a Kafka table that is read"):
        rows(session, "SELECT * FROM t /*+ OPTIONS('key.json.ignore-parse-errors' = 'true') */")
    with pytest.raises(NotFound, match="It is a Kafka table, which has no snapshots"):
        rows(session, "SELECT * FROM `t$snapshots`")
    with pytest.raises(InvalidRequest, match="is a Kafka table, which keeps its name"):
        session.sql("ALTER TABLE t RENAME TO s", "duckdb")
    shown = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'default'"
    assert rows(session, shown) == [("t", "id")]


def test_a_record_whose_key_cannot_be_read_is_left_out_whole(session: Session, define: Define, send: Send) -> None:
    define("id BIGINT, v STRING", format="json", key_format="json", key_fields="id", value_fields__include="EXCEPT_KEY")
    send({"v": "one"}, key=b'{"id": 1}')
    send({"v": "badkey"}, key=b"raw")
    send({"v": "three"}, key=b'{"id": 3}')
    hint = "/*+ OPTIONS('key.json.ignore-parse-errors' = 'true') */"
    assert rows(session, f"SELECT id, v FROM t {hint}") == [(1, "one"), (3, "three")]


def test_with_exactly_once_a_statement_that_fails_leaves_nothing(
    session: Session, define: Define, broker: str, topic: str
) -> None:
    define(
        "a DOUBLE",
        format="json",
        sink_delivery__guarantee="exactly-once",
        sink_transactional__id__prefix=f"snapline-{topic}",
    )
    session.sql("INSERT INTO t VALUES (1), (2)", "duckdb")
    table = session.catalog.kafka_tables.get("default.t")
    assert table is not None
    batches = [pa.table({"a": [3.0]}), pa.table({"a": [float("nan")]})]
    with pytest.raises(InvalidRequest, match="NaN"):
        write_topic(table, batches)
    assert rows(session, "SELECT * FROM t") == [(1.0,), (2.0,)]
    dirty = "SELECT count(*) FROM t /*+ OPTIONS('scan.isolation' = 'read_uncommitted') */"
    assert rows(session, dirty)[0][0] >= 2


def test_a_read_begins_and_ends_where_it_is_told(
    session: Session, define: Define, send: Send, broker: str, topic: str
) -> None:
    # Older records would be deleted at once.
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    for number in range(4):
        send({"id": number}, partition=number % 2, timestamp=now_ms + number)
    define("id BIGINT", format="json")

    def ids(**options: Any) -> list[int]:
        listed = ", ".join(
            f"'{key.replace('__', '-').replace('_', '.')}' = '{value}'" for key, value in options.items()
        )
        return [row[0] for row in rows(session, f"SELECT id FROM t /*+ OPTIONS({listed}) */")]

    assert ids(scan_startup_mode="latest-offset") == []
    assert ids(scan_startup_mode="timestamp", scan_startup_timestamp__millis=now_ms + 2) == [2, 3]
    places = "partition:0,offset:1;partition:1,offset:0"
    assert ids(scan_startup_mode="specific-offsets", scan_startup_specific__offsets=places) == [1, 2, 3]
    assert ids(scan_bounded_mode="specific-offsets", scan_bounded_specific__offsets=places) == [0]
    assert ids(scan_bounded_mode="timestamp", scan_bounded_timestamp__millis=now_ms + 2) == [0, 1]
    group = Consumer({"bootstrap.servers": broker, "group.id": topic, "enable.auto.commit": False})
    group.commit(offsets=[TopicPartition(topic, 0, 1), TopicPartition(topic, 1, 2)], asynchronous=False)
    group.close()
    assert ids(scan_startup_mode="group-offsets", properties_group_id=topic) == [2]
    with pytest.raises(InvalidRequest, match="has committed no offset"):
        ids(scan_startup_mode="group-offsets", properties_group_id=f"{topic}-other")
    with pytest.raises(InvalidRequest, match=r"needs 'properties\.group\.id'"):
        ids(scan_startup_mode="group-offsets")
    with pytest.raises(InvalidRequest, match="t has no end"):
        ids(scan_bounded_mode="unbounded")
    with pytest.raises(InvalidRequest, match="says nothing of partition 1"):
        ids(scan_startup_mode="specific-offsets", scan_startup_specific__offsets="partition:0,offset:0")
    with pytest.raises(InvalidRequest, match="which ends at 2"):
        ids(scan_startup_mode="specific-offsets", scan_startup_specific__offsets=places.replace("set:1", "set:9"))
    admin = AdminClient({"bootstrap.servers": broker})
    admin.delete_records([TopicPartition(topic, 0, 1)])[TopicPartition(topic, 0, 1)].result(30)
    zero = "partition:0,offset:0;partition:1,offset:0"
    with pytest.raises(InvalidRequest, match="what is before 1 is gone"):
        ids(scan_startup_mode="specific-offsets", scan_startup_specific__offsets=zero)
    assert ids() == [1, 2, 3]


def test_a_key_that_differs_from_its_value_is_found(session: Session, define: Define, send: Send, topic: str) -> None:
    send({"id": 1}, b'{"id": 1}')
    send({"id": 2}, None)
    send({}, b'{"id": 3}')
    define("id BIGINT", key_format="json", key_fields="id", value_format="json", fields_verify__integrity="true")
    # What is compared is not changed: with the key's field missing in the value, the row has none.
    assert rows(session, "SELECT id FROM t") == [(1,), (2,), (None,)]
    send({"id": 4}, b'{"id": 5}')
    with pytest.raises(CorruptData, match="offset 3 is 5 in the key and 4 in the value"):
        rows(session, "SELECT id FROM t")


def test_dropping_a_table_leaves_its_topic(
    session: Session, define: Define, send: Send, broker: str, topic: str
) -> None:
    send({"id": 1})
    define("id BIGINT", format="json")
    assert rows(session, "SHOW TABLES") == [("t",)]
    assert "its topic stays" in session.sql("DROP TABLE t", "duckdb").message
    assert rows(session, "SHOW TABLES") == [] and len(records(broker, topic)) == 1
    define("id BIGINT", format="json", topic=f"{topic}-none")
    with pytest.raises(NotFound, match=f"There is no topic '{topic}-none'"):
        rows(session, "SELECT * FROM t")
    with pytest.raises(NotFound, match="no such topic"):
        session.sql("INSERT INTO t VALUES (1)", "duckdb")


def test_a_table_like_another_one_has_its_columns_and_options(
    session: Session, define: Define, broker: str, topic: str
) -> None:
    define(
        "id BIGINT, name STRING, `offset` BIGINT METADATA VIRTUAL, next AS id + 1",
        key_fields="id",
        key_format="csv",
        value_format="json",
    )
    session.sql("CREATE TABLE same LIKE t", "duckdb")
    session.sql(
        "CREATE TABLE first LIKE t WITH ('scan.bounded.mode' = 'specific-offsets', "
        "'scan.bounded.specific-offsets' = 'partition:0,offset:0;partition:1,offset:0')",
        "duckdb",
    )
    session.sql("INSERT INTO same VALUES (1, 'one')", "duckdb")
    for name in ("t", "same"):
        assert rows(session, f"SELECT id, name, `offset`, next FROM {name}") == [(1, "one", 0, 2)]
    assert rows(session, "SELECT * FROM first") == []
    with pytest.raises(InvalidRequest, match="list none"):
        session.sql("CREATE TABLE other (a INT) LIKE t", "duckdb")
    with pytest.raises(InvalidRequest, match=r"scan\.startup\.mode"):
        session.sql("CREATE TABLE other LIKE t WITH ('scan.startup.mode' = 'sometimes')", "duckdb")


def test_a_table_of_the_store_is_sent_to_a_topic_like_it(session: Session, broker: str, topic: str) -> None:
    session.sql("CREATE TABLE s (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED)", "duckdb")
    session.sql("INSERT INTO s VALUES (1, 'one'), (2, 'two')", "duckdb")
    options = f"'topic' = '{topic}', 'properties.bootstrap.servers' = '{broker}', 'scan.bounded.mode' = 'latest-offset'"
    session.sql(
        f"CREATE TABLE k LIKE s WITH ('connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json', {options})",
        "duckdb",
    )
    session.sql("INSERT INTO k SELECT * FROM s", "duckdb")
    assert sorted(each.key() for each in records(broker, topic)) == [b'{"id":1}', b'{"id":2}']
    assert rows(session, "SELECT id, name FROM k") == [(1, "one"), (2, "two")]


def test_a_definition_is_replaced_and_others_of_its_name_are_not(session: Session, define: Define, topic: str) -> None:
    define("id BIGINT", format="json")
    options = session.sql("SHOW CREATE TABLE t", "duckdb").rows.to_pylist()[0]
    text = next(iter(options.values()))
    session.sql(
        text.replace("CREATE TABLE", "CREATE OR REPLACE TABLE").replace("`id` BIGINT", "`id` BIGINT, `x` INT"), "duckdb"
    )
    session.sql("INSERT INTO t VALUES (1, 2)", "duckdb")
    assert rows(session, "SELECT x, id FROM t") == [(2, 1)]
    session.sql("CREATE TABLE s (id INT)", "duckdb")
    with pytest.raises(StorageError, match=r"default\.s "):
        session.sql(text.replace("CREATE TABLE", "CREATE OR REPLACE TABLE").replace("`t`", "`s`"), "duckdb")


@pytest.mark.parametrize("text", [b'{"id":1,}', b'{"id":1,"b":[1,]}', b'{"id":1,"c":NaN}', b'{"id":1,"c":-Infinity }'])
def test_what_only_duckdb_takes_for_json_is_none(session: Session, define: Define, send: Send, text: bytes) -> None:
    send(text)
    send(b'{"id":2,"b":",]","c":"x: nan, [inf]"}')
    define("id BIGINT, c STRING", format="json")
    with pytest.raises(CorruptData, match="offset 0 is no json: It is no JSON"):
        rows(session, "SELECT id FROM t")
    lenient = "SELECT id FROM t /*+ OPTIONS('value.json.ignore-parse-errors' = 'true') */"
    assert rows(session, lenient) == [(2,)]


def test_a_change_without_its_key_is_none(session: Session, define: Define, send: Send) -> None:
    """Else all those whose keys cannot be read would be changes of one row."""
    for op, side, key in (("c", "after", "x1"), ("c", "after", 3), ("d", "before", "x2")):
        send({"op": op, "before": None, "after": None, side: {"id": key, "s": "of a row"}})
    define("id INT, s STRING, PRIMARY KEY (id) NOT ENFORCED", format="debezium-json")
    lenient = "/*+ OPTIONS('value.debezium-json.ignore-parse-errors' = 'true') */"
    assert rows(session, f"SELECT * FROM t {lenient}") == [(3, "of a row")]
    send({"op": "c", "before": None, "after": {"id": None, "s": "of none"}})
    offsets = "partition:0,offset:3;partition:1,offset:0"
    begin = f"'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = '{offsets}'"
    with pytest.raises(CorruptData, match="offset 3 changes a row whose 'id' is NULL"):
        rows(session, f"SELECT * FROM t /*+ OPTIONS({begin}) */")


def test_new_tables_get_the_log_that_the_session_says(session: Session, broker: str) -> None:
    """FLIP-188's `SET 'table-storage.…'`: options of a log go together, and are given one by one."""
    servers = f"SET 'table-storage.log.kafka.bootstrap.servers' = '{broker}'"
    made = "CREATE TABLE logged (id INT PRIMARY KEY NOT ENFORCED); INSERT INTO logged VALUES (1)"
    session.sql(
        f"SET 'table-storage.log.system' = 'kafka'; {servers}; SET 'table-storage.log.retention' = '1 h'; {made}",
        "duckdb",
    )
    table = session.table("default.logged")
    assert table.schema.options["log.retention"] == "1 h" and table.log.status().behind == 0
    session.sql("RESET 'table-storage.log.system'; RESET 'table-storage.log.retention'", "duckdb")
    for key, value in (("log.system", ""), ("log.retention", "x"), ("kafka.linger.ms", "x"), ("log.nope", "1")):
        with pytest.raises(StorageError, match=key):
            session.sql(f"SET 'table-storage.{key}' = '{value}'", "duckdb")
