"""What lineage keeps of a branch for the time when it is gone, or another one has its name: where it was forked off, and which
of the snapshots that it knows are not of the branch that there is now.
"""

from dataclasses import replace

from storage import Snapshot, Table

from .entities import NAME_LENGTH, SnapshotLineage, commit_time
from .store import LineageStore


def record_beginning(table: Table, store: LineageStore) -> None:
    """Store that a branch begins with a snapshot of the one that it was forked off: its last change, where that is a compaction.
    Raises CorruptData if it cannot be read where it was forked off.
    """
    one = table.identifier
    if (
        one.branch == "main"
        or len(one.branch) > NAME_LENGTH
        or (begun_at := table.branches.begun_at(one.branch)) is None
    ):
        return
    of, number = begun_at
    if of != "main" and of in table.branches.names():
        record_beginning(table.on_branch(of), store)
    rows = store.snapshots("sink", database=one.database, table=one.table, branch=of)
    last = max((row for row in rows if row.snapshot_id <= number), key=lambda row: row.snapshot_id, default=None)
    if last is not None:
        store.store_snapshots("sink", [replace(last, branch=one.branch)])


def set_former_apart(table: Table, newest: Snapshot, store: LineageStore) -> None:
    """Set those apart whose numbers a branch has not come to, though it has been written since they were committed: they are
    of another one of that name, which was dropped, or were taken back by deleting them.
    """
    one, moment = table.identifier, commit_time(newest)
    place = {"database": one.database, "table": one.table, "branch": one.branch}
    former = {
        row.snapshot_id
        for rows in (store.snapshots("sink", **place), store.snapshots("source", **place))
        for row in rows
        if row.snapshot_id > newest.id and row.snapshot_time is not None and row.snapshot_time < moment
    }
    for number in sorted(former):
        store.set_apart(SnapshotLineage("", 0, one.database, one.table, one.branch, number, moment, moment))
