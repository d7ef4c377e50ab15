"""Functions arrive at Spark with the name, the arguments and the letters that were typed."""

import pyarrow as pa
import pytest

from resources import Session
from resources.spark_session import start_spark
from resources.sql.engine_dialects import spark_text
from storage import InvalidRequest, StorageError
from storage.sql.dialect import SnaplineSql

ROWS = [{"id": 1, "g": "month", "v": 1.5}, {"id": 2, "g": "year", "v": 2.5}, {"id": 3, "g": None, "v": 9.0}]
QUERIES = [
    "SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY v DESC), percentile_disc(0.25) WITHIN GROUP (ORDER BY v) FROM t",
    "SELECT percentile(v, 0.5, id), percentile(v, 0.5), percentile(DISTINCT v, 0.5) FROM t",
    "SELECT listagg(g) WITHIN GROUP (ORDER BY id), string_agg(DISTINCT g, '-') WITHIN GROUP (ORDER BY g DESC) FROM t",
    "SELECT date_format(timestamp'2024-05-01 10:11:12', 'yyyyMMdd''y''HHmmss')",
    "SELECT to_date('year 2024-05-01', '''year'' yyyy-MM-dd'), to_timestamp('d 2024', '''d'' yyyy')",
    "SELECT from_unixtime(0, 'yyyy''Y'''), unix_timestamp('1970y', 'yyyy''y'''), from_unixtime(0, 'YYYY')",
    "SELECT from_unixtime(0), to_date('2024-05-01'), unix_timestamp('2024-05-01 00:00:00'), trunc(date'2024-05-17', 'MM')",
    "SELECT date_format(timestamp'2024-05-01 10:11:12', '%Y')",
    "SELECT date_trunc(g, timestamp'2024-05-17 10:11:12'), trunc(date'2024-05-17', g) FROM t ORDER BY id",
    "SELECT trunc(date'2024-05-17', 'Q'), trunc(date'2024-05-17', 'quarter'), date_trunc('week', timestamp'2024-05-17 10:11:12')",
    "SELECT typeof(parse_json('1')), variant_get(parse_json('{\"a\": 2}'), '$.a', 'int'), schema_of_variant(parse_json('[1]'))",
    "SELECT to_json(parse_json('{\"a\": 2}')), to_char(12, '99')",
]


@pytest.mark.spark
def test_functions_say_what_spark_says(session: Session) -> None:
    made = session.catalog.create_table(
        "default.t", pa.schema([("id", pa.int64()), ("g", pa.string()), ("v", pa.float64())])
    )
    made.write(pa.Table.from_pylist(ROWS))
    spark = start_spark(session.settings)
    differ = {}
    for query in QUERIES:
        spark.createDataFrame(pa.Table.from_pylist(ROWS)).createOrReplaceTempView("t")
        try:
            expected = [tuple(row.values()) for row in spark.sql(query).toArrow().to_pylist()]
        except Exception as error:
            expected = type(error).__name__
        spark.catalog.dropTempView("t")
        try:
            actual = [tuple(row.values()) for row in session.sql(query, "spark").to_arrow().to_pylist()]
        except Exception as error:
            assert len(str(error).strip().splitlines()) == 1 or not isinstance(error, StorageError)
            actual = "an error" if not isinstance(expected, str) else expected
        if actual != expected:
            differ[query] = (actual, expected)
    assert differ == {}


@pytest.mark.parametrize("text", ["time'10:11:12'", "CAST('10:11:12' AS TIME)", "'1'::time", "CAST('x' AS UUID)"])
def test_types_that_spark_does_not_have_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"none of the types|no values of type TIME"):
        spark_text(SnaplineSql().parse(f"SELECT {text}")[0])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT current_timestamp FROM (SELECT 1 AS current_timestamp)",
        "SELECT current_user FROM (SELECT 1 AS current_user)",
        "SELECT current_date FROM t",
        "WITH w (current_date) AS (SELECT 1) SELECT current_date FROM w",
    ],
)
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_word_that_is_also_a_column_is_refused(session: Session, engine: str, query: str) -> None:
    session.catalog.create_table("default.t", pa.schema([("id", pa.int64()), ("current_date", pa.int64())]))
    with pytest.raises(InvalidRequest, match="also the name of a column"):
        session.sql(query, engine)


@pytest.mark.spark
def test_a_word_beside_its_own_name_is_taken(session: Session) -> None:
    assert session.sql("SELECT current_date() AS current_date", "spark").to_arrow().num_rows == 1
    assert session.sql("SELECT `current_date` FROM (SELECT 1 AS `current_date`)", "spark").to_arrow().num_rows == 1
