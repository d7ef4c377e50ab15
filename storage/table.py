"""The handle of a table for users: read it, write it, name its versions. Arrow in and out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from .altering import alter, refuse_unfit
from .arguments import checked
from .basis import Basis
from .commits import CommitDetails
from .condition import bound
from .errors import InvalidRequest
from .log.definition import refuse_redefined
from .maintain.verdict import first_other_version
from .matching_rows import delete_matching, update_matching
from .metadata.manifest import ManifestEntry
from .metadata.redefinition import redefined
from .metadata.schema import TableSchema
from .metadata.schema_change import SchemaChange
from .metadata.snapshot import Snapshot
from .partitions import only_in, with_partition
from .read.all_rows import as_told, with_all_rows
from .read.net_changes import refuse_unseen
from .read.predicate import Predicate
from .read.version import Pinned, Version, on_branch, resolve_version
from .row_changes import assignments
from .same_table import of_same_table
from .store_errors import outcome
from .table_handle import NOT_COMMITTED, NOTHING_CHANGED, PARTLY_DONE
from .table_maintenance import TableMaintenance
from .write.attempt import Guard
from .write.commit import TableCommit
from .write.commit_id import CommitId
from .write.incoming import Data
from .write.overwrite import Overwrite
from .write.table_write import CommitMessage, TableWrite

_T = TypeVar("_T")


@checked
class Table(TableMaintenance):
    """One branch of a table, optionally fixed at a version. Cheap to make; holds no open files.

    `TableReading` has what reads it, `TableMaintenance` what keeps it in good shape; here is what writes it.
    """

    # --- versions

    def at(self, version: Version) -> "Table":
        """The same table as of a version; it can be read, not written."""
        return Table(self._store, self._catalog_name, self._listeners, version)

    @outcome(NOTHING_CHANGED)
    def after_commit(self, version: Version = None) -> "Table":
        """The same table as the commit of a version left it, also with the rows that readers see only once they are compacted
        (deletion vectors); of postponed buckets, those that compactions right after it have moved. It can be read, not written.
        Lineage names commits, and means this.
        """
        store, snapshot = resolve_version(self._store, self._version if version is None else version)
        return Table(store, self._catalog_name, self._listeners, with_all_rows(store, snapshot))

    @outcome(NOT_COMMITTED, landed=False)
    @of_same_table
    def as_written(self) -> "Table":
        """The table with every row that has been committed: also with those that no compaction has lifted yet; those that wait
        in postponed buckets are moved to real ones first. It can be read, not written.
        """
        self._commits.settled()
        return self.after_commit()

    @outcome(NOTHING_CHANGED)
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

    @outcome(NOTHING_CHANGED)
    def pinned(self, version: Version = None) -> "Table":
        """The same table, fixed at what a version is now, with the columns that it has now; it can be read, not written.

        A table without a snapshot stays empty.
        """
        store, snapshot = resolve_version(self._store, self._version if version is None else version)
        return Table(store, self._catalog_name, self._listeners, Pinned(snapshot, store.schema))

    @outcome(NOTHING_CHANGED)
    @of_same_table
    def on_branch(self, branch: str) -> "Table":
        """The same table on another branch. Raises NotFound that lists the branches."""
        return Table(on_branch(self._store, branch), self._catalog_name, self._listeners)

    @outcome(NOTHING_CHANGED)
    def with_columns_of(self, other: "Table") -> "Table":
        """The same rows under the columns of another version, or branch, of the table, if its schema is a later version of this
        one's: as they are once the one has been taken over by the other. Else (also if both were altered) the table as it is. It
        can be read, not written.
        """
        version = self._version
        store, snapshot = resolve_version(self._store, version)
        later = resolve_version(other._store, other._version)[0]
        is_later = self.location == other.location and later.schema.id > store.schema.id
        if not is_later or first_other_version(later, store) is not None:
            return self
        lowest_level = version.lowest_level if isinstance(version, Pinned) else None
        pinned = Pinned(snapshot, later.schema, lowest_level)
        return Table(self._store.at_schema(later.schema), self._catalog_name, self._listeners, pinned)

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

    @outcome(NOT_COMMITTED, landed=False)
    def delete(self, where: str | Predicate) -> Snapshot | None:
        """Delete the rows that match: by key, or by writing the files that hold them anew. None if nothing matched.

        It is done again if others change the same rows meanwhile, up to ten times; then it raises CommitConflict.
        """
        return delete_matching(self._commits, bound(where, self.schema))

    @outcome(NOT_COMMITTED, landed=False)
    def update(self, where: str | Predicate, values: Mapping[str, Any]) -> Snapshot | None:
        """Set columns of the rows that match to plain values. None if nothing matched.

        It is done again if others change the same rows meanwhile, up to ten times; then it raises CommitConflict. Raises
        InvalidRequest for columns of the key and for values that do not fit, Unsupported for lower values of a
        `sequence.field`: the row that is there would count as the later one.
        """
        scalars = assignments(self._store, values)
        return update_matching(self._commits, bound(where, self.schema), scalars)

    @outcome(NOT_COMMITTED, landed=False)
    def truncate(
        self, *, commit_id: CommitId | None = None, properties: Mapping[str, str] | None = None
    ) -> Snapshot | None:
        """Delete all rows. Returns the snapshot; None if there were none."""
        self._commits.check_writable()
        return self._commits.commit([], CommitDetails(commit_id, properties, "TRUNCATE"), overwrite=Overwrite())

    @outcome(PARTLY_DONE)
    def alter(self, *changes: SchemaChange) -> "Table":
        """Change columns and options in one step: a new version of the schema. Returns the table under it.

        No data is rewritten. Raises InvalidRequest or Unsupported that says which change cannot be. A column becomes NOT NULL if
        no file holds a null of it; a snapshot that changes nothing is put on top then, so that no other commit brings one.
        """
        self._commits.check_writable()
        return Table(alter(self._store, changes), self._catalog_name, self._listeners)

    def refuse_unfit(self, rows: pa.Table, changes: Sequence[SchemaChange]) -> None:
        """Raise InvalidRequest if rows would not fit the table once changes were made, which are not; rows that are none tell of
        their types.
        """
        refuse_unfit(self._store, rows, changes)

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

    def only_in_partitions(
        self, messages: Sequence[CommitMessage], partitions: Sequence[Mapping[str, Any]], guard: Guard | None = None
    ) -> Guard:
        """A guard for `commit_messages`, which asks another one too: raises InvalidRequest for rows of other partitions than
        these, each given by the values of some partition columns.
        """
        return only_in(self._store, messages, partitions, guard)

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
