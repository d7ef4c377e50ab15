"""Manifest lists and manifests: which data files a commit added and deleted.

Follows `docs/format.md`, "Manifest lists and manifests". Manifests have unique names and never change, so what was
decoded is kept in memory and shared by all tables of the process.
"""

import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ..data_types import DataType
from ..document import file_name, text
from ..errors import CorruptData, NotFound
from ..file_io import FileIO
from ..format import avro
from ..format.binary_row import EMPTY_ROW, decode
from ..format.column_stats import SerializedStats, merge_ranges
from ..paths import TablePaths

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


_STATS_FIELDS = (
    ("_MIN_VALUES", "bytes"),
    ("_MAX_VALUES", "bytes"),
    ("_NULL_COUNTS", avro.nullable({"type": "array", "items": ["null", "long"]})),
)
_LIST_SCHEMA = avro.parse(
    avro.record(
        "record",
        ("_VERSION", "int"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_NUM_ADDED_FILES", "long"),
        ("_NUM_DELETED_FILES", "long"),
        ("_PARTITION_STATS", avro.record("record__PARTITION_STATS", *_STATS_FIELDS)),
        ("_SCHEMA_ID", "long"),
        ("_MIN_BUCKET", avro.nullable("int")),
        ("_MAX_BUCKET", avro.nullable("int")),
        ("_MIN_LEVEL", avro.nullable("int")),
        ("_MAX_LEVEL", avro.nullable("int")),
        ("_MIN_ROW_ID", avro.nullable("long")),
        ("_MAX_ROW_ID", avro.nullable("long")),
    )
)
_FILE_SCHEMA = avro.record(
    "record__FILE",
    ("_FILE_NAME", "string"),
    ("_FILE_SIZE", "long"),
    ("_ROW_COUNT", "long"),
    ("_MIN_KEY", "bytes"),
    ("_MAX_KEY", "bytes"),
    ("_KEY_STATS", avro.record("record__FILE__KEY_STATS", *_STATS_FIELDS)),
    ("_VALUE_STATS", avro.record("record__FILE__VALUE_STATS", *_STATS_FIELDS)),
    ("_MIN_SEQUENCE_NUMBER", "long"),
    ("_MAX_SEQUENCE_NUMBER", "long"),
    ("_SCHEMA_ID", "long"),
    ("_LEVEL", "int"),
    ("_EXTRA_FILES", {"type": "array", "items": "string"}),
    ("_CREATION_TIME", avro.nullable({"type": "long", "logicalType": "timestamp-millis"})),
    ("_DELETE_ROW_COUNT", avro.nullable("long")),
    ("_EMBEDDED_FILE_INDEX", avro.nullable("bytes")),
    ("_FILE_SOURCE", avro.nullable("int")),
    ("_VALUE_STATS_COLS", avro.nullable({"type": "array", "items": "string"})),
    ("_EXTERNAL_PATH", avro.nullable("string")),
    ("_FIRST_ROW_ID", avro.nullable("long")),
    ("_WRITE_COLS", avro.nullable({"type": "array", "items": "string"})),
)
_MANIFEST_SCHEMA = avro.parse(
    avro.record(
        "record",
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_TOTAL_BUCKETS", "int"),
        ("_FILE", _FILE_SCHEMA),
    )
)
_LIST_TYPES, _MANIFEST_TYPES = avro.types_of(_LIST_SCHEMA), avro.types_of(_MANIFEST_SCHEMA)


def _stats_record(stats: SerializedStats) -> dict[str, Any]:
    return {"_MIN_VALUES": stats.minimums, "_MAX_VALUES": stats.maximums, "_NULL_COUNTS": list(stats.null_counts)}


def _stats(record: dict[str, Any]) -> SerializedStats:
    return SerializedStats(record["_MIN_VALUES"], record["_MAX_VALUES"], tuple(record["_NULL_COUNTS"] or ()))


def _entry_record(entry: ManifestEntry) -> dict[str, Any]:
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
            "_KEY_STATS": _stats_record(file.key_stats),
            "_VALUE_STATS": _stats_record(file.value_stats),
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


def _entry(record: dict[str, Any], file_io: FileIO, path: str) -> ManifestEntry:
    file = record["_FILE"]
    extra, external = file["_EXTRA_FILES"], file.get("_EXTERNAL_PATH")
    if record["_PARTITION"] is None or record["_BUCKET"] is None or file["_SCHEMA_ID"] is None:
        raise ValueError("a partition, bucket or schema is null")
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


def _manifest_file(record: dict[str, Any], _: FileIO, path: str) -> ManifestFile:
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


class _DecodedFiles:
    """The most recently used decoded manifests, up to a number of entries."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._size = 0
        self._files: OrderedDict[tuple[str, ...], tuple[Any, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, ...], load: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        with self._lock:
            cached = self._files.get(key)
            if cached is not None:
                self._files.move_to_end(key)
                return cached
        loaded = load()
        with self._lock:
            if key not in self._files:
                self._files[key] = loaded
                self._size += len(loaded) + 1
            while self._size > self._capacity and len(self._files) > 1:
                self._size -= len(self._files.popitem(last=False)[1]) + 1
        return loaded

    def put(self, key: tuple[str, ...], decoded: tuple[Any, ...]) -> None:
        self.get(key, lambda: decoded)

    def clear(self) -> None:
        with self._lock:
            self._files.clear()
            self._size = 0


_CAPACITY = 200_000
_decoded = _DecodedFiles(_CAPACITY)


def forget() -> None:
    """Know no more than a process that has just started."""
    _decoded.clear()


class ManifestFiles:
    """Reads and writes the manifests of a table (all branches share them)."""

    def __init__(
        self,
        file_io: FileIO,
        paths: TablePaths,
        codec: str,
        *,
        from_disk: bool = False,
        refuse_gone: Callable[[], None] = lambda: None,
    ) -> None:
        """`from_disk`: what other tables of the process have read before is not believed. `refuse_gone`: asked where a file is
        not there; raises NotFound that says so if the table has gone.
        """
        self._file_io = file_io
        self._refuse_gone = refuse_gone
        self._paths = paths
        self._codec = codec
        # What whoever lists them says of manifests.
        self._sizes: dict[str, int] = {}
        self._own = _DecodedFiles(_CAPACITY) if from_disk else None

    def read_list(self, name: str, size_bytes: int | None = None) -> tuple[ManifestFile, ...]:
        """The manifests of a manifest list, in order. `size_bytes`: what the snapshot says of its size."""
        if size_bytes is not None:
            self._sizes[name] = size_bytes
        listed: tuple[ManifestFile, ...] = self._read(name, _LIST_TYPES, _manifest_file)
        self._sizes.update((each.name, each.size_bytes) for each in listed)
        return listed

    def read(self, name: str) -> tuple[ManifestEntry, ...]:
        """The entries of a manifest, in order. Raises Unsupported for entries that cannot be understood."""
        return self._read(name, _MANIFEST_TYPES, _checked_entry)

    def _read(self, name: str, types: str, build: Callable[[dict[str, Any], FileIO, str], Any]) -> tuple[Any, ...]:
        path = self._paths.manifest(name)

        def load() -> tuple[Any, ...]:
            try:
                data = self._file_io.read_bytes(path)
            except NotFound:
                self._refuse_gone()
                raise
            if len(data) != self._sizes.get(name, len(data)):
                raise CorruptData(
                    f"Manifest {path} is damaged: it has {len(data)} bytes instead of {self._sizes[name]}."
                )
            with collector_paused():
                records = avro.read_records(data, path, types)
                try:
                    return tuple(build(record, self._file_io, path) for record in records)
                except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                    raise CorruptData(
                        f"Manifest {path} is damaged: its records are not those of one: {type(error).__name__}: {error}"
                    ) from None

        return (self._own or _decoded).get(self._key(path), load)

    def _key(self, path: str) -> tuple[str, ...]:
        # What one catalog allows, another does not.
        return self._file_io.protocol, path, *self._file_io.external_roots

    def write(
        self, name: str, entries: Sequence[ManifestEntry], partition_types: Sequence[DataType], schema_id: int
    ) -> ManifestFile:
        """Write a manifest and return what a list says of it."""
        data = avro.write_records(_MANIFEST_SCHEMA, map(_entry_record, entries), self._codec, name)
        self._write(name, data, entries)
        deleted = sum(entry.kind == DELETE for entry in entries)
        partitions = [
            decode(row, partition_types) for row in {entry.partition for entry in entries} if row != EMPTY_ROW
        ]
        buckets = [entry.bucket for entry in entries]
        levels = [entry.file.level for entry in entries]
        return ManifestFile(
            name,
            len(data),
            len(entries) - deleted,
            deleted,
            merge_ranges(partitions, partition_types),
            schema_id,
            min(buckets),
            max(buckets),
            min(levels),
            max(levels),
        )

    def write_list(self, name: str, manifests: Sequence[ManifestFile]) -> int:
        """Write a manifest list; returns its size in bytes."""
        records = [
            {
                "_VERSION": 2,
                "_FILE_NAME": manifest.name,
                "_FILE_SIZE": manifest.size_bytes,
                "_NUM_ADDED_FILES": manifest.added_file_count,
                "_NUM_DELETED_FILES": manifest.deleted_file_count,
                "_PARTITION_STATS": _stats_record(manifest.partition_stats),
                "_SCHEMA_ID": manifest.schema_id,
                "_MIN_BUCKET": manifest.min_bucket,
                "_MAX_BUCKET": manifest.max_bucket,
                "_MIN_LEVEL": manifest.min_level,
                "_MAX_LEVEL": manifest.max_level,
            }
            for manifest in manifests
        ]
        data = avro.write_records(_LIST_SCHEMA, records, self._codec, name)
        self._write(name, data, manifests)
        return len(data)

    def _write(self, name: str, data: bytes, decoded: Sequence[Any]) -> None:
        path = self._paths.manifest(name)
        self._file_io.write_bytes(path, data)
        # The next commit reads it.
        (self._own or _decoded).put(self._key(path), tuple(decoded))


def _checked_entry(record: dict[str, Any], file_io: FileIO, path: str) -> ManifestEntry:
    return _entry(record, file_io, path)
