"""Commits to one branch of a table: of rows, or of what writers elsewhere have written; and what follows each.

What always holds: files that were written for a commit that is refused are deleted, and what follows a commit that has landed
(due tags, compaction, expiry) never makes it fail: it is kept as a trouble. Follows `docs/protocols.md`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import pyarrow as pa

from .altering import redefined_only, write_definition
from .basis import REPLACE_WHERE, Basis, guard_of_places, repeated
from .errors import InvalidRequest, RowsChanged, StorageError, Unsupported
from .iceberg.publish import publish_after
from .maintain.expire import expire_snapshots, retention_of
from .maintain.follow import compact_written, tell_after
from .maintain.mark_done import mark_after
from .maintain.same_rows import brings_the_same
from .maintain.settle_postponed import settled
from .maintain.tagging import create_due_tag
from .maintain.top_runs import as_top_runs
from .metadata.manifest import ManifestEntry, Place
from .metadata.schema import TableSchema
from .metadata.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from .metadata.table_store import TableStore
from .metadata.trouble import EXPIRY, TAG_CREATION, afterwards
from .read.held_keys import no_keys, read_keys
from .read.version import Version
from .row_changes import commit_counted
from .store_errors import outcome
from .write.attempt import Guard
from .write.commit import TableCommit
from .write.commit_id import CommitId
from .write.incoming import Data
from .write.listeners import CommitListener
from .write.overwrite import Overwrite
from .write.own_properties import refuse_own_properties
from .write.postponed import is_postponed
from .write.table_write import CommitMessage, TableWrite, duplicate_keys_property
from .write.watermark import highest

_EXPIRES_BY_ITSELF = {"snapshot.num-retained.min", "snapshot.num-retained.max", "snapshot.time-retained"}
_NOT_COMMITTED = "Nothing was committed. Mend the store, then repeat the call."
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CommitDetails:
    """What a commit says of itself.

    `commit_id` None: one that nobody will repeat. `properties` and `operation` (`WRITE`, `MERGE` …) stand in the snapshot.
    `change_tracking=False`: readers of changes do not see it.
    """

    commit_id: CommitId | None = None
    properties: Mapping[str, str] | None = None
    operation: str | None = None
    change_tracking: bool = True


class Commits:
    """What commits to one branch. `version`: that at which it was opened, which can only be read."""

    def __init__(
        self,
        store: TableStore,
        listeners: Sequence[CommitListener],
        version: Version = None,
        *,
        is_new_definition: bool = False,
    ) -> None:
        """`is_new_definition`: the schema is written with the first commit."""
        self.store = store
        self.is_new_definition = is_new_definition
        self._listeners = listeners
        self._version = version

    @property
    def schema(self) -> TableSchema:
        """The latest schema of the branch."""
        return self.store.schema

    def check_writable(self) -> None:
        """Raise InvalidRequest for a table that was opened as of a version."""
        if self._version is not None:
            raise InvalidRequest(
                f"{self.store.identifier} was opened as of {self._version!r}, which can only be read. Write to the table itself."
            )

    # --- rows

    def repeated(self, change: Callable[[Basis], _T]) -> _T:
        """What a change of rows returns, computed again if others change the same rows meanwhile: see `Table.repeated`."""
        # Rows that wait are rows as well: a change that did not see them would take them back.
        return repeated(self.store, change, newest=self.settled)

    def settled(self) -> Snapshot | None:
        """The newest snapshot, once the rows that wait in postponed buckets are moved to real ones."""
        self.check_writable()
        return settled(self.store, self._listeners) if is_postponed(self.schema) else self.store.newest()

    @outcome(_NOT_COMMITTED, landed=False)
    def write(
        self,
        data: Data,
        details: CommitDetails,
        *,
        overwrite: Overwrite | None = None,
        row_kind_column: str | None = None,
        basis: Basis | None = None,
    ) -> Snapshot | None:
        """Write rows and commit them; returns the snapshot, None for no rows. `row_kind_column` names a text column with the
        kind of each row. `basis`: what the rows were computed from; raises RowsChanged if others have changed them since.
        """
        # Before rows are written, which nobody would take away again.
        refuse_own_properties(details.properties)

        def write_once(_: Basis) -> Snapshot | None:
            return self._write_once(data, details, overwrite, row_kind_column, basis)

        if self.schema.crosses_partitions and basis is None and isinstance(data, pa.Table | pa.RecordBatch):
            # Keys that others have moved meanwhile are looked up again.
            return repeated(self.store, write_once, reads_rows=False)
        return write_once(Basis(self.store, None))

    def _write_once(
        self,
        data: Data,
        details: CommitDetails,
        overwrite: Overwrite | None,
        row_kind_column: str | None,
        basis: Basis | None,
    ) -> Snapshot | None:
        with self.new_write(replaces=overwrite is not None, change_tracking=details.change_tracking) as writer:
            for rows in [data] if isinstance(data, pa.Table | pa.RecordBatch) else data:
                writer.write(rows, row_kind_column)
            message = writer.prepare_commit()
        guard = None if basis is None else basis.guard([message], inserts=details.operation == REPLACE_WHERE)
        return self.commit([message], details, overwrite=overwrite, guard=guard)

    @outcome(_NOT_COMMITTED, landed=False)
    def new_write(self, *, replaces: bool, write_name: str | None = None, change_tracking: bool = True) -> TableWrite:
        """A writer whose message is to be committed. `replaces`: by an overwrite, so that no row that is there counts.

        Raises Unsupported for `change_tracking=False` where compactions tell of changes.
        """
        self.check_writable()
        producer = self.store.options.changelog_producer
        if not change_tracking and producer in ("lookup", "full-compaction"):
            raise Unsupported(
                f"Table {self.store.identifier} has 'changelog-producer' = {producer!r}: compactions "
                "tell of changes, whichever commit made them. Set 'change-tracking' for the table or for partitions."
            )
        return TableWrite(
            self.store,
            ignore_existing=replaces,
            write_name=write_name,
            change_tracking=change_tracking,
            find_keys=partial(no_keys if replaces else read_keys, self.store),
        )

    # --- messages of writers

    def new_commit(self, commit_id: CommitId | None) -> TableCommit:
        """What makes the messages of writers visible. `commit_id` None: one that nobody will repeat."""
        return TableCommit(self.store, commit_id or self.new_commit_id(), self._listeners)

    def new_commit_id(self) -> CommitId:
        """An id for a commit that nobody will repeat."""
        return CommitId(self.store.clock.unique_name(), BATCH_COMMIT_IDENTIFIER)

    def commit(
        self,
        messages: Sequence[CommitMessage],
        details: CommitDetails,
        *,
        overwrite: Overwrite | None = None,
        deleted: Sequence[ManifestEntry] = (),
        guard: Guard | None = None,
        unless_same: bool = False,
    ) -> Snapshot | None:
        """Commit what writers wrote, and let follow what is due: see `Table.commit_messages`."""
        refuse_own_properties(details.properties)
        takes_away = any(message.retracted for message in messages)
        if takes_away:
            self._refuse_beside_retractions(messages, overwrite, deleted)
        if self.is_new_definition:
            self._write_definition(messages, overwrite)
            with outcome(redefined_only(self.store), of_whole=True):
                return self.commit(
                    messages, details, overwrite=overwrite, deleted=deleted, guard=guard, unless_same=unless_same
                )
        if self.schema.crosses_partitions:
            with self._deleting_if_raised(messages, Unsupported):
                guard = guard_of_places(self.store, messages, overwrite, guard)
        commit = self.new_commit(details.commit_id)
        properties = {**(details.properties or {}), **duplicate_keys_property(self.store, messages)}
        details = replace(details, properties=properties)
        if unless_same and overwrite is not None and self._brings_the_same(commit, messages, overwrite):
            self._delete_files_of(messages)
            return None
        if takes_away:
            snapshot = self._commit_counted(commit, messages, details, guard)
        else:
            snapshot = self._commit_settled(commit, messages, details, overwrite, deleted, guard)
        if snapshot is not None:
            places = {entry.place for message in messages for entry in message.added}
            self.follow_up(snapshot, places if overwrite is None else set())
            mark_after(self.store, {partition for partition, _ in places}, snapshot.id)
        else:
            # Whoever did the same before may have died before readers could see it.
            tell_after(self.store, None, self._listeners)
        return snapshot

    def _refuse_beside_retractions(
        self, messages: Sequence[CommitMessage], overwrite: Overwrite | None, deleted: Sequence[ManifestEntry]
    ) -> None:
        """Raise InvalidRequest if rows that take others away come with other things to take away."""
        if overwrite is not None or deleted:
            self._delete_files_of(messages)
            raise InvalidRequest(
                f"Rows of kind -U or -D take equal rows of {self.store.identifier} away, which has no key, and cannot be "
                f"committed with {'overwrite' if overwrite is not None else 'deleted'}. Commit the two one after the other."
            )

    def _write_definition(self, messages: Sequence[CommitMessage], overwrite: Overwrite | None) -> None:
        if overwrite != Overwrite():
            raise InvalidRequest("A new definition comes with an overwrite of the whole table.")
        with self._deleting_if_raised(messages, StorageError):
            write_definition(self.store)
        self.is_new_definition = False

    def _brings_the_same(self, commit: TableCommit, messages: Sequence[CommitMessage], overwrite: Overwrite) -> bool:
        """Whether an overwrite, which was not committed before, brings exactly the rows that it replaces."""
        return commit.find_earlier() is None and brings_the_same(self.store, messages, overwrite)

    def _commit_counted(
        self, commit: TableCommit, messages: Sequence[CommitMessage], details: CommitDetails, guard: Guard | None
    ) -> Snapshot | None:
        """Commit rows of which some take equal rows away."""
        try:
            return commit_counted(
                self.store,
                commit,
                messages,
                details.properties,
                details.operation,
                details.change_tracking,
                guard,
                _watermark(messages),
            )
        except InvalidRequest as error:
            if guard is None:
                raise
            # What was computed from a snapshot takes rows away that were there: others have changed them since.
            raise RowsChanged(str(error)) from None

    def _commit_settled(
        self,
        commit: TableCommit,
        messages: Sequence[CommitMessage],
        details: CommitDetails,
        overwrite: Overwrite | None,
        deleted: Sequence[ManifestEntry],
        guard: Guard | None,
    ) -> Snapshot | None:
        """Commit messages; those of an overwrite as runs of the highest level, where readers do not look below it."""
        unused: list[str] = []
        watermark = _watermark(messages)
        if overwrite is not None and self._settles and self.schema.primary_keys:
            message, unused = as_top_runs(self.store, messages)
            messages = [message]
        snapshot = commit.commit(
            messages,
            overwrite=overwrite,
            deleted=deleted,
            properties=details.properties,
            operation=details.operation,
            change_tracking=details.change_tracking,
            guard=guard,
            watermark=watermark,
        )
        self.store.file_io.delete_quietly(unused)
        return snapshot

    @property
    def _settles(self) -> bool:
        options = self.store.options
        return (options.told_level is not None or options.deletion_vectors_enabled) and not is_postponed(self.schema)

    def _delete_files_of(self, messages: Sequence[CommitMessage]) -> None:
        self.store.file_io.delete_quietly([path for message in messages for path in message.paths])

    @contextmanager
    def _deleting_if_raised(self, messages: Sequence[CommitMessage], kind: type[StorageError]) -> Iterator[None]:
        """Delete the files of messages if an error of a kind ends what is done with them."""
        try:
            yield
        except kind:
            self._delete_files_of(messages)
            raise

    # --- what follows

    def follow_up(self, snapshot: Snapshot, written: set[Place]) -> None:
        """What follows each commit of rows: due tags, compaction of the buckets that were written, expiry. The rows are
        committed: what fails here is left to the next commit, or to a schedule.
        """
        store = self.store
        if afterwards(store, TAG_CREATION, lambda: create_due_tag(store), None, snapshot.id) is not None:
            publish_after(store, snapshot.id)
        if not store.options.write_only and self.schema.primary_keys:
            compact_written(store, written, snapshot, self._listeners)
        self.let_old_snapshots_go(snapshot)

    def let_old_snapshots_go(self, snapshot: Snapshot) -> None:
        """Expire after a commit, if the options say so."""
        store = self.store
        if not store.options.write_only and _EXPIRES_BY_ITSELF & self.schema.options.keys():
            afterwards(store, EXPIRY, self._expire_after_write, tuple[int, ...](), snapshot.id)

    def _expire_after_write(self) -> tuple[int, ...]:
        return expire_snapshots(self.store, retention_of(self.store.options)).snapshot_ids


def _watermark(messages: Sequence[CommitMessage]) -> int | None:
    return highest(message.watermark for message in messages)
