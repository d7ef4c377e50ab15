"""Which snapshot made the rows of another: compactions have no lineage of their own, as for the commands."""

from contextlib import suppress

from lineage import LineageUnavailable, same_snapshot
from storage import SnapshotRef, StorageError

from ..session import Session


def change_of(session: Session, ref: SnapshotRef) -> SnapshotRef:
    """The snapshot that made the rows of one: itself, or the change before a compaction, by main's name if a branch has it with
    main. One that cannot be read is itself.
    """
    if "~" in ref.branch or ref.catalog not in session.catalog_names():
        return ref
    found = ref
    with suppress(StorageError):
        found = session.catalog_of(ref.catalog).table(ref.table_name).last_change(ref.snapshot_id) or ref
    if found.branch == "main":
        return found
    with suppress(LineageUnavailable):
        stores = session.stores_to_ask(found.catalog)
        return next((one for one in same_snapshot(stores, found) if one.branch == "main"), found)
    return found
