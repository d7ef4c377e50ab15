"""The path of a column goes on where a table went on from itself: changes by a condition, merges, publications."""

from starlette.testclient import TestClient

from resources import Session
from resources.browser.column_path import ColumnStep, column_path
from resources.recovery import Recovery, plan_recovery
from resources.recovery.publish import publish


def steps(session: Session, ref: str, column: str) -> dict[str, ColumnStep]:
    return {str(step.ref): step for step in column_path(session, session.stores_to_ask(), session.ref(ref), column)}


def test_a_path_goes_on_through_an_update_and_what_a_column_was_called_before(
    session: Session, client: TestClient
) -> None:
    session.sql(
        "CREATE TABLE d.raw AS SELECT 1 AS a, 2 AS b; CREATE TABLE d.t AS SELECT a, b FROM d.raw; "
        "ALTER TABLE d.t RENAME COLUMN a TO first; UPDATE d.t SET b = 3 WHERE first = 1",
        "duckdb",
    )
    path = steps(session, "d.t@2", "first")
    assert [(str(ref), name) for ref, name in path["d.t@2"].carried] == [("d.t@1", "a")]
    assert [(str(ref), name) for ref, name in path["d.t@1"].sources] == [("d.raw@1", "a")]
    page = client.get("/column", params={"ref": "snapline.d.t@2", "column": "first"}).text
    assert "taken over from" in page and "d.raw@1" in page


def test_a_path_goes_on_through_what_main_took_over_of_a_branch(session: Session) -> None:
    session.sql("CREATE TABLE d.raw AS SELECT 1 AS a; CREATE TABLE d.t AS SELECT a FROM d.raw", "duckdb")
    table = session.table("d.t")
    table.branches.create("fix")
    session.sql("INSERT OVERWRITE d.`t$branch_fix` SELECT a + 1 AS a FROM d.raw; INSERT INTO d.t VALUES (9)", "duckdb")
    table.branches.merge("fix", discard_main=True)
    path = steps(session, "d.t", "a")
    assert "d.t$branch_fix@2" in path and "d.raw@1" in path


def test_a_path_goes_on_through_a_recovery_whose_branches_are_dropped(session: Session) -> None:
    session.sql(
        "CREATE TABLE d.raw AS SELECT 1 AS a, 2 AS b; INSERT OVERWRITE d.raw VALUES (7, 8); "
        "CREATE TABLE d.t AS SELECT a, b FROM d.raw",
        "duckdb",
    )
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("d.raw@2")))
    recovery.correct("UPDATE d.raw SET a = 1")
    recovery.correct("INSERT OVERWRITE d.t SELECT a, b FROM d.raw")
    publish(session, recovery, {})
    recovery.drop()
    path = steps(session, "d.t", "a")
    newest = session.ref("d.raw")
    assert (newest, "a") in path["d.t@2"].sources and str(newest) in path
    gone = [step.ends for step in path.values() if "$branch_fix" in str(step.ref)]
    assert set(gone) == {"it is gone, and with it what it said of its columns"}


def test_a_path_goes_on_through_a_rollback(session: Session) -> None:
    session.sql(
        "CREATE TABLE d.raw AS SELECT 1 AS a; CREATE TABLE d.t AS SELECT a FROM d.raw; "
        "INSERT OVERWRITE d.t SELECT a + 1 AS a FROM d.raw",
        "duckdb",
    )
    session.table("d.t").rollback_to(1)
    path = steps(session, "d.t@3", "a")
    assert [(str(ref), name) for ref, name in path["d.t@3"].carried] == [("d.t@1", "a")]
    assert "d.raw@1" in path
