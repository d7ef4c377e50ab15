"""Make a change visible: manifests first, then the snapshot file, whose creation is the commit.

What always holds: a reader sees the table before or after a commit, never between; a commit that names its user and
identifier lands once, however often it is tried; what an attempt wrote in vain is deleted. Follows `docs/format.md`,
"Commit protocol".
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ..arguments import checked
from ..errors import (
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptData,
    InvalidRequest,
    NotFound,
    StorageError,
    StoreUnavailable,
    TakenBack,
)
from ..identifier import Identifier
from ..metadata.change_tracking import untracked_property
from ..metadata.index_manifest import refuse_index, write_index_manifest
from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, POSTPONED_BUCKET, ManifestEntry, ManifestFile
from ..metadata.snapshot import (
    ANALYZE,
    APPEND,
    BATCH_COMMIT_IDENTIFIER,
    COMPACT,
    FOLLOWS_PROPERTY,
    OVERWRITE,
    Snapshot,
)
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..metadata.trouble import LISTENERS, afterwards
from ..metadata.way_back import told_of_way_back
from ..store_errors import outcome
from ..version import VERSION
from .brought_back import drop_tags, keep_brought_back
from .close import refuse_closed
from .commit_time import commit_time, is_late
from .conflicts import check_conflicts
from .find_commit import find_commit
from .key_index import KeyIndex
from .landing import create_on_top, take_away_foreign
from .lift import lift_to_top
from .lost_to_cleaning import first_lost
from .manifest_merge import merge_manifests
from .newer_columns import refuse_lost_columns, refuse_replaced_columns
from .own_properties import refuse_own_properties
from .renumber import NumberedFiles
from .required_columns import refuse_nulls
from .table_write import CommitMessage, earliest
from .take_back import take_back
from .vectors import GivenVector, MarkedFile, VectorChange

_log = logging.getLogger(__name__)
WRITER_VERSION = f"snapline-{VERSION}"
# Asked before each try of a commit with the newest snapshot, which is None for a table without one.
Guard = Callable[[Snapshot | None], None]
# Whether what somebody holds is held still.
Held = Callable[[], bool]


class CommitListener(Protocol):
    """Told of what has happened to tables. It runs after the fact: what it raises cannot undo it."""

    def notify_commit_complete(self, identifier: Identifier, snapshot: Snapshot) -> None:
        """A snapshot has become visible."""

    def notify_table_renamed(self, identifier: Identifier, new: Identifier) -> None:
        """A table goes by another name from now on."""


def tell_listeners(
    store: TableStore,
    listeners: Sequence[CommitListener],
    what: Callable[[CommitListener], None],
    snapshot_id: int | None = None,
) -> None:
    """Tell every listener of what has happened. What they raise is logged and the last of it kept as a trouble."""
    failures: list[Exception] = []
    for listener in listeners:
        try:
            what(listener)
        except Exception as error:
            failures.append(error)

    def tell() -> bool:
        if failures:
            raise failures[-1]
        return bool(listeners)

    afterwards(store, LISTENERS, tell, False, snapshot_id)


@checked
@dataclass(frozen=True, slots=True)
class CommitId:
    """Who commits, and the number of the commit. A repeated commit of the same id changes nothing, unless the number is
    `BATCH_COMMIT_IDENTIFIER`, which is that of all batch jobs and tells none from another.

    `exact`: identifiers of the user need not rise, so the same number is looked for; else the newest snapshot of the
    user tells (every identifier up to its own is in). `not_before_ms` bounds the search into the past. `is_new`: it was made
    for this one call and never used before, so that nothing is looked for before the commit.
    """

    user: str
    identifier: int = BATCH_COMMIT_IDENTIFIER
    exact: bool = False
    not_before_ms: int | None = None
    is_new: bool = False

    def __post_init__(self) -> None:
        is_number = isinstance(self.identifier, int) and not isinstance(self.identifier, bool)
        if not isinstance(self.user, str) or not is_number or not -(2**63) <= self.identifier < 2**63:
            raise InvalidRequest(
                f"A commit id has a user, which is text, and a whole number of 64 bits, not {self.user!r} and "
                f"{self.identifier!r}."
            )

    def made(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot is the one that this id made: not a later one, which holds what it committed."""
        return (snapshot.commit_user, snapshot.commit_identifier) == (self.user, self.identifier)


@checked
@dataclass(frozen=True, slots=True)
class Overwrite:
    """Which live files a commit replaces. Rows outside of that may not be written by the same commit.

    `matching` lists partitions by the values (`storage.values`) of some or all partition columns; None means the whole
    table. `dynamic`: the partitions that the rows go to, whichever those are.
    """

    matching: tuple[Mapping[str, Any], ...] | None = None
    dynamic: bool = False

    def __post_init__(self) -> None:
        if self.matching is not None and not all(self.matching):
            raise InvalidRequest(
                "A partition without any value would be the whole table. Give values of partition columns, or leave the "
                "partition out."
            )

    def settled(self, written: frozenset[bytes]) -> "Overwrite":
        """A dynamic overwrite, once it is known which partitions were written."""
        return _SettledOverwrite(partitions=written) if self.dynamic else self

    def covers(self, store: TableStore, partition: bytes) -> bool:
        """Whether a partition is replaced."""
        if self.matching is None:
            return True
        values = store.partition_values(partition)
        return any(all(values[name] == value for name, value in one.items()) for one in self.matching)


@dataclass(frozen=True, slots=True)
class _SettledOverwrite(Overwrite):
    partitions: frozenset[bytes] = frozenset()

    def covers(self, store: TableStore, partition: bytes) -> bool:
        return partition in self.partitions


@checked
class TableCommit:
    """Commits changes to one branch of a table."""

    def __init__(self, store: TableStore, commit_id: CommitId, listeners: Sequence[CommitListener] = ()) -> None:
        self._store = store
        self._id = commit_id
        self._listeners = listeners

    @outcome("Nothing was committed by this call. Mend the store, then repeat it.", landed=False)
    def commit(
        self,
        messages: Sequence[CommitMessage],
        *,
        overwrite: Overwrite | None = None,
        deleted: Sequence[ManifestEntry] = (),
        kind: str | None = None,
        operation: str | None = None,
        properties: Mapping[str, str] | None = None,
        watermark: int | None = None,
        change_tracking: bool = True,
        guard: Guard | None = None,
        adds_again: bool = False,
        back_to: Snapshot | int = 0,
        held: Held | None = None,
        own_properties: Mapping[str, str] | None = None,
        even_empty: bool = False,
        statistics: str | None = None,
        vectors: Sequence[GivenVector] = (),
    ) -> Snapshot | None:
        """Commit added files, and what they replace. Returns the snapshot, an earlier one if this id landed before,
        or None if there is nothing to commit, unless `even_empty`. If the earlier one has expired, the earliest snapshot that
        there is.

        `guard` is asked again before each try, with the newest snapshot as that try finds it, and raises if the change must
        not be put on top of it. `adds_again`: files may be added that the table has had before, those that are in the paths
        of no message; `back_to`: see `keep_brought_back`; `held` says, once the snapshot is there, whether they have been kept
        until then. `own_properties`: those by which the store knows what the commit was. `statistics`: the file of the table's
        statistics, of kind ANALYZE.
        `vectors`: the deletion vectors that files get which have been in the table before.

        Raises InvalidRequest if own properties are among `properties`, CommitConflict if another commit made this one
        impossible (its files are deleted), and CommitOutcomeUnknown if the store gave no answer. Raises StoreUnavailable if it
        failed before: then nothing is committed, and the files of the messages are kept for another try.
        """
        refuse_own_properties(properties)
        properties = {**(properties or {}), **(own_properties or {})}
        added = [entry for message in messages for entry in message.added]
        if overwrite is not None:
            overwrite = overwrite.settled(frozenset(entry.partition for entry in added))
            self._check_covered(added, overwrite, messages)
            if self._store.schema.primary_keys:
                added = lift_to_top(added, self._store.key_types, self._store.options.top_level)
        if kind not in (COMPACT, ANALYZE):
            partitions = {entry.partition for entry in (*added, *deleted)}
            untracked = untracked_property(self._store, partitions, tracked=change_tracking)
            properties |= untracked
        changelog = [entry for message in messages for entry in message.changelog]
        own = frozenset(path for message in messages for path in message.paths) if adds_again else None
        change = _Change(
            added,
            list(deleted),
            changelog,
            overwrite,
            kind,
            operation,
            properties,
            watermark,
            guard,
            NumberedFiles(self._store, messages if overwrite is None else (), added, changelog),
            adds_again,
            even_empty,
            earliest(message.begun_ms for message in messages),
            own,
            held,
            statistics,
            self._key_index(messages, added, changelog, overwrite, kind, adds_again=adds_again),
            [one for message in messages for one in message.marked],
            vectors,
            back_to,
        )
        try:
            snapshot, is_own = self._commit(change)
        except (CommitOutcomeUnknown, StoreUnavailable, TakenBack):
            # What has landed may be held by others: its files are left to orphan cleaning.
            raise
        except StorageError:
            self._store.file_io.delete_quietly([path for message in messages for path in message.paths])
            change.numbers.drop()
            change.index.drop()
            raise
        if snapshot is not None and is_own:
            self.notify(snapshot)
        elif snapshot is not None:
            paths = [path for message in messages for path in message.paths]
            self._forget([*paths, *change.numbers.written, *change.index.written], snapshot)
        return snapshot

    def _key_index(
        self,
        messages: Sequence[CommitMessage],
        added: list[ManifestEntry],
        changelog: list[ManifestEntry],
        overwrite: Overwrite | None,
        kind: str | None,
        *,
        adds_again: bool,
    ) -> KeyIndex:
        covers = None if overwrite is None else partial(overwrite.covers, self._store)
        return KeyIndex(self._store, messages, added, changelog, covers=covers, kind=kind, adds_again=adds_again)

    def _check_covered(
        self, added: Sequence[ManifestEntry], overwrite: Overwrite, messages: Sequence[CommitMessage]
    ) -> None:
        for entry in added:
            if not overwrite.covers(self._store, entry.partition):
                self._store.file_io.delete_quietly([path for message in messages for path in message.paths])
                shown = self._store.partition_values(entry.partition)
                raise InvalidRequest(
                    f"The rows hold some of partition {shown}, which this overwrite of {self._store.identifier} does not "
                    f"replace ({overwrite.matching}). Filter the rows, or overwrite those partitions too."
                )

    def find_committed(self, latest: Snapshot | None = None) -> Snapshot | None:
        """The snapshot that this user and identifier made, if they did, up to `latest` or by now. If it has expired, the
        earliest that there is, which holds what they committed and is somebody else's: `CommitId.made` tells.
        """
        found = find_commit(self._store, self._id, latest)
        # What a writer of a table that was dropped has left here is no commit of this one.
        return find_commit(self._store, self._id) if take_away_foreign(self._store, found) else found

    def find_earlier(self, latest: Snapshot | None = None) -> Snapshot | None:
        """As `find_committed`, before committing: an id that is new has made none, and the history is not looked at."""
        return None if self._id.is_new else self.find_committed(latest)

    def _forget(self, paths: Sequence[str], earlier: Snapshot) -> None:
        """Delete the files of a repeated commit, unless they are the very files that were committed."""
        if not self._id.made(earlier):
            # What that commit added cannot be looked up any more.
            return
        manifests = self._store.manifests
        lists = [earlier.delta_manifest_list, earlier.changelog_manifest_list]
        kept = {
            entry.file.name
            for name in lists
            if name is not None
            for manifest in manifests.read_list(name)
            for entry in manifests.read(manifest.name)
        }
        self._store.file_io.delete_quietly([path for path in paths if path.rsplit("/", 1)[-1] not in kept])

    def notify(self, snapshot: Snapshot) -> None:
        """Tell every listener of a commit, which stands whatever they raise."""
        identifier = self._store.identifier
        tell_listeners(
            self._store, self._listeners, lambda one: one.notify_commit_complete(identifier, snapshot), snapshot.id
        )

    def _commit(self, change: "_Change") -> tuple[Snapshot | None, bool]:
        """The snapshot, and whether this call made it; an earlier one of the same id is not."""
        options = self._store.options
        deadline = self._store.clock.now_ms() + options.commit_timeout_ms
        attempt = 0
        missed = ""
        while True:
            latest = self._store.snapshots.latest()
            self._store.refuse_other_table()
            # Only now: another process may commit under the same id until the newest snapshot is known.
            earlier = self.find_earlier(latest)
            if earlier is not None:
                return earlier, False
            refuse_closed(self._store, latest)
            made = _Attempt(self._store, self._id, change, latest)
            try:
                snapshot = made.prepare()
                if snapshot is not None:
                    made.refuse_lost_files()
            except NotFound as error:
                made.clean_up()
                if latest is not None and self._store.snapshots.find(latest.id) is None:
                    # It has expired while this was put on it: there is a newer one.
                    continue
                if str(error) != missed:
                    # Or one before it, which this looked back at: the next try does not see it any more.
                    missed = str(error)
                    continue
                if take_away_foreign(self._store, latest):
                    continue
                self._refuse_unreadable(latest)
                raise
            except CorruptData:
                made.clean_up()
                with told_of_way_back(self._store, latest):
                    raise
            except BaseException:
                made.clean_up()
                raise
            if snapshot is None:
                return None, True
            try:
                landed = create_on_top(self._store, snapshot, latest)
            except CommitOutcomeUnknown:
                raise
            except StorageError:
                # Whatever else ends it here may end it after the snapshot was created: its files stay.
                made.clean_up()
                raise
            if landed:
                change.numbers.keep()
                change.index.keep()
                made.take_back_if_lost(snapshot)
                return snapshot, True
            made.clean_up()
            attempt += 1
            is_append = change.overwrite is None and not change.deleted and not change.marked
            now_ms = self._store.clock.now_ms()
            if now_ms > deadline or (attempt > options.commit_max_retries and not is_append):
                raise CommitConflict(
                    f"{self._store.identifier}: the commit lost {attempt} races against other writers. "
                    "Try again, or raise 'commit.max-retries' and 'commit.timeout'."
                )
            # Where a try takes long, as on object stores, so does that of each other writer.
            shortest = max(options.commit_min_retry_wait_ms, (now_ms - made.begun_ms) / 2)
            longest = min(options.commit_max_retry_wait_ms, shortest * 2 ** min(attempt, 5))
            self._store.clock.sleep_up_to_ms(longest)

    def _refuse_unreadable(self, latest: Snapshot | None) -> None:
        """Raise NotFound that says what to do if the newest snapshot cannot be read."""
        try:
            if latest is not None:
                live_files(self._store.manifests_of(latest), self._store.manifests.read)
        except NotFound as error:
            self._store.refuse_other_table()
            raise NotFound(
                f"{error} Snapshot {latest.id if latest else 0} of {self._store.identifier}, the newest, cannot be read, so that "
                "nothing can be put on top of it. It may be of a writer that slept for days and died; roll back to the one "
                "before it."
            ) from None


@dataclass(frozen=True, slots=True)
class _Change:
    added: list[ManifestEntry]
    deleted: list[ManifestEntry]
    changelog: list[ManifestEntry]
    overwrite: Overwrite | None
    kind: str | None
    operation: str | None
    properties: dict[str, str]
    watermark: int | None
    guard: Guard | None
    numbers: NumberedFiles
    adds_again: bool
    even_empty: bool
    begun_ms: int | None
    # The paths of the files that this commit has written, if others may be among those that it adds.
    own: frozenset[str] | None
    held: Held | None
    # The file of the table's statistics; None leaves those that there are.
    statistics: str | None
    index: KeyIndex
    marked: Sequence[MarkedFile]
    vectors: Sequence[GivenVector]
    back_to: Snapshot | int


class _Attempt:
    """One try to put a change on top of the latest snapshot."""

    def __init__(self, store: TableStore, commit_id: CommitId, change: _Change, latest: Snapshot | None) -> None:
        self._store = store
        self._id = commit_id
        self._change = change
        self._latest = latest
        self.begun_ms = store.clock.now_ms()
        self._unique = store.clock.unique_name()
        self._manifest_names: list[str] = []
        self._list_names: list[str] = []
        self._index_names: list[str] = []
        self._kept: list[Tag] = []

    def prepare(self) -> Snapshot | None:
        """Write all metadata but the snapshot; None if the change is empty."""
        store, change, latest = self._store, self._change, self._latest
        if change.guard is not None:
            change.guard(latest)
        if change.index.settle(latest):
            change.numbers.forget_mark(change.index.names)
        change.numbers.raise_above(latest)
        deletes = [entry.deleted() for entry in change.deleted]
        if change.overwrite is not None and latest is not None:
            deletes += [entry.deleted() for entry in self._live() if change.overwrite.covers(store, entry.partition)]
        delta = deletes + change.added
        self._check_newest_schema()
        if not change.adds_again:
            refuse_lost_columns(store, latest, change.added, change.deleted, change.marked, self._live)
        if deletes or change.adds_again:
            refuse_index(store, latest)
        marks = self._vector_change(delta)
        is_empty = not delta and not change.changelog and not (marks is not None and marks.changes)
        if is_empty and not change.even_empty:
            return None
        if deletes or change.adds_again or any(entry.file.level > 0 for entry in change.added):
            check_conflicts(self._live(), delta, store.key_types, rescales=change.overwrite is not None)
        if change.adds_again:
            self._kept = keep_brought_back(store, latest, change.added, change.back_to)
        base: list[ManifestFile] = []
        if latest is not None:
            manifests = store.manifests_of(latest)
            write_anew = change.adds_again and self._has_deleted(manifests, {entry.identity for entry in change.added})
            base = merge_manifests(store, manifests, latest.schema_id, self._next_manifest, everything=write_anew)
        base_name, base_size = self._write_list(base)
        schema_id = store.schema.id if latest is None else max(store.schema.id, latest.schema_id)
        delta_name, delta_size = self._write_list([self._write_manifest(delta, schema_id)] if delta else [])
        changelog_name, changelog_size = None, None
        if change.changelog:
            changelog_name, changelog_size = self._write_list([self._write_manifest(change.changelog, schema_id)])
        added_rows = sum(entry.file.row_count for entry in change.added)
        delta_rows = added_rows - sum(entry.file.row_count for entry in deletes)
        moment = commit_time(store.clock.now_ms(), latest, self._id.not_before_ms)
        if moment.behind_ms:
            _log.info(
                "%s: this clock is %s ms behind, the commit gets a later time", store.identifier, moment.behind_ms
            )
        watermarks = [one for one in (change.watermark, latest.watermark if latest else None) if one is not None]
        keeps_statistics = latest is not None and latest.schema_id == schema_id
        return Snapshot(
            id=latest.id + 1 if latest else 1,
            uuid=store.clock.unique_name(),
            schema_id=schema_id,
            base_manifest_list=base_name,
            base_manifest_list_size=base_size,
            delta_manifest_list=delta_name,
            delta_manifest_list_size=delta_size,
            changelog_manifest_list=changelog_name,
            changelog_manifest_list_size=changelog_size,
            index_manifest=self._index_manifest(marks, delta),
            commit_user=self._id.user,
            writer_version=WRITER_VERSION,
            commit_identifier=self._id.identifier,
            commit_kind=COMPACT
            if is_empty and change.statistics is None
            else change.kind or (OVERWRITE if change.overwrite is not None or deletes or marks else APPEND),
            time_ms=moment.time_ms,
            total_record_count=(latest.total_record_count if latest else 0) + delta_rows,
            delta_record_count=delta_rows,
            changelog_record_count=sum(one.file.row_count for one in change.changelog) if change.changelog else None,
            watermark=max(watermarks) if watermarks else None,
            statistics=change.statistics or (latest.statistics if latest and keeps_statistics else None),
            properties=moment.with_properties(
                {**change.properties, **({FOLLOWS_PROPERTY: latest.identity} if latest else {})}
            )
            or None,
            next_row_id=latest.next_row_id if latest else 0,
            operation=change.operation,
        )

    def _vector_change(self, delta: Sequence[ManifestEntry]) -> VectorChange | None:
        """What becomes of the deletion vectors; None if there are none, and none come. Raises RowsChanged: see there."""
        change, latest = self._change, self._latest
        has_any = latest is not None and latest.index_manifest is not None
        is_touched = has_any and any(entry.kind != ADD for entry in delta)
        if not (change.marked or change.vectors or is_touched):
            return None
        live = {entry.identity: entry for entry in self._live()}
        gone = [entry for entry in delta if entry.kind != ADD]
        for entry in gone:
            live.pop(entry.identity, None)
        live |= {entry.identity: entry for entry in delta if entry.kind == ADD}
        return VectorChange(
            self._store, change.index.files_of(latest), list(live.values()), gone, change.marked, change.vectors
        )

    def _index_manifest(self, marks: VectorChange | None, delta: Sequence[ManifestEntry]) -> str | None:
        """The index manifest of the snapshot, written if it is another one than the last; None if it would list nothing."""
        latest, index = self._latest, self._change.index
        if (marks is None or not marks.changes) and not index.may_change:
            return latest.index_manifest if latest else None
        files = before = index.files_of(latest)
        if marks is not None and marks.changes:
            files = marks.write(self._next_index)
        files = index.write(files, self._live, delta, self._next_index)
        if files is before:
            return latest.index_manifest if latest else None
        if not files:
            return None
        name = f"index-manifest-{self._unique}-0"
        self._manifest_names.append(name)
        write_index_manifest(self._store, name, files)
        return name

    def _next_index(self, ending: str = "") -> str:
        name = f"index-{self._unique}-{len(self._index_names)}{ending}"
        self._index_names.append(name)
        return name

    def refuse_lost_files(self) -> None:
        """Raise CommitConflict if the files were written so long ago that cleaning has taken them, or may do so."""
        lost = self._lost()
        if lost is not None:
            raise CommitConflict(self._said_of(lost) + " Nothing is committed. Write the rows, or do it, again.")

    def take_back_if_lost(self, snapshot: Snapshot) -> None:
        """The same after the commit, in case the process slept in the moment between: it is taken back then."""
        try:
            lost = self._lost(snapshot)
            if lost is None:
                return
            back = take_back(self._store, snapshot, self._latest)
            newest = self._store.snapshots.find(snapshot.id + 1)
            is_back = back is not None or (newest is not None and newest.takes_back(snapshot))
        except (StorageError, OSError) as error:
            raise CommitOutcomeUnknown(
                f"{self._store.identifier}: snapshot {snapshot.id} has landed after so long that its files may have been taken "
                f"for orphans, and that could not be looked at, or not be taken back ({error}). If it cannot be read, roll back "
                f"to {snapshot.id - 1} and write the rows again."
            ) from error
        if not is_back:
            raise CommitOutcomeUnknown(
                f"{self._said_of(lost)} Others have committed on top of its snapshot {snapshot.id} since: look at the table "
                f"with `check`, and roll back to {snapshot.id - 1}."
            )
        raise TakenBack(self._said_of(lost) + " The commit is taken back. Write the rows, or do it, again.")

    def _said_of(self, lost: str) -> str:
        return f"{self._store.identifier}: the commit took so long that its files count as orphans ({lost})."

    def _lost(self, snapshot: Snapshot | None = None) -> str | None:
        """What has become, or may become, of a file that orphan cleaning does not spare; None if there is none. `snapshot`:
        what needs them by now.
        """
        store, change = self._store, self._change
        if change.held is not None and not change.held():
            return "what it adds again is not held any more"
        # What the snapshot below holds under another level is needed until this one is there.
        kept = {entry.file.name for entry in change.deleted}
        own = {
            f"{store.bucket_directory(entry.place)}/{entry.file.name}": entry.file.creation_time_local_ms
            for entry in (*change.added, *change.changelog)
            if not entry.file.external_path and entry.file.name not in kept
        }
        if change.own is not None:
            written = {*change.own, *change.numbers.written, *change.index.written}
            own = {path: time_ms for path, time_ms in own.items() if path in written}
        if not self._is_late(own.values()):
            return None
        names = [*self._list_names, *self._manifest_names]
        indexes = [store.paths.index(name) for name in self._index_names]
        return first_lost(store, [*own, *(store.paths.manifest(name) for name in names), *indexes], snapshot)

    def _is_late(self, created_ms: Iterable[int | None]) -> bool:
        """Whether orphan cleaning may have come since the first file was written; files of other writers tell local times."""
        offset_ms = (time.localtime().tm_gmtoff or 0) * 1000
        created = earliest(created_ms)
        begun = [self.begun_ms, self._change.begun_ms, None if created is None else created - offset_ms]
        return is_late(self._store.clock, earliest(begun) or 0)

    def clean_up(self) -> None:
        """Delete the metadata of an attempt that did not become a snapshot."""
        paths = self._store.paths
        written = [paths.manifest(name) for name in self._list_names + self._manifest_names]
        self._store.file_io.delete_quietly([*written, *(paths.index(name) for name in self._index_names)])
        drop_tags(self._store, self._kept)

    def _check_newest_schema(self) -> None:
        """Rows that were hashed to another number of buckets than the table has by now would not be found, and nulls are not
        looked for in columns that have none.
        """
        store = self._store
        if not self._change.added:
            return
        # Versions have no gaps, so that one look tells whether there is a newer one.
        is_current = not store.file_io.exists(store.paths.schema(store.schema.id + 1))
        newest = store.schema if is_current else store.schemas.latest()
        assert newest is not None, "a version of a schema is never deleted"
        refuse_nulls(store, newest, self._change.added)
        if not self._change.adds_again and self._change.kind != COMPACT:
            refuse_replaced_columns(store, newest)
        if self._latest is None or is_current:
            return
        count = newest.table_options.bucket
        if count != POSTPONED_BUCKET and any(one.total_buckets not in (count, -1) for one in self._change.added):
            raise CommitConflict(
                f"{store.identifier} has {count} buckets since its schema {newest.id}, the rows were written for "
                f"{store.options.bucket}. Open the table again and repeat the write."
            )

    def _has_deleted(self, manifests: Sequence[ManifestFile], added: set[tuple[object, ...]]) -> bool:
        """Whether manifests say of files to be added that they were deleted: other readers do not ask which came last."""
        read = self._store.manifests.read
        return any(
            entry.kind != ADD and entry.identity in added for manifest in manifests for entry in read(manifest.name)
        )

    def _live(self) -> list[ManifestEntry]:
        if self._latest is None:
            return []
        return live_files(self._store.manifests_of(self._latest), self._store.manifests.read)

    def _write_manifest(self, entries: Sequence[ManifestEntry], schema_id: int) -> ManifestFile:
        return self._store.manifests.write(self._next_manifest(), entries, self._store.partition_types, schema_id)

    def _next_manifest(self) -> str:
        name = f"manifest-{self._unique}-{len(self._manifest_names)}"
        self._manifest_names.append(name)
        return name

    def _write_list(self, manifests: Sequence[ManifestFile]) -> tuple[str, int]:
        name = f"manifest-list-{self._unique}-{len(self._list_names)}"
        self._list_names.append(name)
        return name, self._store.manifests.write_list(name, manifests)
