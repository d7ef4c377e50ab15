"""What follows a commit by which files come to a branch that were there before, or on another branch."""

from collections.abc import Sequence

from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, Place
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.trouble import COMPACTION, RESCALING, afterwards
from ..metadata.way_back import told_of_way_back
from ..write.listeners import CommitListener
from .compact_in_tries import compact_after, compact_if_due
from .mark_done import mark_brought
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
        mark_brought(store, snapshot)


def compact_written(
    store: TableStore, written: set[Place], snapshot: Snapshot, listeners: Sequence[CommitListener]
) -> None:
    """Compact the buckets that the commit of a snapshot has written to. Where the rows wait for that, also those to which others
    have written and failed to compact, which nobody may write to again.
    """
    if store.options.lifts_each_write:
        afterwards(store, COMPACTION, lambda: _lift(store, written, listeners), None, snapshot.id)
    elif written:
        afterwards(store, COMPACTION, lambda: compact_if_due(store, snapshot, written, listeners), None, snapshot.id)


def _compact(
    store: TableStore, snapshot: Snapshot | None, number: int | None, listeners: Sequence[CommitListener]
) -> None:
    told_level = store.options.told_level

    def tell() -> None:
        assert snapshot is not None and told_level is not None
        added = [entry for entry in store.delta_of(snapshot) if entry.kind == ADD and entry.file.level < told_level]
        if added:
            compact_after(store, {entry.place for entry in added}, listeners)

    if store.options.hides_level_0 and store.schema.primary_keys:
        # Also files that were there before: whoever brought them may have died before he could compact them.
        afterwards(store, COMPACTION, lambda: _lift(store, set(), listeners, all_waiting=True), None, number)
    elif snapshot is not None and told_level is not None:
        afterwards(store, COMPACTION, tell, None, number)


def _lift(
    store: TableStore, written: set[Place], listeners: Sequence[CommitListener], *, all_waiting: bool = False
) -> None:
    """Compact some buckets, and all that hold files of level 0 if a compaction has failed before, or if they are to be. That
    trouble is over once it is done. Raises what the last of those raised that cannot be compacted: they keep no other from it.
    """
    trouble = store.troubles.content(COMPACTION)
    failures = _failures(store, written, listeners)
    if trouble is not None or all_waiting:
        latest = store.snapshots.latest()
        waiting = set() if latest is None else _places_of_level_0(store, latest)
        failures += _failures(store, waiting - written, listeners)
    if failures:
        raise failures[-1]
    store.troubles.clear_if(COMPACTION, trouble)


def _failures(store: TableStore, places: set[Place], listeners: Sequence[CommitListener]) -> list[Exception]:
    """Compact some buckets, together if that can be done, else one by one; returns what could not."""
    failures: list[Exception] = []
    groups = [places] if places else []
    while groups:
        group = groups.pop()
        try:
            compact_after(store, group, listeners)
        except Exception as error:
            if len(group) > 1:
                groups += [{place} for place in group]
            else:
                failures.append(error)
    return failures


def _places_of_level_0(store: TableStore, snapshot: Snapshot) -> set[Place]:
    """The buckets of a snapshot that have files of level 0."""
    with told_of_way_back(store, snapshot):
        live = live_files(store.manifests_of(snapshot), store.manifests, lambda place: place.bucket >= 0)
    return {entry.place for entry in live if entry.file.level == 0}
