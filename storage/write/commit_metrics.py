"""What is measured of a commit: how long it took with all its tries, what became of it, and what it added."""

import time
from collections.abc import Callable

from .. import metrics
from ..errors import CommitConflict, CommitOutcomeUnknown, StorageError
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from .attempt import Change


def measured_commit(
    store: TableStore, change: Change, commit: Callable[[Change], tuple[Snapshot | None, bool]]
) -> tuple[Snapshot | None, bool]:
    """Commit a change. Returns what `commit` returns: the snapshot, and whether this call made it."""
    if not metrics.is_metered():
        return commit(change)
    table, began = str(store.identifier), time.perf_counter()
    try:
        snapshot, is_own = commit(change)
    except StorageError as error:
        seconds = time.perf_counter() - began
        metrics.take(metrics.COMMIT_DURATION, seconds, table=table, kind=change.kind or "", outcome=_outcome_of(error))
        raise
    outcome = "nothing to commit" if snapshot is None else "committed" if is_own else "was there already"
    kind = snapshot.commit_kind if snapshot else change.kind or ""
    metrics.take(metrics.COMMIT_DURATION, time.perf_counter() - began, table=table, kind=kind, outcome=outcome)
    if snapshot is not None and is_own:
        files = [entry.file for entry in change.added]
        metrics.take(metrics.COMMIT_ROWS, sum(file.row_count for file in files), table=table, kind=kind)
        metrics.take(metrics.COMMIT_BYTES, sum(file.size_bytes for file in files), table=table, kind=kind)
    return snapshot, is_own


def _outcome_of(error: StorageError) -> str:
    if isinstance(error, CommitConflict):
        return "conflict"
    return "unknown" if isinstance(error, CommitOutcomeUnknown) else "failed"
