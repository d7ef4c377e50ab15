"""A branch's history as whoever looks for a commit goes through it: newest first, and no snapshot read twice by one process.

A snapshot that names the one that it was put on top of by its identity can be followed down by memory, since what has an identity
never changes. What is remembered may have expired since: it was there, and what it committed has landed.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..metadata.manifest import decoded_files
from ..metadata.snapshot import FOLLOWS_PROPERTY, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.time_order import TIME_DISORDER_PROPERTY
from .taken_over import TAKEN_OVER_EXPIRED_PROPERTY, TAKEN_OVER_PROPERTY

# What a search asks of a snapshot besides its attributes; others may be long.
_KEPT_PROPERTIES = (
    FOLLOWS_PROPERTY,
    TIME_DISORDER_PROPERTY,
    TAKEN_OVER_PROPERTY,
    TAKEN_OVER_EXPIRED_PROPERTY,
)


def seen_backwards(store: TableStore, latest: Snapshot | None) -> Iterator[Snapshot]:
    """As `SnapshotFiles.backwards` from a newest snapshot on, but those that this process has gone through before come from
    memory: without most properties, and also where they have expired since.
    """
    snapshot = latest
    while snapshot is not None:
        _keep(store, snapshot)
        yield snapshot
        snapshot = store.snapshots.before(snapshot, partial(_below, store))


def _below(store: TableStore, snapshot: Snapshot) -> Snapshot | None:
    """The snapshot of the number below one, as far as it is known that it was put on top of that, else as it is now."""
    if snapshot.follows is not None:
        kept: tuple[Snapshot, ...] | None = decoded_files(from_disk=False).find(_key(store, snapshot.id - 1))
        if kept is not None and kept[0].identity == snapshot.follows:
            return kept[0]
    below = store.snapshots.find(snapshot.id - 1)
    if below is not None:
        # Also what was taken back, which is passed by.
        _keep(store, below)
    return below


def _keep(store: TableStore, snapshot: Snapshot) -> None:
    key, files = _key(store, snapshot.id), decoded_files(from_disk=False)
    kept: tuple[Snapshot, ...] | None = files.find(key)
    if kept is None or kept[0].identity != snapshot.identity:
        said = snapshot.properties or {}
        properties = {name: said[name] for name in _KEPT_PROPERTIES if name in said}
        files.put(key, (replace(snapshot, properties=properties, others={}),))


def _key(store: TableStore, snapshot_id: int) -> tuple[str, ...]:
    return "snapshot", store.file_io.protocol, store.paths.snapshot(snapshot_id)
