"""Walk a table and report every invariant that does not hold: what must be true of metadata, files and rows.

Reads every snapshot and tag of every branch. `deep` opens the data files as well. Changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa

from ..errors import StorageError
from ..format.binary_row import encode
from ..lsm.key_order import ranks
from ..lsm.system_columns import DELETE, SEQUENCE_NUMBER, UPDATE_BEFORE, VALUE_KIND
from ..metadata.live_files import live_files
from ..metadata.manifest import ManifestEntry, ManifestFile
from ..metadata.schema import KEY_PREFIX
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.time_order import rising_since
from ..metadata.trouble import Trouble
from ..read.split_read import ReadRequest, read_file
from ..read.version import all_branches
from ..values import from_arrow


@dataclass(frozen=True, slots=True, order=True)
class BrokenInvariant:
    """Something that must be true and is not."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class FailedWork(BrokenInvariant):
    """Not broken: work that follows commits and has failed. The rows are all there."""

    @classmethod
    def of(cls, store: TableStore, trouble: Trouble) -> "FailedWork":
        return cls(str(store.identifier), str(trouble))


def check_table(store: TableStore, *, deep: bool = False) -> list[BrokenInvariant]:
    """Every broken invariant of a table with all of its branches, each once, in order, then the work after commits that
    has failed (FailedWork); empty if it is sound and there is none.
    """
    found: set[BrokenInvariant] = set()
    failed: list[BrokenInvariant] = []
    for branch in all_branches(store):
        found |= set(_BranchCheck(branch, deep=deep).run())
        failed += [FailedWork.of(branch, trouble) for trouble in branch.troubles.all()]
    return sorted(found) + failed


class _BranchCheck:
    def __init__(self, store: TableStore, *, deep: bool) -> None:
        self._store = store
        self._deep = deep
        self._sizes: dict[str, dict[str, int]] = {}
        self._seen_files: set[str] = set()

    def run(self) -> Iterator[BrokenInvariant]:
        store = self._store
        ids = store.snapshots.ids()
        for before, after in pairwise(store.snapshots.listed_ids()):
            if after != before + 1:
                yield self._broken("snapshots", f"there is a gap between {before} and {after}")
        previous: Snapshot | None = None
        for snapshot_id in ids:
            where = f"snapshot {snapshot_id}"
            try:
                snapshot = store.snapshots.get(snapshot_id)
                if snapshot.id != snapshot_id:
                    yield self._broken(where, f"the file says it is snapshot {snapshot.id}")
                yield from self._snapshot(where, snapshot, previous)
                previous = snapshot
            except (StorageError, OSError) as error:
                yield self._broken(where, str(error))
                previous = None
        for name in store.tags.names():
            try:
                tag = store.tags.get(name)
                yield from self._snapshot(f"tag {name}", tag.snapshot, None)
            except (StorageError, OSError) as error:
                yield self._broken(f"tag {name}", str(error))

    def _broken(self, where: str, what: str) -> BrokenInvariant:
        return BrokenInvariant(f"{self._store.identifier} {where}", what)

    def _snapshot(self, where: str, snapshot: Snapshot, previous: Snapshot | None) -> Iterator[BrokenInvariant]:
        store = self._store
        store.schemas.get(snapshot.schema_id)
        lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list]
        sizes = [
            snapshot.base_manifest_list_size, snapshot.delta_manifest_list_size, snapshot.changelog_manifest_list_size
        ]  # fmt: skip
        for name, size in zip(lists, sizes, strict=True):
            if name is not None:
                yield from self._file(where, store.paths.manifest(name), size)
                for manifest in store.manifests.read_list(name):
                    yield from self._manifest(where, manifest)
        entries = live_files(store.manifests_of(snapshot), store.manifests.read)
        count = sum(entry.file.row_count for entry in entries)
        if count != snapshot.total_record_count:
            yield self._broken(where, f"totalRecordCount is {snapshot.total_record_count}, its files hold {count} rows")
        if previous is not None and snapshot.id == previous.id + 1:
            grown = previous.total_record_count + snapshot.delta_record_count
            if grown != snapshot.total_record_count:
                yield self._broken(
                    where,
                    f"totalRecordCount is {snapshot.total_record_count}, but {previous.total_record_count} before and "
                    f"{snapshot.delta_record_count} more make {grown}",
                )
            if snapshot.time_ms < previous.time_ms and rising_since(snapshot) != snapshot.id:
                yield self._broken(where, f"it is older ({snapshot.time_ms}) than the one before ({previous.time_ms})")
        yield from self._places(where, entries)
        if snapshot.changelog_manifest_list is not None:
            for listed in store.manifests.read_list(snapshot.changelog_manifest_list):
                for entry in store.manifests.read(listed.name):
                    yield from self._data_file(where, entry, is_changelog=True)

    def _manifest(self, where: str, manifest: ManifestFile) -> Iterator[BrokenInvariant]:
        store = self._store
        path = store.paths.manifest(manifest.name)
        yield from self._file(where, path, manifest.size_bytes)
        entries = store.manifests.read(manifest.name)
        counts = (sum(entry.kind == 0 for entry in entries), sum(entry.kind == 1 for entry in entries))
        if counts != (manifest.added_file_count, manifest.deleted_file_count):
            yield self._broken(
                where,
                f"manifest {manifest.name} holds {counts[0]} adds and {counts[1]} deletes, its list says "
                f"{manifest.added_file_count} and {manifest.deleted_file_count}",
            )

    def _file(self, where: str, path: str, size_bytes: int | None) -> Iterator[BrokenInvariant]:
        directory, _, name = path.rpartition("/")
        if directory not in self._sizes:
            self._sizes[directory] = {one.name: one.size_bytes for one in self._store.file_io.list_files(directory)}
        found = self._sizes[directory].get(name)
        if found is None:
            yield self._broken(where, f"file {path} is missing")
        elif size_bytes is not None and found != size_bytes:
            yield self._broken(where, f"file {path} has {found} bytes instead of {size_bytes}")

    def _places(self, where: str, entries: list[ManifestEntry]) -> Iterator[BrokenInvariant]:
        store = self._store
        counts: dict[bytes, set[int]] = {}
        for entry in entries:
            counts.setdefault(entry.partition, set()).add(entry.total_buckets)
        for partition, numbers in counts.items():
            if len(numbers) > 1:
                yield self._broken(
                    where, f"files of partition {store.partition_path(partition)!r} have {sorted(numbers)} buckets"
                )

        def place(entry: ManifestEntry) -> tuple[bytes, int, int]:
            return entry.partition, entry.bucket, entry.file.level

        for (_, bucket, level), group in groupby(sorted(entries, key=place), place):
            together = list(group)
            for entry in together:
                yield from self._data_file(where, entry, is_changelog=False)
            if level and store.key_types:
                ranges = sorted((*store.key_range(one.file), one.file.name) for one in together)
                for (_, high, name), (low, _, other) in pairwise(ranges):
                    if low <= high:
                        yield self._broken(where, f"{name} and {other} overlap on level {level} of bucket {bucket}")

    def _data_file(self, where: str, entry: ManifestEntry, *, is_changelog: bool) -> Iterator[BrokenInvariant]:
        directory = self._store.bucket_directory(entry.place)
        file = entry.file
        if file.external_path is None:
            missing = list(self._file(where, f"{directory}/{file.name}", file.size_bytes))
            yield from missing
            if missing:
                return
        key = f"{directory}/{file.name}"
        if self._deep and self._store.schema.primary_keys and key not in self._seen_files:
            self._seen_files.add(key)
            try:
                yield from self._rows(where, entry, directory, is_changelog=is_changelog)
            except (StorageError, OSError, pa.ArrowException) as error:
                yield self._broken(where, f"data file {file.name} cannot be read: {error}")

    def _rows(
        self, where: str, entry: ManifestEntry, directory: str, *, is_changelog: bool
    ) -> Iterator[BrokenInvariant]:
        store, file = self._store, entry.file
        keys = store.schema.fields_named(store.schema.trimmed_primary_keys)
        request = ReadRequest(store, tuple(store.schema.trimmed_primary_keys), None)
        batches = list(read_file(request, entry.partition, directory, file))
        rows = sum(batch.num_rows for batch in batches)
        if rows != file.row_count:
            yield self._broken(where, f"data file {file.name} holds {rows} rows instead of {file.row_count}")
        if not rows:
            return
        table = pa.Table.from_batches(batches).combine_chunks()
        columns = [ranks(table.column(f"{KEY_PREFIX}{one.name}")) for one in keys]
        order = np.lexsort(tuple(reversed(columns)))
        if not (order == np.arange(rows)).all():
            yield self._broken(where, f"data file {file.name} is not sorted by its key")
        same = np.ones(rows - 1, bool)
        for column in columns:
            same &= column[1:] == column[:-1]
        if same.any() and not is_changelog:
            yield self._broken(where, f"data file {file.name} holds a key more than once")
        for number, recorded, what in ((0, file.min_key, "first"), (rows - 1, file.max_key, "last")):
            values = [from_arrow(table.column(f"{KEY_PREFIX}{one.name}").slice(number, 1), one.type)[0] for one in keys]
            if encode([one.type for one in keys], values) != recorded:
                yield self._broken(where, f"the {what} key of data file {file.name} is not the one in its manifest")
        sequence = table.column(SEQUENCE_NUMBER).to_numpy()
        if (int(sequence.min()), int(sequence.max())) != (file.min_sequence_number, file.max_sequence_number):
            yield self._broken(where, f"sequence numbers of data file {file.name} are not those in its manifest")
        kinds = table.column(VALUE_KIND).to_numpy()
        deletes = int(np.isin(kinds, (UPDATE_BEFORE, DELETE)).sum())
        if file.delete_row_count is not None and deletes != file.delete_row_count:
            yield self._broken(
                where, f"data file {file.name} holds {deletes} deletes, its manifest says {file.delete_row_count}"
            )
