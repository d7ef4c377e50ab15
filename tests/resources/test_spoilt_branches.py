"""A branch holds what the table held when it was forked off, and so does what was made from it."""

import pytest

from resources import Session
from resources.browser.spoilt import damage_of
from resources.recovery import Recovery, plan_recovery
from resources.recovery.publish import publish
from resources.recovery.spoilt import Spoilt


@pytest.fixture
def bad(session: Session) -> Session:
    """`imp.bad@1` is bad; `imp.t` was made from it, and written again before branches were forked off."""

    def sql(*statements: str) -> None:
        for statement in statements:
            session.sql(statement, "duckdb")

    sql("CREATE DATABASE imp", "CREATE TABLE imp.bad AS SELECT 7 AS a", "CREATE TABLE imp.t AS SELECT a FROM imp.bad")
    session.table("imp.t").branches.create("first")
    sql("INSERT INTO imp.t VALUES (1)")
    session.table("imp.t").branches.create("later")
    sql("INSERT INTO imp.`t$branch_later` VALUES (2)")
    session.table("imp.t$branch_later").branches.create("again")
    session.table("imp.bad").branches.create("of_bad")
    sql(
        "CREATE TABLE imp.x AS SELECT a FROM imp.`t$branch_later`",
        "CREATE TABLE imp.y AS SELECT a FROM imp.`t$branch_again`",
        "CREATE TABLE imp.z AS SELECT a FROM imp.`bad$branch_of_bad`",
        "CREATE TABLE imp.empty (a INT)",
    )
    session.table("imp.t").branches.create("before", empty=True)
    sql("INSERT INTO imp.`t$branch_before` VALUES (3)", "CREATE TABLE imp.sound AS SELECT a FROM imp.`t$branch_before`")
    return session


def test_branches_that_were_forked_off_later_are_spoilt(bad: Session) -> None:
    ref = bad.ref("imp.bad@1")
    assert [str(reached) for reached in bad.impact(ref)] == [
        "imp.bad@1",
        "imp.bad$branch_of_bad@1",
        "imp.t$branch_again@3",
        "imp.t$branch_first@1",
        "imp.t$branch_later@2",
        "imp.t@1",
        "imp.x@1",
        "imp.y@1",
        "imp.z@1",
    ]
    assert [planned.name for planned in plan_recovery(bad, ref).tables] == [
        "imp.bad",
        "imp.t",
        "imp.x",
        "imp.y",
        "imp.z",
    ]
    damage = damage_of(bad, ref)
    assert {str(affected.first) for affected in damage.spoilt} == {str(reached) for reached in bad.impact(ref)}
    assert set(damage.sound) >= {"snapline.imp.sound", "snapline.imp.empty"}


def test_a_branch_that_was_overwritten_is_spoilt_no_more(bad: Session) -> None:
    ref = bad.ref("imp.bad@1")
    for name in ("t$branch_later", "bad$branch_of_bad"):
        bad.sql(f"INSERT OVERWRITE imp.`{name}` VALUES (5)", "duckdb")
        head = bad.table(f"imp.{name}").last_change()
        assert head is not None and not Spoilt(bad, ref).is_spoilt(head)
    assert {affected.first.table_name for affected in damage_of(bad, ref).good_again} == {
        "imp.t$branch_later",
        "imp.bad$branch_of_bad",
    }


MADE = (
    "CREATE DATABASE d; CREATE TABLE d.m AS SELECT 1 AS a; INSERT INTO d.m VALUES (2); "
    "CALL sys.create_branch(`table` => 'd.m', branch => 'dev'); INSERT INTO d.`m$branch_dev` VALUES (3); "
    "INSERT INTO d.m VALUES (4); CREATE TABLE d.from_m AS SELECT a FROM d.m; "
    "CREATE TABLE d.from_dev AS SELECT a FROM d.`m$branch_dev`"
)


@pytest.mark.parametrize(
    "then",
    ["CALL sys.replace_main_branch('d.m','dev')", "CALL sys.delete_branch('d.m','dev')"],
    ids=["main", "dropped"],
)
def test_what_was_made_from_a_branch_or_a_main_that_is_gone_is_spoilt(session: Session, then: str) -> None:
    session.sql(MADE, "duckdb")
    session.sql(then, "duckdb")
    ref = session.ref("d.m@2")
    assert {str(reached) for reached in session.impact(ref)} >= {"d.m@2", "d.from_m@1", "d.from_dev@1"}
    assert {planned.name for planned in plan_recovery(session, ref).tables} == {"d.m", "d.from_m", "d.from_dev"}
    damage = damage_of(session, ref)
    assert {affected.first.table_name for affected in damage.spoilt} >= {"d.m", "d.from_m", "d.from_dev"}
    assert not any(name.startswith("snapline.d.") for name in damage.sound)


def test_a_table_made_anew_is_not_blamed_for_what_the_old_one_fed(session: Session) -> None:
    session.sql("CREATE DATABASE d; CREATE TABLE d.m AS SELECT 1 AS a", "duckdb")
    session.sql("INSERT INTO d.m VALUES (2); INSERT INTO d.m VALUES (3)", "duckdb")
    session.sql("CREATE TABLE d.from_m AS SELECT a FROM d.m", "duckdb")
    session.sql("DROP TABLE d.m; CREATE TABLE d.m AS SELECT 1 AS a; INSERT INTO d.m VALUES (7)", "duckdb")
    session.rebuild_lineage()
    assert [str(reached) for reached in session.impact(session.ref("d.m@2"))] == ["d.m@2"]
    assert [planned.name for planned in plan_recovery(session, session.ref("d.m@2")).tables] == ["d.m"]
    (source,) = session.lineage(session.ref("d.from_m@1"), "up").snapshots
    assert session.fate(source) == "replaced"
    (old,) = [
        row.ref("snapline")
        for row in session.lineage_store.snapshots("sink", table="m", snapshot_id=2)
        if row.branch != "main"
    ]
    assert "d.from_m@1" in {str(reached) for reached in session.impact(old)}


def test_a_branch_that_has_the_name_of_one_that_was_dropped_is_not_blamed_for_what_that_one_fed(
    session: Session,
) -> None:
    session.sql(MADE, "duckdb")
    session.sql(
        "CREATE TABLE d.sound AS SELECT 1 AS a; CALL sys.delete_branch('d.m','dev'); "
        "CALL sys.create_branch(`table` => 'd.m', branch => 'dev'); INSERT INTO d.`m$branch_dev` VALUES (5); "
        "CREATE TABLE d.from_new AS SELECT a FROM d.`m$branch_dev`",
        "duckdb",
    )
    names = {str(each) for each in session.impact(session.ref("d.m@3"))}
    assert "d.from_new@1" in names and not names & {"d.from_dev@1", "d.sound@1"}
    session.sql("ALTER TABLE d.m RENAME TO d.n; CALL sys.delete_branch('d.n','dev')", "duckdb")
    names = {str(each) for each in session.impact(session.ref("d.n@2"))}
    assert names >= {"d.n@2", "d.from_m@1", "d.from_dev@1", "d.from_new@1"} and "d.sound@1" not in names
    session.rebuild_lineage()
    assert {str(each) for each in session.impact(session.ref("d.n@2"))} == names


def test_the_name_of_a_dropped_branch_is_given_to_one_that_begins_later(session: Session) -> None:
    session.sql("CREATE DATABASE d; CREATE TABLE d.m AS SELECT 1 AS a", "duckdb")
    session.sql("INSERT INTO d.m VALUES (2); INSERT INTO d.m VALUES (3); INSERT INTO d.m VALUES (4)", "duckdb")
    for snapshot_id, made in ((1, "from_first"), (4, "from_second")):
        session.sql(
            f"CALL sys.create_branch(`table` => 'd.m', branch => 'w', snapshot_id => {snapshot_id}); "
            f"INSERT INTO d.`m$branch_w` VALUES ({snapshot_id}0); CREATE TABLE d.{made} AS SELECT a FROM d.`m$branch_w`",
            "duckdb",
        )
        if snapshot_id == 1:
            session.sql("CALL sys.delete_branch('d.m','w')", "duckdb")
    for _ in range(2):
        [first] = [
            row.ref("snapline")
            for row in session.lineage_store.snapshots("sink", table="m", snapshot_id=2)
            if row.branch.startswith("w")
        ]
        assert session.fate(first) == "replaced"
        reached = {str(each) for each in session.impact(first)}
        assert "d.from_first@1" in reached
        assert not reached & {"d.from_second@1", "d.m@4"}
        assert "d.from_second@1" in {str(each) for each in session.impact(session.ref("d.m@3"))}
        assert "d.from_first@1" not in {str(each) for each in session.impact(session.ref("d.m@3"))}
        session.sql("INSERT INTO d.`m$branch_w` VALUES (70)", "duckdb")


def test_what_read_the_branch_of_a_recovery_is_good_once_that_was_published_and_dropped(session: Session) -> None:
    session.sql(
        "CREATE DATABASE d; CREATE TABLE d.m AS SELECT 1 AS a; INSERT INTO d.m VALUES (99); "
        "CREATE TABLE d.never_corrected AS SELECT a FROM d.m",
        "duckdb",
    )
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("d.m@2")))
    session.sql("CREATE TABLE d.too_early AS SELECT a FROM d.`m$branch_fix`", "duckdb")
    recovery.correct("DELETE FROM d.m WHERE a = 99; INSERT OVERWRITE d.never_corrected SELECT a FROM d.m")
    session.sql("CREATE TABLE d.from_fix AS SELECT a FROM d.`m$branch_fix`", "duckdb")
    publish(session, recovery, {}, allow_incomplete=False)
    recovery.drop()
    damage = damage_of(session, session.ref("d.m@2"))
    spoilt = {each.first.table_name for each in damage.spoilt}
    assert "d.too_early" in spoilt and not spoilt & {"d.from_fix", "d.m", "d.never_corrected"}
