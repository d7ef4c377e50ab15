"""A bad row that a branch has kept, and brings back to a main that had taken it back, is bad there again."""

from itertools import product

import pyarrow as pa
import pytest

from lineage import window
from resources import Session
from resources.recovery import plan_recovery
from resources.recovery.spoilt import Spoilt
from storage import SnapshotRef

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


def test_a_bad_snapshot_of_a_branch_that_main_has_taken_is_followed_whatever_becomes_of_the_table(
    session: Session,
) -> None:
    catalog = session.catalog
    cases = list(
        product(
            ("replace_main", "merge", "fast_forward"), ("stays", "is made anew", "and so is the branch", "is renamed")
        )
    )
    for number, (by, fate) in enumerate(cases):
        table = catalog.create_table(f"db.t{number}", SCHEMA)
        table.write(pa.table({"word": ["one"]}))
        table.branches.create("b", snapshot_id=1)
        table.on_branch("b").write(pa.table({"word": ["bad"]}))
        if by != "fast_forward":
            table.write(pa.table({"word": ["given up"]}))
        getattr(table.branches, by)("b", discard_main=True)
        session.sql(f"CREATE TABLE db.made{number} AS SELECT * FROM db.t{number}", "duckdb")
        if fate == "is renamed":
            catalog.rename_table(f"db.t{number}", f"db.other{number}")
            catalog.drop_table(f"db.other{number}")
        elif fate != "stays":
            catalog.drop_table(f"db.t{number}")
            table = catalog.create_table(f"db.t{number}", SCHEMA)
            table.write(pa.table({"word": ["fresh"]}))
            if fate == "and so is the branch":
                table.branches.create("b", snapshot_id=1)
                table.on_branch("b").write(pa.table({"word": ["sound"]}))
    for rebuilt in (False, True):
        if rebuilt:
            session.rebuild_lineage()
        for number, (by, fate) in enumerate(cases):
            bad = _second_of_branch(session, f"other{number}" if fate == "is renamed" else f"t{number}")
            made = session.ref(f"db.made{number}@1")
            assert "bad" in session.table(f"db.made{number}").to_arrow()["word"].to_pylist()
            assert made in session.impact(bad), (by, fate, rebuilt)
            assert Spoilt(session, bad).is_spoilt(made), (by, fate, rebuilt)
        # In the history each commit comes once, by whichever name.
        rows = [row for _, row in window(session.stores_to_ask(), 1000).commits]
        keys = [(row.job, row.barrier_id, row.database, row.table, row.snapshot_id, row.create_time) for row in rows]
        assert sorted(keys) == sorted(set(keys))


def test_a_bad_snapshot_is_followed_through_a_main_that_another_branch_replaced(session: Session) -> None:
    table = session.catalog.create_table("db.src", SCHEMA, options={"bucket": "-1"})
    for word in ("one", "two"):
        table.write(pa.table({"word": [word]}))
    for branch, word in (("first", "bad"), ("second", "sound")):
        table = session.table("db.src")
        table.branches.create(branch, snapshot_id=1)
        table.on_branch(branch).write(pa.table({"word": [word]}))
        table.branches.replace_main(branch, discard_main=True)
        session.sql(f"CREATE TABLE db.after_{branch} AS SELECT * FROM db.src", "duckdb")
    bad = SnapshotRef("snapline", "db", "src", "first", 2)
    for name in ("src", "after_first", "after_second"):
        has_it = "bad" in session.table(f"db.{name}").to_arrow()["word"].to_pylist()
        assert has_it == (name in {each.table for each in session.impact(bad) if each.branch == "main"}), name
    assert "bad" in session.table("db.after_first").to_arrow()["word"].to_pylist()


def _second_of_branch(session: Session, table: str) -> SnapshotRef:
    """The earliest snapshot 2 of the branch b that lineage knows, by the name that it has now."""
    rows = session.stores_to_ask()["snapline"].snapshots("sink", database="db", table=table, snapshot_id=2)
    row = min((row for row in rows if row.branch.partition("~")[0] == "b"), key=lambda row: row.create_time)
    return SnapshotRef("snapline", "db", table, row.branch, 2)
