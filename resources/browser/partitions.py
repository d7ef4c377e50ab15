"""Which partitions of their tables snapshots have written, as their files tell it: also of what Dagster did not make."""

from dataclasses import replace

from storage import SnapshotRef, StorageError, Table

from ..actions.sentences import partition_text
from ..session import Session
from .facts import Place, Platform, place_of
from .history import Dot, History


class PartitionsWritten:
    """Reads them once for each snapshot."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # By the snapshot's place and identity: a number may be given again.
        self._known: dict[tuple[Place, str], str] = {}

    def added_to(self, history: History, platform: Platform) -> History:
        """The history with the partitions of each snapshot that can be read, after the keys that Dagster gave it."""
        tables: dict[Place, Table | None] = {}
        dots = tuple(self._with_partitions(dot, platform, tables) for dot in history.dots)
        return replace(history, dots=dots)

    def _with_partitions(self, dot: Dot, platform: Platform, tables: dict[Place, Table | None]) -> Dot:
        place = place_of(dot.ref)
        if place not in tables:
            tables[place] = self._partitioned(place)
        table, branch = tables[place], platform.branches.get(place)
        if table is None or branch is None or dot.rows is None:
            return dot
        snapshot = branch.find(dot.ref.snapshot_id)
        if snapshot is None:
            return dot
        key = (place, snapshot.identity)
        if key not in self._known:
            try:
                parts = (partition_text(partition) for partition, _ in table.changes_by_partition(snapshot))
                self._known[key] = " ".join(parts)
            except StorageError:
                # Its manifests went with a snapshot that has expired, or are damaged, which `check` says.
                return dot
        return replace(dot, partitions=f"{dot.partitions} {self._known[key]}")

    def _partitioned(self, place: Place) -> Table | None:
        """The table of a place, if its schema has partitions."""
        try:
            table = self._session.catalog_of(place[0]).table(SnapshotRef(*place, 1).table_name)
        except StorageError:
            return None
        return table if table.schema.partition_keys else None
