"""A branch holds what the table held when it was forked off, and so does what was made from it."""

import pytest

from resources import Session
from resources.browser.spoilt import damage_of
from resources.recovery import plan_recovery
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
    assert [str(one) for one in bad.impact(ref)] == [
        "imp.bad@1", "imp.bad$branch_of_bad@1", "imp.t$branch_again@3", "imp.t$branch_first@1", "imp.t$branch_later@2",
        "imp.t@1", "imp.x@1", "imp.y@1", "imp.z@1",
    ]  # fmt: skip
    assert [one.name for one in plan_recovery(bad, ref).tables] == ["imp.bad", "imp.t", "imp.x", "imp.y", "imp.z"]
    damage = damage_of(bad, ref)
    assert {str(one.first) for one in damage.spoilt} == {str(one) for one in bad.impact(ref)}
    assert set(damage.sound) >= {"snapline.imp.sound", "snapline.imp.empty"}


def test_a_branch_that_was_overwritten_is_spoilt_no_more(bad: Session) -> None:
    ref = bad.ref("imp.bad@1")
    for name in ("t$branch_later", "bad$branch_of_bad"):
        bad.sql(f"INSERT OVERWRITE imp.`{name}` VALUES (5)", "duckdb")
        head = bad.table(f"imp.{name}").last_change()
        assert head is not None and not Spoilt(bad, ref).is_spoilt(head)
    assert {one.first.table_name for one in damage_of(bad, ref).good_again} == {
        "imp.t$branch_later",
        "imp.bad$branch_of_bad",
    }
