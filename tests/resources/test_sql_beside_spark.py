"""Statements whose answers plain Spark gives: both engines give the same, or refuse."""

from typing import Any

import pytest

from resources import Session
from storage import InvalidRequest

pytestmark = pytest.mark.spark
IN = "a IN (SELECT k FROM u)"
CONDITIONS = [
    IN,
    f"NOT {IN}",
    f"NOT ({IN})",
    f"NOT (({IN}))",
    f"NOT NOT {IN}",
    f"NOT (NOT ({IN}))",
    f"NOT ({IN} OR b > 5)",
    f"NOT ({IN} AND b > 5)",
    f"NOT (NOT {IN} AND b > 5)",
    f"NOT {IN} OR b > 5",
    f"{IN} OR b IS NULL",
    "a NOT IN (SELECT k FROM u)",
    "NOT (a IN (SELECT k FROM u WHERE k IS NOT NULL))",
    "NOT (a NOT IN (SELECT k FROM u))",
    f"NOT (b > 5 OR NOT ({IN}))",
    "NOT (a IN (SELECT k FROM u WHERE k > 100))",
    f"CASE WHEN NOT ({IN}) THEN true ELSE b > 5 END",
]
VALUES = [
    "1.5 / NULL",
    "2.50 + NULL",
    "d / NULL",
    "d * NULL",
    "CAST(0.00 AS STRING)",
    "CAST(-0.5 AS STRING)",
    "CAST(0.25 AS STRING)",
    "concat(0.10, 'x')",
    "CAST(1.50 AS STRING)",
    "CAST(DATE'0001-01-01' AS STRING)",
    "CAST(DATE'9999-12-31' AS STRING)",
]
ROWS = "(1, 1, 1), (2, NULL, 9), (3, 4, 2), (4, 4, 9), (5, 5, NULL), (6, NULL, NULL)"


@pytest.fixture
def shop(session: Session) -> Session:
    session.sql(
        "CREATE TABLE t (id INT, a INT, b INT); CREATE TABLE u (k INT); CREATE TABLE one (d DECIMAL(10, 2))", "duckdb"
    )
    session.sql(
        f"INSERT INTO t VALUES {ROWS}; INSERT INTO u VALUES (1), (NULL); INSERT INTO one VALUES (1.25)", "duckdb"
    )
    return session


@pytest.fixture
def oracle(session: Session) -> Any:
    """Plain Spark on the same rows."""
    from resources.spark_session import start_spark

    spark = start_spark(session.settings)
    spark.sql(f"CREATE OR REPLACE TEMP VIEW t AS SELECT * FROM VALUES {ROWS} AS t(id, a, b)")
    spark.sql("CREATE OR REPLACE TEMP VIEW u AS SELECT * FROM VALUES (1), (NULL) AS u(k)")
    spark.sql("CREATE OR REPLACE TEMP VIEW one AS SELECT CAST(1.25 AS DECIMAL(10, 2)) AS d")
    yield lambda text: sorted((tuple(row) for row in spark.sql(text).collect()), key=repr)
    for name in ("t", "u", "one"):
        spark.catalog.dropTempView(name)


def _answer(session: Session, text: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in session.sql(text, "duckdb").to_arrow().to_pylist()), key=repr)


def test_conditions_with_queries_keep_the_rows_that_spark_keeps(shop: Session, oracle: Any) -> None:
    for condition in CONDITIONS:
        text = f"SELECT id FROM t WHERE {condition}"
        assert _answer(shop, text) == oracle(text), condition


def test_conditions_with_queries_are_the_values_that_spark_gives(shop: Session, oracle: Any) -> None:
    for condition in CONDITIONS[:8]:
        text = f"SELECT id, {condition} AS v FROM t"
        assert _answer(shop, text) == oracle(text), condition


@pytest.mark.parametrize("condition", [f"({IN}) = false", f"({IN}) IS NULL", f"coalesce({IN}, true)"])
def test_conditions_inside_of_others_are_refused(shop: Session, condition: str) -> None:
    with pytest.raises(InvalidRequest, match="Use the engine spark"):
        shop.sql(f"SELECT id FROM t WHERE {condition}", "duckdb")


def test_deletions_take_the_rows_that_spark_names(shop: Session, oracle: Any) -> None:
    kept = oracle(f"SELECT id FROM t WHERE NOT ({CONDITIONS[6]})")
    shop.sql(f"DELETE FROM t WHERE {CONDITIONS[6]}", "duckdb")
    gone = oracle(f"SELECT id FROM t WHERE {CONDITIONS[6]}")
    assert _answer(shop, "SELECT id FROM t") == sorted({(number,) for number in range(1, 7)} - set(gone), key=repr)
    assert not set(kept) & set(gone)


def test_values_are_those_of_spark(shop: Session, oracle: Any) -> None:
    for value in VALUES:
        text = f"SELECT {value} AS v FROM one"
        assert _answer(shop, text) == oracle(text), value


@pytest.mark.parametrize(
    "value",
    [
        "CAST(date_add(DATE'9999-12-31', 1) AS STRING)",
        "CAST(date_sub(DATE'0001-01-01', 400) AS STRING)",
        "CAST('2024-01-01 24:00:00' AS TIMESTAMP)",
    ],
)
def test_values_that_spark_gives_otherwise_are_refused(shop: Session, value: str) -> None:
    with pytest.raises(InvalidRequest):
        shop.sql(f"SELECT {value} AS v", "duckdb").to_arrow()
