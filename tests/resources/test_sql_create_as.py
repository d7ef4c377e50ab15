"""CREATE TABLE … AS SELECT that fails leaves no table, and takes nothing from others."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from resources.sql.new_tables import NewTables
from resources.sql.row_statements import RowStatements
from storage import StorageError

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


@pytest.mark.parametrize("clause", ["", "IF NOT EXISTS "])
def test_a_query_that_fails_leaves_no_table(sql: Sql, session: Session, clause: str) -> None:
    sql("CREATE TABLE t (a STRING); INSERT INTO t VALUES ('1'), ('x')")
    with pytest.raises(StorageError):
        sql(f"CREATE TABLE {clause}made PARTITIONED BY (b) AS SELECT CAST(a AS INT) AS n, a AS b FROM t")
    assert session.catalog.tables() == ["default.t"]
    sql(f"CREATE TABLE {clause}made AS SELECT a FROM t WHERE a = '1'")
    assert sql("SELECT * FROM made") == [("1",)]


class Stopped(BaseException):
    """As Ctrl-C does."""


def test_a_statement_that_is_stopped_takes_its_own_table_back_and_no_other(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = session.catalog.table

    def stopped(*_: object) -> None:
        raise Stopped

    def written(*_: object) -> None:
        made("default.t").write(pa.table({"a": pa.array([7], pa.int32())}))
        raise Stopped

    def branched(*_: object) -> None:
        made("default.t").branches.create("b")
        raise Stopped

    def made_anew(*_: object) -> None:
        session.catalog.drop_table("default.t")
        session.catalog.create_table("default.t", pa.schema([("other", pa.int64())]))
        raise Stopped

    for happening, is_left in ((stopped, False), (written, True), (branched, True), (made_anew, True)):
        monkeypatch.setattr(RowStatements, "write", happening)
        with pytest.raises(Stopped):
            session.sql("CREATE TABLE t AS SELECT 1 AS a", "duckdb")
        assert session.catalog.exists("default.t") == is_left
        if happening is written:
            assert made("default.t").to_arrow().to_pylist() == [{"a": 7}]
        session.catalog.drop_table("default.t", if_exists=True)


def test_a_table_that_somebody_creates_meanwhile_is_not_written_to(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "CREATE TABLE IF NOT EXISTS t AS SELECT 1 AS a"
    session.sql(text, "duckdb")
    before = session.ref("default.t")
    # As if it had come between the look and the creation.
    monkeypatch.setattr(NewTables, "exists", lambda *_: False)
    assert "nothing was written" in (session.sql(text, "duckdb").message or "")
    assert session.ref("default.t") == before
    with pytest.raises(StorageError):
        session.sql("CREATE TABLE t AS SELECT 1 AS a", "duckdb")
    assert session.ref("default.t") == before


def test_columns_of_a_table_that_is_made_from_a_query_may_be_null(session: Session, sql: Sql) -> None:
    sql("CREATE TABLE d.t AS SELECT 1 AS id, named_struct('x', 2) AS s, array(3) AS a")
    kinds = [(field.name, str(field.type)) for field in session.table("d.t").schema.fields]
    assert kinds == [("id", "INT"), ("s", "ROW<x INT>"), ("a", "ARRAY<INT>")]
    sql(
        "INSERT INTO d.t VALUES (NULL, NULL, NULL), (5, named_struct('x', CAST(NULL AS INT)), array(CAST(NULL AS INT)))"
    )
    rows = sorted(session.table("d.t").to_arrow().to_pylist(), key=lambda row: row["id"] or 0)
    assert rows[0] == {"id": None, "s": None, "a": None}
    assert rows[2] == {"id": 5, "s": {"x": None}, "a": [None]}
