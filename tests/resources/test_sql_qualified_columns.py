"""Columns that are named with the database, and the catalog, of their table."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from storage import StorageError

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]


def test_columns_are_named_by_catalog_database_and_table(sql: Sql) -> None:
    sql("CREATE TABLE t (k INT, v STRING); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    assert sql("SELECT default.t.k FROM t WHERE snapline.default.t.k = 1") == [(1,)]
    sql("DELETE FROM t WHERE default.t.k = 1")
    sql("UPDATE t SET v = 'x' WHERE snapline.default.t.k = 2")
    assert sql("SELECT * FROM t ORDER BY k") == [(2, "x"), (3, "c")]
    sql("MERGE INTO t USING (SELECT 3 AS k) s ON default.t.k = s.k WHEN MATCHED THEN UPDATE SET v = default.t.v || '!'")
    sql("INSERT INTO t REPLACE WHERE default.t.k = 2 SELECT 2, 'y'")
    assert sql("SELECT * FROM t ORDER BY k") == [(2, "y"), (3, "c!")]


def test_columns_of_another_database_are_not_taken_for_those_of_the_table(sql: Sql) -> None:
    sql("CREATE DATABASE other; CREATE TABLE t (k INT); CREATE TABLE other.t (k INT)")
    sql("INSERT INTO t VALUES (1); INSERT INTO other.t VALUES (2)")
    for text in (
        "SELECT other.t.k FROM t",
        "SELECT nope.default.t.k FROM t",
        "SELECT * FROM default.t WHERE EXISTS (SELECT 1 FROM other.t WHERE default.t.k = other.t.k)",
        "DELETE FROM t WHERE other.t.k = 1",
        "DELETE FROM t WHERE nope.default.t.k = 1",
        "UPDATE t AS x SET k = 5 WHERE default.t.k = 1",
    ):
        with pytest.raises(StorageError):
            sql(text)
    # Refused or not: the row is of another key.
    with suppress(StorageError):
        sql("DELETE FROM t WHERE EXISTS (SELECT 1 FROM other.t WHERE default.t.k = other.t.k)")
    assert sql("SELECT k FROM t") == [(1,)]
