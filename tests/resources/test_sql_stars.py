"""Columns that a statement needs without naming them, and words that are no columns: as in plain Spark, or refused by name."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from resources.spark_session import start_spark
from storage import InvalidRequest

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.string()), ("v", pa.float64())])
ROWS = [{"id": 1, "g": "a", "v": 1.5}, {"id": 2, "g": "b", "v": 2.5}, {"id": 3, "g": "a", "v": None}]
QUERIES = [
    "SELECT to_json(struct(*)) FROM t ORDER BY id",
    "SELECT concat_ws(',', *) FROM t ORDER BY id",
    "SELECT hash(*) FROM t ORDER BY id",
    "SELECT to_json(struct(u.*)) FROM t u ORDER BY id",
    "SELECT to_json(struct(* EXCEPT (v))) FROM t ORDER BY id",
    "SELECT coalesce(id, *) FROM (SELECT id, length(g) AS g FROM t) ORDER BY id",
    "SELECT inline(array(struct(*))) FROM t ORDER BY 1",
    "SELECT count(DISTINCT *) FROM t",
    "SELECT count(*) FROM t",
    "SELECT id FROM t WHERE concat_ws(',', *) LIKE '%a%' ORDER BY id",
    "SELECT to_json(struct(*)) FROM (SELECT * FROM t) ORDER BY id",
    "WITH w AS (SELECT * FROM t) SELECT to_json(struct(w.*)) FROM w ORDER BY id",
    "SELECT (SELECT to_json(struct(t.*))) FROM t ORDER BY id",
    "SELECT * FROM t PIVOT (sum(id) FOR g IN ('a', 'b')) ORDER BY 1",
    "SELECT * FROM t UNPIVOT (n FOR c IN (id, v)) ORDER BY ALL",
    "SELECT a.id FROM t a NATURAL JOIN t b ORDER BY 1",
    "SELECT * EXCEPT (v) FROM t ORDER BY id",
    "SELECT x.j FROM t, LATERAL (SELECT to_json(struct(t.*)) AS j) AS x ORDER BY 1",
    "TABLE t",
]


def table(session: Session, name: str = "t") -> Any:
    made = session.catalog.create_table(f"default.{name}", SCHEMA)
    made.write(pa.Table.from_pylist(ROWS, SCHEMA))
    return made


@pytest.fixture
def both(session: Session, sql: Callable[[str], Any]) -> Callable[[str], tuple[Any, Any]]:
    """Runs a query here and in plain Spark."""

    def run(query: str) -> tuple[Any, Any]:
        spark = start_spark(session.settings)
        spark.createDataFrame(pa.Table.from_pylist(ROWS, SCHEMA)).createOrReplaceTempView("t")
        try:
            expected = [tuple(row) for row in spark.sql(query).collect()]
        except Exception as error:
            expected = str(error).splitlines()[0]
        spark.catalog.dropTempView("t")
        try:
            actual = [tuple(row) for row in sql(query)]
        except InvalidRequest as error:
            return f"refused: {str(error).splitlines()[0]}", expected
        return actual, expected

    return run


def wrong(engine: str, pair: tuple[Any, Any]) -> bool:
    """Whether the answer is another one than Spark's; the engine duckdb may refuse."""
    actual, expected = pair
    return actual != expected and not (engine == "duckdb" and isinstance(actual, str))


def test_a_star_needs_every_column(session: Session, engine: str, both: Callable[[str], tuple[Any, Any]]) -> None:
    table(session)
    differ = {query: pair for query in QUERIES if wrong(engine, pair := both(query))}
    assert differ == {}


def test_a_star_in_an_insert_and_in_a_view(session: Session, engine: str, sql: Callable[[str], Any]) -> None:
    if engine == "duckdb":
        pytest.skip("refused there")
    table(session)
    sql("CREATE TABLE sink (j STRING)")
    sql("INSERT INTO sink SELECT to_json(struct(*)) FROM t WHERE id = 1")
    sql("CREATE VIEW w AS SELECT id, concat_ws(',', *) AS j FROM t")
    assert list(sql("SELECT j FROM sink")) == [('{"id":1,"g":"a","v":1.5}',)]
    assert list(sql("SELECT j FROM w WHERE id = 1")) == [("1,a,1.5",)]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM t WHERE concat_ws('', *) LIKE '%parquet%'",
        "DELETE FROM t WHERE __file IS NOT NULL",
        "DELETE FROM t WHERE `__ROW` = 1",
        "DELETE FROM t WHERE (SELECT to_json(struct(t.*))) IS NOT NULL",
        "DELETE FROM t WHERE (SELECT to_json(struct(*))) IS NOT NULL",
        "DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE __file IS NOT NULL)",
        "UPDATE t SET g = to_json(struct(*))",
        "UPDATE t SET g = to_json(struct(t.*))",
        "UPDATE t SET id = __row",
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET g = to_json(struct(t.*))",
        "MERGE INTO t USING s ON t.id = s.id AND t.__there WHEN MATCHED THEN DELETE",
    ],
)
def test_a_change_takes_no_hidden_column(session: Session, sql: Callable[[str], Any], change: str) -> None:
    made = table(session)
    table(session, "s")
    with pytest.raises(InvalidRequest, match=r"\*|__"):
        sql(change)
    assert made.to_arrow().to_pylist() == ROWS


def test_a_change_beside_a_column_of_a_hidden_name_is_refused(session: Session, sql: Callable[[str], Any]) -> None:
    sql("CREATE TABLE t (id BIGINT, __row BIGINT)")
    sql("INSERT INTO t VALUES (1, 2)")
    for change in ("DELETE FROM t WHERE id = 1", "UPDATE t SET id = 2"):
        with pytest.raises(InvalidRequest, match="rename it"):
            sql(change)
    assert list(sql("SELECT id, __row FROM t")) == [(1, 2)]
