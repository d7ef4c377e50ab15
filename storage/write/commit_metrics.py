"""What is measured and logged of a commit: how long it took with all its tries, what became of it, and what it added."""

import logging
import time
from collections.abc import Callable

from .. import metrics
from ..errors import CommitConflict, CommitOutcomeUnknown, StorageError
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from .attempt import Change

# The attribute of a log record that holds the fields of its event.
LOG_FIELDS = "snapline"
_log = logging.getLogger(__name__)


def measured_commit(
    store: TableStore, change: Change, commit: Callable[[Change], tuple[Snapshot | None, bool]]
) -> tuple[Snapshot | None, bool]:
    """Commit a change. Returns what `commit` returns: the snapshot, and whether this call made it."""
    if not metrics.is_metered() and not _log.isEnabledFor(logging.INFO):
        return commit(change)
    began = time.perf_counter()
    try:
        snapshot, is_own = commit(change)
    except StorageError as error:
        _tell(store, change, None, _outcome_of(error), time.perf_counter() - began)
        raise
    outcome = "nothing to commit" if snapshot is None else "committed" if is_own else "was there already"
    _tell(store, change, snapshot, outcome, time.perf_counter() - began)
    return snapshot, is_own


def _tell(store: TableStore, change: Change, snapshot: Snapshot | None, outcome: str, seconds: float) -> None:
    table = str(store.identifier)
    kind = (snapshot.commit_kind if snapshot else change.kind) or ""
    metrics.take(metrics.COMMIT_DURATION, seconds, table=table, kind=kind, outcome=outcome)
    fields: dict[str, object] = {
        "event": "commit",
        "table": table,
        "kind": kind,
        "outcome": outcome,
        "seconds": round(seconds, 6),
    }
    if snapshot is not None:
        fields["snapshot"] = snapshot.id
    if outcome == "committed":
        files = [entry.file for entry in change.added]
        rows, size = sum(file.row_count for file in files), sum(file.size_bytes for file in files)
        metrics.take(metrics.COMMIT_ROWS, rows, table=table, kind=kind)
        metrics.take(metrics.COMMIT_BYTES, size, table=table, kind=kind)
        fields |= {"rows": rows, "bytes": size}
    _log.info("commit to %s: %s", table, outcome, extra={LOG_FIELDS: fields})


def _outcome_of(error: StorageError) -> str:
    if isinstance(error, CommitConflict):
        return "conflict"
    return "unknown" if isinstance(error, CommitOutcomeUnknown) else "failed"
