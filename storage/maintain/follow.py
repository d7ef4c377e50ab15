"""What follows a commit by which files come to a branch that were there before, or on another branch."""

from collections.abc import Sequence

from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, Place
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.trouble import COMPACTION, RESCALING, afterwards
from ..metadata.way_back import told_of_way_back
from ..write.listeners import CommitListener
from .compaction import compact_after
from .rescale import rescale_brought


def tell_after(store: TableStore, snapshot: Snapshot | None, listeners: Sequence[CommitListener]) -> None:
    """Compact the buckets to which a commit (None: there was nothing to commit) has brought files, of earlier snapshots or of a
    branch, that readers of changes are told of by a compaction, or that readers see once there was one, as after a write. And
    hash anew what has another number of buckets than the table.
    """
    number = None if snapshot is None else snapshot.id
    if not store.options.write_only:
        _compact(store, snapshot, number, listeners)
    if snapshot is not None:
        afterwards(store, RESCALING, lambda: rescale_brought(store, snapshot, listeners), None, number)


def _compact(
    store: TableStore, snapshot: Snapshot | None, number: int | None, listeners: Sequence[CommitListener]
) -> None:
    told_level = store.options.told_level

    def show() -> Snapshot | None:
        latest = store.snapshots.latest()
        places = set() if latest is None else _places_of_level_0(store, latest)
        return compact_after(store, places, listeners) if places else None

    def tell() -> None:
        assert snapshot is not None and told_level is not None
        added = [entry for entry in store.delta_of(snapshot) if entry.kind == ADD and entry.file.level < told_level]
        if added:
            compact_after(store, {entry.place for entry in added}, listeners)

    if store.options.hides_level_0 and store.schema.primary_keys:
        # Also files that were there before: whoever brought them may have died before he could compact them.
        afterwards(store, COMPACTION, show, None, number)
    elif snapshot is not None and told_level is not None:
        afterwards(store, COMPACTION, tell, None, number)


def _places_of_level_0(store: TableStore, snapshot: Snapshot) -> set[Place]:
    """The buckets of a snapshot that have files of level 0."""
    with told_of_way_back(store, snapshot):
        live = live_files(store.manifests_of(snapshot), store.manifests.read, lambda one: one.bucket >= 0)
    return {entry.place for entry in live if entry.file.level == 0}
