"""Write rows: collect them, route them to buckets, sort and deduplicate, and write level-0 files.

Nothing written here is visible before a commit takes the messages. Memory holds up to `write-buffer-size` for each
bucket; files of a bucket are written in parallel with those of others.
"""

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from ..data_types import DataField
from ..errors import CommitConflict, InvalidRequest
from ..format.binary_row import EMPTY_ROW, buckets_of, encode, hash_rows
from ..format.column_stats import EMPTY_STATS, KEY_STATS_MODE, SerializedStats, collect, collect_dense, serialize
from ..format.data_file import DataFileWriter
from ..lsm.key_order import last_of_each, ranks, stable_order
from ..lsm.merge import DELETE, SEQUENCE_NUMBER, UPDATE_BEFORE, VALUE_KIND
from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, WRITTEN, DataFile, ManifestEntry
from ..metadata.schema import KEY_PREFIX
from ..metadata.table_store import TableStore
from ..options import refuse_unsupported
from ..paths import partition_path
from ..values import from_arrow
from .incoming import Rows, row_kinds, shaped

_THREADS = max(2, min(4, os.cpu_count() or 2))
# Fewer rows are written sooner than threads are started.
_ROWS_WORTH_THREADS = 20_000
# All buckets together never hold more than this many times the buffer of one.
_BUFFERS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """What one writer did, on its way to the commit: files it added. Pickles."""

    added: tuple[ManifestEntry, ...]
    paths: tuple[str, ...] = field(default=(), compare=False)


@dataclass(slots=True)
class _Place:
    """One bucket of one partition while it is written."""

    partition: bytes
    partition_path: str
    bucket: int
    next_sequence_number: int


class TableWrite:
    """Collects the rows of one commit. Call `write` any number of times, then `prepare_commit` or `abort`."""

    def __init__(self, store: TableStore, *, ignore_existing: bool = False, write_name: str | None = None) -> None:
        """`ignore_existing`: the rows replace the partitions they go to, so sequence numbers start from 0.
        `write_name` is shared by the writers of one commit, and is how `delete_files_of` finds their files.
        """
        refuse_unsupported(store.schema.options, str(store.identifier), for_writing=True)
        self._store = store
        self._schema = store.schema
        self._options = store.options
        self._ignore_existing = ignore_existing
        self._buffers: list[tuple[pa.Table, np.ndarray | None]] = []
        self._buffered_bytes = 0
        self._places: dict[tuple[bytes, int], _Place] = {}
        self._existing: dict[tuple[bytes, int], int] | None = None
        self._added: list[ManifestEntry] = []
        self._paths: list[str] = []
        # Buckets are written by several threads: `next` of a counter is atomic.
        self._file_numbers = count()
        own_name = store.clock.unique_name()
        self._prefix = f"{_file_prefix(write_name)}{own_name[:8]}" if write_name else f"data-{own_name}"
        self._value_fields = list(self._schema.fields)
        self._key_fields = self._schema.fields_named(self._schema.trimmed_primary_keys)
        self._bucket_fields = self._schema.fields_named(self._schema.bucket_keys) if self._options.bucket > 0 else []
        self._partition_fields = self._schema.fields_named(self._schema.partition_keys)

    def write(self, rows: Rows, row_kind_column: str | None = None) -> None:
        """Take rows. Raises InvalidRequest if they do not fit the table; nothing of them is kept then."""
        table = shaped(rows, self._schema, row_kind_column)
        kinds = row_kinds(rows, table, self._schema, row_kind_column)
        table, kinds = self._without_ignored(table, kinds)
        if table.num_rows == 0:
            return
        self._buffers.append((table, kinds))
        self._buffered_bytes += table.nbytes
        buckets_open = max(1, self._options.bucket)
        if self._buffered_bytes >= self._options.write_buffer_size_bytes * min(_BUFFERS_AT_ONCE, buckets_open):
            self.flush()

    def _without_ignored(self, table: pa.Table, kinds: np.ndarray | None) -> tuple[pa.Table, np.ndarray | None]:
        if kinds is None:
            return table, None
        retractions = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
        if not retractions.any():
            return table, kinds if kinds.any() else None
        if self._options.ignore_delete:
            return table.filter(pa.array(~retractions)), kinds[~retractions]
        if not self._key_fields:
            raise InvalidRequest(
                f"Table {self._store.identifier} has no primary key and takes no rows of kind -U or -D. "
                "Set 'ignore-delete' to drop them, or give the table a primary key."
            )
        return table, kinds

    def flush(self) -> None:
        """Write the collected rows to files."""
        if not self._buffers:
            return
        tables = [table for table, _ in self._buffers]
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        kinds = None
        if any(one is not None for _, one in self._buffers):
            parts = [np.zeros(len(table), np.int8) if one is None else one for table, one in self._buffers]
            kinds = np.concatenate(parts)
        self._buffers, self._buffered_bytes = [], 0
        rows = rows.combine_chunks()
        runs = list(self._route(rows))
        if self._key_fields:
            jobs = [(place, order, kinds) for place, order in runs]
        else:
            jobs = [(place, order, None) for place, order in runs]

        def write_one(job: tuple[_Place, np.ndarray | slice, np.ndarray | None]) -> list[ManifestEntry]:
            return self._write_run(rows, *job)

        if len(jobs) == 1 or rows.num_rows < _ROWS_WORTH_THREADS:
            results = [write_one(job) for job in jobs]
        else:
            with ThreadPoolExecutor(_THREADS) as pool:
                results = list(pool.map(write_one, jobs))
        for entries in results:
            self._added.extend(entries)

    def prepare_commit(self) -> CommitMessage:
        """Write what is left and say what was written. The writer is used up."""
        self.flush()
        return CommitMessage(tuple(self._added), tuple(self._paths))

    def abort(self) -> None:
        """Delete every file that was written."""
        self._buffers = []
        self._store.file_io.delete_quietly(self._paths)

    # --- routing

    def _route(self, rows: pa.Table) -> Iterator[tuple[_Place, "np.ndarray | slice"]]:
        """For each bucket that gets rows: the rows' numbers, sorted and without repeated keys (or in arrival order)."""
        columns: list[np.ndarray] = [ranks(rows.column(one.name)) for one in self._partition_fields]
        if self._options.bucket > 1:
            columns.append(self._buckets(rows).astype(np.int64))
        place_count = len(columns)
        if not self._key_fields and (not columns or all(not column.any() for column in columns)):
            yield self._place(rows, 0), slice(0, rows.num_rows)
            return
        columns += [ranks(rows.column(one.name)) for one in self._key_fields]
        order = stable_order(columns, rows.num_rows)
        if self._key_fields:
            order = order[last_of_each(columns, order)]
        # After removing repeated keys, the last row of each place marks its end.
        ends = np.flatnonzero(last_of_each(columns[:place_count], order)) + 1 if place_count else np.array([len(order)])
        start = 0
        for end in ends.tolist():
            yield self._place(rows, int(order[start])), order[start:end]
            start = end

    def _buckets(self, rows: pa.Table) -> np.ndarray:
        columns = [rows.column(one.name).combine_chunks() for one in self._bucket_fields]
        hashes = hash_rows([_array(column) for column in columns], [one.type for one in self._bucket_fields])
        return buckets_of(hashes, self._options.bucket)

    def _place(self, rows: pa.Table, row: int) -> _Place:
        """The bucket that a row goes to; all rows of a run go to the same one."""
        one = rows.slice(row, 1)
        values = [from_arrow(one.column(part.name), part.type)[0] for part in self._partition_fields]
        partition = encode([part.type for part in self._partition_fields], values)
        bucket = int(self._buckets(one)[0]) if self._options.bucket > 1 else 0
        place = self._places.get((partition, bucket))
        if place is None:
            path = partition_path(self._partition_fields, values, self._options)
            first = self._first_sequence_number(partition, bucket)
            place = self._places[partition, bucket] = _Place(partition, path, bucket, first)
        return place

    def _first_sequence_number(self, partition: bytes, bucket: int) -> int:
        if self._ignore_existing or (not self._key_fields and self._options.bucket <= 0):
            return 0
        if self._existing is None:
            self._existing = self._highest_sequence_numbers()
        return self._existing.get((partition, bucket), -1) + 1

    def _highest_sequence_numbers(self) -> dict[tuple[bytes, int], int]:
        snapshot = self._store.snapshots.latest()
        highest: dict[tuple[bytes, int], int] = {}
        if snapshot is None:
            return highest
        wanted = self._options.bucket
        for entry in live_files(self._store.manifests_of(snapshot), self._store.manifests.read):
            if entry.total_buckets != wanted and entry.bucket >= 0:
                raise CommitConflict(
                    f"Partition files of {self._store.identifier} have {entry.total_buckets} buckets, the table now has "
                    f"{wanted}. Overwrite the partition first, so that all of its rows are hashed anew."
                )
            place = (entry.partition, entry.bucket)
            highest[place] = max(highest.get(place, -1), entry.file.max_sequence_number)
        return highest

    # --- files

    def _write_run(
        self, rows: pa.Table, place: _Place, order: "np.ndarray | slice", kinds: np.ndarray | None
    ) -> list[ManifestEntry]:
        if isinstance(order, slice):
            taken = rows
            numbers = None
            row_count = rows.num_rows
        else:
            indices = pa.array(order)
            taken = pa.Table.from_arrays([column.take(indices) for column in rows.columns], schema=rows.schema)
            numbers = order
            row_count = len(order)
        first = place.next_sequence_number
        if self._key_fields:
            assert numbers is not None
            # Every row that arrived took a number, so a row's number is the place where it arrived.
            sequence = numbers + first
            place.next_sequence_number = first + rows.num_rows
            picked = np.zeros(row_count, np.int8) if kinds is None else kinds[numbers]
            return self._write_files(place, self._keyed(taken, sequence, picked), taken, sequence, picked)
        place.next_sequence_number = first + row_count
        return self._write_files(place, taken, taken, np.array([first, first + row_count - 1]), None)

    def _keyed(self, taken: pa.Table, sequence: np.ndarray, kinds: np.ndarray) -> pa.Table:
        keys = [taken.column(one.name) for one in self._key_fields]
        fields = [pa.field(f"{KEY_PREFIX}{one.name}", one.type.to_arrow(), False) for one in self._key_fields]
        fields += [pa.field(SEQUENCE_NUMBER, pa.int64(), False), pa.field(VALUE_KIND, pa.int8(), False)]
        columns = [*keys, pa.chunked_array([pa.array(sequence)]), pa.chunked_array([pa.array(kinds)]), *taken.columns]
        return pa.Table.from_arrays(columns, schema=pa.schema([*fields, *taken.schema]))

    def _write_files(
        self, place: _Place, content: pa.Table, values: pa.Table, sequence: np.ndarray, kinds: np.ndarray | None
    ) -> list[ManifestEntry]:
        """Write rows to one file, or to several that are rolled at the target size."""
        target = self._options.target_file_size(bool(self._key_fields))
        step = self._options.parquet_row_group_rows
        entries = []
        start = 0
        while start < content.num_rows:
            name, path = self._next_file(place)
            writer = DataFileWriter(self._store.file_io, path, content.schema, self._options)
            try:
                end = start
                while end < content.num_rows and writer.bytes_written < target:
                    writer.write(content.slice(end, step))
                    end = min(end + step, content.num_rows)
                size_bytes = writer.close()
            except BaseException:
                writer.abort()
                raise
            part = slice(start, end)
            numbers = sequence[part] if kinds is not None else sequence
            deleted = 0 if kinds is None else int(np.isin(kinds[part], (UPDATE_BEFORE, DELETE)).sum())
            file = self._describe(name, size_bytes, values.slice(start, end - start), numbers, deleted)
            entries.append(ManifestEntry(ADD, place.partition, place.bucket, self._options.bucket, file))
            start = end
        return entries

    def _next_file(self, place: _Place) -> tuple[str, str]:
        name = f"{self._prefix}-{next(self._file_numbers)}.{self._options.file_format}"
        path = f"{self._store.paths.bucket(place.partition_path, place.bucket)}/{name}"
        self._paths.append(path)
        return name, path

    def _describe(
        self, name: str, size_bytes: int, values: pa.Table, sequence: np.ndarray, delete_row_count: int
    ) -> DataFile:
        key_stats, (low, high) = EMPTY_STATS, (EMPTY_ROW, EMPTY_ROW)
        if self._key_fields:
            types = [one.type for one in self._key_fields]
            low, high = (encode(types, _row(values, row, self._key_fields)) for row in (0, values.num_rows - 1))
            collected = [collect(values.column(one.name), one.type, KEY_STATS_MODE) for one in self._key_fields]
            key_stats = serialize(types, collected)
        columns = {one.name: values.column(one.name) for one in self._value_fields}
        value_stats: SerializedStats
        value_stats, described = collect_dense(columns, self._value_fields, self._options.metadata_stats_mode)
        return DataFile(
            name, size_bytes, values.num_rows, low, high, key_stats, value_stats, int(sequence.min()),
            int(sequence.max()), self._schema.id, 0, _local_ms(self._store.clock.now_ms()), delete_row_count, WRITTEN,
            described,
        )  # fmt: skip


def delete_files_of(write_name: str, store: TableStore) -> None:
    """Delete all files that the writers of a write made that will not be committed, those of killed writers too."""
    directories = [store.paths.root]
    for _ in store.schema.partition_keys:
        directories = [
            f"{one}/{name}" for one in directories for name in store.file_io.list_directories(one) if "=" in name
        ]
    for directory in directories:
        for bucket in store.file_io.list_directories(directory):
            if bucket.startswith("bucket-"):
                files = store.file_io.list_files(f"{directory}/{bucket}")
                left = [one.name for one in files if one.name.startswith(_file_prefix(write_name))]
                store.file_io.delete_quietly([f"{directory}/{bucket}/{name}" for name in left])


def _file_prefix(write_name: str) -> str:
    return f"data-{write_name}-"


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _row(values: pa.Table, row: int, fields: Sequence[DataField]) -> list[Any]:
    return [from_arrow(values.column(one.name).slice(row, 1), one.type)[0] for one in fields]


def _local_ms(time_ms: int) -> int:
    """The wall-clock time of this machine, as if it were UTC: what the format records as creation time."""
    offset = dt.datetime.fromtimestamp(time_ms / 1000).astimezone().utcoffset() or dt.timedelta()
    return time_ms + offset // dt.timedelta(milliseconds=1)
