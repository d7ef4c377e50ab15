"""Types as statements write them: each part of one is carried out, or refused by name, in tables and in casts."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from storage import AddColumn, ComputedColumn, InvalidRequest

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]

# What no column and no cast can have, and why.
REFUSED = {
    "INT(5)": "INT takes nothing in parentheses",
    "BIGINT(20)": "BIGINT takes nothing in parentheses",
    "BOOLEAN(1)": "BOOLEAN takes nothing in parentheses",
    "STRING(2)": "STRING takes nothing in parentheses",
    "TEXT(5)": "STRING takes nothing in parentheses",
    "DOUBLE(5)": "DOUBLE takes nothing in parentheses",
    "FLOAT(5,2)": "FLOAT takes nothing in parentheses",
    "DATE(3)": "DATE takes nothing in parentheses",
    "DECIMAL(3,1,1)": "DECIMAL takes up to two whole numbers",
    "DECIMAL(a)": "DECIMAL takes up to two whole numbers",
    "ARRAY": "ARRAY takes one type",
    "ARRAY<INT, INT>": "ARRAY takes one type",
    "MAP": "MAP takes two types",
    "MAP<INT>": "MAP takes two types",
    "MAP<INT, INT, INT>": "MAP takes two types",
    "STRUCT": "STRUCT takes fields",
    "ROW": "STRUCT takes fields",
    "STRUCT<a INT, a INT>": "field 'a' twice",
    "INT8": "write TINYINT or BIGINT",
    "TIMESTAMPTZ": "a moment is TIMESTAMP_LTZ",
    "TIMESTAMP WITH TIME ZONE": "a moment is TIMESTAMP_LTZ",
    "TIMESTAMP(3) WITH TIME ZONE": "a moment is TIMESTAMP_LTZ",
    "NULLABLE(INT)": r"NULLABLE\(…\) is not known",
}


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize("written", REFUSED)
def test_what_a_type_does_not_take_is_refused_by_name(sql: Sql, session: Session, written: str) -> None:
    sql("CREATE TABLE t (id INT, s STRUCT<x INT>)")
    before = session.table("default.t").schema
    for kind in (written, f"ARRAY<{written}>", f"STRUCT<f: MAP<STRING, {written}>>"):
        for statement in (
            f"CREATE TABLE made (a {kind})",
            f"CREATE TABLE made (a INT, b {kind} METADATA FROM 'x')",
            f"CREATE TABLE made (a INT, b AS CAST(a AS {kind}))",
            f"CREATE TABLE made AS SELECT CAST(NULL AS {kind}) AS a",
            f"ALTER TABLE t ADD COLUMN a {kind}",
            f"ALTER TABLE t ADD COLUMN s.a {kind}",
            f"ALTER TABLE t ALTER COLUMN id TYPE {kind}",
            f"SELECT CAST(NULL AS {kind}) AS a",
            f"SELECT TRY_CAST(NULL AS {kind}) AS a",
            f"SELECT id FROM t WHERE id::{kind} IS NULL",
        ):
            with pytest.raises(InvalidRequest, match=REFUSED[written]) as error:
                sql(statement)
            assert "\n" not in str(error.value)
    assert session.catalog.tables("default") == ["default.t"]
    assert session.table("default.t").schema == before


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize("written", ["VARCHAR(2,3)", "VARCHAR('2')"])
def test_a_length_is_one_whole_number(sql: Sql, written: str) -> None:
    for statement in (f"CREATE TABLE t (a {written})", f"SELECT CAST('abc' AS {written}) AS a"):
        with pytest.raises(InvalidRequest, match="VARCHAR takes one whole number"):
            sql(statement)
    # As in Spark: a text of any length.
    assert sql("SELECT CAST('abc' AS VARCHAR(2)) AS a") == [("abc",)]


@pytest.mark.parametrize("written", ["TIMESTAMP_NTZ(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "BINARY(2)"])
def test_digits_and_lengths_that_tables_know_are_refused_in_queries(sql: Sql, written: str) -> None:
    with pytest.raises(InvalidRequest, match="takes nothing in parentheses in a query"):
        sql(f"SELECT CAST('2024-01-01 00:00:00.123456' AS {written}) AS a")


@pytest.mark.parametrize("engine", ["duckdb"])
def test_the_types_of_the_format_take_what_they_say(sql: Sql, session: Session) -> None:
    written = {
        "TIMESTAMP(3)": "TIMESTAMP(3)",
        "TIMESTAMP(3) WITHOUT TIME ZONE": "TIMESTAMP(3)",
        "TIMESTAMP_NTZ": "TIMESTAMP(6)",
        "TIMESTAMP_LTZ(3)": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "TIMESTAMP(3) WITH LOCAL TIME ZONE": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "TIME(3)": "TIME(3)",
        "BINARY(3)": "BINARY(3)",
        "VARBINARY(3)": "VARBINARY(3)",
        "VARCHAR(3)": "VARCHAR(3)",
        "DECIMAL(3)": "DECIMAL(3, 0)",
        "DEC(3, 1)": "DECIMAL(3, 1)",
        "INT ARRAY": "ARRAY<INT>",
    }
    sql(f"CREATE TABLE t ({', '.join(f'c{place} {kind}' for place, kind in enumerate(written))})")
    assert [str(field.type) for field in session.table("default.t").schema.fields] == list(written.values())


def test_a_timestamp_without_time_zone_is_one_in_a_cast_too(sql: Sql) -> None:
    assert sql("SELECT CAST('2024-01-01' AS TIMESTAMP WITHOUT TIME ZONE) AS a") == [(dt.datetime(2024, 1, 1),)]
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    assert sql("SELECT CAST('2024-01-01' AS TIMESTAMP WITH LOCAL TIME ZONE) AS a") == [(moment,)]


@pytest.mark.parametrize("engine", ["spark"])
def test_a_table_of_others_whose_expression_has_such_a_type_can_be_read(sql: Sql, session: Session) -> None:
    column = ComputedColumn("day", "CAST(at AS TIMESTAMP(3))", "TIMESTAMP(3)")
    session.catalog.create_table("default.t", pa.schema([("at", pa.timestamp("us"))]), computed_columns=[column])
    sql("INSERT INTO t VALUES (TIMESTAMP_NTZ '2024-01-01 10:00:00')")
    assert sql("SELECT at FROM t") == [(dt.datetime(2024, 1, 1, 10),)]


def test_columns_may_have_the_names_of_types(sql: Sql) -> None:
    assert sql("SELECT int8, timestamptz FROM (SELECT 1 AS int8, 2 AS timestamptz)") == [(1, 2)]


def test_a_struct_with_a_field_twice_is_no_type_of_a_column(session: Session) -> None:
    inner = pa.struct([("x", pa.int32()), ("x", pa.int32())])
    table = session.catalog.create_table("default.t", pa.schema([("id", pa.int32())]))
    for kind in (inner, pa.list_(inner), pa.map_(pa.string(), pa.struct([("y", inner)]))):
        with pytest.raises(InvalidRequest, match="field 'x' occurs twice"):
            session.catalog.create_table("default.made", pa.schema([("a", kind)]))
        with pytest.raises(InvalidRequest, match="field 'x' occurs twice"):
            table.alter(AddColumn("a", kind))
    assert session.catalog.tables("default") == ["default.t"]
