"""Walk a table and report every invariant that does not hold: what must be true of metadata, files and rows.

Reads every file of metadata of every branch, from disk. `deep` opens every data file as well, of whatever kind of table,
and reads all of it. A file that is damaged is a line of the result, and not the end of the walk. Changes nothing.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any, TypeVar

import pyarrow as pa

from ..errors import CorruptData, NotFound, StorageError
from ..format.named_checksum import check_named
from ..iceberg.lag import lag_of
from ..identifier import MAIN_BRANCH, Identifier
from ..log.publish import unsent
from ..metadata.branch_origin import read_origin
from ..metadata.change_tracking import untracked_partitions
from ..metadata.former_names import former_names
from ..metadata.history import REVERTED_PROPERTY, ROLLED_BACK_PROPERTY
from ..metadata.index_manifest import DELETION_VECTORS, read_index_manifest
from ..metadata.live_files import live_entries
from ..metadata.main_branch import find_main
from ..metadata.manifest import POSTPONED_BUCKET, ManifestEntry, ManifestFile, Place
from ..metadata.manifest_files import ManifestFiles
from ..metadata.snapshot import Snapshot
from ..metadata.table_statistics import read_statistics
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..metadata.time_order import rising_since
from ..option_checks import refuse_unsupported
from ..paths import TablePaths
from ..progress import progress_of_each
from ..read.file_indexes import FileIndexes
from ..read.split_read import read_whole_file
from ..read.version import branch_names, on_branch
from ..write.close import decided, decisions
from ..write.taken_from import reaches
from ..write.taken_over import ids_taken_over, marks_of, taken_newest
from .check_buckets import broken_index
from .check_merged import unreadable_buckets
from .check_rows import broken_rows
from .findings import BrokenInvariant, FailedWork, KeptAside, Report, Unfinished, once
from .lost_schema import refuse_lost_branches
from .outdated import misread_by_java
from .stand_in import kept_aside
from .tagging import ahead_by_name, is_ahead, made_too_early
from .unfinished import unfinished
from .unmergeable import unmergeable_rows

_LONGEST_HINT = 30
_T = TypeVar("_T")


def check_table(store: TableStore, *, deep: bool = False) -> list[BrokenInvariant]:
    """Every broken invariant of a table with all of its branches, each once, in order, then the work after commits that
    has failed (FailedWork), what is not done (Unfinished) and the damaged files that were set aside (KeptAside); empty if it
    is sound and there is none.

    What is found is looked for again: what others did meanwhile is not broken. Raises NotFound if the table has gone.
    """
    broken, failed = _look(store, deep=deep)
    if broken:
        again, failed = _look(store, deep=deep)
        broken &= again
    # A damaged schema is in what was found.
    with suppress(CorruptData):
        store.refuse_other_table()
    return once(broken) + failed


def _look(store: TableStore, *, deep: bool) -> tuple[set[BrokenInvariant], list[BrokenInvariant]]:
    """What is broken, and which work has failed."""
    report = Report(str(store.identifier))
    failed: list[BrokenInvariant] = []
    seen: set[str] = set()
    report.attempt("former names", lambda: former_names(store.file_io, store.paths.root))
    main = report.attempt("main branch", lambda: find_main(store.file_io, store.paths.root))
    names = report.attempt("branches", lambda: branch_names(store)) if main else None
    for path in report.attempt("closings", lambda: decisions(store)) or ():
        report.attempt("closings", lambda: decided(store, path))  # noqa: B023
    report.attempt("cleanings", lambda: _cleanings(store))
    report.attempt("branches", lambda: refuse_lost_branches(store.file_io, store.paths.root))
    for paths, branch in [(main or store.paths, MAIN_BRANCH), *((None, name) for name in names or ())]:
        identifier = Identifier(store.identifier.database, store.identifier.table, branch)
        own = Report(str(identifier))
        opened = own.attempt("schema", lambda: _open(store, identifier, paths))  # noqa: B023
        if opened is not None and own.attempt("options", lambda: _is_read_here(opened)):  # noqa: B023
            _BranchCheck(opened, own, seen, deep=deep).run()
            failed += _failed_work(opened, own)
            with suppress(StorageError):
                # What cannot be read is reported as such.
                failed += [Unfinished.of(opened, what) for what in unfinished(opened)]
                lag = lag_of(opened)
                failed += [] if lag is None else [Unfinished.of(opened, lag)]
            failed += map(KeptAside.of, kept_aside(opened))
        report.found |= own.found
    return report.found, failed


def _is_read_here(store: TableStore) -> bool:
    """True. Raises Unsupported for a table whose files lie, or count, in ways not known here: they would seem missing."""
    refuse_unsupported(store.schema.options, str(store.identifier), for_writing=False)
    return True


def _cleanings(store: TableStore) -> None:
    """Raise CorruptData for a file of an orphan cleaning that makes no sense."""
    for path in store.cleanings.paths():
        try:
            store.cleanings.read(path)
        except CorruptData as error:
            raise CorruptData(
                f"{error} Writers who are late are refused; delete it while nobody cleans the table."
            ) from None


def _failed_work(store: TableStore, report: "Report") -> Iterator[BrokenInvariant]:
    behind = report.attempt("log", lambda: unsent(store))
    if behind:
        yield FailedWork(str(store.identifier), behind)
    for name in report.attempt("failed work", store.troubles.names) or ():
        trouble = report.attempt(f"failed work {name}", lambda: store.troubles.read(name))  # noqa: B023
        if trouble is not None:
            yield FailedWork.of(store, trouble)


def _open(store: TableStore, identifier: Identifier, paths: TablePaths | None) -> TableStore:
    """A branch as a process finds it that knows nothing of it yet."""
    return TableStore(
        store.file_io,
        store.paths.root,
        identifier,
        clock=store.clock,
        paths=paths or TablePaths(store.paths.root, identifier.branch),
    )


class _BranchCheck:
    def __init__(self, store: TableStore, report: Report, seen: set[str], *, deep: bool) -> None:
        self._store = store
        self._manifests = ManifestFiles(store.file_io, store.paths, "zstd", from_disk=True)
        self._report = report
        self._deep = deep
        self._sizes: dict[str, dict[str, int]] = {}
        self._seen_files = seen
        self._read: dict[str, tuple[Any, ...] | None] = {}
        self._ahead_by_name: frozenset[str] = frozenset()
        self._history: list[Snapshot] = []

    def run(self) -> None:
        store, attempt = self._store, self._report.attempt
        for schema_id in store.schemas.ids():
            attempt(f"schema {schema_id}", lambda: store.schemas.get(schema_id))  # noqa: B023
        attempt("origin", lambda: read_origin(store.file_io, store.paths))
        for directory in (store.paths.snapshot_directory, store.paths.changelog_directory):
            for hint in ("EARLIEST", "LATEST"):
                attempt(f"hint {hint}", lambda: self._hint(f"{directory}/{hint}"))  # noqa: B023
        attempt("EXPIRING", self._expiring)
        attempt("consumers", self._consumers)
        for name in attempt("commit ids", store.committed.names) or ():
            attempt(f"commit ids {name}", lambda: store.committed.read(name))  # noqa: B023
        attempt("snapshots", self._snapshots)
        self._ahead_by_name = frozenset(attempt("tags", lambda: ahead_by_name(store)) or ())
        attempt("tags", self._early_tags)
        for name in attempt("tags", store.tags.names) or ():
            tag = attempt(f"tag {name}", lambda: store.tags.get(name))  # noqa: B023
            if tag is not None:
                where = f"tag {name}"
                attempt(where, lambda: self._tag_time(where, tag))  # noqa: B023
                attempt(where, lambda: self._snapshot(where, self._tagged(tag), None))  # noqa: B023
        for number in attempt("changelogs", store.changelogs.ids) or ():
            where = f"changelog {number}"
            kept = attempt(where, lambda: store.changelogs.find(number))  # noqa: B023
            if kept is not None:
                attempt(where, lambda: self._changelog(where, kept))  # noqa: B023

    def _hint(self, path: str) -> None:
        # An empty one is what a disk leaves that was full when the file was made: it says nothing.
        text = self._store.file_io.read_text_or_none(path) or None
        if text is not None and not (text.strip().isascii() and text.strip().isdigit()):
            raise CorruptData(f"File {path} is damaged: it holds no number. It is not believed, and written anew.")
        newest = self._store.snapshots.latest_id() or 0
        if text is not None and path != self._store.paths.expiring and int(text.strip()[:_LONGEST_HINT]) > newest:
            raise CorruptData(
                f"File {path} is damaged: it says {text.strip()[:_LONGEST_HINT]}, and the newest snapshot is {newest}. It is not "
                "believed; delete it."
            )

    def _expiring(self) -> None:
        store = self._store
        self._hint(store.paths.expiring)
        until, newest = store.consumers.expiring_below(), store.snapshots.latest_id() or 0
        if until > newest + 1:
            self._broken(
                f"file {store.paths.expiring}",
                f"it says that snapshots below {until} expire, the newest is {newest}: consumers are refused. Delete it while "
                "nobody expires snapshots",
            )

    def _consumers(self) -> None:
        store = self._store
        for file in store.file_io.list_files(store.paths.consumer_directory, or_in_place=True):
            if file.name.startswith("consumer-"):
                name = file.name.removeprefix("consumer-")
                self._report.attempt(f"consumer {name}", lambda: store.consumers.find(name))  # noqa: B023

    def _snapshots(self) -> None:
        store = self._store
        ids = store.snapshots.ids()
        read = {
            number: self._report.attempt(f"snapshot {number}", lambda: store.snapshots.get(number))  # noqa: B023
            for number in ids
        }
        self._history = [snapshot for snapshot in read.values() if snapshot is not None]
        # Below the earliest lies what writers who died had created at numbers that had expired: cleaning takes it away.
        earliest = store.file_io.read_number(f"{store.paths.snapshot_directory}/EARLIEST") or 0
        for before, after in pairwise(store.snapshots.listed_ids()):
            if after != before + 1 and after > earliest:
                self._broken("snapshots", f"there is a gap between {before} and {after}")
        previous: Snapshot | None = None
        for snapshot_id, snapshot in progress_of_each(read.items(), str(store.identifier), "snapshots checked"):
            if snapshot is None:
                previous = None
                continue
            where = f"snapshot {snapshot_id}"
            if snapshot.id != snapshot_id:
                self._broken(where, f"the file says it is snapshot {snapshot.id}")
            last = previous
            previous = snapshot
            above = read.get(snapshot_id + 1)
            if above is not None and above.takes_back(snapshot):
                # Its files are not there, and nobody needs them.
                continue
            self._report.attempt(where, lambda: self._snapshot(where, snapshot, last))  # noqa: B023

    def _broken(self, where: str, what: str) -> None:
        self._report.add(where, what)

    def _tag_time(self, where: str, tag: Tag) -> None:
        created, retained = tag.create_time, tag.time_retained_seconds
        ahead = is_ahead(self._store, created) or tag.name in self._ahead_by_name
        if ahead and (retained is not None or tag.name in self._ahead_by_name):
            self._broken(
                where,
                "a clock that was ahead has made it: its age counts from when its file was written, and it goes before others "
                "if there are more than tag.num-retained-max",
            )

    def _early_tags(self) -> None:
        store = self._store
        for name, snapshot in made_too_early(store, self._history).items():
            again = (
                f"{shlex.quote(str(store.identifier))} --name {shlex.quote(name)} --snapshot {snapshot.id} --replace"
            )
            self._broken(
                f"tag {name}",
                "a clock that was ahead has made it before its period was over: it lacks what came since. Once that is over, let "
                f"it name the last snapshot from before its end, which is {snapshot.id} by now: snapline create-tag {again}",
            )

    def _tagged(self, tag: Tag) -> Snapshot:
        """The snapshot of a tag, without a changelog that Paimon has let expire with the snapshot."""
        is_listed = self._store.snapshots.find(tag.snapshot.id) is not None
        return self._begun(tag.snapshot) if is_listed else self._untold(tag.snapshot)

    def _begun(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot; the one that a branch begins with is without a changelog that Paimon has let expire with the snapshot of
        which it was made.
        """
        branch, seen = self._store, {self._store.paths.branch}
        while (origin := read_origin(branch.file_io, branch.paths)) is not None and origin.snapshot_id == snapshot.id:
            try:
                branch = on_branch(branch, origin.branch)
            except NotFound:
                return self._untold(snapshot)
            if branch.paths.branch in seen or branch.snapshots.find(snapshot.id) is None:
                # One that has become main was made of a main that is no more.
                return self._untold(snapshot)
            seen.add(branch.paths.branch)
        is_java_s = origin is None and branch.paths.branch != MAIN_BRANCH
        if is_java_s and branch.snapshots.earliest_id() == snapshot.id:
            # Java's branches say nothing of where they come from: their first snapshot may be another branch's.
            return self._untold(snapshot)
        return snapshot

    def _untold(self, snapshot: Snapshot) -> Snapshot:
        name = snapshot.changelog_manifest_list
        is_there = name is None or self._store.file_io.exists(self._store.paths.manifest(name))
        return snapshot if is_there else replace(snapshot, changelog_manifest_list=None)

    def _snapshot(self, where: str, snapshot: Snapshot, previous: Snapshot | None) -> None:
        store = self._store
        self._report.attempt(where, lambda: store.schemas.get(snapshot.schema_id))
        for read_property in (ids_taken_over, marks_of, reaches, taken_newest, untracked_partitions):
            self._report.attempt(where, lambda: read_property(snapshot))  # noqa: B023
        for key in (ROLLED_BACK_PROPERTY, REVERTED_PROPERTY):
            self._report.attempt(where, lambda: snapshot.number(key))  # noqa: B023
        base = self._list(where, snapshot.base_manifest_list, snapshot.base_manifest_list_size)
        delta = self._list(where, snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        self._changelog(where, self._begun(snapshot))
        read = {each.name: self._manifest(where, each) for each in (*(base or ()), *(delta or ()))}
        self._in_time(where, snapshot, previous)
        if base is None or delta is None or None in read.values():
            # What is live cannot be told; the files that can be found are looked at.
            entries = [entry for each in read.values() for entry in each or () if entry.kind == 0]
        else:
            entries = live_entries(entry for each in (*base, *delta) for entry in read[each.name] or ())
            count = sum(entry.file.row_count for entry in entries)
            if count != snapshot.total_record_count:
                self._broken(where, f"totalRecordCount is {snapshot.total_record_count}, its files hold {count} rows")
            self._places(where, entries)
            self._indexes(where, snapshot, entries)
            self._buckets(where, snapshot, entries)
            if snapshot.id == store.snapshots.latest_id():
                for what in unreadable_buckets(store, snapshot) if self._deep else ():
                    self._broken(where, what)
                for entry, what in misread_by_java(store, entries):
                    self._broken(f"data file {entry.file.name}", what)
        self._each(entries, lambda entry: self._data_file(where, entry, is_changelog=False))
        if (name := snapshot.statistics) is not None:
            path = store.paths.statistics(name)
            is_sound = self._file(where, path, None)
            if self._first(path):
                self._attempt(where, is_sound, lambda: read_statistics(store, name))

    def _in_time(self, where: str, snapshot: Snapshot, previous: Snapshot | None) -> None:
        if previous is None or snapshot.id != previous.id + 1:
            return
        grown = previous.total_record_count + snapshot.delta_record_count
        if grown != snapshot.total_record_count:
            self._broken(
                where,
                f"totalRecordCount is {snapshot.total_record_count}, but {previous.total_record_count} before and "
                f"{snapshot.delta_record_count} more make {grown}",
            )
        if snapshot.time_ms < previous.time_ms and rising_since(snapshot) != snapshot.id:
            self._broken(where, f"it is older ({snapshot.time_ms}) than the one before ({previous.time_ms})")

    def _each(self, entries: Iterable[ManifestEntry], act: Callable[[ManifestEntry], None]) -> None:
        for entry in progress_of_each(entries, str(self._store.identifier), "files checked"):
            self._report.attempt(f"data file {entry.file.name}", lambda: act(entry))  # noqa: B023

    def _changelog(self, where: str, snapshot: Snapshot) -> None:
        name = snapshot.changelog_manifest_list
        listed = self._list(where, name, snapshot.changelog_manifest_list_size) if name is not None else None
        for each in listed or ():
            entries = self._manifest(where, each)
            self._each(entries or (), lambda entry: self._data_file(where, entry, is_changelog=True))

    def _first(self, path: str) -> bool:
        """Whether a file is looked at for the first time: many snapshots may have it."""
        is_first = path not in self._seen_files
        self._seen_files.add(path)
        return is_first

    def _list(self, where: str, name: str, size_bytes: int | None) -> tuple[ManifestFile, ...] | None:
        is_sound = self._file(where, self._store.paths.manifest(name), size_bytes)
        if name not in self._read:
            self._read[name] = self._attempt(where, is_sound, lambda: self._manifests.read_list(name))
        return self._read[name]

    def _manifest(self, where: str, manifest: ManifestFile) -> tuple[ManifestEntry, ...] | None:
        name = manifest.name
        is_sound = self._file(where, self._store.paths.manifest(name), manifest.size_bytes)
        if name not in self._read:
            self._read[name] = self._attempt(where, is_sound, lambda: self._manifests.read(name))
        entries = self._read[name]
        if entries is not None:
            counts = (sum(entry.kind == 0 for entry in entries), sum(entry.kind == 1 for entry in entries))
            if counts != (manifest.added_file_count, manifest.deleted_file_count):
                self._broken(
                    where,
                    f"manifest {name} holds {counts[0]} adds and {counts[1]} deletes, its list says "
                    f"{manifest.added_file_count} and {manifest.deleted_file_count}",
                )
        return entries

    def _attempt(self, where: str, is_sound: bool, read: Callable[[], _T]) -> _T | None:
        """What a file holds; None if it cannot be read, which is reported unless it was before, as missing or cut off."""
        return (self._report if is_sound else Report("")).attempt(where, read)

    def _file(self, where: str, path: str, size_bytes: int | None) -> bool:
        """Whether a file is there and has the size that is known of it; reported if not."""
        directory, _, name = path.rpartition("/")
        if directory not in self._sizes:
            self._sizes[directory] = {file.name: file.size_bytes for file in self._store.file_io.list_files(directory)}
        actual_bytes = self._sizes[directory].get(name)
        if actual_bytes is None:
            self._broken(where, f"file {path} is missing")
        elif size_bytes is not None and actual_bytes != size_bytes:
            self._broken(where, f"file {path} has {actual_bytes} bytes instead of {size_bytes}")
        else:
            return True
        return False

    def _indexes(self, where: str, snapshot: Snapshot, entries: list[ManifestEntry]) -> None:
        """Index files, and the deletion vectors in them: each is of rows that its file has."""
        store, name = self._store, snapshot.index_manifest
        if name is None:
            return
        is_sound = self._file(where, store.paths.manifest(name), None)
        named: set[str] = set()
        buckets: set[Place] = set()
        rows = {entry.file.name: entry.file.row_count for entry in entries}
        for index in self._attempt(where, is_sound, lambda: read_index_manifest(store, name)) or ():
            is_sound = self._file(where, index.path, index.size_bytes)
            if store.options.bucket > 0 and index.kind == DELETION_VECTORS:
                if index.place in buckets:
                    self._broken(where, f"bucket {index.place[1]} has several files of deletion vectors: {index.path}")
                buckets.add(index.place)
            if self._deep and is_sound and index.vectors:
                self._report.attempt(where, lambda: check_named(index.path, store.file_io.read_bytes(index.path)))  # noqa: B023
            for file, vector in index.vectors.items():
                # Of a file that is gone it deletes nothing: Java's full compaction leaves such ones.
                if file in rows and self._deep:
                    positions = self._attempt(where, is_sound, lambda: vector.read(store.file_io))  # noqa: B023
                    if positions is not None and len(positions) and positions[-1] >= rows[file]:
                        self._broken(where, f"a deletion vector of {index.path} deletes rows that {file} does not have")
                    elif positions is not None and vector.cardinality not in (None, len(positions)):
                        self._broken(
                            where,
                            f"a deletion vector of {index.path} deletes {len(positions)} rows of {file}, its manifest says "
                            f"{vector.cardinality}",
                        )
                if file in named:
                    self._broken(where, f"several deletion vectors are of {file}, one of them in {index.path}")
                named.add(file)

    def _buckets(self, where: str, snapshot: Snapshot, entries: list[ManifestEntry]) -> None:
        """The hash index of dynamic buckets; of the newest snapshot, that writers go by, also against the rows."""
        if self._store.schema.has_dynamic_buckets:
            is_newest = snapshot.id == self._store.snapshots.latest_id()
            for what in broken_index(self._store, snapshot, entries, deep=self._deep and is_newest):
                self._broken(where, what)

    def _places(self, where: str, entries: list[ManifestEntry]) -> None:
        store = self._store
        counts: dict[bytes, set[int]] = {}
        for entry in entries:
            if entry.bucket != POSTPONED_BUCKET:
                counts.setdefault(entry.partition, set()).add(entry.total_buckets)
        for partition, numbers in counts.items():
            if len(numbers) > 1:
                self._broken(
                    where, f"files of partition {store.shown_partition(partition)!r} have {sorted(numbers)} buckets"
                )

        def place(entry: ManifestEntry) -> tuple[bytes, int, int]:
            return entry.partition, entry.bucket, entry.file.level

        for (_, bucket, level), group in groupby(sorted(entries, key=place), place):
            if level and store.key_types:
                ranges = sorted((*store.key_range(entry.file), entry.file.name) for entry in group)
                for (_, high, name), (low, _, other) in pairwise(ranges):
                    if low <= high:
                        self._broken(where, f"{name} and {other} overlap on level {level} of bucket {bucket}")

    def _data_file(self, where: str, entry: ManifestEntry, *, is_changelog: bool) -> None:
        directory, file = self._store.bucket_directory(entry.place), entry.file
        path = self._store.data_path(directory, file)
        is_there = bool(file.external_path) or self._file(where, path, file.size_bytes)
        # Beside a file that lies elsewhere lies what belongs to it, and nobody here reads that.
        extras = () if file.external_path else file.extra_files
        missing = [extra for extra in extras if not self._file(where, f"{directory}/{extra}", None)]
        if is_there and not is_changelog and self._first(f"rows of {path}"):
            unmergeable = self._report.attempt(where, lambda: unmergeable_rows(self._store, entry, deep=self._deep))
            if unmergeable is not None:
                self._broken(where, unmergeable)
        if not self._deep or not is_there or not self._first(path):
            return
        if not missing:
            self._report.attempt(where, lambda: FileIndexes(self._store).refuse_damaged(file, directory))
        try:
            rows = read_whole_file(self._store, directory, file)
            if rows != file.row_count:
                self._broken(where, f"data file {file.name} holds {rows} rows instead of {file.row_count}")
            if rows and self._store.key_types:
                for what in broken_rows(self._store, entry, is_changelog=is_changelog):
                    self._broken(where, what)
        except (StorageError, OSError, pa.ArrowException) as error:
            self._broken(where, f"data file {file.name} cannot be read: {error}")
