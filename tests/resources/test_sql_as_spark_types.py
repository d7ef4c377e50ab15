"""Signs, names and texts that Spark reads in its own way."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from resources import Session
from storage import InvalidRequest, StorageError

Sql = Callable[[str], Any]


@pytest.mark.spark
def test_a_plus_before_a_text_makes_a_number(sql: Sql, engine: str) -> None:
    sql("CREATE TABLE t (a INT, s STRING, d DATE, b INT AS (+a))")
    sql("INSERT INTO t (a, s, d) VALUES (+1, '2', DATE '2024-05-01'), (-2, '3', DATE '2023-05-01')")
    assert sql("SELECT +a, 1 + +a, - +a, +3 FROM t WHERE b = +1") == [(1, 2, -1, 3)]
    for text in ("SELECT +s FROM t WHERE a = 1", "SELECT +'2'", "SELECT - - +'2'"):
        if engine == "spark":
            [(value,)] = sql(text)
            assert value == 2.0 and isinstance(value, float)
        else:
            with pytest.raises(StorageError, match="POSITIVE"):
                sql(text)
    for text in ("SELECT +true", "SELECT +d FROM t", "SELECT +array(1)"):
        with pytest.raises(StorageError):
            sql(text)


@pytest.mark.spark
def test_a_text_that_is_no_whole_day_is_compared_as_spark_reads_it(session: Session) -> None:
    session.sql("CREATE TABLE t (d DATE); INSERT INTO t VALUES (DATE '2024-05-01'), (DATE '2023-05-01')", "duckdb")
    for text in ("2024", "2023-7", "2024-01-01"):
        rows = session.sql(f"SELECT d FROM t WHERE d > '{text}'", "spark").to_arrow().to_pylist()
        assert rows == [{"d": dt.date(2024, 5, 1)}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('SELECT 1 AS "x"', "back quotes"),
        ('SELECT a AS "x" FROM VALUES (1) AS v(a)', "back quotes"),
        ("SELECT count(*) FROM VALUES (1) AS v(a) GROUP BY ()", r"GROUP BY \(\)"),
    ],
)
def test_what_spark_does_not_parse_is_refused(session: Session, text: str, said: str) -> None:
    with pytest.raises(StorageError, match=said):
        session.sql(text, "duckdb")


@pytest.mark.spark
def test_an_empty_array_or_map_is_stored(session: Session) -> None:
    """On Spark: an array of nothing was taken for a type that no table has."""
    session.sql("CREATE TABLE t (id INT, b ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<q ARRAY<STRING>>)", "duckdb")
    session.sql("INSERT INTO t SELECT 1, array(), map(), named_struct('q', array())", "spark")
    session.sql("WITH w AS (SELECT 2 AS id, array() AS b) INSERT INTO t (id, b) SELECT id, b FROM w", "spark")
    rows = session.sql("SELECT id, b, m, s FROM t ORDER BY id", "duckdb").to_arrow().to_pylist()
    assert rows[0] == {"id": 1, "b": [], "m": [], "s": {"q": []}}
    assert rows[1] == {"id": 2, "b": [], "m": None, "s": None}


@pytest.mark.spark
def test_an_empty_array_or_map_is_shown(session: Session) -> None:
    for text, rows in (
        ("SELECT array()", [{"array()": []}]),
        ("SELECT map() AS m, array(array()) AS a, 1 AS b", [{"m": [], "a": [[]], "b": 1}]),
        ("SELECT named_struct('q', array(), 'm', map()) AS s", [{"s": {"q": [], "m": []}}]),
        ("SELECT explode(array()) AS x", []),
        ("SELECT map(array(), 1) AS m, NULL AS n", [{"m": [([], 1)], "n": None}]),
        (
            "SELECT array(parse_json('1')) AS v, array() AS a",
            [{"v": [{"value": b"\x0c\x01", "metadata": b"\1\0\0"}], "a": []}],
        ),
    ):
        assert session.sql(text, "spark").to_arrow().to_pylist() == rows
    twice = session.sql("SELECT array() AS a, array() AS a", "spark").to_arrow()
    assert twice.column_names == ["a", "a"]
    with pytest.raises(InvalidRequest, match="Cannot use null as map key"):
        session.sql("SELECT map(NULL, 1)", "spark").to_arrow()


@pytest.mark.spark
def test_what_fails_while_rows_are_read_is_named(session: Session) -> None:
    with pytest.raises(InvalidRequest, match=r"Unclosed character class near index 0: \[$"):
        session.sql("SELECT count(*) FROM range(10) WHERE CAST(id AS STRING) RLIKE '['", "spark").to_arrow()


@pytest.mark.spark
@pytest.mark.parametrize(
    "call",
    [
        "SAFE_CAST('1' AS INT)",
        "CONVERT('1', INT)",
        "CONVERT(INT, '1')",
        "TRY_CONVERT('1', INT)",
        "safe_divide(1, 0)",
        "date_diff('day', DATE'2024-01-01', DATE'2024-01-02')",
        "dateadd('day', 1, DATE'2024-01-01')",
        "JSON_OBJECT('a': 1)",
        "OPENJSON('[]')",
        "XMLTABLE('a')",
        "NORMALIZE('a')",
    ],
)
def test_functions_that_spark_has_not_are_refused(sql: Sql, call: str) -> None:
    with pytest.raises(StorageError):
        sql(f"SELECT {call}")


TRUTHS = ("yes", " Y ", "t", "1", "TRUE", "no", "N", "f", "0", "False", "on", "", "2", "tr ue")
DAYS = ("2024", "2024-2", "2024-02", " 2024-1-9 ", "2024-01-09", "2024-01-09 12:00:00", "2024-01-09Tx", "0001-1-1")
DAYS += ("2024-02-30", "2024-13", "2024-00", "24", "2024-", "2024-1-", "2024/01/01", "2024-1T", "2024-1-9x", "")


@pytest.mark.spark
@pytest.mark.parametrize(("to", "texts"), [("BOOLEAN", TRUTHS), ("DATE", DAYS)])
def test_texts_are_cast_as_spark_casts_them(session: Session, to: str, texts: tuple[str, ...]) -> None:
    """The same value on both engines, or an error on both."""

    def cast(text: str, engine: str) -> object:
        try:
            [row] = (
                session.sql(f"SELECT CAST(s AS {to}) AS v FROM VALUES ('{text}') AS t(s)", engine)
                .to_arrow()
                .to_pylist()
            )
        except StorageError:
            return "refused"
        return row["v"]

    assert {text: cast(text, "duckdb") for text in texts} == {text: cast(text, "spark") for text in texts}


@pytest.mark.parametrize(
    "order",
    ["ORDER BY a", "ORDER BY 1", "ORDER BY t.a DESC", "ORDER BY n, a", "ORDER BY named_struct('x', a)"],
)
def test_nested_values_are_not_ordered_on_duckdb(session: Session, order: str) -> None:
    """Spark puts nulls inside of them first, DuckDB last."""
    rows = "VALUES (array(CAST(NULL AS INT)), 1), (array(1), 2) AS t(a, n)"
    with pytest.raises(StorageError, match="Use the engine spark"):
        session.sql(f"SELECT a, n FROM {rows} {order}", "duckdb")
    with pytest.raises(StorageError, match="Use the engine spark"):
        session.sql(f"SELECT n, row_number() OVER ({order.replace('1', 'a')}) AS r FROM {rows}", "duckdb")
    assert session.sql(f"SELECT a, n FROM {rows} ORDER BY n", "duckdb").to_arrow().num_rows == 2
    with pytest.raises(StorageError, match="ORDER BY 3: there is no such place, 2 are selected"):
        session.sql(f"SELECT a, n FROM {rows} ORDER BY 3", "duckdb")


DECIMALS = "VALUES (CAST(9999999999.99 AS DECIMAL(12,2)), CAST(999.99 AS DECIMAL(5,2))) AS t(a, c)"
NUMBERS = (
    "c / 7L",
    "c + 1L",
    "3S * c",
    "2Y * c",
    "-7L * c",
    "1.5BD + c",
    "7BD * c",
    "c * 2.5D",
    "CAST(7 AS BIGINT) * c",
)
NUMBERS += ("7::BIGINT * c", "1.1F", "a * a", "a + a", "a - -a", "007L * c", "9223372036854775807L")


@pytest.mark.spark
@pytest.mark.parametrize("value", NUMBERS)
def test_numbers_with_a_suffix_and_products_have_the_digits_that_spark_gives_them(session: Session, value: str) -> None:
    answers = {
        engine: session.sql(f"SELECT {value} AS v FROM {DECIMALS}", engine).to_arrow() for engine in ("spark", "duckdb")
    }
    assert answers["spark"].schema.types == answers["duckdb"].schema.types
    assert answers["spark"].to_pylist() == answers["duckdb"].to_pylist()


@pytest.mark.spark
def test_a_number_with_a_suffix_reaches_spark_as_it_is_written(session: Session) -> None:
    """Plain Spark is asked beside: as a cast it had more digits."""
    from pyspark.sql import SparkSession

    rows = session.sql("SELECT CAST(1 AS DECIMAL(5,2)) / 7L AS v, 3S * 2.5 AS w", "spark").to_arrow()
    spark = SparkSession.getActiveSession()
    assert spark is not None
    frame = spark.sql("SELECT CAST(1 AS DECIMAL(5,2)) / 7L AS v, 3S * 2.5 AS w")
    assert rows.schema.types == frame.toArrow().schema.types
    assert rows.to_pylist() == frame.toArrow().to_pylist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT :p", "a value or a clause is missing here"),
        ("SELECT concat()", "a value or a clause is missing here"),
        ("MERGE INTO t USING u ON t.a = u.a", "WHEN is missing here"),
        ("SELECT now() AT TIME ZONE 'UTC' AS a", "AT TIME ZONE is not known"),
        ("SELECT -a AS v FROM VALUES (CAST(1 AS DECIMAL(38,2))) AS t(a)", "Use the engine spark"),
        ("SELECT 1e3BD AS v", "Use the engine spark"),
    ],
)
def test_what_is_missing_is_said_without_the_parsers_own_names(session: Session, text: str, said: str) -> None:
    with pytest.raises(StorageError, match=said) as refused:
        session.sql(text, "duckdb")
    assert "class" not in str(refused.value)


@pytest.mark.spark
def test_a_path_of_json_that_cannot_be_said_is_refused_in_a_line(session: Session) -> None:
    query = """SELECT get_json_object('{"a": {"b": 1}}', '$.a.b') AS v"""
    assert session.sql(query, "spark").to_arrow().to_pylist() == [{"v": "1"}]
    with pytest.raises(StorageError, match="cannot be said in Spark's SQL"):
        session.sql(query.replace("$.a.b", "$..a"), "spark")
