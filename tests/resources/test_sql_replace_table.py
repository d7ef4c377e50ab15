"""CREATE OR REPLACE TABLE, on both engines: another definition, and the history stays."""

from collections.abc import Callable
from typing import Any

import pytest

from lineage import sources_of
from resources import Session
from storage import CommitConflict, InvalidRequest, NotFound, StorageError

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]
KEYS = ["PRIMARY KEY NOT ENFORCED", ""]


@pytest.mark.parametrize("key", KEYS)
def test_a_table_gets_other_columns_and_no_rows_and_its_history_can_be_read(
    sql: Sql, session: Session, key: str
) -> None:
    sql(
        f"CREATE TABLE t (id INT {key}, a INT, b STRING); INSERT INTO t VALUES (1, 1, 'x'); INSERT INTO t VALUES (2, 2, 'y')"
    )
    session.table("default.t").tags.create("kept", snapshot_id=1)
    sql(f"CREATE OR REPLACE TABLE t (id INT {key}, b BIGINT NOT NULL, c STRING DEFAULT 'new') COMMENT 'anew'")
    assert sql("SELECT * FROM t") == []
    sql("INSERT INTO t (id, b) VALUES (3, 30)")
    assert sql("SELECT id, b, c FROM t") == [(3, 30, "new")]
    assert sql("SELECT id, a, b FROM t VERSION AS OF 'kept'") == [(1, 1, "x")]
    assert sorted(sql("SELECT id, a, b FROM t VERSION AS OF 2")) == [(1, 1, "x"), (2, 2, "y")]
    table = session.table("default.t")
    assert (table.schema.comment, table.check(deep=True)) == ("anew", [])
    snapshot = table.snapshot(3)
    assert snapshot is not None
    assert (snapshot.operation, snapshot.schema_id) == ("TRUNCATE", 1)


@pytest.mark.parametrize("key", ["id", ""])
def test_a_query_may_read_what_the_table_was(sql: Sql, session: Session, key: str) -> None:
    keyed = f"WITH ('primary-key' = '{key}', 'bucket' = '1')" if key else ""
    sql(f"CREATE TABLE t {keyed} AS SELECT 1 AS id, 'x' AS a")
    sql("INSERT INTO t VALUES (2, 'y')")
    sql(f"CREATE OR REPLACE TABLE t {keyed} AS SELECT id, concat(a, '!') AS b, 5 AS n FROM t WHERE id > 1")
    assert sql("SELECT * FROM t") == [(2, "y!", 5)]
    assert sorted(sql("SELECT * FROM t VERSION AS OF 2")) == [(1, "x"), (2, "y")]
    snapshot = session.table("default.t").snapshot()
    assert snapshot is not None
    assert (snapshot.id, [ref.snapshot_id for ref in sources_of(snapshot)]) == (3, [2])
    sql(f"REPLACE TABLE t {keyed} AS SELECT id FROM t WHERE FALSE")
    assert sql("SELECT * FROM t") == []
    assert session.table("default.t").check(deep=True) == []


def test_a_query_that_fails_leaves_the_table_as_it_is(sql: Sql, session: Session) -> None:
    sql("CREATE TABLE t (a INT NOT NULL); INSERT INTO t VALUES (0)")
    with pytest.raises(StorageError):
        sql("CREATE OR REPLACE TABLE t AS SELECT 1 / a AS b FROM t").to_arrow()
    assert sql("SELECT a FROM t") == [(0,)]
    assert session.table("default.t").schema.id == 0


@pytest.mark.parametrize("engine", ["duckdb"])
def test_a_table_that_is_not_there_is_created_and_only_by_that_word(sql: Sql) -> None:
    with pytest.raises(NotFound, match="CREATE OR REPLACE"):
        sql("REPLACE TABLE t (a INT)")
    sql("CREATE OR REPLACE TABLE t (a INT); INSERT INTO t VALUES (1)")
    sql("REPLACE TABLE t (a INT)")
    sql("CREATE OR REPLACE TABLE u AS SELECT 1 AS a")
    assert (sql("SELECT * FROM t"), sql("SELECT * FROM u")) == ([], [(1,)])


REFUSED = {
    "(id INT, a INT) PARTITIONED BY (a)": "primary key",
    "(id INT, a INT PRIMARY KEY NOT ENFORCED)": "primary key",
    "(id BIGINT PRIMARY KEY NOT ENFORCED, a INT)": "type of 'id'",
    "(id INT PRIMARY KEY NOT ENFORCED, a INT) WITH ('bucket' = '4')": "bucket",
    "(id INT PRIMARY KEY NOT ENFORCED, a INT) WITH ('merge-engine' = 'first-row')": "merge-engine",
    "(id INT PRIMARY KEY NOT ENFORCED, a INT) WITH ('sequence.field' = 'a')": "sequence.field",
    "(id INT PRIMARY KEY NOT ENFORCED, a INT, b AS a + 1)": "Computed columns",
    "LIKE t": "LIKE",
}


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize("text", REFUSED)
def test_what_the_history_is_read_by_cannot_be_replaced(sql: Sql, text: str) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, a INT); INSERT INTO t VALUES (1, 1)")
    with pytest.raises(InvalidRequest, match=REFUSED[text]):
        sql(f"CREATE OR REPLACE TABLE t {text}")
    with pytest.raises(InvalidRequest, match="two things"):
        sql("CREATE OR REPLACE TABLE IF NOT EXISTS t (id INT)")
    with pytest.raises(StorageError, match="is a view"):
        sql("CREATE VIEW v AS SELECT 1 AS a; CREATE OR REPLACE TABLE v (a INT)")
    assert sql("SELECT * FROM t") == [(1, 1)]


@pytest.mark.parametrize("engine", ["duckdb"])
def test_who_alters_the_table_meanwhile_comes_first(sql: Sql, session: Session) -> None:
    sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    table = session.table("default.t")
    other = session.catalog.redefined_table("default.t", table.schema.to_arrow())
    sql("ALTER TABLE t ADD COLUMN b INT")
    with pytest.raises(CommitConflict, match="changed meanwhile"):
        other.truncate()
    assert sql("SELECT * FROM t") == [(1, None)]
