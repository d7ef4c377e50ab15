"""In which order the files of a table came: by the snapshots that added them, since clocks may say otherwise."""

from collections.abc import Iterable

from ..metadata.manifest import ADD, ManifestEntry
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore


def in_order_of_arrival(store: TableStore, snapshot: Snapshot, entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """Live files of a snapshot, the one that came first first. What came before history begins comes first, in the order in
    which it is given.

    Goes back in history until every file is accounted for, or history ends.
    """
    open_entries = {entry.file.name: entry for entry in entries}
    newest_first: list[list[ManifestEntry]] = []
    current: Snapshot | None = snapshot
    while current is not None and open_entries:
        # A rollback adds files that earlier snapshots wrote.
        if current.operation != "ROLLBACK":
            added = [entry.file.name for entry in store.delta_of(current) if entry.kind == ADD]
            newest_first.append([open_entries.pop(name) for name in added if name in open_entries])
        current = store.snapshots.before(current)
    return [*open_entries.values(), *(entry for group in reversed(newest_first) for entry in group)]
