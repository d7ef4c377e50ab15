"""The last moment of a publication beside production that goes on: what it commits to the tables whose changes a replay applies
is brought to their branches, again and again, without computing anything anew, until a publication comes between two commits.

What is made from those tables stays computed from what they held before: as on any other day, its next run brings the rest.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from storage import CommitConflict, Table

from ..session import Session
from .record import RecoveryRecord, change_record, with_moved
from .replay import bring, own_snapshots
from .stages import Recovery

_log = logging.getLogger(__name__)
# For how long, in milliseconds, production's commits are brought along at the end of a publication.
FOLLOWED_MS = 60_000

_T = TypeVar("_T")
Heads = Mapping[str, tuple[int, str]]


class NeverStill(CommitConflict):
    """Production has committed again and again before what it had could be published."""


def head_of(branch: Table) -> tuple[int, str]:
    """The newest snapshot of a branch, by number and identity; 0 if it has none."""
    snapshot = branch.snapshot()
    return (0, "") if snapshot is None else (snapshot.id, snapshot.identity)


def followed(
    session: Session,
    seen: Recovery,
    heads: Heads,
    published: Callable[[Recovery, Heads], _T],
    now_ms: Callable[[], int],
) -> tuple[Recovery, _T]:
    """What a function returns that publishes a recovery as it was seen, its branches having some heads, and the recovery as it
    was seen last. Where production has committed meanwhile it is brought along, and the function is called again, for up to
    FOLLOWED_MS.

    Raises what the function does once that time is over, or if production has changed what has to be computed anew, or others
    have changed the recovery.
    """
    until = now_ms() + FOLLOWED_MS
    while True:
        try:
            return seen, published(seen, heads)
        except CommitConflict as error:
            if now_ms() > until:
                raise NeverStill(str(error)) from None
            caught_up = _caught_up(session, seen, heads)
            if caught_up is None:
                raise
            _log.info("%s", error)
            seen, heads = caught_up


def _caught_up(session: Session, seen: Recovery, heads: Heads) -> tuple[Recovery, Heads] | None:
    """The recovery and the heads of its branches once they have what production has committed; None if it is not that what
    stands in the way, or has to be computed anew.
    """
    catalog, recovery = session.catalog, Recovery.open(session, seen.branch)
    moved = recovery.moved()
    is_open = any(publication.branch == seen.branch for publication in catalog.publications())
    if not moved or is_open or recovery.record != seen.record:
        return None
    tables = recovery.tables
    if not all(tables[name].corrected and name in heads for name in moved):
        return None
    if any(head_of(recovery.branched(name)) != heads[name] for name in moved):
        return None
    record, later = recovery.record, dict(heads)
    for name in moved:
        record = _brought(session, recovery, record, name, heads[name][0])
        branch = recovery.branched(name)
        later[name] = head_of(branch)
        if any(own_snapshots(branch, heads[name][0])):
            # Somebody has written to it as well, and that is to be judged.
            return None
    again = Recovery(session, seen.branch, record)
    return again, later


def _brought(session: Session, recovery: Recovery, record: RecoveryRecord, name: str, head: int) -> RecoveryRecord:
    """Bring what production has committed to a table to its branch, of which `head` was the newest snapshot, and remember it."""
    table, main = recovery.tables[name], recovery.main(name)
    newest = main.last_change()
    assert newest is not None
    bring(main, recovery.branched(name), table.main or 0, newest.snapshot_id)
    snapshot = recovery.snapshot_of_main(name, newest.snapshot_id)
    moved = replace(
        table,
        main=newest.snapshot_id,
        main_identity=None if snapshot is None else snapshot.identity,
        computed_at=table.computed_at or head,
    )
    return change_record(session.catalog, record, partial(with_moved, name=name, moved=moved))


def left_to_production(recovery: Recovery) -> Sequence[str]:
    """What is published without having been computed into what is made from it, as sentences of the record."""
    if all(table.corrected for table in recovery.planned.values()):
        # Nothing of the recovery is made from them.
        return []
    return [
        f"published though what production has committed to {name} in the last moment is in nothing yet that is made from it: "
        "the next run of that brings it"
        for name, table in recovery.planned.items()
        if table.computed_at is not None
        and recovery.is_branched(name)
        and recovery.branched(name).snapshots.latest_id() != table.computed_at
    ]
