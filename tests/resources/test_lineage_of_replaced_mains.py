"""Lineage beside a main that is replaced while nobody tells lineage of it: who reads the new main was made from the new main."""

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from lineage import SnapshotLineage, was_replaced
from resources import Session
from resources.browser.facts import Facts
from resources.browser.history import read_history
from storage import Catalog

READ = "INSERT OVERWRITE a.mid SELECT id FROM a.src"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    session = Session()
    session.sql(
        "CREATE TABLE a.src (id BIGINT NOT NULL, PRIMARY KEY (id) NOT ENFORCED); CREATE TABLE a.mid (id BIGINT)",
        "duckdb",
    )
    return session


def outside(session: Session) -> Catalog:
    """The warehouse as somebody opens it who tells lineage nothing."""
    return Catalog(str(session.settings.warehouse))


def write(session: Session, name: str, number: int) -> None:
    outside(session).table(name).write(pa.table({"id": [number]}))


def replace_main(session: Session, branch: str = "rm") -> None:
    outside(session).table("a.src").branches.replace_main(branch, discard_main=True)


@pytest.mark.parametrize("is_older", [False, True])
def test_who_reads_the_new_main_was_made_from_it(session: Session, is_older: bool) -> None:
    write(session, "a.src", 1)
    outside(session).table("a.src").branches.create("rm", snapshot_id=1)
    names = ["a.src$branch_rm", "a.src"] if is_older else ["a.src", "a.src$branch_rm"]
    for number, name in enumerate(names):
        write(session, name, number)
        time.sleep(0.002)
    # Lineage knows main's second snapshot, and that somebody read it.
    session.sql(READ, "duckdb")
    assert [str(ref) for ref in Session().lineage(session.ref("a.mid@1"), "up").snapshots] == ["a.src@2"]
    replace_main(session)
    Session().sql(READ, "duckdb")
    session = Session()
    assert [str(ref) for ref in session.lineage(session.ref("a.mid@2"), "up").snapshots] == ["a.src@2"]
    assert {str(ref) for ref in session.impact(session.ref("a.src@2"))} == {"a.src@2", "a.mid@2"}
    (was,) = session.lineage(session.ref("a.mid@1"), "up").snapshots
    assert was_replaced(was)
    ghosts = [dot for dot in read_history(Facts(session).platform(), 100).dots if was_replaced(dot.ref)]
    assert [dot.ref for dot in ghosts] == [was]


def test_what_was_set_apart_by_mistake_is_mended_by_a_rebuild(session: Session) -> None:
    write(session, "a.src", 1)
    session.sql(READ, "duckdb")
    (source,) = Session().lineage(session.ref("a.mid@1"), "up").snapshots
    (row,) = session.lineage_store.snapshots("source", table="src")
    # As it was stored by mistake: a twin of what is live, which no table has.
    session.lineage_store.set_apart(_at_another_time(row))
    assert was_replaced(session.lineage(session.ref("a.mid@1"), "up").snapshots[0])
    Session().rebuild_lineage()
    assert Session().lineage(session.ref("a.mid@1"), "up").snapshots == [source]


def _at_another_time(row: SnapshotLineage) -> SnapshotLineage:
    assert row.snapshot_time is not None
    return replace(row, snapshot_time=row.snapshot_time + timedelta(seconds=1))


def test_a_snapshot_that_is_replaced_was_committed_when_it_was(session: Session) -> None:
    write(session, "a.src", 1)
    outside(session).table("a.src").branches.create("rm", snapshot_id=1)
    write(session, "a.src", 2)
    snapshot = session.table("a.src").snapshot()
    assert snapshot is not None
    time.sleep(0.05)
    session.sql(READ, "duckdb")
    write(session, "a.src$branch_rm", 3)
    replace_main(session)
    Session().sql(READ, "duckdb")
    ghost = next(dot for dot in read_history(Facts(Session()).platform(), 100).dots if was_replaced(dot.ref))
    assert ghost.time_ms == snapshot.time_ms


def test_what_was_spoilt_is_known_before_a_rebuild_as_after_it(session: Session) -> None:
    write(session, "a.src", 1)
    write(session, "a.src", 2)
    session.sql(READ, "duckdb")
    outside(session).table("a.src").branches.create("rm", snapshot_id=1)
    for number in (7, 8):
        write(session, "a.src$branch_rm", number)
        time.sleep(0.002)
    # Committed later than those of the branch, which is main in the end.
    write(session, "a.src", 3)
    Session().sql("CREATE TABLE a.made AS SELECT id FROM a.src", "duckdb")
    replace_main(session)
    (bad,) = Session().lineage(session.ref("a.mid@1"), "up").snapshots
    assert was_replaced(bad)
    reached = Session().impact(bad)
    assert {ref.table for ref in reached} == {"src", "mid", "made"}
    assert {str(ref) for ref in Session().impact(session.ref("a.src@2"))} == {"a.src@2"}
    Session().rebuild_lineage()
    assert Session().impact(bad) == reached
    assert {str(ref) for ref in Session().impact(session.ref("a.src@2"))} == {"a.src@2"}
