"""The snapshots of a branch, for users: which there are, what each changed, and what the rows of a version come from.

All but `before` and `backwards`, which go on from a snapshot, raise NotFound if the table is not the one any more that was
opened.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .arguments import checked
from .branch_history import BranchHistory, branch_history
from .errors import CommitConflict
from .identifier import SnapshotRef
from .maintain.rollback import taken_back_in
from .maintain.same_rows import hold_the_same
from .metadata.history import told_of_expiry
from .metadata.index_manifest import marked_places
from .metadata.manifest import ADD, ManifestEntry
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .partitions import in_order, partition_values
from .read.contributors import contributors
from .read.version import Version, find_version, resolve_version, versions_in_history
from .same_table import of_same_table
from .store_errors import outcome
from .write.attempt import Guard
from .write.table_write import duplicate_keys_of
from .write.taken_over import TakenNewest, is_marked

_NOTHING_CHANGED = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class CommitSummary:
    """Files and rows of a commit; rows are those of files, before any merge. `duplicate_keys`: rows that were given to it and
    are in no file, since a later one of the same write has their key, as far as its writers noted.
    """

    files_added: int
    rows_added: int
    bytes_added: int
    files_deleted: int
    rows_deleted: int
    duplicate_keys: int = 0


@checked
class Snapshots:
    """The snapshots of one branch. `version`: what is meant by default, instead of the latest snapshot."""

    def __init__(self, store: TableStore, catalog_name: str, version: Version = None) -> None:
        self._store = store
        self._catalog_name = catalog_name
        self._version = version

    # --- which there are

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def get(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that number in the history. Raises NotFound that lists which there are."""
        return self._store.snapshots.get(snapshot_id)

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def find(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot in the file of that number; None if it has expired or there never was one. Raises CorruptData."""
        return self._store.snapshots.find(snapshot_id)

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def latest(self) -> Snapshot | None:
        """The newest snapshot, whatever the version of the handle; None for a table without any. Raises CorruptData."""
        return self._store.snapshots.latest()

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def latest_id(self) -> int | None:
        """The highest number; None for a table without snapshots. Reads no snapshot."""
        return self._store.snapshots.latest_id()

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def earliest_id(self) -> int | None:
        """The lowest number that has not expired; None for a table without snapshots."""
        return self._store.snapshots.earliest_id()

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def all(self) -> list[Snapshot]:
        """All snapshots, ascending. Raises CorruptData for one that cannot be read."""
        return [*self._store.snapshots.all()]

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def between(self, after: int, until: int) -> list[Snapshot]:
        """The snapshots whose numbers are above one and up to another, ascending, without those that have expired."""
        earliest, latest = self._store.snapshots.earliest_id(), self._store.snapshots.latest_id()
        if earliest is None or latest is None:
            return []
        # Whatever is asked for, no other numbers are looked for than there may be.
        snapshots = map(self._store.snapshots.find, range(max(after + 1, earliest), min(until, latest) + 1))
        return [snapshot for snapshot in snapshots if snapshot is not None]

    def backwards(self) -> Iterator[Snapshot]:
        """The snapshots from the newest on, each read when it is asked for; without those that were taken back because their
        files are not there.
        """
        return self._store.snapshots.backwards()

    def before(self, snapshot: Snapshot) -> Snapshot | None:
        """The snapshot that one was put on top of; None if that has expired, or there is none."""
        return self._store.snapshots.before(snapshot)

    # --- what each is, and has changed

    @outcome(_NOTHING_CHANGED)
    def ref(self, version: Version = None) -> SnapshotRef | None:
        """The snapshot of a version as lineage names it; None if the table has no snapshot yet."""
        store, snapshot = resolve_version(self._store, self._or_own(version))
        return None if snapshot is None else self._ref(store, snapshot)

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def changes_of(self, snapshot: Snapshot) -> CommitSummary:
        """What a snapshot added and took away, from its manifests alone."""
        with told_of_expiry(self._store, snapshot):
            return _summary(self._store.delta_of(snapshot), duplicate_keys_of(snapshot))

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def changes_by_partition(self, snapshot: Snapshot) -> list[tuple[dict[str, Any], CommitSummary]]:
        """The same for each partition that has files added or taken away, with the values of its columns as users write them;
        duplicate keys are known of the whole commit alone. A table without partitions has the one partition `{}`.
        """
        by_partition: dict[bytes, list[ManifestEntry]] = {}
        with told_of_expiry(self._store, snapshot):
            for entry in self._store.delta_of(snapshot):
                by_partition.setdefault(entry.partition, []).append(entry)
        literals = {each: self._store.partition_literals(self._store.partition_values(each)) for each in by_partition}
        return [(literals[partition], _summary(entries)) for partition, entries in by_partition.items()]

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def hold_the_same(self, before: Version, after: Version = None) -> bool:
        """Whether two versions hold the same rows, each as often, under the newest columns. Only buckets whose files differ are
        read, up to the first difference; beyond 20 million rows in one whose order differs the answer is False.

        Raises NotFound for a version that is not there.
        """
        sides = [find_version(self._store, version)[1] for version in (before, self._or_own(after))]
        if sides[0] is None or sides[1] is None:
            return sides[0] is sides[1]
        return hold_the_same(self._store, sides[0], sides[1])

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def last_change(self, version: Version = None) -> SnapshotRef | None:
        """The snapshot that made the rows of a version: compactions came after it and changed none."""
        store, snapshot = find_version(self._store, self._or_own(version))
        while snapshot is not None and not snapshot.changes_rows:
            earlier = store.snapshots.before(snapshot)
            if earlier is None:
                break
            snapshot = earlier
        return None if snapshot is None else self._ref(store, snapshot)

    def unless_changed_since(self, snapshot_id: int) -> Guard:
        """A guard for `Table.commit_messages`: raises CommitConflict if other rows are there than a snapshot made."""

        def refuse(latest: Snapshot | None) -> None:
            newest = latest
            while newest is not None and not newest.changes_rows and newest.id > snapshot_id:
                newest = self._store.snapshots.before(newest)
            if newest is None or newest.id != snapshot_id:
                now = "has none" if newest is None else f"is at snapshot {newest.id} by {newest.commit_user}"
                raise CommitConflict(
                    f"{self._store.identifier} {now}, and this commit was made for snapshot {snapshot_id}: somebody else has "
                    "changed it meanwhile. Nothing is committed. Run it again."
                )

        return refuse

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def is_taken_back(self, snapshot_id: int) -> bool:
        """Whether a rollback, or a branch that main was discarded for, has taken a snapshot back that can still be read."""
        return snapshot_id in taken_back_in(list(self._store.snapshots.all()))

    @of_same_table
    def history(self, known: BranchHistory | None = None) -> BranchHistory:
        """What the branch has been through by now: its snapshots, tags, and what was taken back. `known`: an earlier answer."""
        return branch_history(self._store, known)

    @of_same_table
    def changed_partitions(self, after: Version = None, until: Version = None) -> list[dict[str, Any]]:
        """The partitions in which snapshots after one version and up to another changed rows, by column, in order.

        `after` None: since the table began. A table without partitions has the one partition `{}`.
        """
        first, last = versions_in_history(self._store, after, self._or_own(until))
        changed: dict[bytes, None] = {}
        for snapshot in self._store.snapshots.backwards():
            if snapshot.id <= first:
                break
            if last is not None and snapshot.id <= last.id and snapshot.changes_rows:
                with told_of_expiry(self._store, snapshot):
                    changed.update((entry.partition, None) for entry in self._store.delta_of(snapshot))
                    changed.update((partition, None) for partition, _ in marked_places(self._store, [snapshot]))
        return in_order(self._store, changed)

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def contributors(self, partition: Mapping[str, Any], version: Version = None) -> list[SnapshotRef]:
        """The snapshots that the rows of a partition come from at a version, newest first, as far as history goes back.

        A compaction only moves rows: those whose rows it moved are told.
        """
        store, snapshot = find_version(self._store, self._or_own(version))
        if snapshot is None:
            return []
        wanted = partition_values(self._store, partition)
        with told_of_expiry(store, snapshot):
            return [self._ref(store, each) for each in contributors(store, snapshot, wanted)]

    def holds(self, taken: TakenNewest) -> bool | None:
        """Whether the branch has the very snapshot that another branch's commit says it has taken over; None if that cannot be
        told, since it has expired.
        """
        return is_marked(self._store, taken)

    def _or_own(self, version: Version) -> Version:
        return self._version if version is None else version

    def _ref(self, store: TableStore, snapshot: Snapshot) -> SnapshotRef:
        table = store.identifier
        return SnapshotRef(self._catalog_name, table.database, table.table, table.branch, snapshot.id, snapshot.time_ms)


def _summary(entries: Sequence[ManifestEntry], duplicate_keys: int = 0) -> CommitSummary:
    added = [entry.file for entry in entries if entry.kind == ADD]
    deleted = [entry.file for entry in entries if entry.kind != ADD]
    return CommitSummary(
        len(added),
        sum(file.row_count for file in added),
        sum(file.size_bytes for file in added),
        len(deleted),
        sum(file.row_count for file in deleted),
        duplicate_keys,
    )
