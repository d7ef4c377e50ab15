"""What a commit left in a table whose readers see rows, or are told of them, only once they are compacted.

Lineage names the commit, not the compaction that follows it; who reads a table by that name needs the rows of both. Who goes on
by changes needs those alone that no change after it will tell.
"""

from ..metadata.manifest import POSTPONED_BUCKET
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from .version import Pinned


def with_all_rows(store: TableStore, snapshot: Snapshot | None) -> Pinned:
    """A snapshot with the rows that no compaction has seen yet merged in. Those of postponed buckets cannot be: they are seen in
    the compactions that follow it directly.
    """
    if snapshot is None or not store.schema.primary_keys:
        return Pinned(snapshot, store.schema)
    if store.options.bucket == POSTPONED_BUCKET:
        while (following := store.snapshots.find(snapshot.id + 1)) is not None and not following.changes_rows:
            snapshot = following
    return Pinned(snapshot, store.schema, 0)


def as_told(store: TableStore, snapshot: Snapshot) -> Pinned:
    """A snapshot with the rows that changes up to it have told of: without those that a compaction after it tells."""
    return Pinned(snapshot, store.schema, store.options.told_level or 0)
