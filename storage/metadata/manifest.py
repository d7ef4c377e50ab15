"""Manifest lists and manifests: which data files a commit added and deleted.

Follows `docs/format.md`, "Manifest lists and manifests".
"""

import gc
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from ..document import file_name, text
from ..drafts import maker
from ..file_io import FileIO
from ..format.column_stats import SerializedStats
from . import manifest_columns as at
from .manifest_columns import FilePlace, KeepPlace, ManifestColumns

ADD, DELETE = 0, 1
# A partition, as manifests hold it, and a bucket in it.
Place = tuple[bytes, int]
WRITTEN, COMPACTED = 0, 1
# In names of files that a compaction has written which merges with what the levels above hold.
LOOKUP_MARK = "-lookup-"
_EPOCH = datetime(1970, 1, 1)


# The bucket of rows that have none yet.
POSTPONED_BUCKET = -2


@dataclass(frozen=True, slots=True)
class DataFile:
    """What a manifest says of a data file."""

    name: str
    size_bytes: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SerializedStats
    value_stats: SerializedStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    creation_time_local_ms: int | None = None
    delete_row_count: int | None = 0
    file_source: int | None = WRITTEN
    value_stats_columns: tuple[str, ...] | None = None
    extra_files: tuple[str, ...] = ()
    external_path: str | None = None
    embedded_index: bytes | None = None
    first_row_id: int | None = None
    write_columns: tuple[str, ...] | None = None

    @property
    def format(self) -> str:
        """The format that the name of the file says: `parquet`, `orc`, `avro`."""
        return self.name.rsplit(".", 1)[-1]


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One change: a file added to or deleted from a bucket of a partition."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile

    @property
    def place(self) -> Place:
        """Partition and bucket."""
        return self.partition, self.bucket

    @property
    def file_place(self) -> FilePlace:
        """Partition and bucket, of how many buckets, and by which schema the file was written."""
        return FilePlace(self.partition, self.bucket, self.total_buckets, self.file.schema_id)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What makes two entries speak of the same file; the level is part of it."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.name,
            file.extra_files,
            file.embedded_index,
            file.external_path,
        )

    def deleted(self) -> "ManifestEntry":
        """The entry that takes this file away."""
        return replace(self, kind=DELETE)

    def added(self) -> "ManifestEntry":
        """The entry that adds this file."""
        return replace(self, kind=ADD)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """What a manifest list says of a manifest."""

    name: str
    size_bytes: int
    added_file_count: int
    deleted_file_count: int
    partition_stats: SerializedStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None


def stats_record(stats: SerializedStats) -> dict[str, Any]:
    """Statistics as manifests and their lists hold them."""
    return {"_MIN_VALUES": stats.minimums, "_MAX_VALUES": stats.maximums, "_NULL_COUNTS": list(stats.null_counts)}


def _stats(record: dict[str, Any]) -> SerializedStats:
    return SerializedStats(record["_MIN_VALUES"], record["_MAX_VALUES"], tuple(record["_NULL_COUNTS"] or ()))


def entry_record(entry: ManifestEntry) -> dict[str, Any]:
    """An entry as a manifest holds it."""
    file = entry.file
    return {
        "_VERSION": 2,
        "_KIND": entry.kind,
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": file.name,
            "_FILE_SIZE": file.size_bytes,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": file.min_key,
            "_MAX_KEY": file.max_key,
            "_KEY_STATS": stats_record(file.key_stats),
            "_VALUE_STATS": stats_record(file.value_stats),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": list(file.extra_files),
            "_CREATION_TIME": file.creation_time_local_ms,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_index,
            "_FILE_SOURCE": file.file_source,
            "_VALUE_STATS_COLS": None if file.value_stats_columns is None else list(file.value_stats_columns),
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": None if file.write_columns is None else list(file.write_columns),
        },
    }


def entry_of(record: dict[str, Any], file_io: FileIO, path: str) -> ManifestEntry:
    """The entry that a record of a manifest is. Raises CorruptData, or what a record that is none leads to."""
    file = record["_FILE"]
    extra, external = file["_EXTRA_FILES"], file.get("_EXTERNAL_PATH")
    if record["_PARTITION"] is None or record["_BUCKET"] is None or file["_SCHEMA_ID"] is None:
        raise ValueError("a partition, bucket or schema is null")
    if file["_LEVEL"] < 0:
        raise ValueError(f"the level is {file['_LEVEL']}")
    if external:
        file_io.external_path(text(external, path, "_EXTERNAL_PATH"), path)
    created = file.get("_CREATION_TIME")
    if isinstance(created, datetime):
        created = (created.replace(tzinfo=None) - _EPOCH) // timedelta(milliseconds=1)
    columns, written = file.get("_VALUE_STATS_COLS"), file.get("_WRITE_COLS")
    return ManifestEntry(
        record["_KIND"],
        record["_PARTITION"],
        record["_BUCKET"],
        record["_TOTAL_BUCKETS"],
        DataFile(
            file_name(file["_FILE_NAME"], path, "_FILE_NAME"),
            file["_FILE_SIZE"],
            file["_ROW_COUNT"],
            file["_MIN_KEY"],
            file["_MAX_KEY"],
            _stats(file["_KEY_STATS"]),
            _stats(file["_VALUE_STATS"]),
            file["_MIN_SEQUENCE_NUMBER"],
            file["_MAX_SEQUENCE_NUMBER"],
            file["_SCHEMA_ID"],
            file["_LEVEL"],
            created,
            file.get("_DELETE_ROW_COUNT"),
            file.get("_FILE_SOURCE"),
            None if columns is None else tuple(columns),
            tuple([file_name(each, path, "_EXTRA_FILES") for each in extra]) if extra else (),
            external,
            file.get("_EMBEDDED_FILE_INDEX"),
            file.get("_FIRST_ROW_ID"),
            None if written is None else tuple(written),
        ),
    )


_new_entry, _new_file, _new_stats = maker(ManifestEntry), maker(DataFile), maker(SerializedStats)


def _entries(columns: ManifestColumns, rows: np.ndarray | None) -> list[ManifestEntry]:
    """The entries of some rows of a manifest, or of all."""
    nothing: tuple[str, ...] = ()
    files = map(
        _new_file,
        columns.names_of(rows),
        columns.numbers(at.SIZE, rows),
        columns.numbers(at.ROWS, rows),
        columns.bytes_of(at.MIN_KEY, rows),
        columns.bytes_of(at.MAX_KEY, rows),
        _stats_of(columns, at.KEY_STATS, rows),
        _stats_of(columns, at.VALUE_STATS, rows),
        columns.numbers(at.MIN_SEQUENCE, rows),
        columns.numbers(at.MAX_SEQUENCE, rows),
        columns.numbers(at.SCHEMA_ID, rows),
        columns.numbers(at.LEVEL, rows),
        columns.numbers(at.CREATED, rows),
        columns.numbers(at.DELETED_ROWS, rows),
        columns.numbers(at.SOURCE, rows),
        columns.arrays(at.STATS_COLUMNS, rows),
        (names or nothing for names in columns.arrays(at.EXTRA_FILES, rows)),
        columns.texts(at.EXTERNAL_PATH, rows),
        columns.bytes_of(at.INDEX, rows),
        columns.numbers(at.FIRST_ROW_ID, rows),
        columns.arrays(at.WRITE_COLUMNS, rows),
    )
    return list(
        map(
            _new_entry,
            columns.numbers(at.KIND, rows),
            columns.partitions(rows),
            columns.numbers(at.BUCKET, rows),
            columns.numbers(at.TOTAL_BUCKETS, rows),
            files,
        )
    )


def _stats_of(columns: ManifestColumns, path: str, rows: np.ndarray | None) -> Iterator[SerializedStats]:
    minimums, maximums = (columns.bytes_of(f"{path}{end}", rows) for end in (at.MINIMUMS, at.MAXIMUMS))
    return map(_new_stats, minimums, maximums, (each or () for each in columns.arrays(f"{path}{at.NULL_COUNTS}", rows)))


def manifest_file(record: dict[str, Any], _: FileIO, path: str) -> ManifestFile:
    """The manifest that a record of a list names. Raises as `entry_of` does."""
    return ManifestFile(
        file_name(record["_FILE_NAME"], path, "_FILE_NAME"),
        record["_FILE_SIZE"],
        record["_NUM_ADDED_FILES"],
        record["_NUM_DELETED_FILES"],
        _stats(record["_PARTITION_STATS"]),
        record["_SCHEMA_ID"],
        record.get("_MIN_BUCKET"),
        record.get("_MAX_BUCKET"),
        record.get("_MIN_LEVEL"),
        record.get("_MAX_LEVEL"),
    )


@contextmanager
def collector_paused() -> Iterator[None]:
    """Nothing that is decoded is garbage: looking for it, again and again, takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class DecodedManifest:
    """The entries of a manifest: as columns until somebody asks for all of them."""

    def __init__(self, entries: Sequence[ManifestEntry] | None, columns: ManifestColumns | None = None) -> None:
        self._entries = None if entries is None else tuple(entries)
        self._columns = columns
        self._size = len(columns if columns is not None else self.entries)

    def __len__(self) -> int:
        return self._size

    @property
    def entries(self) -> tuple[ManifestEntry, ...]:
        """All entries, in order."""
        # Another thread may let go of the columns at any time, once the entries are there.
        columns = self._columns
        if self._entries is None:
            assert columns is not None
            with collector_paused():
                self._entries = tuple(_entries(columns, None))
            self._columns = None
        return self._entries

    def kept(self, keep: KeepPlace) -> Sequence[ManifestEntry]:
        """The entries of wanted places, in order."""
        columns = self._columns
        if columns is not None:
            rows = columns.rows_of(keep)
            return self._some(columns, rows) if len(rows) < len(self) else self.entries
        known: dict[FilePlace, bool] = {}
        kept = []
        for entry in self.entries:
            place = entry.file_place
            wanted = known.get(place)
            if wanted is None:
                wanted = known[place] = keep(place)
            if wanted:
                kept.append(entry)
        return kept

    @property
    def names(self) -> list[str]:
        """The names of the files of all entries."""
        columns = self._columns
        return columns.names if columns is not None else [entry.file.name for entry in self.entries]

    @property
    def deleted_names(self) -> list[str]:
        """The names of the files that entries take away."""
        columns = self._columns
        if columns is not None:
            return columns.deleted_names
        return [entry.file.name for entry in self.entries if entry.kind != ADD]

    def of_names(self, names: Collection[str]) -> Sequence[ManifestEntry]:
        """The entries of files of some names."""
        columns = self._columns
        if columns is not None:
            return self._some(columns, np.flatnonzero(columns.is_named(names)))
        return [entry for entry in self.entries if entry.file.name in names]

    def highest(self, without: Collection[str]) -> list[tuple[FilePlace, int]]:
        """Places with the highest sequence number of their files there, without those of some names."""
        columns = self._columns
        if columns is not None:
            return columns.highest(np.flatnonzero(~columns.is_named(without)))
        entries = (entry for entry in self.entries if entry.file.name not in without)
        return [(entry.file_place, entry.file.max_sequence_number) for entry in entries]

    @staticmethod
    def _some(columns: ManifestColumns, rows: np.ndarray) -> Sequence[ManifestEntry]:
        with collector_paused():
            return _entries(columns, rows)


class DecodedFiles:
    """The most recently used decoded manifests, up to a number of entries."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        self._files: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: tuple[str, ...]) -> Any:
        """What was decoded of a file; None if that is not known."""
        with self._lock:
            cached = self._files.get(key)
            if cached is not None:
                self._files.move_to_end(key)
            return cached

    def put(self, key: tuple[str, ...], decoded: Any) -> None:
        """Keep what was decoded of a file."""
        with self._lock:
            before = self._files.pop(key, None)
            self._size += len(decoded) + 1 - (0 if before is None else len(before) + 1)
            self._files[key] = decoded
            while self._size > self._capacity and len(self._files) > 1:
                self._size -= len(self._files.popitem(last=False)[1]) + 1

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._files.clear()
            self._size = 0


_CAPACITY = 200_000
_decoded = DecodedFiles(_CAPACITY)


def decoded_files(*, from_disk: bool) -> DecodedFiles:
    """What this process has decoded; `from_disk`: nothing yet."""
    return DecodedFiles(_CAPACITY) if from_disk else _decoded


def forget() -> None:
    """Know no more than a process that has just started."""
    _decoded.clear()
