"""Read a table: its rows, its changes, its snapshots, and what describes it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from .branch_history import BranchHistory
from .condition import Where, bound
from .description import describe_partition, describe_table
from .errors import InvalidRequest
from .identifier import SnapshotRef
from .log.read import LogStream, begin_at
from .metadata.snapshot import Snapshot
from .partitions import in_order
from .read.change_metadata import metadata_of_changes
from .read.changes import SNAPSHOT_ID, changes_schema, latest_schema, plan_changes
from .read.metadata_columns import PREFIX, metadata_among
from .read.net_changes import net_changes
from .read.row_count import row_count
from .read.scan import Scan
from .read.split_read import ReadRequest
from .read.version import Pinned, Version, resolve_version, version_in_history, versions_in_history
from .same_table import of_same_table
from .snapshots import CommitSummary
from .store_errors import outcome
from .system_tables import read_system_table
from .table_handle import NOTHING_CHANGED, TableHandle


class TableReading(TableHandle):
    """What is read of a branch, as of the version of the handle unless another one is given."""

    @outcome(NOTHING_CHANGED)
    def snapshot(self, version: Version = None) -> Snapshot | None:
        """The snapshot of a version; None if the table has none yet."""
        return resolve_version(self._store, self._version if version is None else version)[1]

    def ref(self, version: Version = None) -> SnapshotRef | None:
        """The snapshot of a version as lineage names it; None if the table has no snapshot yet."""
        return self.snapshots.ref(version)

    def changes_of(self, snapshot: Snapshot) -> CommitSummary:
        """What a snapshot added and took away, from its manifests alone."""
        return self.snapshots.changes_of(snapshot)

    def changes_by_partition(self, snapshot: Snapshot) -> list[tuple[dict[str, Any], CommitSummary]]:
        """The same for each partition that has files added or taken away: see `Snapshots.changes_by_partition`."""
        return self.snapshots.changes_by_partition(snapshot)

    def last_change(self, version: Version = None) -> SnapshotRef | None:
        """The snapshot that made the rows of a version: compactions came after it and changed none."""
        return self.snapshots.last_change(version)

    def is_taken_back(self, snapshot_id: int) -> bool:
        """Whether a rollback, or a branch that main was discarded for, has taken a snapshot back that can still be read."""
        return self.snapshots.is_taken_back(snapshot_id)

    def history(self, known: BranchHistory | None = None) -> BranchHistory:
        """What the branch has been through by now: its snapshots, tags, and what was taken back. `known`: an earlier answer."""
        return self.snapshots.history(known)

    def changed_partitions(self, after: Version = None, until: Version = None) -> list[dict[str, Any]]:
        """The partitions in which snapshots after one version and up to another changed rows, by column, in order.

        `after` None: since the table began. A table without partitions has the one partition `{}`.
        """
        return self.snapshots.changed_partitions(after, until)

    def contributors(self, partition: Mapping[str, Any], version: Version = None) -> list[SnapshotRef]:
        """The snapshots that the rows of a partition come from at a version, newest first: see `Snapshots.contributors`."""
        return self.snapshots.contributors(partition, version)

    @outcome(NOTHING_CHANGED)
    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
        version: Version = None,
        limit: int | None = None,
    ) -> Scan:
        """Plan a read. `where` is a SQL condition or a Predicate; the scan's splits can be read anywhere. `limit`: so many
        rows are enough, whichever they are. Among the `columns` may be metadata of the rows, such as `snapshot_id` and `job`
        (`METADATA_COLUMNS`), which are read if they are named.
        """
        if limit is not None and limit < 0:
            raise InvalidRequest(f"limit = {limit}: give a number of rows.")
        version = self._version if version is None else version
        store, snapshot = resolve_version(self._store, version)
        lowest_level = version.lowest_level if isinstance(version, Pinned) else None
        if columns is not None:
            metadata = metadata_among(store.schema, columns)
            store.schema.fields_named([name for name in columns if name not in metadata])
        predicate = None if where is None else bound(where, store.schema)
        names = None if columns is None else tuple(columns)
        return Scan(store, snapshot, names, predicate, limit, lowest_level)

    @outcome(NOTHING_CHANGED)
    def to_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
        version: Version = None,
        limit: int | None = None,
    ) -> pa.Table:
        """All rows in memory, in no particular order."""
        return self.scan(columns=columns, where=where, version=version, limit=limit).to_arrow()

    def to_batches(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
        version: Version = None,
        limit: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows as a stream of batches, in no particular order."""
        return self.scan(columns=columns, where=where, version=version, limit=limit).to_batches()

    @outcome(NOTHING_CHANGED)
    def partitions(self, version: Version = None) -> list[dict[str, Any]]:
        """The partitions that have files at a version, by column, in order. A table without partitions has the one `{}`."""
        return in_order(self._store, {entry.partition for entry in self.scan(columns=[], version=version).entries})

    @outcome(NOTHING_CHANGED)
    def count(self, *, where: Where = None, version: Version = None) -> int:
        """The number of rows."""
        return self.scan(where=where, version=version).count()

    @outcome(NOTHING_CHANGED)
    @of_same_table
    def row_count(self, version: Version = None, *, reads: bool = False) -> int | None:
        """The number of rows where metadata tell it: of tables without a key, and of those whose files are merged. Otherwise
        None, or, if it may read rows, what `count` says.
        """
        return row_count(self.scan(columns=[], version=version), reads=reads)

    @outcome(NOTHING_CHANGED)
    @of_same_table
    def changes(
        self,
        after: Version = None,
        until: Version = None,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
    ) -> pa.Table:
        """What the commits after one version and up to another did: rows with `rowkind` (+I -U +U -D) and `snapshot_id`.

        `after` None: from the first snapshot on. `until` None: up to the latest. A copy that is kept up to date by changes
        begins with `as_told(after)`, which has the rows that changes have told of. Raises NotFound if a snapshot in
        between has expired.
        """
        store = latest_schema(self._store)
        first, last = versions_in_history(self._store, after, self._version if until is None else until)
        if until is not None and last is not None and first > last.id:
            raise InvalidRequest(
                f"Snapshot {last.id} comes before snapshot {first}: no changes lie after {first} and up to it."
            )
        names = store.schema.column_names if columns is None else list(columns)
        metadata = metadata_of_changes(store.schema, names)
        if SNAPSHOT_ID in metadata:
            raise InvalidRequest(
                f"Changes have a column {SNAPSHOT_ID!r}: of the snapshot that told of them. {PREFIX}{SNAPSHOT_ID} is the one "
                "that made them, before a compaction told."
            )
        own = tuple(name for name in names if name not in metadata)
        store.schema.fields_named(own)
        predicate = None if where is None else bound(where, store.schema)
        request = ReadRequest(store, own, predicate, None, metadata, tuple(names))
        splits = () if last is None else plan_changes(request, first, last.id)
        return pa.Table.from_batches([batch for split in splits for batch in split.read()], changes_schema(request))

    @outcome(NOTHING_CHANGED)
    @of_same_table
    def follow(
        self,
        scan: str = "full",
        *,
        timestamp_ms: int | None = None,
        snapshot_id: int | None = None,
        position: Mapping[str, Any] | None = None,
        remove_normalize: bool = False,
    ) -> LogStream:
        """Read the table and then what follows, from its log, or, without one, from its files: each change once.

        `scan`: `full` (all rows, then changes), `latest` (what comes), `from-timestamp`, `from-snapshot` (with the changes of
        that snapshot), `from-snapshot-full`. `position`: that of an earlier step, to go on behind it. `remove_normalize`: rows of
        an upsert log as they were sent, without those that they replace. Raises InvalidRequest for a branch, and for a table
        that was opened at a version, where nothing follows.
        """
        if self._version is not None:
            raise InvalidRequest(
                f"{self.identifier} was opened as of {self._version!r}, which nothing follows. Follow the table itself, with "
                "scan='from-snapshot' and a snapshot_id, for example."
            )
        begin = begin_at(scan, timestamp_ms=timestamp_ms, snapshot_id=snapshot_id, position=position)
        return LogStream(self._store, begin, remove_normalize=remove_normalize)

    @outcome(NOTHING_CHANGED)
    @of_same_table
    def net_changes(self, after: Version, until: Version = None) -> tuple[pa.Table, pa.Table]:
        """The rows that came after one version and are there at another, and those that were there and went, in memory;
        overwrites and rollbacks included, whatever readers of `changes` see of them. Versions are those of `after_commit`.

        With a primary key a row that has changed is among those that came, with its latest values alone. Without one rows
        count: what came and went again is in neither. Raises NotFound if a snapshot in between has expired, or the first is
        not in the history, Unsupported where changes do not tell what rows are now, which says why.
        """
        first = version_in_history(self._store, after)
        last = version_in_history(self._store, self._version if until is None else until)
        assert first is not None and last is not None
        return net_changes(self._store, first.id, last)

    @outcome(NOTHING_CHANGED)
    @of_same_table
    def system_table(self, name: str, *, partition: Mapping[str, Any] | None = None) -> pa.Table:
        """A system table, such as `snapshots`, `files` or `tags`. `partition`: of `partitions`, those that have these values."""
        if partition is not None and name != "partitions":
            raise InvalidRequest(f"${name} has no rows of partitions: leave 'partition' out, or read $partitions.")
        return read_system_table(self._store, name, None if partition is None else self.partition_values(partition))

    @outcome(NOTHING_CHANGED)
    @of_same_table
    def describe(self, partition: Mapping[str, Any] | None = None, *, counts: bool = False) -> dict[str, Any]:
        """What there is to say of the table, or of a partition: property by name. `counts`: rows are read where metadata do not
        tell their number.
        """
        if partition is None:
            return describe_table(self._store, counts=counts)
        return describe_partition(self._store, self.partition_values(partition), counts=counts)
