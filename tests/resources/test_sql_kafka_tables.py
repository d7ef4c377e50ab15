"""Kafka tables in the catalog: what CREATE TABLE refuses, what is shown of them, and that no broker is needed for that."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from resources import Session
from storage import AlreadyExists, CorruptData, InvalidRequest, StorageError
from storage.data_types import parse_type
from storage.kafka.metadata_casts import cast_metadata
from storage.log import log_systems
from storage.log.memory_log import MemoryLog

OPTIONS = {"connector": "kafka", "topic": "t", "properties.bootstrap.servers": "localhost:1", "format": "json"}
KEYED = {"key.format": "json", "key.fields": "id"}


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SNAPLINE_WAREHOUSE", str(tmp_path / "warehouse"))
    return Session()


def create(session: Session, columns: str, name: str = "t", **more: str | None) -> None:
    given = {**OPTIONS, **{key.replace("__", "-").replace("_", "."): value for key, value in more.items()}}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items() if value is not None)
    session.sql(f"CREATE TABLE {name} ({columns}) WITH ({listed})", "duckdb")


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        (
            "id INT, x INT METADATA",
            {},
            "'x' of table default.t. Keys that can be read: topic, p",
        ),
        ("id INT, x INT METADATA FROM 'json.ts' VIRTUAL", {}, "Invalid metadata key 'json.ts'"),
        ("id INT, `offset` BOOLEAN METADATA VIRTUAL", {}, "BOOLEAN cannot be made from BIGINT NOT NULL"),
        ("id INT, headers STRING METADATA", {}, "STRING cannot be made from MAP<"),
        ("id INT, `timestamp` DATE METADATA VIRTUAL", {}, "DATE cannot be made from TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("id INT, e INT NOT NULL METADATA FROM 'leader-epoch' VIRTUAL", {}, "'leader-epoch' may be null"),
        (
            "id INT, id INT METADATA FROM 'partition'",
            {},
            "Duplicate columns exist in the metadata column and regular column",
        ),
        ("`offset` BIGINT METADATA VIRTUAL", {}, "has no physical column"),
        ("id INT", {"topic": None}, "needs 'topic'"),
        ("id INT", {"topic": "a;a"}, "names a topic twice"),
        ("id INT", {"properties_bootstrap_servers": None}, "needs 'properties.bootstrap.servers'"),
        ("id INT", {"format": None}, "needs a format of its values"),
        ("id INT", {"value_format": "csv"}, "are one option: give one"),
        ("id INT", {"format": "yaml"}, "Format 'yaml' is not known. Formats: json, debezium-json, canal-json"),
        ("id INT", {"jsn": "x"}, "Option 'jsn' is none of a Kafka table"),
        ("id INT", {"json_encode_decimal__as__plain__number": "false"}, "plain-number' = 'false'. Supported: true"),
        ("id INT", {"json_ignore": "x"}, "Format 'json' has no option 'json.ignore'"),
        ("id INT", {"properties_auto_offset_reset": "latest"}, "is set by the connector"),
        ("id INT", {"properties_plugin_library_paths": "/tmp/x"}, "cannot be set in a table"),
        ("id INT", {"properties_sasl_password": "x"}, "cannot be set in a table"),
        ("id INT", {"scan_startup_mode": "sometimes"}, "Supported: group-offsets, earliest-offset"),
        ("id INT", {"scan_startup_mode": "timestamp"}, "needs 'scan.startup.timestamp-millis'"),
        ("id INT", {"scan_startup_timestamp__millis": "5"}, "goes with 'scan.startup.mode' = 'timestamp'"),
        (
            "id INT",
            {"scan_bounded_mode": "specific-offsets", "scan_bounded_specific__offsets": "0:5"},
            "is not of the form 'partition:0,offset:42;partition:1,offset:300'",
        ),
        ("id INT", {"topic__pattern": "a.*"}, "Option 'topic-pattern' is not supported here"),
        ("id INT", {"sink_delivery__guarantee": "exactly-once"}, "needs 'sink.transactional-id-prefix'"),
        ("id INT", {"sink_transactional__id__prefix": "a"}, "and that is 'at-least-once'"),
        ("id INT", {"properties_acks": "0"}, "goes with 'sink.delivery-guarantee' = 'none'"),
        ("id INT", {"properties_security_protocol": "SASL_SSL"}, "'PLAINTEXT' and 'SSL' are supported"),
        ("id INT", {"key_format": "json", "key_fields": "id;id"}, "names 'id' twice"),
        ("id INT", {"key_fields": "id"}, "can only be declared if a key format is defined"),
        ("id INT", {"key_format": "json"}, "requires the declaration of one or more of key fields"),
        (
            "id INT",
            {"key_format": "json", "key_fields": "nr"},
            "names 'nr', which is no physical column: id",
        ),
        (
            "id INT",
            {"key_format": "json", "key_fields": "id", "key_fields__prefix": "k_"},
            "A key prefix is not allowed",
        ),
        (
            "id INT, v INT",
            {
                "key_format": "json",
                "key_fields": "id",
                "key_fields__prefix": "k_",
                "value_fields__include": "EXCEPT_KEY",
            },
            "Key field 'id' does not start with",
        ),
        ("id INT", {"fields_verify__integrity": "true"}, "it needs 'key.format'"),
        ("id INT", {"value_fields__include": "EXCEPT_KEY"}, "them by 'key.fields'"),
        ("id INT, PRIMARY KEY (id) NOT ENFORCED", {}, "inserts rows only"),
        ("id INT", {"key_format": "debezium-json", "key_fields": "id"}, "which a key has none of"),
        ("id INT", {"connector": "upsert-kafka", "key_format": "json"}, "needs a PRIMARY KEY"),
        ("id INT, PRIMARY KEY (id) NOT ENFORCED", {"connector": "upsert-kafka"}, "needs 'key.format'"),
        (
            "id INT, PRIMARY KEY (id) NOT ENFORCED",
            {"connector": "upsert-kafka", "key_format": "json", "format": "debezium-json"},
            "because 'debezium-json' is not in insert-only mode",
        ),
        (
            "id INT, PRIMARY KEY (id) NOT ENFORCED",
            {"connector": "upsert-kafka", "key_format": "json", "sink_buffer__flush_max__rows": "5"},
            "Every row of a statement is sent",
        ),
        ("m MAP<INT, INT>", {}, "Declare the keys of the map as STRING"),
        ("id INT, c AS nothing + 1", {}, "nothing"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(
    session: Session, columns: str, options: dict[str, str | None], reason: str
) -> None:
    with pytest.raises(StorageError) as raised:
        create(session, columns, **options)
    assert reason in str(raised.value)
    assert session.catalog.kafka_tables.names("default") == []


def test_a_column_that_cannot_be_written_is_refused_by_insert_alone(session: Session) -> None:
    create(session, "id INT, `offset` BIGINT METADATA")
    with pytest.raises(
        InvalidRequest, match=r"it cannot be written\. Keys that can: headers.*Declare the column VIRTUAL"
    ):
        session.sql("INSERT INTO t VALUES (1, 2)", "duckdb")
    create(session, "id INT", "several", topic="a;b")
    with pytest.raises(InvalidRequest, match="reads several topics"):
        session.sql("INSERT INTO several VALUES (1)", "duckdb")


def test_a_table_is_described_and_shown_as_it_was_declared(session: Session) -> None:
    columns = """`offset` BIGINT METADATA VIRTUAL COMMENT 'where', twice AS id * 2, id BIGINT NOT NULL COMMENT 'number',
        at TIMESTAMP(3) WITH LOCAL TIME ZONE METADATA FROM 'timestamp', WATERMARK FOR at AS at - INTERVAL '5' SECOND"""
    create(session, columns)
    described = session.sql("DESCRIBE t", "duckdb").rows
    assert described is not None
    assert described.column("name").to_pylist() == ["offset", "twice", "id", "at"]
    assert described.column("comment").to_pylist()[0] == "METADATA FROM 'offset' VIRTUAL where"
    extended = session.sql("DESCRIBE EXTENDED t", "duckdb").rows
    assert extended is not None and {"kind": "property", "name": "topic", "value": "t"} in extended.to_pylist()
    shown = session.sql("SHOW CREATE TABLE t", "duckdb").rows
    assert shown is not None
    session.sql("DROP TABLE t", "duckdb")
    [statement] = shown.column("statement").to_pylist()
    session.sql(statement, "duckdb")
    again = session.sql("SHOW CREATE TABLE t", "duckdb").rows
    assert again is not None and again.column("statement").to_pylist() == [statement]


def test_a_name_is_one_tables_alone(session: Session) -> None:
    create(session, "id INT")
    create(session, "id INT", "IF NOT EXISTS t")
    for statement in ("CREATE TABLE t (id INT)", "CREATE VIEW t AS SELECT 1 AS a"):
        with pytest.raises(AlreadyExists):
            session.sql(statement, "duckdb")
    session.sql("CREATE TABLE plain (id INT)", "duckdb")
    with pytest.raises(AlreadyExists):
        create(session, "id INT", "plain")
    assert session.catalog.tables() == ["default.plain"]
    assert session.sql("SHOW TABLES", "duckdb").rows.column("table").to_pylist() == ["plain", "t"]
    for statement in ("DELETE FROM t", "ALTER TABLE t SET ('topic' = 'x')", "TRUNCATE TABLE t"):
        with pytest.raises(InvalidRequest, match="is a Kafka table: it takes SELECT, INSERT INTO"):
            session.sql(statement, "duckdb")


def test_a_database_with_kafka_tables_goes_with_cascade_alone(session: Session) -> None:
    session.sql("CREATE DATABASE d", "duckdb")
    create(session, "id INT", "d.t")
    with pytest.raises(InvalidRequest, match=r"has Kafka tables \(t\)"):
        session.sql("DROP DATABASE d", "duckdb")
    session.sql("DROP DATABASE d CASCADE", "duckdb")
    assert "d" not in session.catalog.databases()


def test_a_damaged_definition_is_told_and_can_be_dropped(session: Session) -> None:
    create(session, "id INT")
    [file] = Path(session.catalog.warehouse.removeprefix("file://")).rglob("*.kafka")
    file.write_text(file.read_text().replace('"id"', '"ix"'))
    with pytest.raises(CorruptData, match="does not have the checksum"):
        session.sql("SELECT * FROM t", "duckdb")
    session.sql("DROP TABLE t", "duckdb")
    assert not file.exists()


def test_who_uses_no_topics_loads_no_client() -> None:
    script = "import sys, resources, resources.sql.statements; print('confluent_kafka' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_a_text_is_a_time_in_utc_unless_it_says_otherwise() -> None:
    texts = pa.array(["2021-01-01 00:00:00", "2021-01-01 02:00:00+02:00", None])
    moments = cast_metadata(texts, parse_type("STRING"), parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE"), "t")
    assert moments.cast(pa.int64()).to_pylist() == [1_609_459_200_000, 1_609_459_200_000, None]


def test_the_id_of_the_topic_of_a_log_is_of_one_table_alone(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    monkeypatch.setitem(log_systems._registered, "memory", lambda options: log)
    session.sql("CREATE TABLE t (id BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('log.system' = 'memory')", "duckdb")
    shown = session.sql("SHOW CREATE TABLE t", "duckdb").rows
    assert shown is not None
    statement = str(shown["statement"][0].as_py())
    assert "'kafka.topic'" in statement and "log.topic-id" not in statement
    session.sql("DROP TABLE t", "duckdb")
    session.sql(statement, "duckdb")
    session.sql(statement.replace("CREATE TABLE", "CREATE OR REPLACE TABLE"), "duckdb")
    assert session.table("default.t").log.status().trouble == ""
    with pytest.raises(InvalidRequest, match=r"'log\.topic-id' = 'abc': the store keeps it"):
        session.sql("CREATE TABLE u (id BIGINT) WITH ('log.system' = 'memory', 'log.topic-id' = 'abc')", "duckdb")
