"""A bad row that was taken back, and comes in again out of a table that was made from it, is bad there again."""

import pytest

from resources import Session
from resources.recovery import plan_recovery

BEFORE = (
    "CREATE DATABASE db",
    "CREATE TABLE db.t (word STRING)",
    "INSERT INTO db.t VALUES ('good')",
    "INSERT INTO db.t VALUES ('BAD')",
    "CREATE TABLE db.d AS SELECT * FROM db.t",
    "CALL sys.rollback('db.t', '1')",
)
BACK = "INSERT INTO db.t SELECT word FROM db.d WHERE word <> 'good'"


@pytest.mark.parametrize(
    ("then", "spoilt"),
    [
        ((), {"db.d"}),
        ((BACK,), {"db.t", "db.d"}),
        ((BACK, "INSERT OVERWRITE db.d SELECT * FROM db.t"), {"db.t", "db.d"}),
        (
            (BACK, "INSERT OVERWRITE db.d SELECT * FROM db.t", "CREATE TABLE db.e AS SELECT * FROM db.d"),
            {"db.t", "db.d", "db.e"},
        ),
        ((BACK, "CALL sys.rollback('db.t', '1')"), {"db.d"}),
        (("INSERT INTO db.t SELECT * FROM db.t VERSION AS OF 2",), {"db.t", "db.d"}),
    ],
)
def test_what_comes_back_is_spoilt_again(session: Session, then: tuple[str, ...], spoilt: set[str]) -> None:
    for statement in (*BEFORE, *then):
        session.sql(statement, "duckdb")
    plan = plan_recovery(session, session.ref("db.t@2"))
    assert {table.name for table in plan.tables} == spoilt
    for name in spoilt:
        assert "BAD" in session.table(name).to_arrow()["word"].to_pylist()
