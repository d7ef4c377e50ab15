"""Which snapshots the rows of a partition come from."""

from collections.abc import Mapping
from typing import Any

from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, ManifestEntry
from ..metadata.snapshot import COMPACT, Snapshot
from ..metadata.table_store import TableStore


def contributors(store: TableStore, snapshot: Snapshot, partition: Mapping[str, Any]) -> list[Snapshot]:
    """The snapshots that wrote what a partition holds at a snapshot, newest first. `partition`: values (`storage.values`)
    of some or all partition columns.

    Goes back in history until every file is accounted for, or history ends.
    """

    def inside(entry: ManifestEntry) -> bool:
        values = store.partition_values(entry.partition)
        return all(values[name] == value for name, value in partition.items())

    open_files = {entry.file.name for entry in live_files(store.manifests_of(snapshot), store.manifests.read, inside)}
    found: list[Snapshot] = []
    one: Snapshot | None = snapshot
    while one is not None and open_files:
        entries = [entry for entry in store.delta_of(one) if inside(entry)]
        added = {entry.file.name for entry in entries if entry.kind == ADD} & open_files
        # A rollback adds files that earlier snapshots wrote.
        if added and one.operation != "ROLLBACK":
            open_files -= added
            if one.commit_kind == COMPACT:
                open_files |= {entry.file.name for entry in entries if entry.kind != ADD}
            else:
                found.append(one)
        one = store.snapshots.before(one)
    return found
