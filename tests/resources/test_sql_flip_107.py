"""The table definitions of FLIP-107: they are understood, and their connectors are refused by name."""

import pytest
from sqlglot import exp

from resources import Session
from resources.sql.parsing import parse
from storage import InvalidRequest, Unsupported
from storage.sql.dialect import MetadataConstraint

DEFINITIONS = [
    """CREATE TABLE kafka_table (
         id BIGINT, name STRING, col1 INT, col2 INT
       ) WITH ('connector' = 'kafka', 'key.fields' = 'id, name', 'key.format' = 'csv', 'value.format' = 'json')""",
    """CREATE TABLE kafka_table (
         id BIGINT, name STRING, col1 INT, col2 INT
       ) WITH ('connector' = 'kafka', 'key.fields' = 'id, name', 'key.format' = 'csv', 'value.format' = 'json',
               'value.fields-include' = 'EXCEPT_KEY', 'fields.verify-integrity' = 'false')""",
    """CREATE TABLE kafka_table (
         id BIGINT, name STRING, event_time TIMESTAMP(3) WITH LOCAL TIME ZONE METADATA FROM 'timestamp',
         offset BIGINT METADATA VIRTUAL, `partition` BIGINT METADATA VIRTUAL,
         headers MAP<STRING, BYTES> METADATA
       ) WITH ('connector' = 'kafka', 'value.format' = 'avro')""",
    """CREATE TABLE kinesis_table (
         `timestamp` TIMESTAMP(3) WITH LOCAL TIME ZONE METADATA, sequence_number STRING METADATA FROM 'sequence-number' VIRTUAL
       ) WITH ('connector' = 'kinesis')""",
    """CREATE TABLE kafka_table (
         id BIGINT, name STRING, event_timestamp BIGINT METADATA FROM 'canal-json.ingestion-timestamp' VIRTUAL,
         event_time AS CAST(event_timestamp AS TIMESTAMP(3)), WATERMARK FOR event_time AS event_time - INTERVAL '5' SECOND
       ) WITH ('connector' = 'kafka', 'value.format' = 'canal-json')""",
    "CREATE TABLE t (i INT, s STRING, `timestamp` TIMESTAMP(3) WITH LOCAL TIME ZONE METADATA, d DOUBLE)",
    "CREATE TABLE t (i INT, s STRING, myOffset INT METADATA FROM 'offset', d DOUBLE)",
    "CREATE TABLE t (i INT, s STRING, offset INT METADATA VIRTUAL, d DOUBLE)",
    "CREATE TABLE t (i INT, s STRING, `timestamp` BIGINT METADATA, offset INT METADATA VIRTUAL, d DOUBLE)",
]


@pytest.mark.parametrize("text", DEFINITIONS, ids=range(len(DEFINITIONS)))
def test_a_definition_is_understood_and_refused_by_name(text: str, session: Session) -> None:
    expected = "'kinesis'|needs 'topic'" if "connector" in text else "Metadata columns"
    with pytest.raises((InvalidRequest, Unsupported), match=expected):
        session.sql(text, "duckdb")
    assert session.catalog.tables() == []


def test_a_view_declares_metadata_of_rows_in_its_place(session: Session) -> None:
    with pytest.raises(Unsupported, match=r"Metadata columns \(run\) .*tell snapshot_id, .*in a VIEW"):
        session.sql("CREATE TABLE t (id BIGINT, run STRING METADATA FROM 'job' VIRTUAL)", "duckdb")
    session.sql("CREATE TABLE t (id BIGINT); INSERT INTO t VALUES (1)", "duckdb")
    session.sql("CREATE VIEW v AS SELECT id, job AS run, CAST(commit_time AS DATE) AS day FROM t", "duckdb")
    snapshot = session.catalog.table("default.t").snapshot()
    assert snapshot is not None
    [row] = session.sql("SELECT * FROM v", "duckdb").to_arrow().to_pylist()
    assert list(row) == ["id", "run", "day"]
    assert row["run"] == snapshot.commit_user


def test_metadata_columns_have_keys_and_may_be_virtual() -> None:
    [tree] = parse(DEFINITIONS[2])
    assert isinstance(tree, exp.Create)
    metadata = {
        column.name: (kind.args.get("this"), bool(kind.args.get("virtual")))
        for column in tree.find_all(exp.ColumnDef)
        for kind in column.find_all(MetadataConstraint)
    }
    assert metadata == {
        "event_time": ("timestamp", False),
        "offset": (None, True),
        "partition": (None, True),
        "headers": (None, False),
    }
