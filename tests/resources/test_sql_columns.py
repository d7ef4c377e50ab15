"""What ALTER TABLE says of columns, on both engines: NOT NULL and defaults."""

from collections.abc import Callable
from typing import Any

import pytest

from resources import Session
from storage import CommitConflict, InvalidRequest, StorageError

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]
KEYS = ["PRIMARY KEY NOT ENFORCED", ""]


@pytest.mark.parametrize("key", KEYS)
def test_a_column_without_nulls_becomes_not_null(sql: Sql, session: Session, key: str) -> None:
    sql(f"CREATE TABLE t (id INT {key}, v BIGINT)")
    sql("INSERT INTO t VALUES (1, 1), (2, NULL)")
    with pytest.raises(InvalidRequest, match="null in 1 rows"):
        sql("ALTER TABLE t ALTER COLUMN v SET NOT NULL")
    sql("UPDATE t SET v = 2 WHERE id = 2")
    sql("ALTER TABLE t COMPACT")
    sql("ALTER TABLE t ALTER COLUMN v SET NOT NULL")
    assert not session.table("default.t").schema.field("v").type.nullable
    for wrong in ("INSERT INTO t VALUES (3, NULL)", "INSERT INTO t (id) VALUES (3)"):
        with pytest.raises(StorageError, match="NOT NULL"):
            sql(wrong)
    sql("INSERT INTO t VALUES (3, 3)")
    assert sorted(sql("SELECT * FROM t WHERE v IS NOT NULL")) == [(1, 1), (2, 2), (3, 3)]
    assert sorted(sql("SELECT v FROM t VERSION AS OF 1"), key=str) == [(1,), (None,)]
    sql("ALTER TABLE t ALTER COLUMN v DROP NOT NULL")
    sql("INSERT INTO t (id) VALUES (4)")
    assert sql("SELECT id FROM t WHERE v IS NULL") == [(4,)]


@pytest.mark.parametrize("engine", ["duckdb"])
def test_rows_that_came_before_a_column_was_not_null_do_not_come_back_with_nulls(sql: Sql, session: Session) -> None:
    sql("CREATE TABLE t (id INT, v BIGINT); INSERT INTO t VALUES (1, NULL); INSERT INTO t VALUES (2, 2)")
    sql("DELETE FROM t WHERE v IS NULL; ALTER TABLE t ALTER COLUMN v SET NOT NULL")
    table = session.table("default.t")
    with pytest.raises(CommitConflict, match="DROP NOT NULL"):
        table.rollback_to(2)
    assert sql("SELECT * FROM t") == [(2, 2)]
    sql("INSERT OVERWRITE t VALUES (3, 3)")
    table.rollback_to(3)
    assert sql("SELECT * FROM t") == [(2, 2)]


@pytest.mark.parametrize("engine", ["duckdb"])
def test_what_cannot_become_not_null_says_why(sql: Sql) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, v BIGINT, s ROW<a INT>) WITH ('write-only' = 'true')")
    sql("INSERT INTO t (id) VALUES (1); INSERT INTO t (id, v) VALUES (1, 2)")
    with pytest.raises(InvalidRequest, match="COMPACT"):
        sql("ALTER TABLE t ALTER COLUMN v SET NOT NULL")
    with pytest.raises(InvalidRequest, match="field of a ROW"):
        sql("ALTER TABLE t ALTER COLUMN s.a SET NOT NULL")
    with pytest.raises(InvalidRequest, match="no column 'nobody'"):
        sql("ALTER TABLE t ALTER COLUMN nobody SET NOT NULL")
    sql("CREATE TABLE p (id INT PRIMARY KEY NOT ENFORCED, v BIGINT) WITH ('merge-engine' = 'partial-update')")
    with pytest.raises(StorageError, match="partial-update"):
        sql("ALTER TABLE p ALTER COLUMN v SET NOT NULL")
