"""Recovery of tables that SQL has made: what was made from their sources as they were is left to do."""

import pytest

from lineage import sources_of
from resources import Session
from resources.recovery import Recovery, plan_recovery
from resources.recovery.left_to_do import left_to_do
from resources.recovery.publish import publish
from storage import InvalidRequest

SUM = "INSERT OVERWRITE d.sums SELECT 0, sum(v) FROM d.raw"
MART = "INSERT OVERWRITE d.mart SELECT 0, s + 1 FROM d.sums"


@pytest.fixture
def recovery(session: Session) -> Recovery:
    """The source is bad from snapshot 2 on; a sum and a mart of that were made of it by statements."""
    session.catalog.create_database("d")
    key = "PRIMARY KEY ({}) NOT ENFORCED) WITH ('bucket' = '1')"
    session.sql(f"CREATE TABLE d.raw (k BIGINT, v BIGINT, {key.format('k')}", "duckdb")
    for name in ("sums", "mart"):
        session.sql(f"CREATE TABLE d.{name} (g INT, s BIGINT, {key.format('g')}", "duckdb")
    for rows in ("(1, 1), (2, 2)", "(3, 999999)"):
        session.sql(f"INSERT INTO d.raw VALUES {rows}; {SUM}; {MART}", "duckdb")
    return Recovery.start(session, "fix", plan_recovery(session, session.ref("d.raw@2")))


def value(session: Session, name: str) -> int:
    return int(session.table(name).to_arrow()["s"][0].as_py())


def test_what_sql_made_is_left_until_it_has_read_its_source_as_it_is_now(session: Session, recovery: Recovery) -> None:
    assert left_to_do(recovery, {}) == ["d.sums", "d.mart"]
    recovery.correct(f"UPDATE d.raw SET v = 33 WHERE k = 3; {MART}")
    # The mart was made again of a sum that is still bad.
    assert left_to_do(recovery, {}) == ["d.sums", "d.mart"]
    recovery.correct(SUM)
    assert left_to_do(recovery, {}) == ["d.mart"]
    recovery.correct(MART)
    assert left_to_do(recovery, {}) == []
    recovery.correct("UPDATE d.raw SET v = 44 WHERE k = 3")
    assert left_to_do(recovery, {}) == ["d.sums", "d.mart"]
    with pytest.raises(InvalidRequest, match=r"not computed anew: d\.sums, d\.mart"):
        publish(session, recovery, {})
    # Production writes meanwhile, and what it wrote comes to the branch.
    recovery.correct(f"{SUM}; {MART}")
    session.sql("INSERT INTO d.raw VALUES (4, 4000)", "duckdb")
    recovery.replay()
    assert left_to_do(recovery, {}) == ["d.sums", "d.mart"]
    recovery.correct(f"{SUM}; {MART}")
    publish(session, recovery, {})
    assert (value(session, "d.sums"), value(session, "d.mart")) == (4047, 4048)
    read = {str(one) for one in sources_of(session.table("d.sums").snapshot())}
    assert str(session.table("d.raw").last_change()) in read


def test_a_value_that_is_typed_is_current_until_its_source_changes(session: Session, recovery: Recovery) -> None:
    recovery.correct("UPDATE d.raw SET v = 33 WHERE k = 3; UPDATE d.sums SET s = 36; UPDATE d.mart SET s = 37")
    assert left_to_do(recovery, {}) == []
    recovery.correct("UPDATE d.raw SET v = 44 WHERE k = 3")
    assert left_to_do(recovery, {}) == ["d.sums", "d.mart"]


def test_lineage_of_what_is_published_in_spite_names_what_was_read(session: Session, recovery: Recovery) -> None:
    recovery.correct(f"UPDATE d.raw SET v = 33 WHERE k = 3; {SUM}; {MART}")
    recovery.correct("UPDATE d.raw SET v = 44 WHERE k = 3")
    publish(session, recovery, {}, allow_incomplete=True)
    read = {str(one) for one in sources_of(session.table("d.sums").snapshot())}
    assert str(session.table("d.raw").last_change()) not in read
    assert "d.raw$branch_fix@3" in read
