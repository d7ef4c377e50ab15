"""The hash index of a commit to a table with dynamic buckets: what it becomes, and that no key is in two buckets.

Writers give new keys buckets by the index that they knew. Each attempt of a commit looks whether the index of their
partitions is still the same. Where it is not, or where two writers of one commit had the same key, the keys of the files to
be added are looked up in the index as it is now; rows of keys that others have put into another bucket are written anew,
into that one. Then the index files of the buckets that got new keys are written, with these. Commits that bring whole files
back (merges, rollbacks) get an index made of the keys of their partitions. Follows `docs/format.md`, "Dynamic buckets".
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..errors import CommitConflict, Unsupported
from ..format.binary_row import hash_rows
from ..format.open_data_file import open_reader
from ..lsm.key_buckets import KeyBuckets
from ..lsm.system_columns import SEQUENCE_NUMBER, VALUE_KIND
from ..metadata.hash_index import HashFile, by_partition, known_hashes, write_hashes
from ..metadata.index_manifest import HASH, IndexFile, index_files_of
from ..metadata.live_files import merge_entries
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.schema import KEY_PREFIX
from ..metadata.snapshot import COMPACT, Snapshot
from ..metadata.table_store import TableStore
from .data_file_sink import Bucket, DataFileSink
from .dynamic_buckets import buckets_held, names_of
from .table_write import CommitMessage

# Whether a commit replaces all rows of a partition.
Covers = Callable[[bytes], bool]


@dataclass(slots=True)
class _PartitionChange:
    """New keys of a partition, by bucket, given out by the index files of some names; None: they replace what is there."""

    base: dict[int, str] | None
    hashes: dict[int, np.ndarray] = field(default_factory=dict)


class KeyIndex:
    """What a commit does to the index. `added` and `changelog` are changed in place where rows go to other buckets."""

    def __init__(
        self,
        store: TableStore,
        messages: Sequence[CommitMessage],
        added: list[ManifestEntry],
        changelog: list[ManifestEntry],
        *,
        covers: Covers | None,
        kind: str | None,
        adds_again: bool,
    ) -> None:
        """`covers`: which partitions are replaced, of an overwrite; `adds_again`: files may have been in the table before."""
        self._store = store
        self._added = added
        self._changelog = changelog
        self._covers = covers or (lambda partition: False)
        # A compaction leaves each key in its bucket.
        self._is_of_keys = store.schema.has_dynamic_buckets and kind != COMPACT
        self._rebuilds = adds_again
        self._changes: dict[bytes, _PartitionChange] = {}
        self._unclear: set[bytes] = set()
        self._replaced: list[str] = []
        self._written: list[str] = []
        # The index manifest that was read last, and what it lists.
        self._known: tuple[str | None, list[IndexFile]] = (None, [])
        if self._is_of_keys and not adds_again:
            self._collect(messages)

    def _collect(self, messages: Sequence[CommitMessage]) -> None:
        parts: dict[bytes, dict[int, list[np.ndarray]]] = {}
        writers = Counter(keys.partition for message in messages for keys in message.new_keys)
        for message in messages:
            known = {keys.partition for keys in message.new_keys}
            self._unclear |= {entry.partition for entry in message.added} - known
            for keys in message.new_keys:
                change = self._changes.setdefault(keys.partition, _PartitionChange(keys.base))
                if change.base != keys.base:
                    self._unclear.add(keys.partition)
                for bucket, hashes in keys.hashes.items():
                    parts.setdefault(keys.partition, {}).setdefault(bucket, []).append(hashes)
        for partition, buckets in parts.items():
            given = {bucket: np.concatenate(several) for bucket, several in buckets.items()}
            self._changes[partition].hashes = given
            if writers[partition] > 1 and _has_one_twice(np.concatenate(list(given.values()))):
                # Two of them had the same key.
                self._unclear.add(partition)

    def settle(self, latest: Snapshot | None) -> bool:
        """See to it that each key is in the bucket that the index of a snapshot gives it; says whether rows have moved."""
        if not self._is_of_keys or self._rebuilds:
            return False
        files = by_partition(self.files_of(latest))
        moved = False
        for partition in sorted({*self._changes, *self._unclear}):
            replaced = self._covers(partition)
            held = {} if replaced else files.get(partition, {})
            change = self._changes.get(partition)
            is_same = change is not None and (replaced or change.base == names_of(held))
            if is_same and partition not in self._unclear:
                continue
            known = buckets_held(self._store, held)
            for entries, prefix in ((self._added, "data"), (self._changelog, "changelog")):
                moved = self._move(entries, prefix, partition, known) or moved
            self._changes[partition] = _PartitionChange(names_of(held), known.fresh)
            self._unclear.discard(partition)
        return moved

    def files_of(self, snapshot: Snapshot | None) -> list[IndexFile]:
        """The index files of all kinds of a snapshot, read once for all tries on top of it."""
        name = None if snapshot is None else snapshot.index_manifest
        if self._known[0] != name:
            self._known = (name, index_files_of(self._store, snapshot))
        return self._known[1]

    def _move(self, entries: list[ManifestEntry], prefix: str, partition: bytes, known: KeyBuckets) -> bool:
        """Write the files of a partition anew that hold keys of other buckets; says whether there are any."""
        moved = False
        result: list[ManifestEntry] = []
        for entry in entries:
            if entry.partition != partition:
                result.append(entry)
                continue
            buckets = known.claim(hashes_of(self._store, entry), entry.bucket)
            if (buckets == entry.bucket).all():
                result.append(entry)
                continue
            moved = True
            result += self._written_anew(entry, prefix, buckets)
            self._replaced.append(f"{self._store.bucket_directory(entry.place)}/{entry.file.name}")
        entries[:] = result
        return moved

    def _written_anew(self, entry: ManifestEntry, prefix: str, buckets: np.ndarray) -> list[ManifestEntry]:
        """The rows of a file as files of the buckets to which they belong."""
        store = self._store
        if entry.file.schema_id != store.schema.id:
            raise CommitConflict(
                f"{store.identifier}: other writers have put keys of these rows into other buckets, and the schema has changed. "
                "Open the table again and repeat the write."
            )
        if entry.file.level > 0 and store.options.told_level is not None:
            raise Unsupported(
                f"{store.identifier}: writers of one overwrite have rows of the same keys, and compactions tell of changes of "
                "this table. Give all rows of a key to one writer; with Spark, use write_frame, SQL or an asset."
            )
        rows = _stored_rows(store, entry, [SEQUENCE_NUMBER, VALUE_KIND, *store.schema.column_names])
        sequence = rows.column(SEQUENCE_NUMBER).to_numpy().astype(np.int64)
        kinds = rows.column(VALUE_KIND).to_numpy().astype(np.int8)
        values = rows.select(store.schema.column_names).cast(store.schema.to_arrow())
        sink = DataFileSink(store, f"{prefix}-{store.clock.unique_name()}")
        made: list[ManifestEntry] = []
        try:
            for bucket in np.unique(buckets).tolist():
                own = np.flatnonzero(buckets == bucket)
                place = Bucket(
                    entry.partition, bucket, entry.total_buckets, store.bucket_directory((entry.partition, bucket))
                )
                made += sink.write_run(place, values.take(pa.array(own)), sequence[own], kinds[own])
        finally:
            self._written += sink.paths
        return made

    @property
    def may_change(self) -> bool:
        """Whether the index files may become others."""
        return self._is_of_keys

    def write(
        self,
        files: list[IndexFile],
        live: Callable[[], Iterable[ManifestEntry]],
        delta: Sequence[ManifestEntry],
        next_index: Callable[[str], str],
    ) -> list[IndexFile]:
        """The index files after a commit, those of hashes written; the given list itself if they stay as they are.

        `files`: the index files of all kinds of the snapshot below, `live` its data files; `delta`: what comes and goes;
        `next_index` gives the names of the files that are written, which end as it is told.
        """
        if not self._is_of_keys:
            return files
        held = by_partition(files)
        touched = {entry.partition for entry in delta}
        if self._rebuilds:
            wanted = _rebuilt(self._store, touched, merge_entries([*live(), *delta])) if touched else {}
            dropped = {(partition, bucket) for partition in touched for bucket in held.get(partition, {})}
        else:
            wanted, dropped = self._extended(held)
        if not wanted and not dropped:
            return files
        gone = {*dropped, *wanted}
        kept = [file for file in files if file.kind != HASH or file.place not in gone]
        return kept + [write_hashes(self._store, place, next_index, hashes) for place, hashes in sorted(wanted.items())]

    def _extended(self, files: dict[bytes, dict[int, HashFile]]) -> tuple[dict[Place, np.ndarray], set[Place]]:
        """The hashes of the buckets that got new keys, and the buckets that are replaced."""
        dropped = {
            (partition, bucket) for partition, held in files.items() if self._covers(partition) for bucket in held
        }
        wanted: dict[Place, np.ndarray] = {}
        for partition, change in self._changes.items():
            for bucket, hashes in change.hashes.items():
                file = None if self._covers(partition) else files.get(partition, {}).get(bucket)
                held = [] if file is None else [known_hashes(self._store, file)]
                # In order, so that the next writer need not sort them.
                wanted[partition, bucket] = np.sort(np.concatenate([*held, hashes]), kind="stable")
        return wanted, dropped

    @property
    def names(self) -> list[str]:
        """The names of all data files that were written here."""
        return [path.rsplit("/", 1)[-1] for path in self._written]

    @property
    def written(self) -> list[str]:
        """The paths of all data files that were written here."""
        return list(self._written)

    def keep(self) -> None:
        """The commit has landed: delete the files that others were written for."""
        self._store.file_io.delete_quietly(self._replaced)

    def drop(self) -> None:
        """The commit has not landed and is not tried again: delete the files that were written here."""
        self._store.file_io.delete_quietly(self._written)


def _has_one_twice(hashes: np.ndarray) -> bool:
    ordered = np.sort(hashes)
    return bool((ordered[1:] == ordered[:-1]).any())


def _rebuilt(store: TableStore, partitions: set[bytes], live: Iterable[ManifestEntry]) -> dict[Place, np.ndarray]:
    """The hashes of each bucket of some partitions, as the keys of their files have them. Raises CommitConflict if a key would
    be in two buckets.
    """
    known: dict[bytes, KeyBuckets] = {}
    for entry in sorted(
        (entry for entry in live if entry.kind == ADD and entry.partition in partitions), key=lambda entry: entry.place
    ):
        index = known.setdefault(entry.partition, KeyBuckets())
        if (index.claim(hashes_of(store, entry), entry.bucket) != entry.bucket).any():
            raise CommitConflict(
                f"{store.identifier}: a key of {entry.file.name} would be in two buckets of partition "
                f"{store.shown_partition(entry.partition)!r}, for later commits have given it another one. Nothing is committed."
            )
    return {(partition, bucket): hashes for partition, index in known.items() for bucket, hashes in index.fresh.items()}


def hashes_of(store: TableStore, entry: ManifestEntry) -> np.ndarray:
    """The hash (int32) of the key of each row of a file."""
    types = store.key_types
    rows = _stored_rows(store, entry, ())
    columns = [column.cast(kind.to_arrow()) for column, kind in zip(rows.columns, types, strict=True)]
    return hash_rows([pa.concat_arrays(column.chunks) for column in columns], types)


def _stored_rows(store: TableStore, entry: ManifestEntry, columns: Sequence[str]) -> pa.Table:
    """Columns of the rows of a file as they are stored; without any, those of the key, in its order."""
    schema = store.schemas.get(entry.file.schema_id)
    types = {field.name: field.type for field in schema.fields}
    path = store.data_path(store.bucket_directory(entry.place), entry.file)
    with open_reader(store.file_io, path, types) as reader:
        keys = [f"{KEY_PREFIX}{name}" for name in schema.trimmed_primary_keys]
        if not set(keys) <= set(reader.column_names):
            # In thin mode a key stands among the values alone.
            keys = list(schema.trimmed_primary_keys)
        return pa.Table.from_batches(list(reader.read_batches(columns or keys, reader.row_groups([]))))
