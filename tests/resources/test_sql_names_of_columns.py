"""Names of columns in statements: in whatever case, as in Spark, and each at most once."""

from collections.abc import Callable
from typing import Any

import pytest

from resources import Session
from storage import StorageError

Run = Callable[[str], Any]


@pytest.fixture
def run(session: Session) -> Run:
    """Runs statements on DuckDB, with a table of two partition columns."""

    def run(text: str) -> Any:
        result = session.sql(text, "duckdb")
        return [] if result.rows is None else [tuple(row.values()) for row in result.to_arrow().to_pylist()]

    run(
        "CREATE TABLE t (Id INT, N INT, st ROW<x INT, Y INT>, d STRING, E STRING) PARTITIONED BY (d, E); "
        "INSERT INTO t (Id, N, d, E) VALUES (1, 1, 'a', 'p'), (2, 2, 'b', 'p')"
    )
    return run


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE t PARTITION (d='a', d='b')",
        "TRUNCATE TABLE t PARTITION (d='a', D='b')",
        "ALTER TABLE t DROP PARTITION (d='a', d='b')",
        "ALTER TABLE t DROP IF EXISTS PARTITION (d='a', D='b')",
        "ALTER TABLE t ADD PARTITION (d='a', d='b')",
        "ALTER TABLE t PARTITION (d='a', d='b') COMPACT",
        "ALTER TABLE t PARTITION (d='a', d='b') SET ('change-tracking'='false')",
        "INSERT INTO t PARTITION (d='a', d='b') (id, e) VALUES (3, 'q')",
        "INSERT OVERWRITE t PARTITION (d='a', d='b') (id, e) VALUES (3, 'q')",
        "INSERT INTO t PARTITION (d='a', d) (id, e) VALUES (3, 'q')",
        "INSERT INTO t (id, ID, d, e) VALUES (1, 1, 'a', 'p')",
        "INSERT INTO t PARTITION (d='c') (id, d, e) VALUES (3, 'q', 'r')",
        "UPDATE t SET n = 1, N = 2",
        "SHOW PARTITIONS t PARTITION (d='nosuch', d='a')",
        "DESCRIBE t PARTITION (d='a', d='b', e='p')",
        "CREATE TABLE k (id INT, PRIMARY KEY (id, ID) NOT ENFORCED)",
        "CREATE TABLE k (id INT, v INT) PARTITIONED BY (v, V)",
        "CREATE TABLE k (id INT) WITH ('file.format'='orc', 'file.format'='avro')",
        "ALTER TABLE t SET ('write-buffer-size'='1mb', 'write-buffer-size'='2mb')",
        "SELECT * FROM t /*+ OPTIONS('scan.snapshot-id'='1', 'scan.snapshot-id'='2') */",
        "SELECT row_number() OVER w FROM t WINDOW w AS (ORDER BY id), w AS (ORDER BY n)",
        "WITH q AS (SELECT 1 a), Q AS (SELECT 2 a) SELECT * FROM q",
    ],
)
def test_what_is_named_twice_is_refused(run: Run, statement: str) -> None:
    with pytest.raises(StorageError, match=r"twice|is listed as well|Duplicate CTE"):
        run(statement)
    assert run("SELECT id, n, d, e FROM t ORDER BY id") == [(1, 1, "a", "p"), (2, 2, "b", "p")]


@pytest.mark.parametrize("what", ["TRUNCATE TABLE t", "ALTER TABLE t DROP", "DESCRIBE t", "SHOW PARTITIONS t"])
@pytest.mark.parametrize("partition", ["(d)", "(d='a', e)"])
def test_a_partition_has_values_where_no_rows_give_them(run: Run, what: str, partition: str) -> None:
    with pytest.raises(StorageError, match="says no value"):
        run(f"{what} PARTITION {partition}")
    assert run("SELECT count(*) FROM t") == [(2,)]


def test_partitions_are_shown_by_values_and_not_by_names_of_directories(run: Run) -> None:
    run("CREATE TABLE days (k INT, d DATE, s STRING) PARTITIONED BY (d, s)")
    run("INSERT INTO days VALUES (1, DATE '2024-05-14', 'a/b'), (2, DATE '2024-05-15', 'c')")
    assert [row[0] for row in run("SHOW PARTITIONS days PARTITION (d = '2024-05-14')")] == ["d=2024-05-14/s=a/b"]
    assert [row[0] for row in run("SHOW PARTITIONS days PARTITION (s = 'a/b')")] == ["d=2024-05-14/s=a/b"]


def test_case_tells_no_columns_apart(run: Run, session: Session) -> None:
    run("CREATE TABLE m (Id INT, d STRING) PARTITIONED BY (D); INSERT INTO m (d, ID) VALUES ('x', 1)")
    run("INSERT INTO t PARTITION (D='c', E) (ID, e) VALUES (3, 'q')")
    assert [row[0] for row in run("SHOW PARTITIONS t PARTITION (D='c')")] == ["d=c/E=q"]
    run("TRUNCATE TABLE t PARTITION (D='a'); ALTER TABLE t DROP PARTITION (D='b', e='p')")
    assert run("SELECT id, n, d, e FROM t") == [(3, None, "c", "q")]
    for action in (
        "ADD COLUMN z INT AFTER ID",
        "ADD COLUMN ST.q INT AFTER X",
        "ALTER COLUMN ST.y AFTER Q",
        "ALTER COLUMN n TYPE BIGINT",
        "ALTER COLUMN n COMMENT 'x'",
        "ALTER COLUMN n SET DEFAULT 5",
        "ALTER COLUMN n SET NOT NULL",
        "ALTER COLUMN n DROP NOT NULL",
        "RENAME COLUMN n TO m",
        "ALTER COLUMN Z FIRST",
    ):
        if "SET NOT NULL" in action:
            run("UPDATE t SET n = 0")
        run(f"ALTER TABLE t {action}")
    schema = session.table("default.t").schema
    assert schema.column_names == ["z", "Id", "m", "st", "d", "E"] and schema.field("m").description == "x"
    assert [field.name for field in schema.field("st").type.fields] == ["x", "q", "Y"]
    run("ALTER TABLE t DROP COLUMN Z; INSERT INTO t (ID, D, e) VALUES (4, 'c', 'q')")
    assert run("SELECT id, m FROM t ORDER BY id") == [(3, 0), (4, 5)]
    run(
        "CREATE TABLE k (Id INT, v INT, PRIMARY KEY (ID) NOT ENFORCED); CREATE TABLE l PARTITIONED BY (V) AS SELECT 1 id, 2 v"
    )
    assert session.table("default.k").schema.primary_keys == ("Id",)
    assert session.table("default.l").schema.partition_keys == ("v",)
