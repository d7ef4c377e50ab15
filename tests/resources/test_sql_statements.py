"""Statements that Spark's users type, on both engines: each does what it does there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources import Session
from resources.sql.ends import is_ended, open_piece
from storage import InvalidRequest, StorageError, Unsupported

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


@pytest.fixture
def two(sql: Sql) -> Sql:
    sql("CREATE TABLE t (a INT, b STRING); CREATE TABLE u (a INT, c STRING)")
    sql("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, NULL), (4, 'z')")
    sql("INSERT INTO u VALUES (2, 'p'), (3, 'q'), (9, 'r')")
    return sql


def rows(sql: Sql, text: str = "SELECT * FROM t") -> list[Any]:
    return sorted(sql(text), key=repr)


def test_conditions_of_delete_and_update_hold_queries(two: Sql) -> None:
    two("UPDATE t SET b = (SELECT max(c) FROM u) WHERE a IN (SELECT a FROM u WHERE c <> 'q')")
    assert rows(two) == [(1, "x"), (2, "r"), (3, None), (4, "z")]
    two("UPDATE t SET b = concat(b, '!') WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) OR a = (SELECT max(a) FROM t)")
    assert rows(two) == [(1, "x"), (2, "r!"), (3, None), (4, "z!")]
    two("DELETE FROM t WHERE a NOT IN (SELECT a FROM u) AND a < (SELECT avg(a) FROM t)")
    assert rows(two) == [(2, "r!"), (3, None), (4, "z!")]
    two("DELETE FROM t AS x WHERE EXISTS (SELECT 1 FROM u WHERE u.a = x.a)")
    assert rows(two) == [(4, "z!")]


def test_what_a_query_in_a_condition_reads_is_lineage(two: Sql, session: Session) -> None:
    two("DELETE FROM t WHERE a IN (SELECT a FROM u)")
    sources = [
        (row.database, row.table)
        for row in session.lineage_store.snapshots("source", job="insert-into_snapline.default.t")
    ]
    assert ("default", "u") in sources


def test_merge_holds_queries_in_its_conditions(two: Sql) -> None:
    two(
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED AND t.a = (SELECT max(a) FROM t WHERE a < 4) THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET b = u.c WHEN NOT MATCHED THEN INSERT (a, b) VALUES (u.a, u.c)"
    )
    assert rows(two) == [(1, "x"), (2, "p"), (4, "z"), (9, "r")]


def test_table_and_values_are_statements(two: Sql) -> None:
    assert rows(two, "TABLE u") == [(2, "p"), (3, "q"), (9, "r")]
    assert rows(two, "VALUES (1, 'a'), (2, 'b')") == [(1, "a"), (2, "b")]
    assert two("SELECT col2 FROM (VALUES (1, 'a'))") == [("a",)]
    two("INSERT INTO t TABLE u")
    assert len(two("SELECT * FROM t")) == 7


def test_star_except_leaves_columns_out(two: Sql) -> None:
    assert rows(two, "SELECT * EXCEPT (a) FROM u") == [("p",), ("q",), ("r",)]
    assert two("SELECT * EXCEPT (b), a + 1 AS z FROM t WHERE a = 1") == [(1, 2)]
    with pytest.raises(InvalidRequest):
        two("SELECT * EXCEPT (nope) FROM t")


def test_joins_using_columns_of_queries(two: Sql) -> None:
    text = "SELECT a FROM (SELECT a, b FROM t) LEFT JOIN (SELECT a, c FROM u) USING (a) WHERE c IS NOT NULL"
    assert rows(two, text) == [(2,), (3,)]


def test_a_moment_is_a_text_seconds_or_an_expression(two: Sql, session: Session) -> None:
    moment = session.catalog.table("default.t").snapshot().time_ms / 1000
    two("INSERT INTO t VALUES (5, 'later')")
    for asked in (f"{moment:.3f}", f"{int(moment) + 3600}", "current_timestamp()", "now() + INTERVAL 1 HOUR"):
        assert len(two(f"SELECT * FROM t TIMESTAMP AS OF {asked}")) >= 4, asked
    assert len(two(f"SELECT * FROM t TIMESTAMP AS OF {moment:.3f}")) == 4
    for asked in ("now() - INTERVAL 1 DAY", "date_sub(current_date(), 2)"):
        with pytest.raises(StorageError, match="no snapshot or tag at or before"):
            two(f"SELECT * FROM t TIMESTAMP AS OF {asked}")
    with pytest.raises(InvalidRequest, match="Seconds since 1970"):
        two("SELECT * FROM t TIMESTAMP AS OF '1700000000'")


def test_columns_are_added_where_they_are_asked_for(two: Sql) -> None:
    two("ALTER TABLE t ADD COLUMN first_one INT FIRST")
    two("ALTER TABLE t ADD COLUMNS (c INT COMMENT 'it''s' AFTER a, IF_NOT STRING)")
    two("ALTER TABLE t ADD COLUMN IF NOT EXISTS c STRING")
    assert two("SHOW COLUMNS IN t") == [("first_one",), ("a",), ("c",), ("b",), ("IF_NOT",)]
    two("ALTER TABLE t DROP COLUMN IF EXISTS nope")
    with pytest.raises(StorageError, match="nope"):
        two("ALTER TABLE t DROP COLUMN nope")


def test_computed_columns_follow_the_columns_they_are_computed_from(sql: Sql) -> None:
    sql("CREATE TABLE w (a INT, z INT, b AS a + 1, c AS a * 2)")
    sql("INSERT INTO w VALUES (1, 2)")
    sql("ALTER TABLE w RENAME COLUMN a TO aa")
    assert sql("SELECT * FROM w") == [(1, 2, 2, 2)]
    with pytest.raises(InvalidRequest, match="needs it"):
        sql("ALTER TABLE w DROP COLUMN aa")
    sql("ALTER TABLE w DROP COLUMN b")
    assert sql("SELECT * FROM w") == [(1, 2, 2)]
    for wrong in ("b AS nofunc(a)", "b AS c + 1", "b AS sum(a)", "b AS (SELECT 1)", "WATERMARK FOR a AS a"):
        with pytest.raises(InvalidRequest):
            sql(f"CREATE TABLE w3 (a INT, {wrong})")


def test_what_there_is_can_be_asked(two: Sql) -> None:
    assert two("SELECT table_name FROM information_schema.tables ORDER BY table_name") == [("t",), ("u",)]
    assert two("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'u'") == [
        ("a", "INT"),
        ("c", "STRING"),
    ]
    assert ("information_schema",) in two("SHOW DATABASES")
    assert two("SHOW TABLES LIKE 'T*'") == [("t",)] and two("SHOW TABLES 'u|x'") == [("u",)]
    assert two("SHOW VIEWS") == []
    two("ALTER TABLE t SET ('write-only' = 'true')")
    assert two("SHOW TBLPROPERTIES t ('write-only')") == [("write-only", "true")]
    assert two("DROP TABLE IF EXISTS nope") == "There is no table default.nope; nothing was dropped."
    two("CREATE DATABASE shop; USE shop")
    assert two("SELECT current_catalog(), current_database(), current_schema()") == [("snapline", "shop", "shop")]


def test_the_columns_that_the_documents_name(two: Sql) -> None:
    two("CREATE TABLE k (id INT PRIMARY KEY NOT ENFORCED, v STRING)")
    for value in "abc":
        two(f"INSERT INTO k VALUES (1, '{value}'), (2, '{value}')")
    two("CALL sys.create_tag('k', 'x'); CALL sys.create_branch('k', 'dev', tag => 'x')")
    assert two("SELECT tag_name, tagged_snapshot_id, record_count FROM `k$tags`") == [("x", 3, 2)]
    assert two("SELECT name FROM `k$branches`") == [("dev",)]
    for column, table in (("commit_time", "k$snapshots"), ("commit_time", "k$tags"), ("update_time", "k$schemas")):
        # Local times, as the format's own system tables show them: without a zone on either engine.
        assert [row[0].tzinfo for row in two(f"SELECT {column} FROM `{table}` LIMIT 1")] == [None], column


def test_rows_without_a_key_are_hashed_whole(two: Sql, session: Session) -> None:
    two("SET table-storage.bucket = 10; CREATE TABLE t10 (a INT, b STRING)")
    two("INSERT INTO t10 SELECT a, b FROM t")
    table = session.catalog.table("default.t10")
    assert table.schema.options["bucket-key"] == "a,b" and table.schema.options["bucket"] == "10"
    assert rows(two, "SELECT * FROM t10") == rows(two)


def test_each_unnamed_insert_is_a_job_of_its_own(two: Sql, session: Session) -> None:
    two("CREATE TABLE d1 (a INT); CREATE TABLE d2 (a INT)")
    two("INSERT INTO d1 SELECT a FROM t; INSERT INTO d2 SELECT a FROM u")
    assert session.neighbour_tables("default.d1", "up") == ["default.t"]
    assert session.neighbour_tables("default.d2", "up") == ["default.u"]


def test_a_text_longer_than_its_column_is_refused(two: Sql) -> None:
    two("CREATE TABLE v (a VARCHAR(3), b VARCHAR(2))")
    two("INSERT INTO v VALUES ('abc', 'é😀')")
    with pytest.raises(StorageError, match=r"VARCHAR\(3\)"):
        two("INSERT INTO v VALUES ('abcd', 'x')")
    assert len(two("SELECT * FROM v")) == 1


def test_a_time_with_more_digits_than_its_column_is_refused(two: Sql) -> None:
    two("CREATE TABLE d (a TIMESTAMP(0), b TIMESTAMP(1), c TIMESTAMP(3))")
    whole, tenth, fine = (f"TIMESTAMP '1960-02-03 04:05:06{rest}'" for rest in ("", ".7", ".789"))
    two(f"INSERT INTO d VALUES ({whole}, {tenth}, {fine}), (NULL, NULL, NULL)")
    for values, wrong in ((f"{tenth}, {tenth}, {fine}", "'a'"), (f"{whole}, {fine}, {fine}", "'b'")):
        with pytest.raises(StorageError, match=rf"{wrong}.*more digits of a second"):
            two(f"INSERT INTO d VALUES ({values})")
    assert len(two("SELECT * FROM d")) == 2


@pytest.mark.parametrize(
    "text", ["SELECT 1 / 0", "SELECT CAST('x' AS INT) AS a", "INSERT INTO t SELECT 1 / 0, 'x'", "SELECT nope(1)"]
)
def test_an_error_is_one_line(two: Sql, text: str) -> None:
    with pytest.raises(StorageError) as caught:
        two(text)
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)


def test_a_statement_ends_at_a_semicolon_outside_of_texts_and_comments() -> None:
    for text in (
        "SELECT 1;",
        "SELECT ';';",
        "SELECT 1; -- done",
        "SELECT r'\\';",
        "SELECT `a;`;\n",
        "SELECT 'it''s;';",
    ):
        assert is_ended(text), text
    for text in (
        "SELECT 1",
        "SELECT ';",
        "SELECT 1 -- ;",
        "SELECT 1 /* ;",
        "SELECT `a;",
        "SELECT 'a\\';",
        "",
        "SELECT 1; SELECT",
    ):
        assert not is_ended(text), text
    piece = open_piece("SELECT 1,\n  'abc")
    assert piece is not None and (piece.line, piece.column) == (2, 3)


def test_the_shell_runs_what_is_ended(session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rich.console import Console

    from resources.cli.shell import run_shell

    session.sql("CREATE TABLE t (a STRING)", "duckdb")
    lines = iter(["INSERT INTO t VALUES ('a;", "b'), ('--;');", "-- a comment;", "SELECT a FROM t;"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines, None) or (_ for _ in ()).throw(EOFError()))
    run_shell(session.statements, "duckdb", "table", Console(quiet=True), tmp_path / "history")
    assert sorted(session.catalog.table("default.t").to_arrow().column("a").to_pylist()) == ["--;", "a;\nb"]


def test_a_column_that_spark_does_not_have_is_named_and_the_others_can_be_read(session: Session) -> None:
    session.sql("CREATE TABLE d.clock (a INT, k TIME); INSERT INTO d.clock (a) VALUES (1)", "duckdb")
    assert session.sql("SELECT a FROM d.clock WHERE a = 1", "spark").to_arrow().to_pylist() == [{"a": 1}]
    for statement in ("SELECT * FROM d.clock", "INSERT INTO d.clock (a) VALUES (2)", "UPDATE d.clock SET a = 2"):
        with pytest.raises(Unsupported, match=r"no type for 'k' \(time32\[ms\]\)\. .* engine duckdb"):
            session.sql(statement, "spark").to_arrow()
    session.sql("UPDATE d.clock SET a = 2", "duckdb")
    assert session.sql("SELECT a FROM d.clock", "duckdb").to_arrow().to_pylist() == [{"a": 2}]


def test_a_column_is_not_renamed_to_what_differs_by_case_alone(sql: Callable[[str], Any]) -> None:
    sql("CREATE TABLE twins (id INT, b INT, a INT)")
    with pytest.raises(InvalidRequest, match="'b' and 'B' differ by case alone"):
        sql("ALTER TABLE twins RENAME COLUMN a TO B")
    sql("ALTER TABLE twins RENAME COLUMN a TO A")
    sql("INSERT INTO twins VALUES (1, 2, 3)")
    assert sql("SELECT A FROM twins") == [(3,)]


@pytest.mark.parametrize(
    "call", ["sys.create_tag(NULL, 't')", "sys.create_tag('default.twins', NULL)", "sys.compact(NULL)"]
)
def test_null_is_no_argument_of_a_procedure(session: Session, call: str) -> None:
    with pytest.raises(InvalidRequest, match=r"needs (table|tag)"):
        session.sql(f"CALL {call}", "duckdb")


def test_a_schema_is_a_database(sql: Callable[[str], Any]) -> None:
    sql("CREATE SCHEMA IF NOT EXISTS made")
    assert "made" in [row[0] for row in sql("SHOW SCHEMAS")]
    sql("DROP SCHEMA made")
    assert "made" not in [row[0] for row in sql("SHOW DATABASES")]
