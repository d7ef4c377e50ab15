"""Statements that somebody typed who had not written what reads them."""

import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from click.testing import CliRunner

from resources import Session, consistency_check, freshness_check, sql_check, table_asset, upkeep_schedule
from resources.actions.values import partition_values
from resources.assets.table_declaration import TableDefinition
from resources.cli import cli
from resources.cli.rendering import print_rows
from resources.sql.parsing import parse
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
        ("dc > 1.249", [2]),
        ("dc >= 1.249", [2]),
        ("dc < 1.249", [1, 4]),
        ("dc <= 1.249", [1, 4]),
        ("dc = 1.249", []),
        ("dc <> 1.249", [1, 2, 4]),
        ("dc IN (1.25, 1.249)", [2]),
        ("dc BETWEEN 1.249 AND 1.251", [2]),
        ("k > 1.5", [2, 3, 4]),
        ("dc < -1.249", [4]),
        ("dc > -1.251", [1, 2, 4]),
    ):
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
        ("", "'fields.zz.aggregate-function' = 'sum'"),
        ("", "'fields.b.aggregate-function' = 'sum'"),
        ("'merge-engine' = 'aggregation'", "'fields.zz.aggregate-function' = 'sum'"),
        ("'merge-engine' = 'aggregation'", "'fields.b.aggregate-function' = 'nope'"),
        ("'merge-engine' = 'partial-update'", "'fields.b,zz.sequence-group' = 'a'"),
        ("", "'partition.expiration-time' = '1 d'"),
        ("", "'partition.timestamp-pattern' = '$a'"),
    ],
)
def test_options_that_say_what_nobody_asks_for_are_refused(sql: Sql, of_table: str, option: str) -> None:
    columns = "(a INT, b INT, PRIMARY KEY (a) NOT ENFORCED)"
    both = ", ".join(setting for setting in (of_table, option) if setting)
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


def test_a_catalog_that_is_there_already_is_told_from_the_one_asked_for(session: Session, tmp_path: Path) -> None:
    def said(name: str, warehouse: str) -> str | None:
        text = f"CREATE CATALOG IF NOT EXISTS {name} WITH ('warehouse' = '{tmp_path}/{warehouse}')"
        return session.sql(text, "duckdb").message

    assert "other" not in str(said("c", "a"))
    assert str(said("c", "a")).endswith("already; it stays as it is.")
    assert "another one than asked for" in str(said("c", "b")) and f"{tmp_path}/a" in str(said("c", "b"))
    assert "another one than asked for" in str(said("snapline", "b"))
    assert str(session.catalog_of("c").warehouse).endswith("/a")


def test_a_partition_that_is_not_there_is_not_compacted(session: Session) -> None:
    session.sql("CREATE TABLE t (a INT, d STRING) PARTITIONED BY (d); INSERT INTO t VALUES (1, 'x')", "duckdb")
    with pytest.raises(NotFound, match="no rows in partition"):
        session.catalog.table("default.t").compact(partition={"d": "nope"})
    with pytest.raises(NotFound, match="no rows in partition"):
        session.sql("ALTER TABLE t PARTITION (d = 'nope') COMPACT", "duckdb")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("formatter", "nonsense"),
        ("formatter", "yyyy-mm-ddTHH"),
        ("formatter", "MM-dd"),
        ("formatter", "HH:mm"),
        ("formatter", "yyyydd"),
        ("formatter", ""),
        ("pattern", "day"),
        ("pattern", "$nope"),
        ("pattern", ""),
    ],
)
def test_patterns_of_times_of_partitions_are_checked_when_they_are_set(session: Session, key: str, value: str) -> None:
    session.sql("CREATE TABLE t (a INT, d STRING) PARTITIONED BY (d)", "duckdb")
    option = f"'partition.timestamp-{key}' = '{value}'"
    with pytest.raises(InvalidRequest, match=f"partition.timestamp-{key}"):
        session.sql(f"ALTER TABLE t SET ({option})", "duckdb")
    with pytest.raises(InvalidRequest, match=f"partition.timestamp-{key}"):
        session.sql(f"CREATE TABLE u (a INT, d STRING) PARTITIONED BY (d) WITH ({option})", "duckdb")


def test_times_of_partitions_are_read_by_the_pattern_that_java_reads_them_by(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (a INT, d STRING) PARTITIONED BY (d); INSERT INTO t VALUES (1, '20240501T07%')", "duckdb"
    )
    session.sql(
        "ALTER TABLE t SET ('partition.timestamp-formatter' = 'yyyyMMdd''T''HH%', 'partition.expiration-time' = '1 d')",
        "duckdb",
    )
    assert session.catalog.table("default.t").expire_partitions(dry_run=True) == [{"d": "20240501T07%"}]


@pytest.mark.parametrize("key", ["k INT PRIMARY KEY", "k INT, PRIMARY KEY (k)", "k INT, CONSTRAINT c PRIMARY KEY (k)"])
def test_a_key_is_not_enforced_unless_somebody_says_so(session: Session, key: str) -> None:
    """As in Spark 4, whose PRIMARY KEY needs no NOT ENFORCED."""
    session.sql(f"CREATE TABLE t ({key})", "duckdb")
    assert session.catalog.table("default.t").schema.primary_keys == ("k",)


@pytest.mark.spark
def test_a_group_of_both_zeros_is_called_zero(sql: Sql) -> None:
    sql("CREATE TABLE n (k INT, z DOUBLE); INSERT INTO n VALUES (1, -0.0D), (2, 0.0D), (3, 1.0D)")
    for query in (
        "SELECT DISTINCT z FROM n WHERE k = 1",
        "SELECT z FROM n WHERE k = 1 GROUP BY z",
        "SELECT z AS g FROM n WHERE k = 1 GROUP BY g",
        "SELECT abs(z) * -1 FROM n WHERE k = 2 GROUP BY 1",
        "SELECT z, count(*) FROM n WHERE k < 3 GROUP BY ALL",
        "SELECT z FROM n WHERE k = 1 UNION SELECT z FROM n WHERE k = 1",
        "SELECT z FROM n WHERE k = 1 EXCEPT SELECT 1D",
        "SELECT z FROM n WHERE k = 1 INTERSECT SELECT z FROM n",
        "SELECT DISTINCT n.z FROM n WHERE k = 1 ORDER BY n.z",
    ):
        [(value, *_)] = sql(query)
        assert str(value) == "0.0", query
    assert str(sql("SELECT z FROM n WHERE k = 1 UNION ALL SELECT 1D")[0][0]) == "-0.0"


@pytest.mark.spark
def test_both_zeros_are_keys_of_their_own_in_what_changes_rows(sql: Sql) -> None:
    sql("CREATE TABLE z (k DOUBLE PRIMARY KEY NOT ENFORCED, v INT) WITH ('bucket' = '1')")
    sql("INSERT INTO z VALUES (-0.0D, 1), (0.0D, 2), (1.0D, 3)")
    sql("UPDATE z SET v = v + 10 WHERE v < 3")
    assert sorted(row[1] for row in sql("SELECT * FROM z")) == [3, 11, 12]
    sql("DELETE FROM z WHERE v > 10")
    assert sql("SELECT * FROM z") == [(1.0, 3)]


@pytest.mark.spark
def test_a_name_of_with_stands_for_the_nearest(sql: Sql) -> None:
    for query, expected in (
        (
            "WITH c AS (SELECT 1 x), d AS (WITH c AS (SELECT 2 x) SELECT * FROM c) SELECT d.x AS a, c.x AS b FROM d, c",
            [(2, 1)],
        ),
        ("WITH c AS (SELECT 1 x) SELECT * FROM (WITH c AS (SELECT 2 x) SELECT * FROM c)", [(2,)]),
        ("WITH c AS (WITH c AS (SELECT 2 x) SELECT x + 1 AS x FROM c) SELECT x FROM c", [(3,)]),
        ("WITH c AS (SELECT 1 x) SELECT x FROM c WHERE x + 1 IN (WITH c AS (SELECT 2 x) SELECT x FROM c)", [(1,)]),
    ):
        assert sql(query) == expected


@pytest.mark.spark
def test_nulls_may_come_first_in_an_array(sql: Sql) -> None:
    assert sql("SELECT array(NULL, 3)") == [([None, 3],)]
    for wrong in ("SELECT array(NULL, )", "SELECT CAST(1 AS DECIMAL(10,))"):
        with pytest.raises(InvalidRequest, match="after the comma"):
            sql(wrong)


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark"])
def test_bits_are_shifted_without_a_sign(sql: Sql) -> None:
    assert sql("SELECT -8 >>> 1, -8L >>> 1 + 1, 1 | 8 >>> 1") == [(2147483644, 4611686018427387902, 5)]


@pytest.mark.spark
def test_columns_without_a_name_have_that_of_spark(session: Session, engine: str) -> None:
    session.sql("CREATE TABLE n (a INT, b INT); INSERT INTO n VALUES (1, 2)", engine)
    names = {
        "a + 1": "(a + 1)",
        "n.a * b": "(a * b)",
        "count(*)": "count(1)",
        "SUM(a)": "sum(a)",
        "count(DISTINCT b)": "count(DISTINCT b)",
        "max(a) > 1 AND 'x' <> 'y'": "((max(a) > 1) AND (NOT (x = y)))",
        "upper('x')": "upper(x)",
        "NULL": "NULL",
        "TRUE": "true",
        "5": "5",
        "-5": "-5",
        "1.50": "1.50",
        "CASE WHEN 1 = 1 THEN 2 END": "CASE WHEN (1 = 1) THEN 2 END",
        "coalesce(max(a), 2)": "coalesce(max(a), 2)",
        "1 IN (1, 2)": "(1 IN (1, 2))",
    }
    typed = [text for text in names if text not in ("a + 1", "n.a * b")]
    assert session.sql("SELECT a + 1, n.a * b FROM n", engine).to_arrow().column_names == ["(a + 1)", "(a * b)"]
    column_names = session.sql(f"SELECT {', '.join(typed)} FROM n", engine).to_arrow().column_names
    assert column_names == [names[text] for text in typed]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("STRING", "sum"),
        ("BOOLEAN", "sum"),
        ("DATE", "product"),
        ("ARRAY<INT>", "max"),
        ("BOOLEAN", "min"),
        ("INT", "bool_or"),
        ("INT", "listagg"),
        ("BINARY(3)", "listagg"),
        ("STRING", "collect"),
    ],
)
def test_what_a_function_cannot_aggregate_is_refused_when_it_is_declared(
    session: Session, kind: str, function: str
) -> None:
    options = f"'merge-engine'='aggregation', 'fields.b.aggregate-function'='{function}'"
    with pytest.raises(InvalidRequest, match=f"'b' of type .* cannot be aggregated by '{function}'"):
        session.sql(f"CREATE TABLE a (id INT PRIMARY KEY NOT ENFORCED, b {kind}) WITH ({options})", "duckdb")
    assert session.catalog.tables() == []


@pytest.mark.parametrize(
    ("key", "options", "why"),
    [
        ("", "'changelog-producer'='lookup'", "primary key"),
        ("", "'force-lookup'='true'", "primary key"),
        ("", "'partition.expiration-time'='1 d'", "without partitions"),
        ("", "'dynamic-partition-overwrite'='false'", "without partitions"),
        ("", "'tag.create-time'='10:00'", "tag.create-interval"),
        ("", "'tag.creation-period'='hourly'", "tag.automatic-creation"),
        ("", "'file.compression.zstd-level'='3','file.compression'='snappy'", "zstd"),
        ("PARTITIONED BY (a)", "'partition.expiration-strategy'='update-time'", "partition.expiration-time"),
        ("", "'bucket'='2','bucket-key'='a,a'", "twice"),
        ("", "'bucket'='-7'", "positive"),
        ("PRIMARY KEY", "'compaction.min.file-num'='3'", "with a primary key"),
    ],
)
def test_options_without_an_effect_are_refused_wherever_they_are_given(
    session: Session, key: str, options: str, why: str
) -> None:
    column = "a INT PRIMARY KEY NOT ENFORCED" if key == "PRIMARY KEY" else "a INT"
    partitions = key if key != "PRIMARY KEY" else ""
    with pytest.raises(InvalidRequest, match=why):
        session.sql(f"CREATE TABLE o ({column}, b INT) {partitions} WITH ({options})", "duckdb")
    assert session.catalog.tables() == []
    session.sql(f"CREATE TABLE o ({column}, b INT) {partitions}", "duckdb")
    with pytest.raises(StorageError):
        session.sql(f"ALTER TABLE o SET ({options})", "duckdb")
    assert session.table("default.o").schema.id == 0
    given = dict(part.strip("' ").split("'='") for part in options.replace("','", "' , '").split(" , "))
    with pytest.raises(InvalidRequest, match=why):
        TableDefinition(
            "default.o",
            primary_key=["a"] if key == "PRIMARY KEY" else (),
            partition_by=["a"] if partitions else (),
            options=given,
        )


def test_defaults_of_tables_are_for_those_that_they_have_an_effect_on(session: Session) -> None:
    session.sql(
        "SET 'table-storage.merge-engine' = 'first-row'; SET 'table-storage.tag.create-time' = '10:00'", "duckdb"
    )
    session.sql("CREATE TABLE o (a INT)", "duckdb")
    with pytest.raises(InvalidRequest, match="positive"):
        session.sql("SET 'table-storage.bucket' = '-7'", "duckdb")


def test_a_table_has_a_comment_that_can_be_changed(session: Session) -> None:
    session.sql("CREATE TABLE c (a INT) USING paimon COMMENT 'first'", "duckdb")
    for text, comment in (
        ("COMMENT ON TABLE c IS 'it''s'", "it's"),
        ("ALTER TABLE c SET TBLPROPERTIES ('comment'='x', 'bucket'='-1')", "x"),
        ("COMMENT ON TABLE c IS NULL", None),
    ):
        session.sql(text, "duckdb")
        assert session.table("default.c").schema.comment == comment
    before = session.table("default.c").schema.id
    session.sql("ALTER TABLE c UNSET TBLPROPERTIES IF EXISTS ('file.format')", "duckdb")
    assert session.table("default.c").schema.id == before


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("COMMENT ON DATABASE d IS 'x'", "only tables"),
        ("ALTER TABLE c CHANGE COLUMN a a BIGINT", "RENAME COLUMN"),
        ("ALTER TABLE c REPLACE COLUMNS (a INT)", "CREATE OR REPLACE"),
        ("ALTER TABLE c ALTER COLUMN a TYPE BIGINT, b INT", "each"),
        ("DESCRIBE c a", "leave out"),
        ("DESCRIBE QUERY SELECT 1", "EXPLAIN"),
        ("DESCRIBE DATABASE d", "SHOW TABLES"),
        ("OPTIMIZE c", "COMPACT"),
        ("VACUUM c", "expire_snapshots"),
        ("REFRESH TABLE c", "cached"),
        ("CREATE TABLE d (a INT) USING parquet", "file.format"),
        ("ALTER TABLE c SET ('file.format'='avro','file.format'='orc')", "given twice"),
        ("CREATE DATABASE information_schema", "reserved"),
        ("INSERT OVERWRITE p PARTITION (b = NULL) VALUES (1)", "leave the column"),
        ("DELETE FROM g WHERE a = 1", "UPDATE, DELETE and MERGE"),
        ("CREATE TABLE d (a INT) WITH ('file.format'='xml')", "file.format"),
        ("SELECT 'a' BETWEEN SYMMETRIC 'b' AND 'A'", "lower value"),
    ],
)
def test_what_others_have_is_refused_with_what_there_is_instead(session: Session, text: str, advice: str) -> None:
    session.sql(
        "CREATE TABLE c (a INT, s ARRAY<STRUCT<x: INT>>); CREATE TABLE p (a INT, b INT) PARTITIONED BY (b); "
        "CREATE TABLE g (a INT PRIMARY KEY NOT ENFORCED) WITH ('merge-engine'='first-row')",
        "duckdb",
    )
    with pytest.raises(StorageError, match=re.escape(advice)):
        session.sql(text, "duckdb")


@pytest.mark.spark
def test_a_window_of_time_has_a_start_and_an_end(session: Session) -> None:
    session.sql("CREATE TABLE w (at TIMESTAMP_NTZ, v INT)")
    session.sql("INSERT INTO w VALUES (TIMESTAMP_NTZ'2026-01-01 10:20:00', 1)")
    asked = "SELECT hour({0}.start) s, minute({0}.end) e, sum(v) v FROM w GROUP BY {0}(at, '30 minutes')"
    assert session.sql(asked.format("window")).to_arrow().to_pylist() == [{"s": 10, "e": 30, "v": 1}]
    assert session.sql(asked.format("session_window")).to_arrow().to_pylist() == [{"s": 10, "e": 50, "v": 1}]
    with pytest.raises(InvalidRequest, match="no column 'start'"):
        session.sql("SELECT start FROM w")


@pytest.mark.spark
def test_rows_are_grouped_by_windows_of_time(session: Session, engine: str) -> None:
    session.sql("CREATE TABLE w AS SELECT TIMESTAMP '2024-01-01 10:20:00' AS ts", "duckdb")
    text = "SELECT window(ts, '1 hour').start AS s, count(*) AS n FROM w GROUP BY window(ts, '1 hour')"
    if engine == "spark":
        assert session.sql(text, engine).to_arrow().column("n").to_pylist() == [1]
    else:
        with pytest.raises(InvalidRequest, match="Use the engine spark"):
            session.sql(text, engine)
    assert session.sql("SELECT sum(1) OVER w AS n FROM w WINDOW w AS (ORDER BY ts)", engine).to_arrow().to_pylist() == [
        {"n": 1}
    ]


@pytest.mark.spark
def test_sub_queries_have_spark_s_names(session: Session, engine: str) -> None:
    session.sql("CREATE TABLE w AS SELECT 1 AS id", "duckdb")
    text = "SELECT (SELECT max(id) FROM w y WHERE y.id < x.id), exists(SELECT 1 FROM w y WHERE y.id < x.id) FROM w x"
    assert session.sql(text, engine).to_arrow().column_names == ["scalarsubquery(id)", "exists(id)"]


@pytest.mark.parametrize(
    ("made", "altered"),
    [
        ("'bucket'='1'", "SET ('sequence.field'='v')"),
        ("'sequence.field'='v'", "RESET ('sequence.field')"),
        (
            "'merge-engine'='aggregation','fields.v.aggregate-function'='sum'",
            "SET ('fields.v.aggregate-function'='max')",
        ),
        ("'merge-engine'='aggregation','fields.v.aggregate-function'='sum'", "RESET ('fields.v.aggregate-function')"),
        ("'merge-engine'='aggregation'", "SET ('fields.default-aggregate-function'='max')"),
        ("'merge-engine'='aggregation','fields.v.aggregate-function'='sum'", "ALTER COLUMN v TYPE STRING"),
        ("'merge-engine'='partial-update'", "SET ('fields.v.sequence-group'='w')"),
    ],
)
def test_no_option_changes_what_the_rows_of_the_past_are(session: Session, made: str, altered: str) -> None:
    session.sql(
        f"CREATE TABLE m (id INT PRIMARY KEY NOT ENFORCED, v INT, w INT) WITH ({made}); "
        "INSERT INTO m VALUES (1, 10, 1); INSERT INTO m VALUES (1, 1, 2)",
        "duckdb",
    )
    before = session.table("default.m").to_arrow().to_pylist()
    with pytest.raises(StorageError, match=r"cannot change any more|cannot be aggregated|decides how"):
        session.sql(f"ALTER TABLE m {altered}", "duckdb")
    assert session.table("default.m").schema.id == 0
    assert session.table("default.m").to_arrow().to_pylist() == before


def test_how_a_new_column_is_aggregated_can_be_said_before_it_has_rows(session: Session) -> None:
    session.sql(
        "CREATE TABLE m (id INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('merge-engine'='aggregation', "
        "'fields.v.aggregate-function'='sum'); INSERT INTO m VALUES (1, 10); ALTER TABLE m ADD COLUMN w INT; "
        "ALTER TABLE m SET ('fields.w.aggregate-function'='sum'); ALTER TABLE m RENAME COLUMN v TO x; "
        "INSERT INTO m VALUES (1, 1, 5); INSERT INTO m VALUES (1, 1, 5)",
        "duckdb",
    )
    assert session.table("default.m").to_arrow().to_pylist() == [{"id": 1, "x": 12, "w": 10}]
    with pytest.raises(StorageError, match=r"fields\.w.* cannot change any more"):
        session.sql("ALTER TABLE m RESET ('fields.w.aggregate-function')", "duckdb")


def test_what_ran_before_an_error_is_shown(session: Session, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("CREATE TABLE a (i INT); INSERT INTO a VALUES (1);\nSELECT i + 1 AS n FROM a; SELECT * FROM nope")
    done = CliRunner().invoke(cli, ["sql", "--engine", "duckdb", "-f", str(script), "--format", "csv"], obj=Session())
    assert done.exit_code
    assert "Snapshot 1 of default.a: 1 row " in done.stdout and done.stdout.endswith("n\n2\n")


def test_in_csv_an_empty_text_is_not_null_and_in_json_nan_is_not_null(session: Session) -> None:
    text = "SELECT NULL AS a, '' AS b, 'x,\"y' AS c, CAST('NaN' AS DOUBLE) AS d"
    for form, expected in (("csv", 'a,b,c,d\n,"","x,""y",NaN\n'), ("json", '"d": "NaN"')):
        done = CliRunner().invoke(cli, ["sql", "--engine", "duckdb", text, "--format", form], obj=Session())
        assert expected in done.stdout.replace('"d":"NaN"', '"d": "NaN"')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE DATABASE d COMMENT 'x' WITH DBPROPERTIES ('a'='b')", "a database has a name and nothing else"),
        (
            "MERGE WITH SCHEMA EVOLUTION INTO w USING w ON true WHEN MATCHED THEN DELETE",
            "leave out WITH SCHEMA EVOLUTION",
        ),
        ("FROM w INSERT INTO w SELECT i INSERT INTO v SELECT i", "write one INSERT for each table"),
        ("SHOW TABLE EXTENDED LIKE 'w'", "DESCRIBE TABLE EXTENDED t shows one table"),
        ("SHOW CURRENT NAMESPACE", "SHOW CURRENT DATABASE does that"),
        ("SELECT /*+ BROADCAST(w) */ * FROM w", r"^Line 1, column 12: /\*\+ BROADCAST\(w\) \*/ \(HINT\) is not known"),
        (
            "INSERT INTO w VALUES (128)",
            r"out of range for the destination type INT8 when casting from source column i\b",
        ),
    ],
)
def test_refusals_name_what_was_typed_and_what_does_it(
    session: Session, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    session.sql("CREATE TABLE w (i TINYINT)", "duckdb")
    with pytest.raises(StorageError, match=said):
        session.sql(text, "duckdb")
    assert not caplog.records


@pytest.mark.spark
def test_rows_that_are_given_are_no_stream(session: Session) -> None:
    session.sql("CREATE TABLE w (i INT)", "duckdb")
    begun = "SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.name' = 'p'; "
    with pytest.raises(StorageError, match=r"SET 'execution\.runtime-mode' = 'batch'"):
        session.sql(f"{begun}INSERT INTO w VALUES (1)", "spark")


def commanded(script: Path, text: str) -> subprocess.CompletedProcess[str]:
    script.write_text(text)
    command = [str(Path(sys.executable).with_name("snapline")), "sql", "--engine", "spark", "-f", str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.spark
def test_the_command_says_nothing_but_its_results_however_it_ends(session: Session, tmp_path: Path) -> None:
    """Behind a stream the libraries below took themselves apart with dozens of lines, and a status is not lost on the way."""
    done = commanded(
        tmp_path / "stream.sql",
        "CREATE TABLE a (id INT PRIMARY KEY NOT ENFORCED, v INT) WITH ('changelog-producer'='input'); CREATE TABLE b LIKE a; "
        "INSERT INTO a VALUES (1, 1); SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.name' = 'p'; "
        "INSERT INTO b SELECT id, v FROM a; SET 'execution.runtime-mode' = 'batch'; SELECT v / 0 FROM b",
    )
    assert done.returncode == 2 and "DIVIDE_BY_ZERO" in done.stderr.splitlines()[-1], done.stderr
    assert "micro-batches" in done.stdout and "leaked" not in done.stderr


@pytest.mark.spark
def test_a_micro_batch_that_cannot_be_written_ends_its_stream_with_a_line(session: Session, tmp_path: Path) -> None:
    done = commanded(
        tmp_path / "stream.sql",
        "CREATE TABLE a (id INT PRIMARY KEY NOT ENFORCED, g STRING); "
        "CREATE TABLE b (g STRING PRIMARY KEY NOT ENFORCED, n BIGINT); INSERT INTO a VALUES (1, NULL); "
        "SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.name' = 'p'; "
        "SET 'execution.trigger' = 'available-now'; INSERT INTO b SELECT g, count(*) FROM a GROUP BY g",
    )
    assert done.returncode == 2 and "NOT NULL" in done.stderr.splitlines()[-1], done.stderr
    assert not re.search(r"Exception|Traceback|^\s+at ", done.stderr, re.MULTILINE), done.stderr


@pytest.mark.parametrize(("option", "left"), [("true", [1, 3]), ("false", [3])])
def test_insert_overwrite_replaces_the_partitions_of_the_rows_or_all(
    session: Session, option: str, left: list[int]
) -> None:
    session.sql(
        f"CREATE TABLE p (i INT, d STRING) PARTITIONED BY (d) WITH ('dynamic-partition-overwrite'='{option}'); "
        "INSERT INTO p VALUES (1, 'x'), (2, 'y'); INSERT OVERWRITE p SELECT 3, 'y'",
        "duckdb",
    )
    assert sorted(session.table("default.p").to_arrow()["i"].to_pylist()) == left


def test_a_table_that_changed_itself_is_not_behind_itself(session: Session) -> None:
    session.sql(
        "CREATE TABLE a (id INT PRIMARY KEY NOT ENFORCED, v INT); INSERT INTO a VALUES (1, 1), (2, 2); "
        "UPDATE a SET v = 3 WHERE id = 1; DELETE FROM a WHERE id = 2; CREATE TABLE b AS SELECT * FROM a; "
        "UPDATE a SET v = 4 WHERE id = 1",
        "duckdb",
    )
    assert session.freshness("default.a") == []
    assert [(lag.source.snapshot_id, lag.snapshots_behind) for lag in session.freshness("default.b")] == [(3, 1)]
