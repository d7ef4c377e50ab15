"""The keys of a table whose rows may be others at one snapshot than at an earlier one.

Whoever keeps something that is made from both looks at these again. They come from the data files that commits added and took
away, never from changelogs, some of which tell of rows later than a reader of the table sees them. There may be more than have
changed, never fewer; commits without change tracking are left out, as they are for all readers of changes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..errors import Unsupported
from ..metadata.change_tracking import tracks
from ..metadata.manifest import POSTPONED_BUCKET, ManifestEntry
from ..metadata.snapshot import COMPACT, OVERWRITE, Snapshot
from ..metadata.table_store import TableStore
from .changes import ChangeSplit
from .split_read import ReadRequest


def plan_touched(request: ReadRequest, after: int, until: int) -> Iterator[ChangeSplit]:
    """The touched keys, in no order and perhaps several times; the columns of the request are those of the key.

    Raises NotFound if a snapshot in between has expired.
    """
    store = request.store
    refuse_untold(store)
    for snapshot_id in range(after + 1, until + 1):
        snapshot, following = store.snapshots.get(snapshot_id), store.snapshots.find(snapshot_id + 1)
        if (following is not None and following.takes_back(snapshot)) or not _shows_rows(store, snapshot):
            continue
        listed = store.manifests.read_list(snapshot.delta_manifest_list)
        by_partition: dict[bytes, list[ManifestEntry]] = {}
        for entry in (entry for each in listed for entry in store.manifests.read(each.name)):
            by_partition.setdefault(entry.partition, []).append(entry)
        for partition, entries in by_partition.items():
            if tracks(snapshot, partition):
                yield from _splits(request, snapshot, partition, entries)


def refuse_untold(store: TableStore) -> None:
    """Raise Unsupported for a table whose rows change without their files."""
    if store.options.deletion_vectors_enabled and not store.schema.primary_keys:
        raise Unsupported(
            f"Table {store.identifier} has 'deletion-vectors.enabled' and no primary key: of rows that are marked as deleted no "
            "keys are told."
        )


def readable_snapshot(store: TableStore, position: int) -> Snapshot | None:
    """The snapshot whose rows a table has at a position: the one before, where a stale commit was taken back; None if there
    are no rows yet. Raises NotFound if it has expired.
    """
    while position > 0:
        snapshot, following = store.snapshots.get(position), store.snapshots.find(position + 1)
        if following is None or not following.takes_back(snapshot):
            return snapshot
        position -= 1
    return None


def _shows_rows(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether readers may see other rows since a snapshot. Of some tables they see what compactions have lifted, or moved out of
    postponed buckets, and who reads `as_told` sees of others what compactions have told.
    """
    if snapshot.commit_kind == OVERWRITE:
        return store.options.streaming_read_overwrite
    options = store.options
    compacted_alone = options.hides_level_0 or options.told_level is not None or options.bucket == POSTPONED_BUCKET
    return snapshot.changes_rows or (compacted_alone and snapshot.commit_kind == COMPACT)


def _splits(
    request: ReadRequest, snapshot: Snapshot, partition: bytes, entries: Sequence[ManifestEntry]
) -> Iterator[ChangeSplit]:
    buckets: dict[int, list[ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault(entry.bucket, []).append(entry)
    for held in buckets.values():
        yield ChangeSplit(replace(request, snapshot=snapshot), snapshot.id, partition, tuple(held))
