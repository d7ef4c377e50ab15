"""Columns whose names differ by case alone: no table gets them, and one that has them already is not read wrongly."""

from collections.abc import Callable
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest

from resources import Session, table_asset
from resources.sql.duckdb_select import run_query
from storage import AddColumn, InvalidRequest, RenameColumn, StorageError
from storage.metadata import first_schema

_TWINS = pa.schema([("a", pa.int32()), ("A", pa.int32()), ("b", pa.int32())])
_SAID = "differ by case alone"


def test_no_table_gets_columns_that_differ_by_case_alone(session: Session, materialize: Callable[..., Any]) -> None:
    @table_asset("shop.twins")
    def twins() -> pa.Table:
        return pa.table({"a": [1], "A": [2]})

    with pytest.raises(dg.Failure, match=_SAID):
        materialize(twins)
    create = session.catalog.create_table
    nested = pa.struct([("x", pa.int32()), ("X", pa.int32())])
    for columns in (_TWINS, pa.schema([("s", pa.list_(nested))]), pa.schema([("m", pa.map_(pa.string(), nested))])):
        with pytest.raises(InvalidRequest, match=_SAID):
            create("default.t", columns)
    table = create(
        "default.t", pa.schema([("a", pa.int32()), ("b", pa.int32()), ("s", pa.struct([("x", pa.int32())]))])
    )
    for change in (AddColumn("A", "INT"), RenameColumn("b", "A"), AddColumn("s.X", "INT")):
        with pytest.raises(InvalidRequest, match=_SAID):
            table.alter(change)
    assert "default.twins" not in session.catalog.tables() and session.table("default.t").schema.id == 0


def test_a_table_that_has_them_is_not_read_wrongly(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        # As others may make it.
        patched.setattr(first_schema, "refuse_new_twins", lambda *_: None)
        table = session.catalog.create_table("default.t", _TWINS)
    table.write(pa.table({"a": [1], "A": [2], "b": [3]}, _TWINS))
    for statement in (
        "SELECT A FROM t",
        "SELECT * FROM t",
        "SELECT b FROM t WHERE a = 1",
        "CREATE TABLE u AS SELECT * FROM t",
        "UPDATE t SET b = 4",
        "UPDATE t SET b = A",
        "DELETE FROM t WHERE A = 1",
    ):
        with pytest.raises(StorageError, match=rf"{_SAID}|2 columns"):
            session.sql(statement, "duckdb")
    with pytest.raises(StorageError, match=_SAID):
        run_query(session, 'SELECT * FROM "default".t')
    assert session.sql("SELECT b FROM t", "duckdb").to_arrow().to_pylist() == [{"b": 3}]
    session.sql("ALTER TABLE t RENAME COLUMN `A` TO c", "duckdb")
    assert session.sql("SELECT * FROM t", "duckdb").to_arrow().to_pylist() == [{"a": 1, "c": 2, "b": 3}]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a FROM (SELECT 1 a, 2 a)",
        "SELECT A FROM (SELECT 1 a, 2 A)",
        "WITH q AS (SELECT 1 a, 2 a) SELECT a FROM q",
        "SELECT q.a FROM (SELECT 1 a, 2 a) q",
        "SELECT a_1 FROM (SELECT 1 a, 2 a)",
        "SELECT a FROM VALUES (1, 2) AS v(a, a)",
        "SELECT * EXCEPT (a) FROM (SELECT 1 a, 2 a, 3 b)",
        "SELECT 1 a, 2 a ORDER BY a",
        "SELECT 1 a, 2 a, a + 1 b",
        "SELECT 1 a, 2 a FROM VALUES (1) AS v(x) HAVING a = 1",
    ],
)
def test_a_name_of_several_columns_is_ambiguous(session: Session, statement: str) -> None:
    with pytest.raises(InvalidRequest, match=r"several columns|2 columns|no column 'a_1'"):
        session.sql(statement, "duckdb")


def test_columns_of_one_name_are_all_there(session: Session) -> None:
    for statement in ("SELECT * FROM (SELECT 1 a, 2 a, 3 a_1)", "WITH q AS (SELECT 1 a, 2 a, 3 a_1) SELECT q.* FROM q"):
        rows = session.sql(statement, "duckdb").to_arrow()
        assert [column.to_pylist() for column in rows.columns] == [[1], [2], [3]] and rows.column_names == [
            "a",
            "a",
            "a_1",
        ]
    assert session.sql("SELECT a_1 FROM (SELECT 1 a, 2 a, 3 a_1)", "duckdb").to_arrow().to_pylist() == [{"a_1": 3}]
