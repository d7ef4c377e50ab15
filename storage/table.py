"""The handle of a table for users: read it, write it, name its snapshots. Arrow in and out."""

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from .altering import alter
from .arguments import checked
from .basis import Basis, repeated
from .branch_history import BranchHistory
from .branches import Branches
from .clock import Clock
from .commits import CommitDetails, Commits
from .condition import as_predicate
from .consumers import Consumers
from .derived import checked_columns
from .description import describe_partition, describe_table
from .errors import (
    CorruptData,
    InvalidRequest,
)
from .identifier import MAIN_BRANCH, Identifier, SnapshotRef
from .log.definition import refuse_redefined, refuse_rescale
from .log.read import LogStream, begin_at
from .maintain.beside_publication import beside
from .maintain.check import check_table
from .maintain.compaction import Progress, Run, compact
from .maintain.expire import Removal, Retention, expire_snapshots, retention_of
from .maintain.expire_partitions import expired_partitions, refuse_written_since
from .maintain.findings import BrokenInvariant
from .maintain.follow import tell_after
from .maintain.orphan_files import OrphanFile, remove_orphan_files
from .maintain.references import files_of, holders_of, needed_files
from .maintain.rescale import rescale_to
from .maintain.rollback import rollback_to
from .maintain.stand_in import Mended, mend_newest, mend_snapshots
from .matching_rows import delete_matching, update_matching
from .metadata.derived_columns import ComputedColumn
from .metadata.history import at_latest, told_of_expiry
from .metadata.manifest import ManifestEntry, Place
from .metadata.redefinition import redefined
from .metadata.schema import TableSchema
from .metadata.schema_change import SchemaChange, SetOptions
from .metadata.snapshot import FOLLOWS_PROPERTY, STAND_IN, Snapshot
from .metadata.table_store import TableStore
from .metadata.trouble import COMPACTION, EXPIRY, FILE_DELETION, RESCALING, Trouble
from .partitions import in_order, partition_values, refuse_absent, with_partition
from .read.all_rows import as_told, with_all_rows
from .read.change_metadata import metadata_of_changes
from .read.changes import SNAPSHOT_ID, changes_schema, latest_schema, plan_changes
from .read.metadata_columns import PREFIX, metadata_among, refuse_metadata
from .read.net_changes import net_changes, refuse_unseen
from .read.predicate import Predicate
from .read.row_count import row_count
from .read.scan import Scan
from .read.split_read import ReadRequest
from .read.version import (
    Pinned,
    Version,
    find_version,
    on_branch,
    resolve_version,
    version_in_history,
    versions_in_history,
)
from .row_changes import assignments
from .same_table import of_same_table
from .snapshots import CommitSummary, Snapshots
from .store_errors import outcome
from .system_tables import read_system_table
from .table_log import TableLog
from .tags import Tags
from .write.attempt import Guard
from .write.commit import TableCommit
from .write.commit_id import CommitId
from .write.incoming import Data
from .write.landing import take_away_foreign
from .write.listeners import CommitListener
from .write.overwrite import Overwrite
from .write.table_write import CommitMessage, TableWrite

_NOT_COMMITTED = "Nothing was committed. Mend the store, then repeat the call."
_PARTLY_DONE = "What was done before stays done. Mend the store, then repeat the call."
_NOTHING_CHANGED = "Nothing was changed."
Where = str | Predicate | None
_T = TypeVar("_T")


@checked
class Table:
    """One branch of a table, optionally fixed at a version. Cheap to make; holds no open files."""

    def __init__(
        self,
        store: TableStore,
        catalog_name: str,
        listeners: Sequence[CommitListener] = (),
        version: Version = None,
        *,
        is_new_definition: bool = False,
    ) -> None:
        """`is_new_definition`: the schema is written with the first commit."""
        self._store = store
        self._commits = Commits(store, listeners, version, is_new_definition=is_new_definition)
        self._catalog_name = catalog_name
        self._listeners = listeners
        self._version = version

    @property
    def identifier(self) -> Identifier:
        """Database, table and branch. A branch that has become main is called main: see `was_branch`."""
        return self._store.identifier

    @property
    def schema(self) -> TableSchema:
        """The latest schema of the branch."""
        return self._store.schema

    @property
    def is_new_definition(self) -> bool:
        """Whether this is the table under a definition that becomes its own with the first commit."""
        return self._commits.is_new_definition

    @property
    def computed_columns(self) -> list[ComputedColumn]:
        """Columns that are not stored: the engines that read the table compute them from others.

        Raises CorruptData or Unsupported, naming it, for one that would do anything else than compute.
        """
        return checked_columns(self.schema, str(self.identifier))

    @property
    def store(self) -> TableStore:
        """What the engines and the other rooms work on."""
        return self._store

    @property
    def location(self) -> str:
        """The table's directory as a URL."""
        return self._store.file_io.url(self._store.paths.root)

    @property
    def directory(self) -> str:
        """The table's directory as its file system names it, without a protocol."""
        return self._store.paths.root

    @property
    def was_branch(self) -> str:
        """Of a main that was a branch before, the name it had; else empty."""
        own = self._store.paths.branch
        return own if self.identifier.branch == MAIN_BRANCH != own else ""

    @property
    def clock(self) -> Clock:
        """By what commits are dated and ages counted."""
        return self._store.clock

    # --- versions

    def at(self, version: Version) -> "Table":
        """The same table as of a version; it can be read, not written."""
        return Table(self._store, self._catalog_name, self._listeners, version)

    @outcome(_NOTHING_CHANGED)
    def after_commit(self, version: Version = None) -> "Table":
        """The same table as the commit of a version left it, also with the rows that readers see only once they are compacted
        (deletion vectors, postponed buckets); it can be read, not written. Lineage names commits, and means this.
        """
        store, snapshot = resolve_version(self._store, self._version if version is None else version)
        return Table(store, self._catalog_name, self._listeners, with_all_rows(store, snapshot))

    @outcome(_NOTHING_CHANGED)
    def as_told(self, version: Version = None) -> "Table":
        """The same table with the rows that changes up to a version have told of, with which a copy begins that is kept by
        `changes(after=version)`: without those that a later compaction tells (`lookup`, `full-compaction`).
        It can be read, not written. Raises Unsupported for rows of postponed buckets that changes have told before.
        """
        store, snapshot = resolve_version(self._store, self._version if version is None else version)
        if snapshot is None:
            return Table(store, self._catalog_name, self._listeners, Pinned(None, store.schema))
        if store.options.changelog_producer == "none":
            refuse_unseen(store, snapshot.id)
        return Table(store, self._catalog_name, self._listeners, as_told(store, snapshot))

    @outcome(_NOTHING_CHANGED)
    def pinned(self, version: Version = None) -> "Table":
        """The same table, fixed at what a version is now, with the columns that it has now; it can be read, not written.

        A table without a snapshot stays empty.
        """
        store, snapshot = resolve_version(self._store, self._version if version is None else version)
        return Table(store, self._catalog_name, self._listeners, Pinned(snapshot, store.schema))

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def on_branch(self, branch: str) -> "Table":
        """The same table on another branch. Raises NotFound that lists the branches."""
        return Table(on_branch(self._store, branch), self._catalog_name, self._listeners)

    @outcome(_NOTHING_CHANGED)
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

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots of the branch."""
        return Snapshots(self._store, self._catalog_name, self._version)

    @property
    def tags(self) -> Tags:
        """The tags of the branch; a new one names the version of the handle."""
        return Tags(self._store, self._version)

    @property
    def consumers(self) -> Consumers:
        """The named readers of changes."""
        return Consumers(self._store)

    @property
    def branches(self) -> Branches:
        """The branches of the table; a new one begins at the version of the handle."""
        return Branches(self._store, self._listeners, self._version)

    @property
    def log(self) -> TableLog:
        """The copy of the table's changes in a system such as Kafka."""
        return TableLog(self._store)

    # --- reading

    @outcome(_NOTHING_CHANGED)
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
        predicate = None if where is None else _bound(where, store.schema)
        names = None if columns is None else tuple(columns)
        return Scan(store, snapshot, names, predicate, limit, lowest_level)

    @outcome(_NOTHING_CHANGED)
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

    @outcome(_NOTHING_CHANGED)
    def partitions(self, version: Version = None) -> list[dict[str, Any]]:
        """The partitions that have files at a version, by column, in order. A table without partitions has the one `{}`."""
        return in_order(self._store, {entry.partition for entry in self.scan(columns=[], version=version).entries})

    @outcome(_NOTHING_CHANGED)
    def count(self, *, where: Where = None, version: Version = None) -> int:
        """The number of rows."""
        return self.scan(where=where, version=version).count()

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def row_count(self, version: Version = None, *, reads: bool = False) -> int | None:
        """The number of rows where metadata tell it: of tables without a key, and of those whose files are merged. Otherwise
        None, or, if it may read rows, what `count` says.
        """
        return row_count(self.scan(columns=[], version=version), reads=reads)

    @outcome(_NOTHING_CHANGED)
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
        names = store.schema.column_names if columns is None else list(columns)
        metadata = metadata_of_changes(store.schema, names)
        if SNAPSHOT_ID in metadata:
            raise InvalidRequest(
                f"Changes have a column {SNAPSHOT_ID!r}: of the snapshot that told of them. {PREFIX}{SNAPSHOT_ID} is the one "
                "that made them, before a compaction told."
            )
        own = tuple(name for name in names if name not in metadata)
        store.schema.fields_named(own)
        predicate = None if where is None else _bound(where, store.schema)
        request = ReadRequest(store, own, predicate, None, metadata, tuple(names))
        splits = () if last is None else plan_changes(request, first, last.id)
        return pa.Table.from_batches([batch for split in splits for batch in split.read()], changes_schema(request))

    @outcome(_NOTHING_CHANGED)
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

    @outcome(_NOTHING_CHANGED)
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

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def system_table(self, name: str) -> pa.Table:
        """A system table, such as `snapshots`, `files` or `tags`."""
        return read_system_table(self._store, name)

    # --- writing

    def write(
        self,
        data: Data,
        *,
        row_kind_column: str | None = None,
        commit_id: CommitId | None = None,
        properties: Mapping[str, str] | None = None,
        change_tracking: bool = True,
    ) -> Snapshot | None:
        """Commit rows: an upsert by primary key, an append without one. Returns the snapshot; None for no rows.

        `row_kind_column` names a text column with the kind of each row: +I -U +U -D; without a primary key, each -U or
        -D takes away one row that equals it. A repeated `commit_id` changes nothing and returns the snapshot it made
        the first time; once that has expired, the earliest that there is, which holds what it committed and is somebody
        else's: `CommitId.made` tells. `change_tracking=False`: readers of changes do not see this commit.
        """
        details = CommitDetails(commit_id, properties, "WRITE", change_tracking)
        return self._commits.write(data, details, row_kind_column=row_kind_column)

    def write_changes(
        self,
        rows: pa.Table,
        row_kind_column: str,
        operation: str,
        *,
        commit_id: CommitId | None = None,
        properties: Mapping[str, str] | None = None,
        basis: Basis | None = None,
    ) -> Snapshot | None:
        """Commit rows with their kinds as what an operation (`MERGE`, `DELETE` …) did.

        `basis`: what they were computed from; raises RowsChanged if others have changed the same rows since.
        """
        details = CommitDetails(commit_id, properties, operation)
        return self._commits.write(rows, details, row_kind_column=row_kind_column, basis=basis)

    def repeated(self, change: Callable[[Basis], _T]) -> _T:
        """What a change of rows returns. It is computed from the snapshot of the basis that it is given, and again from a newer
        one, up to ten times in all, if it raises RowsChanged since others have changed the same rows.

        Raises CommitConflict after the last time; nothing is written then.
        """
        return self._commits.repeated(change)

    def overwrite(
        self,
        data: Data,
        *,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool | None = None,
        commit_id: CommitId | None = None,
        properties: Mapping[str, str] | None = None,
        change_tracking: bool = True,
    ) -> Snapshot | None:
        """Replace rows: those of the given partition, or, of a partitioned table, of the partitions that occur in the
        data (`dynamic`, the default by option), or all.

        With a `partition`, every row must belong to it; partition columns may be left out of the data.
        """
        if partition is not None and dynamic:
            raise InvalidRequest("An overwrite takes either a partition or dynamic=True, not both.")
        details = CommitDetails(commit_id, properties, "OVERWRITE", change_tracking)
        if partition is not None:
            matching = self.partition_values(partition)
            rows = with_partition(data, self._store, partition, matching)
            return self._commits.write(rows, details, overwrite=Overwrite(matching=(matching,)))
        return self._commits.write(data, details, overwrite=self.overwrite_by_default(dynamic))

    def overwrite_by_default(self, dynamic: bool | None = None) -> Overwrite:
        """What an overwrite without a partition replaces: the table's option decides unless `dynamic` does."""
        if dynamic is None:
            dynamic = self._store.options.dynamic_partition_overwrite
        return Overwrite(dynamic=dynamic and bool(self.schema.partition_keys))

    @outcome(_NOT_COMMITTED, landed=False)
    def delete(self, where: str | Predicate) -> Snapshot | None:
        """Delete the rows that match: by key, or by writing the files that hold them anew. None if nothing matched.

        It is done again if others change the same rows meanwhile, up to ten times; then it raises CommitConflict.
        """
        return delete_matching(self._commits, _bound(where, self.schema))

    @outcome(_NOT_COMMITTED, landed=False)
    def update(self, where: str | Predicate, values: Mapping[str, Any]) -> Snapshot | None:
        """Set columns of the rows that match to plain values. None if nothing matched.

        It is done again if others change the same rows meanwhile, up to ten times; then it raises CommitConflict. Raises
        InvalidRequest for columns of the key and for values that do not fit, Unsupported for lower values of a
        `sequence.field`: the row that is there would count as the later one.
        """
        scalars = assignments(self._store, values)
        return update_matching(self._commits, _bound(where, self.schema), scalars)

    @outcome(_NOT_COMMITTED, landed=False)
    def truncate(
        self, *, commit_id: CommitId | None = None, properties: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Delete all rows. Returns the snapshot; None if there were none."""
        self._commits.check_writable()
        return self._commits.commit([], CommitDetails(commit_id, properties, "TRUNCATE"), overwrite=Overwrite())

    @outcome(_PARTLY_DONE)
    def alter(self, *changes: SchemaChange) -> "Table":
        """Change columns and options in one step: a new version of the schema. Returns the table under it.

        No data is rewritten. Raises InvalidRequest or Unsupported that says which change cannot be. A column becomes NOT NULL if
        no file holds a null of it; a snapshot that changes nothing is put on top then, so that no other commit brings one.
        """
        self._commits.check_writable()
        return Table(alter(self._store, changes), self._catalog_name, self._listeners)

    def redefined(self, definition: TableSchema) -> "Table":
        """The same table under another definition, which becomes its own when an overwrite of the whole table is committed to
        it. Raises InvalidRequest for a definition by which the history could not be read.
        """
        self._commits.check_writable()
        definition = refuse_redefined(self.schema, definition)
        changed = redefined(self.schema, definition, time_ms=self._store.clock.now_ms())
        return self.under_definition(replace(changed, uuid=self._store.clock.unique_name()))

    def under_definition(self, schema: TableSchema) -> "Table":
        """The same, given the version of the schema."""
        return Table(self._store.at_schema(schema), self._catalog_name, self._listeners, is_new_definition=True)

    @outcome(_NOT_COMMITTED, landed=False)
    def compact(
        self,
        *,
        full: bool = True,
        outdated: bool = False,
        partition: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        run: Run | None = None,
    ) -> Snapshot | None:
        """Merge the files of every bucket (or of a partition's) so that reading is cheap; rows do not change.

        `full` merges everything into one sorted run, otherwise the triggers of the options decide. `outdated`: Parquet files
        of earlier builds, with decimals or fine timestamps in a form that Paimon's Java library does not read rightly, are
        written anew even if there is nothing to merge them with; the end of each file is looked at. `run` carries the work
        out elsewhere. Returns the snapshot; None if there was nothing to do. Raises CommitConflict if another
        commit took away the files meanwhile.
        """
        self._commits.check_writable()
        wanted = None
        if partition is not None:
            overwrite = Overwrite(matching=(self.partition_values(partition),))
            refuse_absent(self._store, self.scan(), overwrite, partition)

            def wanted(place: Place) -> bool:
                return overwrite.covers(self._store, place[0])

        trouble = self._store.troubles.content(COMPACTION) if partition is None else None
        snapshot = compact(
            self._store,
            full=full,
            outdated=outdated,
            wanted=wanted,
            listeners=self._listeners,
            progress=progress,
            run=run,
        )
        self._store.troubles.clear_if(COMPACTION, trouble)
        if snapshot is not None:
            self._commits.let_old_snapshots_go(snapshot)
        return snapshot

    @outcome(_NOT_COMMITTED, landed=False)
    def rescale(self, bucket_count: int, *, partition: Mapping[str, Any] | None = None) -> Snapshot | None:
        """Change the number of buckets: rows are hashed anew, those of a partition or all. None if there are none.

        Partitions that are left out keep their buckets and can be read; writing to them waits until they are rescaled.
        Raises CommitConflict if somebody writes meanwhile; nothing is lost then, and it can be called again.
        """
        self._commits.check_writable()
        refuse_rescale(self.schema, str(self.identifier))
        if self._store.options.bucket < 1 or bucket_count < 1:
            raise InvalidRequest(
                f"{self.identifier} has {self._store.options.bucket} buckets and should get {bucket_count}: a positive "
                "number of buckets can become another one."
            )
        matching = None if partition is None else (self.partition_values(partition),)
        covered = Overwrite(matching=matching)
        if partition is not None:
            refuse_absent(self._store, self.scan(), covered, partition)

        def altered(store: TableStore, count: int) -> TableStore:
            return alter(store, (SetOptions({"bucket": count}),))

        store, (snapshot, written) = rescale_to(
            self._store, bucket_count, lambda one: covered.covers(self._store, one), self._listeners, altered
        )
        store.troubles.clear(RESCALING)
        if snapshot is not None:
            Commits(store, self._listeners).follow_up(snapshot, written)
        return snapshot

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def describe(self, partition: Mapping[str, Any] | None = None, *, counts: bool = False) -> dict[str, Any]:
        """What there is to say of the table, or of a partition: property by name. `counts`: rows are read where metadata do not
        tell their number.
        """
        if partition is None:
            return describe_table(self._store, counts=counts)
        return describe_partition(self._store, self.partition_values(partition), counts=counts)

    @outcome(_PARTLY_DONE)
    def rollback_to(self, version: Version) -> Snapshot | None:
        """Make the rows of an earlier snapshot or tag the latest state again, by a commit on top; None if they are.

        What came in between stays in the history until it expires. A newest snapshot whose file cannot be read is kept aside
        and counts as the state before it, also beside a publication. Raises NotFound that lists the versions there are,
        CommitConflict if somebody commits meanwhile, or a publication of the table is open: nothing is done then.
        """
        self._commits.check_writable()
        self._store.refuse_other_table()
        with suppress(CorruptData):
            take_away_foreign(self._store, self._store.snapshots.latest())
        store, target = resolve_version(self._store, version)
        if target is None or store.identifier != self.identifier:
            raise InvalidRequest(f"{version!r} is no version of {self.identifier} to roll back to.")
        mended = mend_newest(self._store)
        is_stand_in = mended is not None and mended.snapshot.operation == STAND_IN
        if mended is not None and is_stand_in and mended.snapshot.properties == {FOLLOWS_PROPERTY: target.identity}:
            # It shows that very state.
            tell_after(self._store, mended.snapshot, self._listeners)
            return mended.snapshot
        made = rollback_to(self._store, target, guard=beside(self._store), listeners=self._listeners)
        if made is not None:
            self._commits.let_old_snapshots_go(made)
        return made

    @outcome(_PARTLY_DONE)
    def mend_snapshots(self) -> list[Mended]:
        """Make up for the snapshots of the branch whose files cannot be read, in order; returns what became of each.

        The damaged files are kept aside, and `check` names them. Raises CorruptData if there is nothing to make up from.
        """
        self._commits.check_writable()
        self._store.refuse_other_table()
        return mend_snapshots(self._store)

    @outcome(_PARTLY_DONE)
    def expire(
        self, *, retain_last: int | None = None, older_than: dt.timedelta | None = None, dry_run: bool = False
    ) -> Removal:
        """Let old snapshots go, all but the last few, and the files that no snapshot, tag or branch needs any more.

        `older_than`: only those of at least this age. With neither, the table's options `snapshot.*` say what stays.
        `dry_run` says what would go.
        """
        self._commits.check_writable()
        if retain_last is None and older_than is not None:
            raise InvalidRequest("Say how many snapshots stay whatever their age: retain_last.")
        if retain_last is None:
            retention = retention_of(self._store.options)
        else:
            age_ms = None if older_than is None else older_than // dt.timedelta(milliseconds=1)
            retention = Retention(retain_last, age_ms=age_ms)
        removal = expire_snapshots(self._store, retention, dry_run=dry_run)
        if not dry_run:
            self._store.troubles.clear(EXPIRY)
        return removal

    @outcome(_NOT_COMMITTED, landed=False)
    def expire_partitions(self, *, dry_run: bool = False) -> list[dict[str, Any]]:
        """Drop the partitions that are older than `partition.expiration-time`; returns their values, as the store holds
        them. `dry_run` drops nothing.
        """
        self._commits.check_writable()
        store = self._store
        if dry_run:
            expired = at_latest(store, store.snapshots.latest, partial(expired_partitions, store))
            store.refuse_other_table()
            return expired

        def drop(basis: Basis) -> list[dict[str, Any]]:
            expired = expired_partitions(store, basis.snapshot)
            store.refuse_other_table()
            if expired:
                self._drop(expired, refuse_written_since(store, basis.snapshot, expired))
            return expired

        return repeated(store, drop, reads_rows=False)

    @outcome(_NOT_COMMITTED, landed=False)
    def drop_partition(self, *partitions: Mapping[str, Any]) -> Snapshot | None:
        """Delete all rows of partitions, each given by the values of some or all partition columns. None if there are none."""
        self._commits.check_writable()
        if not partitions or not all(partitions):
            raise InvalidRequest("Give the partitions to drop, each by values of partition columns.")
        return self._drop([self.partition_values(partition) for partition in partitions])

    def _drop(self, partitions: Sequence[Mapping[str, Any]], guard: Guard | None = None) -> Snapshot | None:
        overwrite = Overwrite(matching=tuple(partitions))
        details = CommitDetails(operation="DROP PARTITION")
        return self._commits.commit([], details, overwrite=overwrite, guard=guard)

    @outcome(_PARTLY_DONE)
    def remove_orphan_files(
        self, *, older_than: dt.timedelta = dt.timedelta(days=1), dry_run: bool = False, no_writers: bool = False
    ) -> list[OrphanFile]:
        """Delete files that nobody needs and that are older than a safety age; `dry_run` says which those are.

        Ages below an hour are refused, since writers may need younger files, unless `no_writers` says that none runs.
        """
        self._store.refuse_other_table()
        age_ms = older_than // dt.timedelta(milliseconds=1)
        orphans = remove_orphan_files(self._store, age_ms=age_ms, dry_run=dry_run, no_writers=no_writers)
        if not dry_run:
            self._store.troubles.clear(FILE_DELETION)
        return orphans

    @outcome(_NOTHING_CHANGED)
    def check(self, *, deep: bool = False) -> list[BrokenInvariant]:
        """What must be true of the table, with all its branches, and is not, and which work after commits has failed
        (FailedWork); empty for a sound table. `deep` reads the data files as well.
        """
        return check_table(self._store, deep=deep)

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def troubles(self) -> list[Trouble]:
        """The kinds of work that follow commits to this branch and have failed since they last succeeded. Raises CorruptData
        that names a file which should tell of one and cannot be read.
        """
        return self._store.troubles.all()

    @outcome(_NOTHING_CHANGED)
    @of_same_table
    def why_kept(self, what: int | str) -> list[str]:
        """Who needs a snapshot's files, or a file (by its path or name): snapshots and tags of all branches.

        The snapshot may have expired, if a tag has kept it.
        """
        if isinstance(what, int):
            store, snapshot = find_version(self._store, what)
            with told_of_expiry(store, snapshot):
                paths = set() if snapshot is None else files_of(store, snapshot)
        else:
            paths = {path for path in needed_files(self._store) if path == what or path.endswith(f"/{what}")}
        return [str(holder) for holder in holders_of(self._store, paths)]

    def new_write(
        self, *, replaces: bool = False, write_name: str | None = None, change_tracking: bool = True
    ) -> TableWrite:
        """A writer whose rows somebody else commits (a Spark task, for example). `write_name` is shared by all of them."""
        return self._commits.new_write(replaces=replaces, write_name=write_name, change_tracking=change_tracking)

    def new_commit(self, commit_id: CommitId | None = None) -> TableCommit:
        """What makes the messages of writers visible."""
        return self._commits.new_commit(commit_id)

    def new_commit_id(self) -> CommitId:
        """An id for a commit that nobody will repeat."""
        return self._commits.new_commit_id()

    def notify(self, snapshot: Snapshot) -> None:
        """Tell the listeners of a commit that another process made for this one."""
        self.new_commit().notify(snapshot)

    def commit_messages(
        self,
        messages: Sequence[CommitMessage],
        overwrite: Overwrite | None = None,
        commit_id: CommitId | None = None,
        properties: Mapping[str, str] | None = None,
        operation: str | None = None,
        change_tracking: bool = True,
        deleted: Sequence[ManifestEntry] = (),
        guard: Guard | None = None,
        unless_same: bool = False,
    ) -> Snapshot | None:
        """Commit what writers wrote, in the place of files `deleted` if there are any, and compact the buckets that have
        come to need it. `guard`: see `TableCommit.commit`. `unless_same`: an overwrite that brings exactly the rows that it
        replaces commits nothing, and its files are deleted; None is returned.

        How many rows were given under a key that a later row has stands in the snapshot: `changes_of` tells. Raises
        InvalidRequest for rows of a table without a key that take others away, with `overwrite` or `deleted`.
        """
        details = CommitDetails(commit_id, properties, operation, change_tracking)
        return self._commits.commit(
            messages, details, overwrite=overwrite, deleted=deleted, guard=guard, unless_same=unless_same
        )

    def partition_values(self, partition: Mapping[str, Any]) -> dict[str, Any]:
        """The values of some partition columns as the store holds them. Raises InvalidRequest for other columns."""
        return partition_values(self._store, partition)


def _bound(where: str | Predicate, schema: TableSchema) -> Predicate:
    predicate = as_predicate(where)
    refuse_metadata(schema, sorted(predicate.columns()), "a condition")
    return predicate.bind(schema)
