"""Numbers that no column holds, in statements: the same rows on every engine, and in conditions in Python."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from resources.sql.duckdb_select import run_query
from storage import InvalidRequest

pytestmark = pytest.mark.spark
LARGE = ["99999999999999999999999", "9" * 36, "9" * 39, "9" * 50, "9" * 5000, "1e40", "1e400", "9999999999999999999.5"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("column", ["id", "price", "size"])
def test_large_numbers_are_compared_alike(session: Session, sql: Callable[[str], Any], column: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(8, 2)), ("size", pa.float64())])
    table = session.catalog.create_table("default.t", schema, primary_key=["id"], options={"bucket": 1})
    table.write(pa.table({"id": [1, 2], "price": [Decimal(1), Decimal(2)], "size": [1.0, 2.0]}, schema))
    asked = [
        (f"{column} {operator} {number}", 2 if operator == ("<" if number[0] != "-" else ">=") else 0)
        for number in (*LARGE, *(f"-{large}" for large in LARGE))
        for operator in ("=", "<", ">=")
        if column != "id" or "." not in number
    ]
    assert [table.count(where=where) for where, _ in asked] == [expected for _, expected in asked]
    # One statement: each of its queries has its condition pushed down as if it were alone.
    counts = [f"SELECT {place} AS place, count(*) FROM t WHERE {where}" for place, (where, _) in enumerate(asked)]
    counted = dict(sql(" UNION ALL ".join(counts)))
    assert {where[:60]: counted[place] for place, (where, _) in enumerate(asked)} == {
        where[:60]: expected for where, expected in asked
    }
    sql(f"DELETE FROM t WHERE {column} >= {'9' * 50}")
    assert table.count() == 2
    sql(f"DELETE FROM t WHERE {column} < {'9' * 50}")
    assert table.count() == 0


def test_the_largest_numbers_with_a_type_are_read(sql: Callable[[str], Any]) -> None:
    assert sql("SELECT 1.7976931348623157E308D AS d, -3.4028234663852886E38F AS f, 1e308D AS e") == [
        (1.7976931348623157e308, -3.4028234663852886e38, 1e308)
    ]


@pytest.mark.parametrize(
    "query", ["SELECT array(NULL) AS x", "SELECT percent_rank() OVER (ORDER BY 1 / id) AS x FROM t"]
)
def test_what_duckdb_alone_refuses_says_which_engine_takes_it(session: Session, query: str) -> None:
    session.sql("CREATE TABLE t (id INT)", engine="duckdb")
    with pytest.raises(InvalidRequest, match=r"Use the engine spark\.$"):
        session.sql(query, engine="duckdb")


def test_a_query_in_duckdbs_own_sql_says_what_to_write(session: Session) -> None:
    session.catalog.create_table("default.t", pa.schema([("id", pa.int64())])).write(pa.table({"id": [1]}))
    with pytest.raises(InvalidRequest, match="more than 38 digits"):
        run_query(session, f'SELECT * FROM "default".t WHERE id < {"9" * 50}')
    assert run_query(session, 'SELECT * FROM "default".t WHERE id < 1e400').num_rows == 1


@pytest.mark.parametrize("call", ["exp(1.0D)", "ln(2.0D)", "pow(2.0D, 0.5D)", "sin(1.0D)"])
def test_what_duckdb_computes_otherwise_is_refused(session: Session, call: str) -> None:
    """The last bit differs: Spark computes these by the rules of Java."""
    with pytest.raises(InvalidRequest, match="(?i)" + call.partition("(")[0]):
        session.sql(f"SELECT {call}", engine="duckdb")


@pytest.mark.parametrize("name", ["x", "y", "__numbers"])
def test_a_quotient_is_of_its_own_numbers_whatever_columns_and_tables_are_called(
    session: Session, sql: Callable[[str], Any], name: str
) -> None:
    sql(f"CREATE TABLE {name} (id INT, {name} STRUCT<n: BIGINT, d: BIGINT, m: BOOLEAN>, n DECIMAL(10, 2))")
    sql(f"INSERT INTO {name} SELECT 1, named_struct('n', 100L, 'd', 4L, 'm', true), CAST(2.5 AS DECIMAL(10, 2))")
    assert sql(f"SELECT {name}.{name}.d, n / 2, avg(n) FROM {name} GROUP BY {name}.{name}.d, n") == [
        (4, Decimal("1.25"), Decimal("2.5"))
    ]
    assert sql(f"SELECT {name}.n / {name}.id FROM (SELECT id, n FROM {name}) AS {name}") == [(Decimal("2.5"),)]
    sql(f"UPDATE {name} SET n = n / 2")
    assert sql(f"SELECT n FROM {name}") == [(Decimal("1.25"),)]
