"""Statements that somebody typed who had not written what reads them."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from resources import consistency_check, freshness_check, sql_check, table_asset, upkeep_schedule
from resources.parameters import partition_values
from resources.rendering import print_rows
from resources.sql.statements import parse
from storage import Catalog, InvalidRequest, NotFound, Predicate, StorageError
from storage.sql.predicate_text import parse_predicate

Sql = Callable[[str], Any]


@pytest.mark.spark
def test_a_comment_behind_a_semicolon_is_no_statement(sql: Sql) -> None:
    assert sql("SELECT 1; -- a note\nSELECT 2") == [(2,)]
    assert sql("SELECT 3; -- the last; word") == [(3,)]
    assert len(parse("SELECT 1; /* a */ SELECT 2; -- b\n")) == 2


@pytest.mark.spark
def test_qualify_beside_a_star_adds_no_column(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 1), (1, 2), (2, 5)")
    first = "QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1"
    assert sorted(sql(f"SELECT * FROM t {first}")) == [(1, 1), (2, 5)]
    assert sorted(sql(f"SELECT *, 7 AS z FROM t {first}")) == [(1, 1, 7), (2, 5, 7)]
    assert sorted(sql(f"SELECT x.* FROM t x JOIN (SELECT 2 AS k) y ON x.a = y.k {first}")) == [(2, 5)]
    assert sorted(sql(f"WITH q AS (SELECT * FROM t {first}) SELECT * FROM q WHERE a = 2")) == [(2, 5)]
    sql(f"CREATE TABLE u AS SELECT * FROM t {first}; INSERT INTO u SELECT * FROM t {first}")
    assert sql("SELECT count(*), sum(b) FROM u") == [(4, 12)]
    assert sql("SELECT * FROM u LIMIT 0") == []


@pytest.mark.spark
def test_columns_that_differ_by_case_alone_are_refused_wherever_a_table_gets_them(sql: Sql) -> None:
    sql("CREATE TABLE s (a INT, b INT); INSERT INTO s VALUES (1, 2)")
    for statement in (
        "CREATE TABLE c AS SELECT a, b AS A FROM s",
        "CREATE OR REPLACE TABLE c AS SELECT a, b AS A FROM s",
        "CREATE OR REPLACE TABLE s AS SELECT a, b AS A FROM s",
    ):
        with pytest.raises(InvalidRequest, match="differ by case alone"):
            sql(statement)
    assert sql("SELECT * FROM s") == [(1, 2)]
    assert sql("SELECT * FROM (SELECT 1 a, 2 A)") == [(1, 2)]


@pytest.mark.spark
def test_a_quoted_name_with_a_dot_is_no_path(sql: Sql) -> None:
    sql("CREATE TABLE x (a ROW<b INT, c INT>, `a.b` INT)")
    for action in (
        "DROP COLUMN `a.b`",
        "RENAME COLUMN `a.b` TO q",
        "ALTER COLUMN `a.b` COMMENT 'x'",
        "ADD COLUMN `c.d` INT",
    ):
        with pytest.raises(InvalidRequest, match="whose name has a dot"):
            sql(f"ALTER TABLE x {action}")
    sql("ALTER TABLE x DROP COLUMN a.b")
    assert sql("DESCRIBE x")[0][1].startswith("STRUCT<c") or "c" in sql("DESCRIBE x")[0][1]


@pytest.mark.spark
def test_a_decimal_is_compared_with_more_digits_than_it_has(sql: Sql) -> None:
    sql("CREATE TABLE p (dc DECIMAL(10, 2), k INT); INSERT INTO p VALUES (1.24, 1), (1.25, 2), (NULL, 3), (-1.25, 4)")
    for condition, expected in (
        ("dc > 1.249", [2]), ("dc >= 1.249", [2]), ("dc < 1.249", [1, 4]), ("dc <= 1.249", [1, 4]), ("dc = 1.249", []),
        ("dc <> 1.249", [1, 2, 4]), ("dc IN (1.25, 1.249)", [2]), ("dc BETWEEN 1.249 AND 1.251", [2]), ("k > 1.5", [2, 3, 4]),
        ("dc < -1.249", [4]), ("dc > -1.251", [1, 2, 4]),
    ):  # fmt: skip
        assert sorted(row[0] for row in sql(f"SELECT k FROM p WHERE {condition}")) == expected, condition


def test_conditions_between_two_values_of_a_type_are_judged(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path / "w")).create_table("d.t", pa.schema([("k", pa.int64())]))
    table.write(pa.table({"k": [1, 2, None]}))

    def kept(condition: str | Predicate) -> list[int]:
        return sorted(table.to_arrow(where=condition)["k"].to_pylist())

    assert kept("k > 1.5") == [2]
    assert kept("k <= 1.5") == [1]
    assert kept("k = 1.5") == []
    assert kept("NOT k = 1.5") == [1, 2]
    assert kept("k NOT IN (1, 1.5)") == [2]
    assert kept(~parse_predicate("k > 1.5")) == [1]


@pytest.mark.spark
def test_dates_beside_timestamps_and_nulls_in_arrays_end_in_no_trace(sql: Sql) -> None:
    assert sql("SELECT DATE '2024-01-01' < TIMESTAMP '2024-01-02 00:00:00'") == [(True,)]
    try:
        sql("SELECT array(NULL)")
    except StorageError as error:
        assert "\n" not in str(error)


def test_columns_of_one_name_are_shown_each(capsys: pytest.CaptureFixture[str]) -> None:
    rows = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    print_rows(rows, "csv")
    assert capsys.readouterr().out == "a,a\n1,2\n"
    print_rows(rows, "table")
    assert "1" in (shown := capsys.readouterr().out) and "2" in shown
    with pytest.raises(InvalidRequest, match="two columns of the name 'a'"):
        print_rows(rows, "json")


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_values_that_python_does_not_have_are_shown_as_text(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    days = pa.array([-735_600, 2**31 - 1, None], pa.int32()).cast(pa.date32())
    print_rows(pa.table({"day": days}), form)
    assert "-00" in capsys.readouterr().out


@pytest.mark.spark
def test_options_that_name_partitions_are_checked_when_they_are_set(sql: Sql) -> None:
    sql("CREATE TABLE t (a INT, d STRING) PARTITIONED BY (d)")
    for value in ("zz=1", "d", "a=1"):
        with pytest.raises(InvalidRequest, match=r"change-tracking\.off-partitions"):
            sql(f"ALTER TABLE t SET ('change-tracking.off-partitions' = '{value}')")
        with pytest.raises(InvalidRequest, match=r"change-tracking\.off-partitions"):
            sql(f"CREATE TABLE u (a INT) WITH ('change-tracking.off-partitions' = '{value}')")
    sql("ALTER TABLE t SET ('change-tracking.off-partitions' = 'd=x'); INSERT INTO t VALUES (1, 'x')")


def test_a_partition_that_is_not_there_is_not_rescaled(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("d", pa.string())])
    table = Catalog(str(tmp_path / "w")).create_table(
        "d.t", schema, primary_key=["k", "d"], partition_by=["d"], options={"bucket": 1}
    )
    rows = pa.table({"k": [1], "d": ["a"]})
    table.write(rows)
    with pytest.raises(NotFound, match="no rows in partition"):
        table.rescale(2, partition={"d": "nope"})
    table.write(rows)
    assert table.rescale(2, partition={"d": "a"}) is not None


def test_a_column_of_a_partition_is_given_once() -> None:
    with pytest.raises(InvalidRequest, match="given twice"):
        partition_values(["d=a", "d=b"])


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark"])
def test_what_ends_a_stream_before_it_begins_is_told_in_a_line(sql: Sql) -> None:
    sql("CREATE TABLE ap (id INT, v INT); CREATE TABLE apo (id INT, v INT); INSERT INTO ap VALUES (1, 1)")
    sql(
        "SET 'execution.runtime-mode' = 'streaming'; SET 'execution.trigger' = 'available-now'; SET 'pipeline.name' = 'd'"
    )
    with pytest.raises(StorageError) as raised:
        sql("INSERT INTO apo SELECT DISTINCT * FROM ap")
    assert "\n" not in str(raised.value)


def test_declarations_that_look_after_nothing_are_refused() -> None:
    for declare in (
        lambda: upkeep_schedule("u", [], cron_schedule="0 0 * * *"),
        lambda: upkeep_schedule("u", ["d.t"], cron_schedule="0 0 * * *", retain_last=0),
        lambda: freshness_check("d.t", at_most=timedelta(seconds=-1)),
        lambda: consistency_check("d.t", [], on="d.s"),
        lambda: sql_check("d.t", "c", "DELETE FROM d.t"),
        lambda: sql_check("d.t", "c", "SELEKT 1"),
        lambda: sql_check("d.t", "c", "SELECT 1; SELECT 2"),
        lambda: sql_check("d.t", "c", ""),
    ):
        with pytest.raises(InvalidRequest):
            declare()
    for given in (
        {"skip_unchanged": "no"},
        {"tag_partitions": 1},
        {"partition_mappings": {"d.z": dg.IdentityPartitionMapping()}},
    ):
        with pytest.raises(dg.DagsterInvalidDefinitionError, match=next(iter(given))):
            table_asset("d.t", **given)(lambda: None)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("of_table", "option"),
    [
        ("", "'fields.zz.aggregate-function' = 'sum'"), ("", "'fields.b.aggregate-function' = 'sum'"),
        ("'merge-engine' = 'aggregation'", "'fields.zz.aggregate-function' = 'sum'"),
        ("'merge-engine' = 'aggregation'", "'fields.b.aggregate-function' = 'nope'"),
        ("'merge-engine' = 'partial-update'", "'fields.b,zz.sequence-group' = 'a'"),
        ("", "'partition.expiration-time' = '1 d'"), ("", "'partition.timestamp-pattern' = '$a'"),
    ],
)  # fmt: skip
def test_options_that_say_what_nobody_asks_for_are_refused(sql: Sql, of_table: str, option: str) -> None:
    columns = "(a INT, b INT, PRIMARY KEY (a) NOT ENFORCED)"
    both = ", ".join(one for one in (of_table, option) if one)
    with pytest.raises(StorageError):
        sql(f"CREATE TABLE t {columns} WITH ({both})")
    sql(f"CREATE TABLE t {columns}" + (f" WITH ({of_table})" if of_table else ""))
    with pytest.raises(StorageError):
        sql(f"ALTER TABLE t SET ({option})")


@pytest.mark.spark
def test_fields_of_structs_are_named_in_what_changes_rows(sql: Sql) -> None:
    sql(
        "CREATE TABLE s (a INT, st ROW<x INT, y ROW<z INT>>, PRIMARY KEY (a) NOT ENFORCED) WITH ('bucket' = '1'); INSERT INTO s "
        "VALUES (1, named_struct('x', 1, 'y', named_struct('z', 5))), (2, named_struct('x', 2, 'y', named_struct('z', 6))), "
        "(3, NULL), (4, named_struct('x', 4, 'y', named_struct('z', 8)))"
    )
    sql("DELETE FROM s WHERE st.x = 1")
    sql("UPDATE s AS q SET st = named_struct('x', q.st.x + 10, 'y', q.st.y) WHERE ST.X = 2 AND q.st.y.z = 6")
    assert sql("SELECT st.x, st.y.z FROM s ORDER BY a") == [(12, 6), (None, None), (4, 8)]
    source = "(SELECT 2 AS a, named_struct('k', 12) AS u) v"
    sql(f"MERGE INTO s t USING {source} ON t.a = v.a AND t.st.x = v.u.k WHEN MATCHED THEN DELETE")
    assert sql("SELECT a FROM s ORDER BY a") == [(3,), (4,)]
    for wrong in ("DELETE FROM s WHERE a.x = 1", "DELETE FROM s WHERE nope.x = 1"):
        with pytest.raises(InvalidRequest, match="is of no table"):
            sql(wrong)
