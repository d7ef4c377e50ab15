"""A publication of a recovery that dies half-way, or is taken back, or comes too late, while production goes on: replaying and
publishing again brings every row to main once.
"""

import pytest

from lineage import sources_of
from resources import Session
from resources.recovery import Recovery, plan_recovery
from resources.recovery.progress import progress
from resources.recovery.publish import publish, replay_and_publish
from resources.recovery.record import PUBLISHED
from storage import CommitConflict, InvalidRequest, operation_of
from tests.resources.recovery_schedules import LOG, Died, corrected_recovery, watched
from tests.resources.shop import rows

pytestmark = pytest.mark.dagster


@pytest.fixture
def recovery(session: Session) -> Recovery:
    """A row had been deleted by mistake; the branch has it again, and so has what is made of that."""
    return corrected_recovery(session)


def die_half_way(
    session: Session, recovery: Recovery, before_file: str = "log/snapshot/snapshot-3", *, discard_main: bool = False
) -> None:
    """By default main of the source has its commit, that of the log has not."""

    def before(_: int, call: str) -> None:
        if before_file in call and "create" in call:
            raise Died

    with pytest.raises(Died), watched(before):
        publish(session, recovery, {}, discard_main=discard_main)


@pytest.fixture
def keyed(session: Session) -> Recovery:
    """An UPDATE was wrong, of a table with a key; the branch has it corrected, and so has what is made of that."""
    session.sql("CREATE DATABASE db; CREATE TABLE db.log (k INT, v INT)", "duckdb")
    session.sql("CREATE TABLE db.src (k INT NOT NULL, v INT, PRIMARY KEY (k) NOT ENFORCED)", "duckdb")
    session.sql(f"INSERT INTO db.src VALUES (1, 10), (2, 20); UPDATE db.src SET v = v + 100; {LOG}", "duckdb")
    recovery = Recovery.start(session, "fix", plan_recovery(session, session.ref("db.src@2")))
    recovery.correct("UPDATE db.src SET v = v - 100")
    recovery.correct(LOG)
    return recovery


def be_undone(session: Session, recovery: Recovery, *, meanwhile: str = "") -> None:
    """A publication dies once main of the source has its commit, and is undone; what is written `meanwhile` goes with it."""
    newest = session.table("db.log").snapshots.latest_id() or 0
    die_half_way(session, recovery, f"log/snapshot/snapshot-{newest + 1}")
    if meanwhile:
        session.sql(meanwhile, "duckdb")
    session.catalog.recover(undo=True, discard_main=bool(meanwhile))
    assert str(operation_of(session.table("db.src").snapshot())).startswith("UNDO of publication ")


def both(session: Session) -> list[list[tuple[object, ...]]]:
    return [rows(session.table(name)) for name in ("db.src", "db.log")]


def test_a_replay_finishes_a_publication_that_died_and_brings_nothing_of_it_twice(
    session: Session, recovery: Recovery
) -> None:
    die_half_way(session, recovery)
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    recovery.replay()
    assert session.catalog.publications() == []
    recovery.correct(LOG)
    publish(session, recovery, {})
    assert both(session) == [[(1, 10), (2, 20), (3, 30)]] * 2


def test_what_production_adds_to_a_published_table_does_not_stop_its_publication(
    session: Session, recovery: Recovery
) -> None:
    die_half_way(session, recovery)
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    publish(session, recovery, {})
    assert both(session) == [[(1, 10), (2, 20), (3, 30)], [(1, 10), (2, 20)]]
    assert recovery.record.status == PUBLISHED
    read = {str(ref) for ref in sources_of(session.table("db.log").snapshot())}
    assert "db.src@4" in read or "db.src@3" in read


def test_what_is_published_and_rolled_back_is_published_again(session: Session, recovery: Recovery) -> None:
    publish(session, recovery, {})
    session.table("db.src").rollback_to(2)
    publish(session, recovery, {})
    assert both(session) == [[(1, 10), (2, 20)]] * 2


def test_what_is_published_half_and_undone_is_published_again(session: Session, recovery: Recovery) -> None:
    die_half_way(session, recovery)
    session.catalog.recover(undo=True)
    publish(session, recovery, {})
    assert both(session) == [[(1, 10), (2, 20)]] * 2


def test_a_rollback_behind_what_the_recovery_knows_of_main_is_not_published_over(
    session: Session, recovery: Recovery
) -> None:
    session.table("db.src").rollback_to(1)
    with pytest.raises(CommitConflict, match=r"on no table: main has moved on .*replay"):
        publish(session, recovery, {})
    assert session.catalog.publications() == []


def test_a_replay_after_a_publication_was_undone_keeps_the_correction(session: Session, recovery: Recovery) -> None:
    die_half_way(session, recovery)
    session.catalog.recover(undo=True)
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    recovery.replay()
    assert rows(session.table("db.src").on_branch("fix")) == [(1, 10), (2, 20), (3, 30)]
    recovery.correct(LOG)
    publish(session, recovery, {})
    assert both(session) == [[(1, 10), (2, 20), (3, 30)]] * 2


def test_a_replay_refuses_to_take_back_what_the_recovery_has_published(session: Session, recovery: Recovery) -> None:
    publish(session, recovery, {})
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    recovery.replay()
    session.table("db.src").rollback_to(2)
    with pytest.raises(InvalidRequest, match=r"has taken back.*--discard-main; or drop it"):
        recovery.replay()
    assert rows(session.table("db.src").on_branch("fix")) == [(1, 10), (2, 20), (3, 30)]


def test_a_replay_says_the_way_out_where_the_branch_has_other_rows_than_production_has_changed(
    session: Session, recovery: Recovery
) -> None:
    recovery.correct("UPDATE db.src SET v = 11 WHERE k = 1")
    session.sql("UPDATE db.src SET v = 12 WHERE k = 1", "duckdb")
    with pytest.raises(CommitConflict, match=r"are not in .*--discard-main; or drop it"):
        recovery.replay()
    assert rows(session.table("db.src").on_branch("fix")) == [(1, 11), (2, 20)]


def test_what_was_given_up_does_not_come_back_by_a_replay(session: Session, recovery: Recovery) -> None:
    session.sql("INSERT INTO db.src VALUES (9, 90)", "duckdb")
    publish(session, recovery, {}, discard_main=True)
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    recovery.replay()
    assert rows(session.table("db.src").on_branch("fix")) == [(1, 10), (2, 20), (3, 30)]
    recovery.correct(LOG)
    publish(session, recovery, {})
    assert both(session) == [[(1, 10), (2, 20), (3, 30)]] * 2


def test_a_branch_that_was_merged_by_hand_is_not_replayed(session: Session, recovery: Recovery) -> None:
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    session.table("db.src").branches.merge("fix")
    session.sql("INSERT INTO db.src VALUES (4, 40)", "duckdb")
    recovery.replay()
    assert rows(session.table("db.src").on_branch("fix")) == [(1, 10), (2, 20), (3, 30), (4, 40)]
    recovery.correct(LOG)
    publish(session, recovery, {})
    assert both(session) == [[(1, 10), (2, 20), (3, 30), (4, 40)]] * 2


@pytest.mark.parametrize("dies", [False, True])
def test_what_a_publication_gave_up_of_main_counts_as_taken_back(
    session: Session, recovery: Recovery, dies: bool
) -> None:
    """Also if it died and somebody else finishes it; what it took the place of before does not."""
    session.sql("INSERT INTO db.src VALUES (9, 90); INSERT INTO db.src VALUES (8, 80)", "duckdb")
    if dies:
        die_half_way(session, recovery, "src/snapshot/snapshot-5", discard_main=True)
        session.catalog.recover()
    publish(session, recovery, {}, discard_main=True)
    table = session.table("db.src")
    assert both(session) == [[(1, 10), (2, 20)]] * 2
    newest = table.snapshot()
    assert newest is not None
    assert str(operation_of(newest)).startswith("ADOPT of branch fix, giving up main's after 2 in publication")
    assert [number for number in range(1, 6) if table.is_taken_back(number)] == [3, 4]
    assert table.check() == []
    impact = plan_recovery(session, session.ref("db.src@3"))
    assert impact.tables == ()


def test_a_publication_that_somebody_else_finishes_is_made_from_what_was_right(
    session: Session, recovery: Recovery
) -> None:
    """Who finishes it knows nothing of lineage: what the journal says names the branch, not main's bad snapshot."""
    die_half_way(session, recovery, "src/snapshot/snapshot-3")
    session.catalog.recover()
    assert both(session) == [[(1, 10), (2, 20)]] * 2
    assert not {"db.src@2", "db.src@3"} & {str(ref) for ref in sources_of(session.table("db.log").snapshot())}
    publish(session, recovery, {})
    assert plan_recovery(session, session.ref("db.src@2")).tables == ()


def test_a_replay_takes_a_publication_that_was_undone_for_nobodys_work(session: Session, keyed: Recovery) -> None:
    """Neither was what it had committed computed from bad rows, nor what undid it."""
    be_undone(session, keyed)
    assert keyed.moved() == {}
    assert keyed.replay() == []
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    assert [*keyed.moved()] == ["db.src"]
    keyed.replay()
    assert rows(session.table("db.src").on_branch("fix")) == [(1, 10), (2, 20), (3, 30)]
    keyed.correct(LOG)
    publish(session, keyed, {})
    assert both(session) == [[(1, 10), (2, 20), (3, 30)]] * 2


def test_a_publication_may_be_undone_before_and_after_a_replay(session: Session, keyed: Recovery) -> None:
    """Of the first, which the replay has passed, the branch loses nothing by the undo of the second."""
    be_undone(session, keyed)
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    keyed.replay()
    keyed.correct(LOG)
    be_undone(session, keyed, meanwhile="INSERT INTO db.src VALUES (9, 90)")
    session.sql("INSERT INTO db.src VALUES (4, 40)", "duckdb")
    keyed.replay()
    keyed.correct(LOG)
    publish(session, keyed, {})
    assert both(session) == [[(1, 10), (2, 20), (3, 30), (4, 40)]] * 2


def test_what_production_computes_from_bad_rows_is_refused_also_after_an_undo(
    session: Session, keyed: Recovery
) -> None:
    be_undone(session, keyed)
    session.sql("UPDATE db.src SET v = v + 1 WHERE k = 2", "duckdb")
    with pytest.raises(InvalidRequest, match=r"Snapshot 6 of db.src \(UPDATE\) has computed 1 rows .*k = 2"):
        keyed.replay()


def test_what_production_has_written_beside_an_undo_is_replayed(session: Session, keyed: Recovery) -> None:
    """That takes back the recovery's commit alone then."""
    die_half_way(session, keyed, "log/snapshot/snapshot-2")

    def write_once_it_is_decided(_: int, call: str) -> None:
        if "src/snapshot/snapshot-4" in call and "create" in call and not written:
            written.append(call)
            Session().sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")

    written: list[str] = []
    with watched(write_once_it_is_decided):
        session.catalog.recover(undo=True)
    assert "REVERT of 3" in str(operation_of(session.table("db.src").snapshot()))
    keyed.replay()
    assert rows(session.table("db.src").on_branch("fix")) == [(1, 10), (2, 20), (3, 30)]
    keyed.correct(LOG)
    publish(session, keyed, {})
    assert both(session) == [[(1, 10), (2, 20), (3, 30)]] * 2


@pytest.mark.parametrize("writes", [2, 3])
def test_a_replay_is_done_again_where_production_goes_on_before_it_is_published(
    session: Session, recovery: Recovery, writes: int
) -> None:
    """Each time it brings what is new; how often is bounded, and the last refusal says what to do."""
    later = [(number, 10 * number) for number in range(3, 4 + writes)]
    session.sql(f"INSERT INTO db.src VALUES {later[0]}", "duckdb")
    left = later[1:]

    def replayed() -> None:
        recovery.replay()
        recovery.correct(LOG)

    def published() -> object:
        if left:
            session.sql(f"INSERT INTO db.src VALUES {left.pop(0)}", "duckdb")
        return publish(session, recovery, {})

    if writes == 3:
        with pytest.raises(
            CommitConflict, match=r"replayed again and again.*db.src has 6 by .*Pause what writes to db.src, and"
        ):
            replay_and_publish(recovery, replayed, published)
        assert rows(session.table("db.log")) == [(1, 10)]
    replay_and_publish(recovery, replayed, published)
    assert both(session) == [[(1, 10), (2, 20), *later]] * 2


def test_what_no_replay_mends_is_refused_at_once(session: Session, recovery: Recovery) -> None:
    calls: list[str] = []

    def refused() -> None:
        calls.append("published")
        raise CommitConflict("Somebody else publishes.")

    with pytest.raises(CommitConflict, match="Somebody else publishes"):
        replay_and_publish(recovery, recovery.replay, refused)
    assert calls == ["published"]


def test_what_is_left_is_looked_at_before_an_open_publication_is_finished(session: Session, recovery: Recovery) -> None:
    """It stays as it was, and once nothing is left it is finished, and what has come since is published as well."""
    die_half_way(session, recovery)
    session.sql("UPDATE db.`src$branch_fix` SET v = 11 WHERE k = 1", "duckdb")
    before = both(session)
    with pytest.raises(
        InvalidRequest,
        match=r"not computed anew: db\.log.*Publication 1, .* stays open \(has come to db\.src, not to db\.log\)",
    ):
        publish(session, recovery, {})
    assert both(session) == before and len(session.catalog.publications()) == 1
    assert progress(session, "fix", {}).state == "being published"
    session.sql(LOG.replace("db.log", "db.`log$branch_fix`").replace("db.src", "db.`src$branch_fix`"), "duckdb")
    publish(session, recovery, {})
    assert both(session) == [[(1, 11), (2, 20)]] * 2


def test_a_recovery_that_is_being_published_takes_no_correction(session: Session, recovery: Recovery) -> None:
    die_half_way(session, recovery)
    newest = session.table("db.src$branch_fix").snapshot()
    said = (
        r"no correction while its publication 1 is open .*by `snapline recovery publish fix`, or .*"
        r"`snapline branch recover --undo`"
    )
    for correct in (lambda: recovery.correct("UPDATE db.src SET v = 3"), recovery.undo_bad):
        with pytest.raises(InvalidRequest, match=said):
            correct()
    assert session.table("db.src$branch_fix").snapshot() == newest
    session.catalog.recover(undo=True)
    assert recovery.correct(f"UPDATE db.src SET v = 11 WHERE k = 1; {LOG}")


def test_what_others_have_finished_and_has_changed_since_is_shown_as_published(
    session: Session, recovery: Recovery
) -> None:
    die_half_way(session, recovery)
    session.sql("UPDATE db.`src$branch_fix` SET v = 11 WHERE k = 1", "duckdb")
    session.catalog.recover()
    come = progress(session, "fix", {})
    assert (come.state, come.changed, come.is_published) == ("published, changed since", ("db.src",), True)
    assert "To be computed anew before: db.log." in come.remarks[-1]
    with pytest.raises(InvalidRequest, match=r"Recovery 'fix' is published: a correction"):
        recovery.correct("UPDATE db.src SET v = 3")


def test_what_is_finished_before_something_else_is_refused_is_said(session: Session, recovery: Recovery) -> None:
    die_half_way(session, recovery)
    session.sql("UPDATE db.`src$branch_fix` SET v = 11 WHERE k = 1", "duckdb")
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    session.sql(LOG.replace("db.log", "db.`log$branch_fix`").replace("db.src", "db.`src$branch_fix`"), "duckdb")
    with pytest.raises(
        CommitConflict, match=r"moved on .*is finished, though: db\.src \(snapshot 3\), db\.log \(snapshot 3\)"
    ):
        publish(session, recovery, {})
    assert progress(session, "fix", {}).state == "published, changed since"


def test_a_published_recovery_takes_no_correction_though_sql_has_changed_its_branch(
    session: Session, recovery: Recovery
) -> None:
    """What a replay has brought is still gone on with."""
    publish(session, recovery, {})
    session.sql("UPDATE db.`src$branch_fix` SET v = 11 WHERE k = 1", "duckdb")
    for correct in (lambda: recovery.correct("UPDATE db.src SET v = 3"), recovery.undo_bad):
        with pytest.raises(InvalidRequest, match=r"Recovery 'fix' is published: a correction"):
            correct()
    session.sql("INSERT INTO db.src VALUES (3, 30)", "duckdb")
    recovery.replay()
    recovery.correct(LOG)
    publish(session, recovery, {})
    assert both(session) == [[(1, 11), (2, 20), (3, 30)]] * 2
