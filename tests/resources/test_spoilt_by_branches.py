"""A bad row that a branch has kept, and brings back to a main that had taken it back, is bad there again."""

import pyarrow as pa
import pytest

from resources import Session
from resources.recovery import plan_recovery

SCHEMA = pa.schema([("word", pa.string())])


@pytest.mark.parametrize("by", ["merge", "fast_forward", "replace_main"])
def test_a_branch_that_began_at_a_bad_snapshot_brings_it_back(session: Session, by: str) -> None:
    table = session.catalog.create_table("db.src", SCHEMA)
    for word in ("good", "bad"):
        table.write(pa.table({"word": [word]}))
    table.branches.create("kept", snapshot_id=2)
    table.rollback_to(1)
    table.on_branch("kept").write(pa.table({"word": ["more"]}))
    table.write(pa.table({"word": ["late"]}))
    session.sql("CREATE TABLE db.before AS SELECT * FROM db.src", "duckdb")
    late = {"snapshot": session.table("db.src").snapshots.latest_id()}
    getattr(table.branches, by)("kept", discard_main=True)
    session.sql("CREATE TABLE db.made AS SELECT * FROM db.src", "duckdb")
    source = session.table("db.src")
    assert sorted(source.to_arrow()["word"].to_pylist()) == ["bad", "good", "more"]
    plan = plan_recovery(session, session.ref("db.src@2"))
    names = [planned.name for planned in plan.tables]
    # Of a main that was replaced nothing tells any more that it had taken the bad row back.
    assert names == ["db.src", *(["db.before"] if by == "replace_main" else []), "db.made"]
    if by != "replace_main":
        assert not source.is_taken_back(1) and not source.is_taken_back(2)
        assert source.is_taken_back(late["snapshot"])
    assert source.check() == []
