"""What lineage keeps of a branch for the time when it is gone, or another one has its name: where it was forked off, and which
of the snapshots that it knows are not of the branch that there is now.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from storage import MAIN_BRANCH, Snapshot, Table

from .entities import NAME_LENGTH, SnapshotLineage, commit_time
from .store import LineageStore

_TRIAL = "reproduce"
_TRIAL_BRANCH = re.compile(rf"{_TRIAL}-\d+-\w{{1,8}}")


def trial_branch(snapshot_id: int, unique: str) -> str:
    """The name of a branch on which a snapshot is made again to see whether it comes out the same: lineage keeps no beginning of
    it. `unique`: what no other one has, of which 8 characters are taken.
    """
    return f"{_TRIAL}-{snapshot_id}-{unique[:8]}"


def record_beginning(table: Table, store: LineageStore) -> None:
    """Store that a branch begins with a snapshot of the one that it was forked off: its last change, where that is a compaction.
    What another branch of that name had under the number, which was dropped, is set apart. Raises CorruptData if it cannot be
    read where it was forked off.
    """
    identifier = table.identifier
    if (
        identifier.branch == MAIN_BRANCH
        or len(identifier.branch) > NAME_LENGTH
        or _TRIAL_BRANCH.fullmatch(identifier.branch)
    ):
        return
    begun_at = table.branches.begun_at(identifier.branch)
    if begun_at is None:
        return
    of, number = begun_at
    if of != MAIN_BRANCH and of in table.branches.names():
        record_beginning(table.on_branch(of), store)
    begun = table.snapshots.find(number)
    rows = store.snapshots("sink", database=identifier.database, table=identifier.table, branch=of)
    earlier = [row for row in rows if row.snapshot_id <= number and _is_before(row, begun)]
    last = max(earlier, key=lambda row: row.snapshot_id, default=None)
    moment = commit_time(begun) if begun is not None else None if last is None else last.snapshot_time
    if moment is not None:
        _set_apart_until(table, number, moment, store, spared=None if last is None else last.snapshot_id)
    if last is not None:
        beginning = replace(last, branch=identifier.branch)
        store.set_apart(beginning)
        store.store_snapshots("sink", [beginning])


def _set_apart_until(table: Table, number: int, moment: datetime, store: LineageStore, *, spared: int | None) -> None:
    """Set apart what has a number up to that with which a branch begins, committed at a moment: the branch has none of them, so
    that they are of another one of its name. `spared`: a number that the branch has all the same.
    """
    for former in sorted(_numbers(table, store, lambda row: row.snapshot_id <= number) - {spared}):
        store.set_apart(_named(table, former, moment))


def _numbers(table: Table, store: LineageStore, is_meant: Callable[[SnapshotLineage], bool]) -> set[int]:
    """Numbers of snapshots under a branch's name, as far as lineage knows them."""
    place = {"database": table.identifier.database, "table": table.identifier.table, "branch": table.identifier.branch}
    rows = (*store.snapshots("sink", **place), *store.snapshots("source", **place))
    return {row.snapshot_id for row in rows if row.snapshot_time is not None and is_meant(row)}


def _named(table: Table, number: int, moment: datetime) -> SnapshotLineage:
    identifier = table.identifier
    return SnapshotLineage("", 0, identifier.database, identifier.table, identifier.branch, number, moment, moment)


def _is_before(row: SnapshotLineage, begun: Snapshot | None) -> bool:
    """Whether a snapshot is not one that got its number when a branch had begun with another one of it."""
    return begun is None or row.snapshot_time is None or row.snapshot_time <= commit_time(begun)


def set_former_apart(table: Table, newest: Snapshot, store: LineageStore) -> None:
    """Set those apart whose numbers a branch has not come to, though it has been written since they were committed: they are
    of another one of that name, which was dropped, or were taken back by deleting them.
    """
    moment = commit_time(newest)

    def is_former(row: SnapshotLineage) -> bool:
        return row.snapshot_id > newest.id and row.snapshot_time is not None and row.snapshot_time < moment

    for number in sorted(_numbers(table, store, is_former)):
        store.set_apart(_named(table, number, moment))
