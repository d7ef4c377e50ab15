"""INSERT INTO … REPLACE WHERE, on both engines."""

from collections.abc import Callable
from typing import Any

import pytest

from lineage import sources_of
from resources import Session
from storage import InvalidRequest, StorageError
from storage.write.table_write import TableWrite

pytestmark = pytest.mark.spark
Sql = Callable[[str], Any]
KEYS = ["PRIMARY KEY NOT ENFORCED", ""]


def table(sql: Sql, key: str, options: str = "") -> None:
    sql(f"CREATE TABLE t (id INT {key}, day STRING, v BIGINT) {options}")
    sql("INSERT INTO t VALUES (1, 'mon', 1), (2, 'tue', 2), (3, 'tue', 3), (4, NULL, 4)")


def rows(sql: Sql) -> list[Any]:
    return sorted(sql("SELECT * FROM t"))


@pytest.mark.parametrize("key", KEYS)
def test_what_satisfies_the_condition_goes_and_the_query_comes_in_one_snapshot(
    sql: Sql, session: Session, key: str
) -> None:
    table(sql, key)
    said = sql("INSERT INTO t REPLACE WHERE t.DAY = 'tue' AND v < 9 SELECT id, day, v + 5 FROM t WHERE id = 2")
    assert said.startswith("Snapshot 2 of default.t")
    assert rows(sql) == [(1, "mon", 1), (2, "tue", 7), (4, None, 4)]
    snapshot = session.table("default.t").snapshot()
    assert snapshot is not None
    assert snapshot.operation == "REPLACE WHERE"
    assert [ref.snapshot_id for ref in sources_of(snapshot)] == [1]
    sql("INSERT INTO t REPLACE WHERE id > 0 SELECT * FROM t WHERE FALSE")
    assert rows(sql) == []
    assert "stays as it is" in sql("INSERT INTO t REPLACE WHERE id > 0 SELECT * FROM t")


@pytest.mark.parametrize("key", KEYS)
def test_a_row_that_does_not_satisfy_the_condition_is_refused(sql: Sql, key: str) -> None:
    table(sql, key)
    for outside in ("(7, 'wed', 7)", "(7, NULL, 7)"):
        with pytest.raises(InvalidRequest, match="1 rows of the query do not satisfy"):
            sql(f"INSERT INTO t REPLACE WHERE day = 'tue' VALUES (8, 'tue', 8), {outside}")
    assert len(rows(sql)) == 4


@pytest.mark.parametrize("key", KEYS)
def test_columns_can_be_left_out_and_named(sql: Sql, key: str) -> None:
    table(sql, key)
    sql("INSERT INTO t (day, id) REPLACE WHERE v IS NULL OR day = 'tue' VALUES ('tue', 5)")
    sql("INSERT INTO t BY NAME REPLACE WHERE id IN (1, 6) SELECT 'x' AS day, 6 AS id")
    assert rows(sql) == [(4, None, 4), (5, "tue", None), (6, "x", None)]


def test_a_row_of_a_key_that_lies_elsewhere_is_replaced_too(sql: Sql) -> None:
    table(sql, "PRIMARY KEY NOT ENFORCED")
    sql("INSERT INTO t REPLACE WHERE day = 'tue' VALUES (1, 'tue', 10), (2, 'tue', 20)")
    assert rows(sql) == [(1, "tue", 10), (2, "tue", 20), (4, None, 4)]
    with pytest.raises(InvalidRequest, match="more than one row"):
        sql("INSERT INTO t REPLACE WHERE day = 'tue' VALUES (7, 'tue', 10), (7, 'tue', 20)")


def test_partitions_and_buckets_hold_what_the_condition_says(sql: Sql) -> None:
    columns = "id INT, day STRING, v BIGINT, PRIMARY KEY (id, day) NOT ENFORCED"
    sql(f"CREATE TABLE t ({columns}) PARTITIONED BY (day) WITH ('bucket' = '2')")
    sql("INSERT INTO t VALUES (1, 'mon', 1), (2, 'mon', 2), (3, 'tue', 3)")
    sql("INSERT INTO t REPLACE WHERE day = 'mon' AND v < 2 OR day = 'wed' VALUES (9, 'wed', 0), (8, 'mon', 1)")
    assert rows(sql) == [(2, "mon", 2), (3, "tue", 3), (8, "mon", 1), (9, "wed", 0)]


@pytest.mark.parametrize(
    ("text", "said"),
    {
        "INSERT OVERWRITE t REPLACE WHERE id = 1 SELECT 1, 'a', 1": "OVERWRITE",
        "INSERT INTO t REPLACE WHERE id IN (SELECT 1) SELECT 1, 'a', 1": "one row",
        "INSERT INTO t REPLACE WHERE rand() < v SELECT 1, 'a', 1": "one row",
        "INSERT INTO t REPLACE WHERE day < current_date() SELECT 1, 'a', 1": "one row",
        "INSERT INTO t REPLACE WHERE nobody = 1 SELECT 1, 'a', 1": "nobody",
        "INSERT INTO t REPLACE WHERE u.id = 1 SELECT 1, 'a', 1": "u.id",
        "INSERT INTO t /*+ OPTIONS('change-tracking' = 'false') */ REPLACE WHERE id = 1 SELECT 1, 'a', 1": "change-tracking",
        "INSERT INTO t REPLACE WHERE id = 1 SELECT 1, 'a'": "takes 3 columns",
        "INSERT INTO t REPLACE WHERE id = 1 SELECT 1, 'a', 'x'": "'v'",
    }.items(),
)
def test_what_is_not_carried_out_is_refused(sql: Sql, text: str, said: str) -> None:
    table(sql, "")
    with pytest.raises(StorageError, match=said):
        sql(text)
    assert len(rows(sql)) == 4


def test_tables_that_merge_rows_and_streams_are_refused(sql: Sql) -> None:
    table(sql, "PRIMARY KEY NOT ENFORCED", "WITH ('merge-engine' = 'partial-update')")
    with pytest.raises(StorageError, match="partial-update"):
        sql("INSERT INTO t REPLACE WHERE id = 1 SELECT 1, 'a', 1")
    sql("SET 'execution.runtime-mode' = 'streaming'")
    with pytest.raises(InvalidRequest, match="streaming"):
        sql("INSERT INTO t REPLACE WHERE id = 1 SELECT 1, 'a', 1")


def test_an_older_row_by_the_tables_own_order_is_refused(sql: Sql) -> None:
    table(sql, "PRIMARY KEY NOT ENFORCED", "WITH ('sequence.field' = 'v')")
    with pytest.raises(StorageError, match="lower value"):
        sql("INSERT INTO t REPLACE WHERE day = 'tue' VALUES (3, 'tue', 1)")
    sql("INSERT INTO t REPLACE WHERE day = 'tue' VALUES (3, 'tue', 5)")
    assert rows(sql) == [(1, "mon", 1), (3, "tue", 5), (4, None, 4)]


@pytest.mark.parametrize("engine", ["duckdb"])
@pytest.mark.parametrize("key", KEYS)
def test_two_that_replace_the_same_leave_the_rows_of_one(
    sql: Sql, session: Session, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    table(sql, key)
    left = ["INSERT INTO t REPLACE WHERE day = 'new' VALUES (10, 'new', 1)"]
    real = TableWrite.prepare_commit

    def prepare(self: TableWrite) -> Any:
        message = real(self)
        if left:
            session.sql(left.pop(), "duckdb")
        return message

    monkeypatch.setattr(TableWrite, "prepare_commit", prepare)
    sql("INSERT INTO t REPLACE WHERE day = 'new' VALUES (11, 'new', 2)")
    assert [row for row in rows(sql) if row[1] == "new"] == [(11, "new", 2)]
    assert [ref.snapshot_id for ref in sources_of(session.table("default.t").snapshot())] == [2]


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_keys_that_move_between_partitions_come_to_lie_where_the_query_says(sql: Sql, producer: str) -> None:
    sql(
        "CREATE TABLE t (p INT, k BIGINT PRIMARY KEY NOT ENFORCED, v INT) PARTITIONED BY (p) "
        f"WITH ('bucket' = '-1', 'changelog-producer' = '{producer}')"
    )
    sql("INSERT INTO t VALUES (1, 8, 100), (1, 9, 100), (3, 10, 100)")
    sql("INSERT INTO t REPLACE WHERE k < 10 VALUES (2, 8, 200), (2, 9, 300)")
    assert rows(sql) == [(2, 8, 200), (2, 9, 300), (3, 10, 100)]
    sql("INSERT INTO t REPLACE WHERE p = 2 VALUES (2, 10, 5)")
    assert rows(sql) == [(2, 10, 5)]
    assert sql("SELECT k FROM t WHERE p = 3") == []


@pytest.mark.parametrize("key", ["k INT PRIMARY KEY NOT ENFORCED", "k INT"])
def test_an_update_of_all_columns_that_would_move_a_row_is_refused(sql: Sql, key: str) -> None:
    sql(f"CREATE TABLE t (p INT, {key}, v INT) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    sql("INSERT INTO t VALUES (1, 8, 1), (1, 9, 1)")
    merge = "MERGE INTO t USING (SELECT {} AS p, {} AS k, 7 AS v) s ON t.v = s.v - 6 AND t.k = 8 WHEN MATCHED THEN UPDATE SET *"
    for p, k in [(2, 8), ("NULL", 8)] + ([(1, 5)] if "PRIMARY" in key else []):
        with pytest.raises(InvalidRequest, match=r"1 rows would get other values of .* by UPDATE SET \*"):
            sql(merge.format(p, k))
    assert rows(sql) == [(1, 8, 1), (1, 9, 1)]
    sql(merge.format(1, 8))
    assert rows(sql) == [(1, 8, 7), (1, 9, 1)]
