"""What main took over of a branch was made from the branch's snapshot: by a merge, a fast-forward, a publication, and where the
branch has become main.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from lineage import SnapshotLineage, sources_property
from resources import Session
from storage import SnapshotRef, Table

SCHEMA = pa.schema([("id", pa.int64())])
ROWS = pa.table({"id": [1]})


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("SNAPLINE_HOME", str(tmp_path / "home"))
    return Session()


def branched(session: Session, name: str = "k.m") -> Table:
    """A table with one snapshot, and a branch `dev` with one more, a bad one."""
    table = session.catalog.create_table(name, SCHEMA)
    table.write(ROWS)
    table.branches.create("dev")
    table.on_branch("dev").write(ROWS)
    return table


def merge(session: Session, table: Table) -> None:
    table.branches.merge("dev")


def merge_beside(session: Session, table: Table) -> None:
    table.on_branch("dev").write(ROWS)
    table.write(ROWS)
    table.branches.merge("dev")


def merge_several(session: Session, table: Table) -> None:
    table.on_branch("dev").write(ROWS)
    table.on_branch("dev").compact(full=True)
    table.branches.merge("dev")


def fast_forward(session: Session, table: Table) -> None:
    table.branches.fast_forward("dev")


def discard(session: Session, table: Table) -> None:
    table.overwrite(ROWS)
    table.branches.fast_forward("dev", discard_main=True)


def replace(session: Session, table: Table) -> None:
    table.branches.replace_main("dev")


def publish(session: Session, table: Table) -> None:
    branched(session, "k.other")
    session.catalog.branch_set("dev", ["k.m", "k.other"]).publish()


def publish_replacing(session: Session, table: Table) -> None:
    branched(session, "k.other")
    session.catalog.branch_set("dev", ["k.m", "k.other"]).replace_main()


def roll_back_to_a_merge(session: Session, table: Table) -> None:
    table.branches.merge("dev")
    merged = table.snapshot()
    assert merged is not None
    table.overwrite(ROWS)
    table.rollback_to(merged.id)


WAYS = [
    merge,
    merge_beside,
    merge_several,
    fast_forward,
    discard,
    replace,
    publish,
    publish_replacing,
    roll_back_to_a_merge,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_bad_snapshot_of_a_branch_has_reached_what_reads_main(
    session: Session, way: Callable[[Session, Table], None]
) -> None:
    way(session, branched(session))
    newest = session.ref("k.m")
    sink = session.catalog.create_table("k.md", SCHEMA)
    sink.write(ROWS, properties=sources_property([newest]))
    made = session.ref("k.md")
    bad = SnapshotRef("snapline", "k", "m", "dev", 2)
    before = answers(session, bad, made)
    assert made in before[0], "impact"
    rows = everything(session)
    session.rebuild_lineage()
    assert everything(session) >= rows
    assert answers(session, bad, made) == before
    for store in session.lineage_stores.values():
        for job in {row.job for row in store.snapshots("sink")}:
            store.delete_snapshots(job)
    assert not everything(session)
    session.rebuild_lineage()
    assert answers(session, bad, made) == before
    if "replac" not in way.__name__:
        newest_of_branch = session.ref("k.m$branch_dev")
        assert newest_of_branch in session.lineage(made, "up").snapshots
        assert made in session.lineage(newest_of_branch, "down").snapshots


def answers(session: Session, bad: SnapshotRef, made: SnapshotRef) -> tuple[list[SnapshotRef], ...]:
    return (
        session.impact(bad),
        session.lineage(made, "up").snapshots,
        session.lineage(bad, "down").snapshots,
        session.lineage(session.ref("k.m"), "up").snapshots,
    )


def everything(session: Session) -> set[tuple[str, SnapshotLineage]]:
    return {(side, row) for side in ("source", "sink") for row in session.lineage_store.snapshots(side)}  # type: ignore[arg-type]


def test_another_branch_of_the_name_did_not_reach_it(session: Session) -> None:
    table = branched(session)
    table.branches.merge("dev")
    merged = session.ref("k.m")
    table.branches.delete("dev")
    table.branches.create("dev", snapshot_id=1)
    table.on_branch("dev").write(ROWS)
    assert merged not in session.impact(SnapshotRef("snapline", "k", "m", "dev", 2))
    session.rebuild_lineage()
    assert merged not in session.impact(SnapshotRef("snapline", "k", "m", "dev", 2))


def test_a_snapshot_that_a_branch_has_with_main_is_bad_on_both(session: Session) -> None:
    branched(session)
    sink = session.catalog.create_table("k.md", SCHEMA)
    sink.write(ROWS, properties=sources_property([session.ref("k.m@1")]))
    bad = SnapshotRef("snapline", "k", "m", "dev", 1)
    assert session.ref("k.md") in session.impact(bad)
    assert session.lineage(bad, "down").next_to(bad) == [session.ref("k.md")]
