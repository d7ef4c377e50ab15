"""What somebody else has written into a table, or into a statement, runs nothing in who reads it: on both engines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources import Session
from resources.assets.reproduce import Reproducer
from storage import CorruptData, StorageError, Unsupported
from storage.document import CHECKSUM

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


def forge(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """As another writer would: without a checksum."""
    value = change(json.loads(path.read_text()))
    path.write_text(json.dumps({key: content for key, content in value.items() if key != CHECKSUM}))


def test_a_computed_column_of_a_forged_table_is_refused_before_anything_is_run(
    sql: Sql, session: Session, engine: str, tmp_path: Path
) -> None:
    sql("CREATE TABLE e.t (id INT, x AS id + 1); INSERT INTO e.t SELECT 1; CREATE TABLE e.other (id INT)")
    assert sql("SELECT x FROM e.t") == [(2,)]
    (tmp_path / "canary").write_text("mine")
    schema = Path(session.settings.warehouse) / "e.db/t/schema/schema-0"
    for text in (
        "java_method('java.lang.System', 'setProperty', 'snapline.evil', 'done')",
        f"(SELECT max(content) FROM read_text('{tmp_path}/canary'))",
        "reflect('java.util.UUID', 'randomUUID')",
        "id IN (SELECT id FROM e.other)",
        "id), (SELECT 1",
    ):
        forge(schema, lambda value, text=text: {**value, "options": {**value["options"], "schema.1.expr": text}})  # type: ignore[misc]
        fresh = Session(session.settings)
        for statement in (
            "SELECT * FROM e.t",
            "SELECT id FROM e.t",
            "INSERT INTO e.other SELECT id FROM e.t",
            "EXPLAIN SELECT x FROM e.t",
            "CREATE TABLE e.made AS SELECT * FROM e.t",
        ):
            with pytest.raises(
                (CorruptData, Unsupported), match=r"Table e\.t cannot be read by SQL, nothing of it was run"
            ):
                fresh.sql(statement, engine).to_arrow()
    if engine == "spark":
        from resources.spark_session import start_spark

        java = start_spark(session.settings).sparkContext._jvm
        assert java is not None
        assert java.java.lang.System.getProperty("snapline.evil") is None


def test_native_functions_and_names_by_text_are_no_sql(sql: Sql, engine: str, tmp_path: Path) -> None:
    sql("CREATE TABLE e.t (id INT, s STRING); INSERT INTO e.t SELECT 1, 'a'")
    (tmp_path / "x.csv").write_text("mine")
    call = "('java.util.UUID', 'randomUUID')"
    for statement in (
        f"SELECT reflect{call}",
        f"SELECT java_method{call}",
        f"SELECT id, Try_Reflect{call} FROM e.t",
        f"SELECT `reflect`{call}",
        f"SELECT system.builtin.reflect{call}",
        f"SELECT IDENTIFIER('reflect'){call}",
        f"DELETE FROM e.t WHERE s = reflect{call}",
        f"UPDATE e.t SET s = java_method{call}",
        f"INSERT INTO e.t SELECT 2, reflect{call}",
        f"SELECT * FROM IDENTIFIER('csv.`{tmp_path}/x.csv`')",
        f"SELECT * FROM csv.`{tmp_path}/x.csv`",
        f"CREATE TABLE e.evil (id INT, x AS java_method{call})",
        f"MERGE INTO e.t AS t USING e.t AS s ON t.s = reflect{call} WHEN MATCHED THEN DELETE",
        f"SELECT TRANSFORM(s) USING 'touch {tmp_path}/ran; cat' AS (b) FROM e.t",
        f"INSERT INTO e.t SELECT 2, b FROM (FROM e.t SELECT TRANSFORM(s) USING 'touch {tmp_path}/ran' AS (b))",
        f"FROM e.t MAP s USING 'touch {tmp_path}/ran' AS b",
        f"FROM e.t REDUCE s USING 'touch {tmp_path}/ran' AS b",
        f"DELETE FROM e.t WHERE s IN (SELECT TRANSFORM(s) USING 'touch {tmp_path}/ran' AS (b) FROM e.t)",
    ):
        with pytest.raises(StorageError) as failed:
            sql(statement)
        assert "mine" not in str(failed.value)
    assert sql("SELECT * FROM e.t") == [(1, "a")]
    assert not (tmp_path / "ran").exists()


def test_a_recorded_statement_that_is_no_change_of_rows_is_not_run_again(
    sql: Sql, session: Session, engine: str
) -> None:
    sql("CREATE TABLE e.t (id INT); CREATE TABLE e.kept (id INT); INSERT INTO e.t SELECT 1")
    snapshot = Path(session.settings.warehouse) / "e.db/t/snapshot/snapshot-1"
    for text in (
        "DROP TABLE e.kept",
        "INSERT INTO e.t SELECT 1; DROP TABLE e.kept",
        "SELECT 1",
        "CALL sys.compact('e.t')",
        "%",
    ):
        forge(
            snapshot,
            lambda value, text=text: {**value, "properties": {**value["properties"], "snapline.statement": text}},  # type: ignore[misc]
        )
        fresh = Session(session.settings)
        reproducer = Reproducer(fresh, dict, lambda: pytest.fail("Spark is not needed"))
        with pytest.raises(CorruptData, match="nothing of it was run"):
            reproducer.reproduce(fresh.ref("e.t@1"), engine=engine)
    assert session.catalog.exists("e.kept")
