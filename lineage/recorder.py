"""Write lineage down: a job's tables when it is built, its snapshots when a commit is visible.

The recorder is a commit listener on the sink. What it writes is an index of what the snapshot itself says, so nothing
is lost if it never runs: `rebuild` reads it off the tables again.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from storage import Catalog, Identifier, Snapshot, SnapshotRef

from .entities import SnapshotLineage, TableLineage, commit_time, sources_of
from .store import LineageStore

_NOT_MADE_BY_A_JOB = ("COMPACT", "ANALYZE")


class LineageRecorder:
    """Listens to the commits of one catalog. `stores` are the lineage stores by catalog name: sources may lie in others."""

    def __init__(self, catalog: str, stores: Mapping[str, LineageStore], *, tables: bool, snapshots: bool) -> None:
        self._catalog = catalog
        self._stores = stores
        self._tables = tables
        self._snapshots = snapshots

    def notify_commit_complete(self, identifier: Identifier, snapshot: Snapshot) -> None:
        """Record a visible commit. Compactions change no rows and have no lineage."""
        if snapshot.commit_kind in _NOT_MADE_BY_A_JOB:
            return
        job, barrier, moment = snapshot.commit_user, snapshot.commit_identifier, commit_time(snapshot)
        sink = SnapshotRef(self._catalog, identifier.database, identifier.table, identifier.branch, snapshot.id)
        sources = sources_of(snapshot)
        if self._tables and sources:
            self.record_job(job, sources, [sink], moment)
        if self._snapshots:
            # Sources first: a sink row without its sources would be an answer that leaves something out.
            for catalog, store in self._stores.items():
                rows = [_snapshot_row(job, barrier, one, moment) for one in sources if one.catalog == catalog]
                store.store_snapshots("source", rows)
            self._stores[self._catalog].store_snapshots("sink", [_snapshot_row(job, barrier, sink, moment)])

    def record_job(
        self, job: str, sources: Iterable[SnapshotRef], sinks: Iterable[SnapshotRef], moment: datetime | None = None
    ) -> None:
        """Record the tables that a job reads and writes."""
        if not self._tables:
            return
        now = moment or datetime.now(UTC).replace(tzinfo=None, microsecond=0)
        for side, refs in (("source", list(sources)), ("sink", list(sinks))):
            for catalog, store in self._stores.items():
                rows = [_table_row(job, one, now) for one in refs if one.catalog == catalog]
                store.store_tables(side, rows)  # type: ignore[arg-type]


def _table_row(job: str, ref: SnapshotRef, moment: datetime) -> TableLineage:
    return TableLineage(job, ref.database, ref.table, ref.branch, moment)


def _snapshot_row(job: str, barrier: int, ref: SnapshotRef, moment: datetime) -> SnapshotLineage:
    return SnapshotLineage(job, barrier, ref.database, ref.table, ref.branch, ref.snapshot_id, moment)


def rebuild(catalog: Catalog, recorder: LineageRecorder) -> int:
    """Record every snapshot of every table and branch again; returns how many were looked at.

    What is there already stays as it is, so this both recreates a lost database and fills in what a crash left out.
    """
    count = 0
    for name in catalog.tables():
        table = catalog.table(name)
        for one in [table, *(table.on_branch(branch) for branch in table.branches.names())]:
            for snapshot in one.store.snapshots.all():
                recorder.notify_commit_complete(one.identifier, snapshot)
                count += 1
    return count
