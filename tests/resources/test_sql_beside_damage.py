"""Statements that change rows beside a snapshot that cannot be read."""

from pathlib import Path

import pytest

from resources import Session
from storage import CorruptData

STATEMENTS = (
    "INSERT INTO t VALUES (4, 'd')",
    "DELETE FROM t WHERE id = 1",
    "UPDATE t SET v = 'z' WHERE id = 2",
    "MERGE INTO t USING (SELECT 3 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
)


def damaged(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY NOT ENFORCED, v STRING)")
    for number, letter in ((1, "a"), (2, "b"), (3, "c")):
        session.sql(f"INSERT INTO t VALUES ({number}, '{letter}')", "duckdb")
    Path(session.table("default.t").store.paths.snapshot(2)).write_bytes(b"{")


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_damaged_older_snapshot_stops_no_statement(session: Session, engine: str) -> None:
    damaged(session)
    for statement in STATEMENTS:
        session.sql(statement, engine)
    rows = session.table("default.t").to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 2, "v": "z"}, {"id": 4, "v": "d"}]
    with pytest.raises(CorruptData, match=r"snapshot-2 .*`snapline mend-snapshots`"):
        session.table("default.t").at(2).to_arrow()
