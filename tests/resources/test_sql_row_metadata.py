"""Metadata columns of rows in SQL: wherever a name can stand, on both engines, and hidden unless named."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from storage import AddColumn, CommitId, InvalidRequest, Table, parse_type

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("day", pa.string())])
Run = Callable[..., Any]

# What each says of three rows: 1 of job one, 2 and 3 of job two.
QUERIES = {
    "SELECT id, job, snapshot_id FROM t ORDER BY id": [(1, "one", 1), (2, "two", 2), (3, "two", 2)],
    "SELECT * FROM t ORDER BY id": [(1, 10, "a"), (2, 20, "a"), (3, 20, "b")],
    "SELECT *, job FROM t ORDER BY id": [(1, 10, "a", "one"), (2, 20, "a", "two"), (3, 20, "b", "two")],
    "SELECT t.*, t.job AS j FROM t ORDER BY id": [(1, 10, "a", "one"), (2, 20, "a", "two"), (3, 20, "b", "two")],
    "SELECT id FROM t WHERE job = 'two' ORDER BY id": [(2,), (3,)],
    "SELECT id FROM t WHERE JOB = 'two' AND t.Snapshot_Id = 2 AND v > 0 ORDER BY id": [(2,), (3,)],
    "SELECT job, count(*) FROM t GROUP BY job ORDER BY job": [("one", 1), ("two", 2)],
    "SELECT job, count(*) AS n FROM t GROUP BY job HAVING job <> 'one' ORDER BY n": [("two", 2)],
    "SELECT count(DISTINCT job) FROM t": [(2,)],
    "SELECT DISTINCT job FROM t ORDER BY job DESC": [("two",), ("one",)],
    "SELECT id FROM t ORDER BY job DESC, id DESC": [(3,), (2,), (1,)],
    "SELECT upper(job) AS job FROM t ORDER BY job LIMIT 1": [("ONE",)],
    "SELECT a.id, b.id AS other FROM t a JOIN t b ON a.job = b.job AND a.id < b.id": [(2, 3)],
    "SELECT a.job, b.job AS other, a.* FROM t a JOIN u b ON a.id = b.id": [("one", "three", 1, 10, "a")],
    "SELECT *, a.job, b.job AS other FROM t a JOIN u b USING (id, v, day)": [(1, 10, "a", "one", "three")],
    "SELECT a.* FROM t a JOIN u b ON a.id = b.id AND a.snapshot_id = b.snapshot_id": [(1, 10, "a")],
    "SELECT id, job FROM (SELECT id, job FROM t) WHERE job = 'one'": [(1, "one")],
    "SELECT id FROM (SELECT *, job AS j FROM t) AS q WHERE j = 'one'": [(1,)],
    "WITH w AS (SELECT id, job FROM t) SELECT job FROM w WHERE id = 3": [("two",)],
    "SELECT id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.id = u.id AND t.job = 'one')": [(1,)],
    "SELECT (SELECT max(snapshot_id) FROM t)": [(2,)],
    "SELECT job FROM t WHERE id = 1 UNION ALL SELECT job FROM u": [("one",), ("three",)],
    "SELECT id, __paimon_bucket, bucket, __paimon_partition FROM t WHERE id = 3": [(3, 0, 0, "day=b")],
    "SELECT id, row_kind, barrier, schema_id, partition FROM t WHERE id = 1": [(1, "+I", 1, 0, "day=a")],
    "SELECT count(*) FROM t WHERE file_path LIKE '%.parquet' AND row_index >= 0 AND level >= 0": [(3,)],
    "SELECT CASE WHEN job = 'one' THEN 1 ELSE 0 END AS x FROM t ORDER BY id": [(1,), (0,), (0,)],
    "SELECT id, row_number() OVER (PARTITION BY job ORDER BY id) FROM t ORDER BY id": [(1, 1), (2, 1), (3, 2)],
    "SELECT id, job FROM t VERSION AS OF 1 ORDER BY id": [(1, "one"), (2, "one")],
    "SELECT id, job FROM `t$branch_b` WHERE id = 9": [(9, "mender")],
    "SELECT job FROM looks ORDER BY job": [("one",), ("two",), ("two",)],
    "SELECT id FROM named ORDER BY id": [(2,), (3,)],
}


def write(table: Table, job: str, number: int, *rows: tuple[int, int, str]) -> None:
    table.write(pa.table(list(zip(*rows, strict=True)), schema=SCHEMA), commit_id=CommitId(job, number))


@pytest.fixture
def run(session: Session, sql: Run) -> Run:
    layout: dict[str, Any] = {"primary_key": ["id", "day"], "partition_by": ["day"], "options": {"bucket": "1"}}
    table = session.catalog.create_table("default.t", SCHEMA, **layout)
    write(table, "one", 1, (1, 10, "a"), (2, 10, "a"))
    write(table, "two", 2, (2, 20, "a"), (3, 20, "b"))
    write(session.catalog.create_table("default.u", SCHEMA), "three", 1, (1, 10, "a"))
    table.branches.create("b")
    write(table.on_branch("b"), "mender", 1, (9, 90, "a"))
    sql("CREATE VIEW looks AS SELECT job FROM t")
    sql("CREATE TEMPORARY VIEW named AS SELECT id FROM t WHERE job = 'two'")
    return sql


@pytest.mark.parametrize("compacted", [False, True], ids=["as written", "compacted"])
def test_every_place_where_a_name_can_stand(session: Session, run: Run, compacted: bool) -> None:
    if compacted:
        session.catalog.table("default.t").compact(full=True)
    wrong = {}
    for query, expected in QUERIES.items():
        try:
            actual = run(query)
        except Exception as error:
            actual = str(error)
        if actual != expected:
            wrong[query] = actual
    assert not wrong


def test_rows_are_inserted_and_tables_are_made_of_metadata(session: Session, run: Run) -> None:
    run("CREATE TABLE log AS SELECT id, job, snapshot_id FROM t")
    run("INSERT INTO log SELECT id, job, snapshot_id FROM u")
    assert run("SELECT * FROM log ORDER BY id, job") == [(1, "one", 1), (1, "three", 1), (2, "two", 2), (3, "two", 2)]
    # Its own columns come before metadata of their names.
    assert run("SELECT DISTINCT job, __paimon_snapshot_id FROM log WHERE id = 2") == [("two", 1)]
    run("DELETE FROM t WHERE id IN (SELECT id FROM t WHERE job = 'one')")
    assert run("SELECT id FROM t ORDER BY id") == [(2,), (3,)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM t WHERE job = 'one'", "'job' is metadata of the rows, and DELETE takes the table's own columns"),
        ("UPDATE t SET v = 1 WHERE t.snapshot_id = 1", "'snapshot_id' is metadata of the rows, and UPDATE"),
        ("UPDATE t SET v = level", "'level' is metadata of the rows, and UPDATE"),
        (
            "MERGE INTO t USING u ON t.id = u.id AND t.job = 'one' WHEN MATCHED THEN DELETE",
            "'job' is metadata of the rows",
        ),
        ("INSERT INTO t REPLACE WHERE job = 'one' SELECT * FROM u", "'job' is metadata of the rows, and REPLACE WHERE"),
        ("SELECT job FROM t JOIN u ON t.id = u.id", "'job' is metadata of the rows of several tables: t, u"),
        ("SELECT job FROM (SELECT id FROM t)", "job"),
        ("SELECT job FROM `t$snapshots`", "job"),
        ("SELECT jobs FROM t", "jobs"),
    ],
)
def test_what_is_not_carried_out_is_refused_by_name(run: Run, statement: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        run(statement)


def test_a_name_that_means_something_else_means_no_metadata(session: Session, run: Run) -> None:
    session.catalog.table("default.u").alter(
        AddColumn("job", parse_type("STRING")), AddColumn("level", parse_type("INT"))
    )
    run("INSERT INTO u VALUES (2, 20, 'a', 'baker', 7)")
    assert run("SELECT job, __paimon_snapshot_id FROM u WHERE id = 2") == [("baker", 2)]
    # A column of another table, of a query around, and a name of the SELECT go first.
    assert run("SELECT level FROM t JOIN u ON t.id = u.id WHERE u.id = 2") == [(7,)]
    assert run("SELECT id FROM u WHERE EXISTS (SELECT 1 FROM t WHERE job = 'baker' AND t.id = u.id)") == [(2,)]
    assert run("SELECT v AS barrier FROM t ORDER BY barrier DESC, id LIMIT 1") == [(20,)]
    assert run("SELECT * FROM t JOIN (SELECT id, job FROM u) q USING (id) ORDER BY id") == [
        (1, 10, "a", None),
        (2, 20, "a", "baker"),
    ]
