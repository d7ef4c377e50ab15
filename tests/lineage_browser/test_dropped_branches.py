"""A branch that was dropped: its lane forks where it began, whatever it did first."""

import pyarrow as pa

from lineage import sources_property
from resources import Session
from resources.browser.facts import Facts
from resources.browser.history import read_history
from storage import SnapshotRef, Table

SCHEMA = pa.schema([("id", pa.int64())])


def write(table: Table, *sources: SnapshotRef) -> SnapshotRef:
    table.write(pa.table({"id": [1]}, SCHEMA), properties=sources_property(sources))
    ref = table.ref()
    assert ref is not None
    return ref


def test_the_lane_of_a_dropped_branch_forks_where_it_began(session: Session) -> None:
    table = session.catalog.create_table("raw.a", SCHEMA)
    for _ in range(4):
        write(table)
    table.branches.create("c", snapshot_id=2)
    branch = table.on_branch("c")
    assert branch.compact(full=True) is not None
    write(session.catalog.create_table("raw.b", SCHEMA), write(branch))
    table.branches.delete("c")
    history = read_history(Facts(Session()).platform(), 100)
    (lane,) = [lane for lane in history.lanes if lane.place[3] == "c"]
    assert lane.forks_at is not None
    assert str(history.dots[lane.forks_at].ref) == "raw.a@2"
