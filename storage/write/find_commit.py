"""Look for what a commit id has made: among the snapshots, then in what is remembered of those that have expired."""

import logging
from typing import TYPE_CHECKING

from ..errors import CommitConflict
from ..metadata.committed import Committed
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.time_order import rising_since
from .seen_history import seen_backwards
from .taken_over import ids_taken_over

if TYPE_CHECKING:
    from .commit_id import CommitId

_log = logging.getLogger(__name__)
# How far clocks of writers may differ when an earlier commit is looked for.
CLOCK_SKEW_MS = 3_600_000


def search_bound(commit_id: "CommitId", now_ms: int) -> int | None:
    """The time before which an id cannot have committed; None: it is not known, and all of the history is searched.

    A bound that is ahead of the clock comes from another clock: commits since may bear earlier times.
    """
    bound = commit_id.not_before_ms
    return None if bound is None or bound > now_ms + CLOCK_SKEW_MS else bound - CLOCK_SKEW_MS


def find_commit(store: TableStore, commit_id: "CommitId", latest: Snapshot | None = None) -> Snapshot | None:
    """The snapshot that a user and identifier made, or a later one of the user, up to `latest` or by now; None if they did
    not commit.

    If it has expired: the earliest snapshot that there is, which has it in it. Raises CommitConflict if that cannot be told.
    """
    if commit_id.identifier == BATCH_COMMIT_IDENTIFIER:
        return None
    latest = latest or store.snapshots.latest()
    doubts: list[CommitConflict] = []
    snapshot, oldest = _in_history(store, commit_id, search_bound(commit_id, store.clock.now_ms()), latest, doubts)
    # A branch that became main remembers commits of a main whose work was given up: they are in no history.
    is_whole = oldest is None and store.paths.branch == store.identifier.branch
    if snapshot is None:
        if is_whole and not doubts:
            return None
        remembered = store.committed.find(commit_id.user)
        has_landed = remembered is not None and (
            remembered.holds(commit_id.identifier) or (not is_whole and _is_among(remembered, commit_id, store))
        )
        if not has_landed:
            if doubts:
                raise doubts[0]
            return None
    elif latest is not None and snapshot.id == latest.id:
        return latest
    else:
        # What this process remembers of it is not all of it, and it may have expired since.
        there = store.snapshots.find(snapshot.id)
        if there is not None and there.identity == snapshot.identity:
            return there
    _log.info(
        "%s: commit %s of %s landed long ago, its snapshot has expired. Nothing is committed again.",
        store.identifier,
        commit_id.identifier,
        commit_id.user,
    )
    return store.snapshots.earliest() or latest


def _in_history(
    store: TableStore,
    commit_id: "CommitId",
    bound_ms: int | None,
    latest: Snapshot | None,
    doubts: list[CommitConflict],
) -> tuple[Snapshot | None, Snapshot | None]:
    """The snapshot of a commit id; and the last that was looked at, if those before have expired and might be it.

    `doubts` gets what is to be raised if neither the history nor what is remembered has the id: another branch, whose
    commits were taken over, may have had it.
    """
    newest_of_user: Snapshot | None = None
    oldest: Snapshot | None = None
    # With a bound, times before the first of these are not to be looked at until the numbers are below it.
    resume_below: int | None = None
    for snapshot in seen_backwards(store, latest):
        oldest = snapshot
        if resume_below is not None and snapshot.id >= resume_below:
            continue
        if bound_ms is not None and snapshot.time_ms < bound_ms:
            # Times rise within a segment alone: what lies before it may be later.
            resume_below = rising_since(snapshot)
            if resume_below is None:
                return None, None
            continue
        taken = ids_taken_over(snapshot).get(commit_id.user)
        if taken is not None and taken.holds(commit_id.identifier):
            return snapshot, None
        try:
            if taken is not None and newest_of_user is None and _is_among(taken, commit_id, store):
                return snapshot, None
        except CommitConflict as doubt:
            doubts.append(doubt)
        # A commit that nobody repeats says nothing of the others of its user.
        if snapshot.commit_user == commit_id.user and snapshot.commit_identifier != BATCH_COMMIT_IDENTIFIER:
            if snapshot.commit_identifier == commit_id.identifier:
                return snapshot, None
            if not commit_id.exact:
                newest_of_user = newest_of_user or snapshot
                if snapshot.commit_identifier < commit_id.identifier:
                    break
    if newest_of_user is not None:
        return (newest_of_user if newest_of_user.commit_identifier > commit_id.identifier else None), None
    return None, oldest if oldest is not None and oldest.id > 1 else None


def _is_among(committed: Committed, commit_id: "CommitId", store: TableStore) -> bool:
    """Whether an id is among those that are remembered of its user. Raises CommitConflict if that cannot be told."""
    if committed.holds(commit_id.identifier):
        return True
    if not commit_id.exact:
        if committed.highest is not None and commit_id.identifier <= committed.highest:
            return True
        later = next((last for _, last, _ in committed.ranges if last > commit_id.identifier), None)
        if later is None:
            return False
        raise CommitConflict(
            f"{store.identifier} has taken over commit {later} of {commit_id.user!r} from another branch, but not "
            f"{commit_id.identifier}, which comes before it. If identifiers of that user need not rise, commit with exact; to "
            "write the rows all the same, commit under a higher identifier."
        )
    if committed.forgotten_until_ms is None:
        return False
    bound = commit_id.not_before_ms
    if bound is not None and bound - CLOCK_SKEW_MS > committed.forgotten_until_ms:
        return False
    raise CommitConflict(
        f"It cannot be told whether commit {commit_id.identifier} of {commit_id.user!r} has landed in {store.identifier}: its "
        "snapshot would have expired, and so many others of that user that not all are remembered. Look at the rows; to "
        "write them again, commit under a new identifier."
    )
