"""One try to put a change on top of the newest snapshot: all metadata but the snapshot file, and what takes it away again.

Follows `docs/format.md`, "Commit protocol".
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..errors import CommitConflict, CommitOutcomeUnknown, StorageError, TakenBack
from ..lazy import lazy_property
from ..log.publish import end_of_log
from ..metadata.index_manifest import refuse_index, write_index_manifest
from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, POSTPONED_BUCKET, ManifestEntry, ManifestFile
from ..metadata.manifest_columns import KeepPlace
from ..metadata.snapshot import APPEND, COMPACT, FOLLOWS_PROPERTY, OVERWRITE, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..version import VERSION
from .brought_back import drop_tags, keep_brought_back
from .commit_id import CommitId
from .commit_time import CommitTime, commit_time, is_late
from .conflicts import check_conflicts
from .key_index import KeyIndex
from .lost_to_cleaning import first_lost
from .manifest_merge import merge_manifests
from .newer_columns import refuse_lost_columns, refuse_replaced_columns
from .overwrite import Overwrite
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


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit changes, whatever it is put on top of: see `TableCommit.commit`."""

    messages: Sequence[CommitMessage]
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
    held: Held | None
    # The file of the table's statistics; None leaves those that there are.
    statistics: str | None
    index: KeyIndex
    vectors: Sequence[GivenVector]
    back_to: Snapshot | int

    @property
    def begun_ms(self) -> int | None:
        """When the first of its writers began; None if that is not known."""
        return earliest(message.begun_ms for message in self.messages)

    @property
    def marked(self) -> list[MarkedFile]:
        """The files in which its writers have marked rows as deleted."""
        return [marked for message in self.messages for marked in message.marked]

    @property
    def paths(self) -> list[str]:
        """The paths of the files that its writers have written."""
        return [path for message in self.messages for path in message.paths]


class Attempt:
    """One try to put a change on top of the latest snapshot."""

    def __init__(self, store: TableStore, commit_id: CommitId, change: Change, latest: Snapshot | None) -> None:
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
        deletes = self._deletes()
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
            self._check_conflicts(delta)
        if change.adds_again:
            self._kept = keep_brought_back(store, latest, change.added, change.back_to)
        # Asked of each try: nobody can have sent anything of this snapshot yet.
        log_offsets = end_of_log(store)
        base_name, base_size = self._write_list(self._base())
        schema_id = store.schema.id if latest is None else max(store.schema.id, latest.schema_id)
        delta_name, delta_size = self._write_list([self._write_manifest(delta, schema_id)] if delta else [])
        changelog_name, changelog_size = None, None
        if change.changelog:
            changelog_name, changelog_size = self._write_list([self._write_manifest(change.changelog, schema_id)])
        delta_rows = _row_count(change.added) - _row_count(deletes)
        moment = self._moment()
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
            commit_kind=self._kind(is_empty=is_empty, takes_away=bool(deletes or marks)),
            time_ms=moment.time_ms,
            log_offsets=log_offsets,
            total_record_count=(latest.total_record_count if latest else 0) + delta_rows,
            delta_record_count=delta_rows,
            changelog_record_count=_row_count(change.changelog) if change.changelog else None,
            watermark=self._watermark(),
            statistics=self._statistics(schema_id),
            properties=moment.with_properties(self._properties()) or None,
            next_row_id=latest.next_row_id if latest else 0,
            operation=change.operation,
        )

    def _beside(self, delta: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """The live files of the partitions of some entries."""
        partitions = {entry.partition for entry in delta}
        return self._live(lambda place: place.partition in partitions)

    def _deletes(self) -> list[ManifestEntry]:
        """The entries that take files away: those of the change, and what it overwrites."""
        overwrite, deletes = self._change.overwrite, [entry.deleted() for entry in self._change.deleted]
        if overwrite is not None and self._latest is not None:
            covered = self._live(lambda place: overwrite.covers(self._store, place.partition))
            deletes += [entry.deleted() for entry in covered]
        return deletes

    def _check_conflicts(self, delta: Sequence[ManifestEntry]) -> None:
        partitions = {entry.partition for entry in delta}
        live = self._live(lambda place: place.partition in partitions)
        check_conflicts(live, delta, self._store.key_types, rescales=self._change.overwrite is not None)

    def _base(self) -> list[ManifestFile]:
        """The manifests of the latest snapshot, merged where there are many small ones."""
        store, change, latest = self._store, self._change, self._latest
        if latest is None:
            return []
        manifests = store.manifests_of(latest)
        write_anew = change.adds_again and self._has_deleted(manifests, {entry.identity for entry in change.added})
        return merge_manifests(store, manifests, latest.schema_id, self._next_manifest, everything=write_anew)

    def _moment(self) -> CommitTime:
        """The time of the snapshot, which is logged if this clock is behind the latest one."""
        moment = commit_time(self._store.clock.now_ms(), self._latest, self._id.not_before_ms)
        if moment.behind_ms:
            message = "%s: this clock is %s ms behind, the commit gets a later time"
            _log.info(message, self._store.identifier, moment.behind_ms)
        return moment

    def _kind(self, *, is_empty: bool, takes_away: bool) -> str:
        """The kind of the snapshot."""
        change = self._change
        if is_empty and change.statistics is None:
            return COMPACT
        return change.kind or (OVERWRITE if change.overwrite is not None or takes_away else APPEND)

    def _watermark(self) -> int | None:
        """The later of the change's watermark and the latest snapshot's."""
        known = (self._change.watermark, self._latest.watermark if self._latest else None)
        return max((value for value in known if value is not None), default=None)

    def _statistics(self, schema_id: int) -> str | None:
        """The file of the table's statistics: those that there are stay as long as the schema does."""
        latest = self._latest
        kept = latest.statistics if latest is not None and latest.schema_id == schema_id else None
        return self._change.statistics or kept

    def _properties(self) -> dict[str, str]:
        """The properties of the change, and which snapshot it follows."""
        follows = {} if self._latest is None else {FOLLOWS_PROPERTY: self._latest.identity}
        return {**self._change.properties, **follows}

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
        if not self._is_late(self._data_files.values()):
            return None
        return first_lost(store, self.files(), snapshot)

    def files(self) -> list[str]:
        """The paths of all files that were written for the snapshot that `prepare` has made, and lie in the table's directory."""
        return [*self._data_files, *self._metadata_files()]

    @lazy_property
    def _data_files(self) -> dict[str, int | None]:
        """The data files among them by path, and when each was written, in milliseconds of local time."""
        store, change = self._store, self._change
        # What the snapshot below holds under another level is needed until this one is there.
        kept = {entry.file.name for entry in change.deleted}
        own = {
            f"{store.bucket_directory(entry.place)}/{entry.file.name}": entry.file.creation_time_local_ms
            for entry in (*change.added, *change.changelog)
            if not entry.file.external_path and entry.file.name not in kept
        }
        if change.adds_again:
            # Files of others may be among those that it adds.
            written = {*change.paths, *change.numbers.written, *change.index.written}
            own = {path: time_ms for path, time_ms in own.items() if path in written}
        return own

    def _metadata_files(self) -> list[str]:
        paths = self._store.paths
        manifests = [paths.manifest(name) for name in (*self._list_names, *self._manifest_names)]
        return [*manifests, *(paths.index(name) for name in self._index_names)]

    def _is_late(self, created_ms: Iterable[int | None]) -> bool:
        """Whether orphan cleaning may have come since the first file was written; files of other writers tell local times."""
        offset_ms = (time.localtime().tm_gmtoff or 0) * 1000
        created = earliest(created_ms)
        begun = [self.begun_ms, self._change.begun_ms, None if created is None else created - offset_ms]
        return is_late(self._store.clock, earliest(begun) or 0)

    def clean_up(self) -> None:
        """Delete the metadata of an attempt that did not become a snapshot."""
        self._store.file_io.delete_quietly(self._metadata_files())
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
        if count != POSTPONED_BUCKET and any(each.total_buckets not in (count, -1) for each in self._change.added):
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

    def _live(self, keep: KeepPlace | None = None) -> list[ManifestEntry]:
        if self._latest is None:
            return []
        return live_files(self._store.manifests_of(self._latest), self._store.manifests, keep)

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


def _row_count(entries: Iterable[ManifestEntry]) -> int:
    return sum(entry.file.row_count for entry in entries)
