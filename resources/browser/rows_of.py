"""Which snapshot made the rows of another: compactions have no lineage of their own, as for the commands."""

from collections.abc import Mapping
from contextlib import suppress

from lineage import LineageStore, LineageUnavailable, same_snapshot
from storage import SnapshotRef, StorageError

from ..session import Session


def change_of(session: Session, ref: SnapshotRef, stores: Mapping[str, LineageStore] | None = None) -> SnapshotRef:
    """The snapshot that made the rows of one: itself, or the change before a compaction, by main's name if a branch has it with
    main. One that cannot be read is itself. `stores`: those of lineage, if they are up to date.
    """
    if "~" in ref.branch or ref.catalog not in session.catalog_names():
        return ref
    current = ref
    with suppress(StorageError, LineageUnavailable):
        current = session.catalog_of(ref.catalog).table(ref.table_name).last_change(ref.snapshot_id) or ref
        current = session.expired_change(current) or current
    if current.branch == "main":
        return current
    with suppress(LineageUnavailable):
        asked = session.stores_to_ask(current.catalog) if stores is None else stores
        return next((ref for ref in same_snapshot(asked, current) if ref.branch == "main"), current)
    return current
