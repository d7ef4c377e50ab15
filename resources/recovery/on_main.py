"""What main has of the branches of a recovery: what was published, taken back since, or has come to a branch since."""

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from storage import (
    MAIN_BRANCH,
    Catalog,
    CorruptData,
    InvalidRequest,
    OpenPublication,
    Snapshot,
    SnapshotRef,
    Table,
    taken_newest,
)

from .record import OPEN, PUBLISHED, TableRecord
from .replay import is_merged_by_hand, is_own

if TYPE_CHECKING:
    from .stages import Recovery


def is_published(recovery: "Recovery", name: str) -> bool:
    """Whether main has what the branch has now by a publication, whatever came later, and has not taken that back. Of a
    published recovery also whether the branch has nothing that main could get.
    """
    main, record, branch = recovery.main(name), recovery.tables[name], recovery.branched(name)
    own = branch.last_change()
    if own is None:
        return False
    published = _published_as_it_is(recovery, main, own, record)
    if published is not None:
        return not main.snapshots.is_taken_back(published.id)
    if recovery.record.status != PUBLISHED or any(
        snapshot.changes_rows for snapshot in main.snapshots.backwards() if is_own(snapshot, recovery.branch)
    ):
        return False
    return record.branch_at == record.main and not main.branches.verdict(recovery.branch).new


def was_published(recovery: "Recovery") -> bool:
    """Whether a recovery is published, or every main has a publication of it that nobody has written down: it died, and others
    have finished it.
    """
    record = recovery.record
    if record.status != OPEN:
        return record.status == PUBLISHED
    tables = recovery.changed()
    planned = [name for name in tables if name in record.tables] or tables
    return bool(planned) and all(_has_a_publication(recovery, name) for name in planned)


def _has_a_publication(recovery: "Recovery", name: str) -> bool:
    """Whether a table's main has a commit of a publication of the recovery, and has not taken it back."""
    main = recovery.main(name)
    for snapshot in main.snapshots.backwards():
        if snapshot.time_ms < recovery.record.created_ms:
            return False
        if is_own(snapshot, recovery.branch) and not is_merged_by_hand(snapshot):
            return not main.snapshots.is_taken_back(snapshot.id)
    return False


def changed_since(recovery: "Recovery") -> list[str]:
    """The tables of a published recovery whose branches hold what its publication has not put on main: somebody has written to
    them since. Tables of which that cannot be told, since main's history goes no further back, are not among them.
    """
    return [name for name in _not_on_main(recovery) if not _is_taken_back(recovery, name)]


def _not_on_main(recovery: "Recovery") -> list[str]:
    """The tables of a published recovery of which main lacks what the branch has, as far as that can be told."""
    if not was_published(recovery):
        return []
    return [name for name in recovery.changed() if not is_published(recovery, name) and _can_be_told(recovery, name)]


def _can_be_told(recovery: "Recovery", name: str) -> bool:
    """Whether main's history goes back to the publication of a table."""
    if recovery.branched(name).last_change() is None:
        return False
    earliest = None
    for earliest in recovery.main(name).snapshots.backwards():
        if is_own(earliest, recovery.branch):
            return True
    return earliest is None or earliest.id == 1 or earliest.time_ms < recovery.record.created_ms


def _is_taken_back(recovery: "Recovery", name: str) -> bool:
    """Whether what a branch has now was published, and main has taken it back."""
    own = recovery.branched(name).last_change()
    published = None if own is None else _published_as_it_is(recovery, recovery.main(name), own, recovery.tables[name])
    return published is not None and recovery.main(name).snapshots.is_taken_back(published.id)


def _is_replayed_since(recovery: "Recovery", name: str) -> bool:
    """Whether a replay has brought to a branch what production did, and that is not published yet."""
    published = 0
    for own in (each for each in recovery.main(name).snapshots.backwards() if is_own(each, recovery.branch)):
        taken = taken_newest(own)
        known = [] if taken is None else [taken.snapshot_id]
        known += [
            source.snapshot_id
            for source in recovery.sources(own)
            if (f"{source.database}.{source.table}", source.branch) == (name, recovery.branch)
        ]
        published = max(published, *known, 0)
    return any(
        snapshot.id > published and snapshot.changes_rows and snapshot.commit_user == recovery.replay_user
        for snapshot in recovery.branched(name).snapshots.backwards()
    )


def _published_as_it_is(recovery: "Recovery", main: Table, own: SnapshotRef, record: TableRecord) -> Snapshot | None:
    """The newest snapshot of main by which a publication has put there what a branch has now."""
    places = {(own.database, own.table, own.branch, own.snapshot_id)}
    if record.branch_at is not None and own.snapshot_id <= record.branch_at:
        # Nothing was written to the branch: it was published as what it began with.
        places.add((own.database, own.table, MAIN_BRANCH, record.branch_at))
    return next(
        (
            snapshot
            for snapshot in main.snapshots.backwards()
            if is_own(snapshot, recovery.branch) and _has(recovery, snapshot, own, places)
        ),
        None,
    )


def _has(
    recovery: "Recovery", snapshot: Snapshot, own: SnapshotRef, places: Collection[tuple[str, str, str, int]]
) -> bool:
    """Whether a commit of a publication was made of a change of the branch, alone or on top of what production had done."""
    taken = taken_newest(snapshot)
    if taken is not None and (taken.branch, taken.snapshot_id) == (own.branch, own.snapshot_id):
        return True
    sources = recovery.sources(snapshot)
    return any((each.database, each.table, each.branch, each.snapshot_id) in places for each in sources)


def refuse_published(recovery: "Recovery") -> None:
    """Raise InvalidRequest for a correction of a recovery that is published, also if SQL has changed its branches since. One of
    which something is to be published yet (main has taken it back, or a replay has brought what production did) is gone on with.
    """
    record = recovery.record
    if not was_published(recovery) or any(
        _is_taken_back(recovery, name) or _is_replayed_since(recovery, name) for name in _not_on_main(recovery)
    ):
        return
    bad = record.bad.rpartition("@")[0] or "<table>"
    raise InvalidRequest(
        f"Recovery {recovery.branch!r} is published: a correction of its branches would not come to main. Start a new one from "
        f"the snapshot that is bad now (snapline recovery start <name> --bad {bad}@<snapshot>); this one can be dropped "
        f"(snapline recovery drop {recovery.branch}). Nothing has been done."
    )


def refuse_being_published(recovery: "Recovery", catalog: Catalog) -> None:
    """Raise InvalidRequest for a correction while a publication of the recovery is open: whoever finishes that publishes the
    branches as they were when it began.
    """
    # Of which recovery a damaged one is, nobody knows.
    with suppress(CorruptData):
        for each in catalog.publications([recovery.branch]):
            undo = "take it back by `snapline branch recover --undo`"
            undone = each.outcome == "undone"
            ways = undo if undone else f"finish it by `snapline recovery publish {recovery.branch}`"
            ways += "" if undone or each.outcome == "replacing" else f", or {undo}"
            raise InvalidRequest(
                f"Recovery {recovery.branch!r} takes no correction while its publication {each.number} is open "
                f"({come_to(each)}). Unless somebody is at it, {ways}. Nothing has been done."
            )


def come_to(publication: OpenPublication) -> str:
    """Which mains have an open publication by now, in words."""
    missing = [name for name in publication.tables if name not in publication.done]
    if not publication.done:
        return f"has come to none of {', '.join(missing)} yet"
    if missing:
        return f"has come to {', '.join(publication.done)}, not to {', '.join(missing)}"
    return f"has come to all of its tables: {', '.join(publication.done)}"
