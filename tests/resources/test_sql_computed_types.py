"""A computed column has the type that it is declared with; what a column says of nulls it says once."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from resources import Session
from storage import ComputedColumn, StorageError

Sql = Callable[[str], Any]


@pytest.mark.spark
def test_a_computed_column_has_its_declared_type(sql: Sql, session: Session) -> None:
    sql(
        "CREATE TABLE c (a INT, b SMALLINT GENERATED ALWAYS AS (a * 1000), e STRING AS (a + 1), f DECIMAL(5,1) AS (a / 3), "
        "g BIGINT AS (a), h AS (a * 2)); INSERT INTO c (a) VALUES (10); CREATE TABLE d AS SELECT * FROM c"
    )
    assert sql("SELECT * FROM c") == [(10, 10000, "11", Decimal("3.3"), 10, 20)]
    kinds = [str(field.type) for field in session.table("default.d").schema.fields]
    assert kinds == ["INT", "SMALLINT", "STRING", "DECIMAL(5, 1)", "BIGINT", "INT"]
    sql("INSERT INTO c (a) VALUES (100)")
    assert sql("SELECT a FROM c WHERE e = '101'") == [(100,)]
    with pytest.raises(StorageError, match=r"out of range|CAST_OVERFLOW"):
        sql("SELECT b FROM c")
    # As Flink writes it, and Spark casts it when it is told to.
    computed = [ComputedColumn("n", "e", "INT"), ComputedColumn("o", "e", "")]
    session.catalog.create_table("default.e", session.table("default.d").schema.to_arrow(), computed_columns=computed)
    sql("INSERT INTO e SELECT * FROM c WHERE a = 10")
    assert sql("SELECT n + 1, o FROM e") == [(12, "11")]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("a INT, b INT AS ('x')", "which is not stored"),
        ("a STRING, b INT AS (a)", "which is not stored"),
        ("a INT, b DATE AS (a)", "which is not stored"),
        ("a INT, b BOOLEAN AS (a + 1)", "which is not stored"),
        ("a STRING, b VARCHAR(3) AS (a)", "length of a computed value"),
        ("a INT, b INT NOT NULL GENERATED ALWAYS AS (a)", "has no effect on it"),
        ("a INT NOT NULL NULL", "Say it once"),
        ("a INT NULL NOT NULL", "Say it once"),
        ("a INT NULL PRIMARY KEY NOT ENFORCED", "Say it once"),
        ("a ROW<x INT NOT NULL NULL>", "Say it once"),
    ],
)
def test_a_column_says_nothing_that_is_not_carried_out(session: Session, columns: str, said: str) -> None:
    with pytest.raises(StorageError, match=said):
        session.sql(f"CREATE TABLE t ({columns})", "duckdb")
    session.sql("CREATE TABLE u (i INT, r ROW<x INT>)", "duckdb")
    if "AS" not in columns and "KEY" not in columns:
        with pytest.raises(StorageError, match=said):
            session.sql(f"ALTER TABLE u ADD COLUMN ({columns})", "duckdb")
