"""Which snapshot made the rows of another: compactions have no lineage of their own, as for the commands."""

from storage import SnapshotRef, StorageError

from ..session import Session


def change_of(session: Session, ref: SnapshotRef) -> SnapshotRef:
    """The snapshot that made the rows of one: itself, or the change before a compaction. One that cannot be read is itself."""
    if "~" in ref.branch or ref.catalog not in session.catalog_names():
        return ref
    try:
        table = session.catalog_of(ref.catalog).table(ref.table_name)
        snapshot = table.snapshot(ref.snapshot_id)
        if snapshot is None or snapshot.changes_rows:
            return ref
        return table.last_change(ref.snapshot_id) or ref
    except StorageError:
        return ref
