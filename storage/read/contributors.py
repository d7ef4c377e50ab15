"""Which snapshots the rows of a partition come from."""

from collections.abc import Mapping
from typing import Any

from ..errors import NotFound
from ..identifier import MAIN_BRANCH
from ..metadata.branch_origin import read_origin
from ..metadata.live_files import live_files
from ..metadata.manifest import ADD
from ..metadata.manifest_columns import FilePlace
from ..metadata.snapshot import COMPACT, Snapshot
from ..metadata.table_store import TableStore
from .version import on_branch


def contributors(store: TableStore, snapshot: Snapshot, partition: Mapping[str, Any]) -> list[Snapshot]:
    """The snapshots that wrote what a partition holds at a snapshot, newest first. `partition`: values (`storage.values`)
    of some or all partition columns.

    Goes back in history until every file is accounted for, or history ends; beyond the snapshot that a branch began with in that
    of the branch which it was forked off.
    """

    def inside(place: FilePlace) -> bool:
        values = store.partition_values(place.partition)
        return all(values[name] == value for name, value in partition.items())

    open_files = {entry.file.name for entry in live_files(store.manifests_of(snapshot), store.manifests, inside)}
    contributing: list[Snapshot] = []
    current: Snapshot | None = snapshot
    while current is not None and open_files:
        entries = [entry for entry in store.delta_of(current) if inside(entry.file_place)]
        added = {entry.file.name for entry in entries if entry.kind == ADD} & open_files
        # A rollback adds files that earlier snapshots wrote.
        if added and current.operation != "ROLLBACK":
            open_files -= added
            if current.commit_kind == COMPACT:
                open_files |= {entry.file.name for entry in entries if entry.kind != ADD}
            else:
                contributing.append(current)
        store, current = snapshot_before(store, current)
    return contributing


def snapshot_before(store: TableStore, snapshot: Snapshot) -> tuple[TableStore, Snapshot | None]:
    """The snapshot before one, and the branch that has it: beyond where a branch began, the one that it was forked off."""
    earlier = store.snapshots.before(snapshot)
    if earlier is not None or store.paths.branch == MAIN_BRANCH:
        return store, earlier
    origin = read_origin(store.file_io, store.paths)
    if origin is None or origin.snapshot_id != snapshot.id:
        return store, None
    try:
        forked = on_branch(store, origin.branch)
        point = forked.snapshots.find(snapshot.id)
    except NotFound:
        return store, None
    # Another one may have its number by now.
    is_same = point is not None and point.identity == snapshot.identity
    return (forked, forked.snapshots.before(point)) if point is not None and is_same else (store, None)
