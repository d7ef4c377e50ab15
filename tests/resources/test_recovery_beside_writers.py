"""A recovery is published beside production that commits all the time, and again after its record was lost: every acknowledged
row is there once.
"""

from collections.abc import Callable

import pytest

from lineage import sources_of
from resources import Session
from resources.recovery import Recovery, plan_recovery
from resources.recovery import catch_up as catching_up
from resources.recovery.left_to_do import left_to_do
from resources.recovery.publish import publish, replay_and_publish
from resources.recovery.record import PUBLISHED
from storage import CommitConflict
from tests.resources.recovery_schedules import LOG, Died, corrected_recovery, watched
from tests.resources.shop import rows

pytestmark = pytest.mark.dagster


@pytest.fixture
def recovery(session: Session) -> Recovery:
    """A row had been deleted by mistake; the branch has it again, and so has what is made of that."""
    return corrected_recovery(session)


def replayed_and_published(session: Session, recovery: Recovery) -> int:
    """Returns how often the log was computed anew for it."""
    computed: list[list[str]] = []

    def replayed() -> None:
        recovery.replay()
        computed.append(recovery.correct(LOG))

    replay_and_publish(recovery, replayed, lambda: publish(session, recovery, {}, follows=True))
    return len(computed)


def write_before_each_publication(writes: list[str]) -> Callable[[int, str], None]:
    """Once a publication is judged, and about to be written down, production comes first."""

    def before(_: int, call: str) -> None:
        if "journal" in call and "create_exclusively" in call and writes and not is_writing:
            is_writing.append(call)
            Session().sql(writes.pop(0), "duckdb")
            is_writing.clear()

    is_writing: list[str] = []
    return before


@pytest.mark.parametrize("writes", [1, 6])
def test_production_that_commits_before_each_try_is_brought_along_without_computing_anew(
    session: Session, recovery: Recovery, writes: int
) -> None:
    """What is made from its rows is computed once, and says which it was made from; its next run brings the rest."""
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    later = [(number, 10 * number) for number in range(4, 4 + writes)]
    left = [f"INSERT INTO db.src VALUES {row}" for row in later]
    with watched(write_before_each_publication(left)):
        assert replayed_and_published(session, recovery) == 1
    assert not left
    assert rows(session.table("db.src")) == [(1, 10), (2, 20), (3, 30), *later]
    assert rows(session.table("db.log")) == [(1, 10), (2, 20), (3, 30)]
    assert session.catalog.publications() == []
    assert any("committed to db.src in the last moment" in said for said in recovery.record.overrides)
    newest = session.table("db.log").snapshot()
    assert newest is not None
    assert {str(ref) for ref in sources_of(newest)} >= {"db.src$branch_fix@4"}
    assert plan_recovery(session, session.ref("db.src@2")).tables == ()
    # A later replay brings what came since, once, and has all of it computed.
    session.sql("INSERT INTO db.src VALUES (50, 500)", "duckdb")
    recovery.replay()
    assert left_to_do(recovery, {}) == ["db.log"]
    recovery.correct(LOG)
    publish(session, recovery, {})
    whole = [(1, 10), (2, 20), (3, 30), *later, (50, 500)]
    assert [rows(session.table(name)) for name in ("db.src", "db.log")] == [whole] * 2


def test_a_correction_beside_what_is_brought_along_is_computed_before_it_is_published(
    session: Session, recovery: Recovery
) -> None:
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    left = ["INSERT INTO db.src VALUES (4, 40)", "INSERT INTO db.src$branch_fix VALUES (5, 50)"]
    with (
        watched(write_before_each_publication(left)),
        pytest.raises(CommitConflict, match="has moved beyond snapshot 3"),
    ):
        recovery.replay()
        recovery.correct(LOG)
        publish(session, recovery, {}, follows=True)
    assert left_to_do(recovery, {}) == ["db.log"]


def test_production_that_never_stands_still_is_told_to_pause(
    session: Session, recovery: Recovery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a minute, and not before; what it has committed is there, and the branch is gone on with."""
    monkeypatch.setattr(catching_up, "FOLLOWED_MS", 0)
    left = [f"INSERT INTO db.src VALUES {(number, 10 * number)}" for number in range(3, 9)]
    with (
        watched(write_before_each_publication(left)),
        pytest.raises(CommitConflict, match=r"Pause what writes to db\.src"),
    ):
        replayed_and_published(session, recovery)
    left.clear()
    replayed_and_published(session, recovery)
    assert rows(session.table("db.src")) == rows(session.table("db.log"))


def test_what_is_computed_anew_is_not_brought_along(session: Session, recovery: Recovery) -> None:
    """Production has made anew what is made from the source: that is computed again."""
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    left = ["INSERT INTO db.log VALUES (7, 70)"]
    with watched(write_before_each_publication(left)):
        assert replayed_and_published(session, recovery) == 2
    assert rows(session.table("db.log")) == [(1, 10), (2, 20), (3, 30)]


@pytest.mark.parametrize("dies", [False, True])
def test_what_production_commits_after_a_publication_that_died_is_not_given_up_by_its_repetition(
    session: Session, recovery: Recovery, dies: bool
) -> None:
    """Also of a table whose branch had nothing to take over; what came before the publication is given up, as was asked for."""
    session.sql("CREATE TABLE db.other (k INT, v INT); INSERT INTO db.other VALUES (1, 1)", "duckdb")
    session.table("db.other").branches.create("fix")
    session.sql("INSERT INTO db.src VALUES (9, 90)", "duckdb")

    def before(_: int, call: str) -> None:
        if dies and ".recovery" in call and "replace_if" in call:
            raise Died

    try:
        with watched(before):
            publish(session, recovery, {}, discard_main=True)
    except Died:
        assert recovery.record.status != PUBLISHED
    assert session.catalog.publications() == []
    session.sql("INSERT INTO db.src VALUES (3, 30); INSERT INTO db.log VALUES (3, 30)", "duckdb")
    session.sql("INSERT INTO db.other VALUES (5, 5)", "duckdb")
    publish(session, recovery, {}, discard_main=True)
    assert [rows(session.table(name)) for name in ("db.src", "db.log")] == [[(1, 10), (2, 20), (3, 30)]] * 2
    assert rows(session.table("db.other")) == [(1, 1), (5, 5)]
    assert recovery.record.status == PUBLISHED


def test_what_nothing_is_made_from_is_published_in_spite_of_nothing(session: Session) -> None:
    session.sql(
        "CREATE TABLE q.s (id INT, v INT); INSERT INTO q.s VALUES (1, 1); INSERT INTO q.s VALUES (2, 2)", "duckdb"
    )
    recovery = Recovery.start(session, "solo", plan_recovery(session, session.ref("q.s@2")))
    recovery.correct("UPDATE q.s SET v = 7 WHERE id = 2")
    left = ["INSERT INTO q.s VALUES (3, 3)"]
    with watched(write_before_each_publication(left)):
        replay_and_publish(recovery, recovery.replay, lambda: publish(session, recovery, {}, follows=True))
    assert not left
    assert rows(session.table("q.s")) == [(1, 1), (2, 7), (3, 3)]
    assert Recovery.open(session, "solo").record.overrides == []
