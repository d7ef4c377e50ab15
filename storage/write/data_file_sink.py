"""Write rows of one bucket to data files, rolled at the target size, and describe them for the manifest.

Sorted runs of tables with a key get the key, sequence number and row kind before the columns; rows of other tables are
written as they are. Follows `docs/format.md`, "Reading one bucket".
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from ..data_types import DataField
from ..errors import CorruptData
from ..format.binary_row import EMPTY_ROW, encode
from ..format.column_stats import EMPTY_STATS, KEY_STATS_MODE, collect, collect_dense, serialize
from ..format.file_index.wanted import build_indexes, index_suffix, wanted_indexes
from ..format.open_data_file import open_writer
from ..lsm.system_columns import DELETE, SEQUENCE_NUMBER, UPDATE_BEFORE, VALUE_KIND
from ..metadata.manifest import ADD, WRITTEN, DataFile, ManifestEntry
from ..metadata.schema import KEY_PREFIX
from ..metadata.table_store import TableStore
from ..store_errors import naming
from ..values import from_arrow


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket of one partition, and where its files go."""

    partition: bytes
    number: int
    total_count: int
    directory: str


class DataFileSink:
    """Writes files whose names begin with `prefix`. Several threads may write to different buckets at once."""

    def __init__(self, store: TableStore, prefix: str, *, level: int = 0, source: int = WRITTEN) -> None:
        self._store = store
        self._options = store.options
        self._prefix = prefix
        self._level = level
        self._fields = {field.name: field for field in store.schema.fields}
        self._types = {name: field.type for name, field in self._fields.items()}
        self._source = source
        # `next` of a counter is atomic.
        self._file_numbers = count()
        self._indexes = wanted_indexes(store.schema.options) if not prefix.startswith("changelog-") else ()
        self._key_fields = store.schema.fields_named(store.schema.trimmed_primary_keys)
        # Files of tables without a key are on no level.
        stats_level = level if self._key_fields else None
        self._stats_modes = self._options.stats_modes(store.schema.options, store.schema.column_names, stats_level)
        self.paths: list[str] = []
        # When the first file was begun.
        self.begun_ms: int | None = None

    def write_run(self, bucket: Bucket, rows: pa.Table, sequence: np.ndarray, kinds: np.ndarray) -> list[ManifestEntry]:
        """Write rows that are sorted by key, each key once, with their sequence numbers (int64) and kinds (int8)."""
        stored = [] if self._options.data_file_thin_mode else self._key_fields
        keys = [rows.column(each.name) for each in stored]
        fields = [pa.field(f"{KEY_PREFIX}{field.name}", field.type.to_arrow(), False) for field in stored]
        fields += [pa.field(SEQUENCE_NUMBER, pa.int64(), False), pa.field(VALUE_KIND, pa.int8(), False)]
        columns = [*keys, pa.chunked_array([pa.array(sequence)]), pa.chunked_array([pa.array(kinds)]), *rows.columns]
        content = pa.Table.from_arrays(columns, schema=pa.schema([*fields, *rows.schema]))
        return self._write(bucket, content, rows, sequence, kinds)

    def write_plain(self, bucket: Bucket, rows: pa.Table, first_sequence_number: int) -> list[ManifestEntry]:
        """Write rows of a table without a key, in their order."""
        sequence = np.array([first_sequence_number, first_sequence_number + rows.num_rows - 1])
        return self._write(bucket, rows, rows, sequence, None)

    def abort(self) -> None:
        """Delete every file that was written."""
        self._store.file_io.delete_quietly(self.paths)

    def _write(
        self, bucket: Bucket, content: pa.Table, rows: pa.Table, sequence: np.ndarray, kinds: np.ndarray | None
    ) -> list[ManifestEntry]:
        target = self._options.target_file_size(bool(self._key_fields))
        step = self._options.row_group_rows
        entries = []
        start = 0
        while start < content.num_rows:
            name, path = self._next_file(bucket)
            # Before the file is there: whoever tells its age by this does not take it for younger than it is.
            now_ms = self._store.clock.now_ms()
            self.begun_ms = now_ms if self.begun_ms is None else min(self.begun_ms, now_ms)
            created_ms = _local_ms(now_ms)
            compression = self._options.compression_of_level(self._level)
            with naming("write", path):
                writer = open_writer(
                    self._store.file_io, path, content.schema, self._fields, self._options, compression
                )
                try:
                    end = start
                    while end < content.num_rows and writer.bytes_written < target:
                        writer.write(content.slice(end, step))
                        end = min(end + step, content.num_rows)
                    size_bytes = writer.close()
                except BaseException as error:
                    writer.abort()
                    if isinstance(error, pa.ArrowInvalid):
                        self._refuse_nulls(content)
                    raise
            part = slice(start, end)
            numbers = sequence[part] if kinds is not None else sequence
            deleted = 0 if kinds is None else int(np.isin(kinds[part], (UPDATE_BEFORE, DELETE)).sum())
            file = self._describe(name, size_bytes, rows.slice(start, end - start), numbers, deleted, created_ms)
            file = self._indexed(file, path, rows.slice(start, end - start))
            entries.append(ManifestEntry(ADD, bucket.partition, bucket.number, bucket.total_count, file))
            start = end
        return entries

    def _indexed(self, file: DataFile, path: str, rows: pa.Table) -> DataFile:
        """The file with its indexes: in its entry if they are small, else in a file beside it."""
        data = build_indexes(self._indexes, rows, self._types) if self._indexes else None
        if data is None or len(data) <= self._options.file_index_in_manifest_threshold_bytes:
            return replace(file, extra_files=(), embedded_index=data)
        suffix = index_suffix(data)
        self.paths.append(f"{path}{suffix}")
        self._store.file_io.write_bytes(f"{path}{suffix}", data)
        return replace(file, extra_files=(f"{file.name}{suffix}",), embedded_index=None)

    def _refuse_nulls(self, content: pa.Table) -> None:
        """Raise CorruptData if rows that are there already hold a null where the schema has none."""
        for field in content.schema:
            if not field.nullable and content.column(field.name).null_count:
                name = field.name
                raise CorruptData(
                    f"Column {name!r} of {self._store.identifier} is NOT NULL, and holds nulls in rows that are to be written "
                    "again: another program, or an earlier version, let them in. "
                    f"ALTER TABLE … ALTER COLUMN {name} DROP NOT NULL."
                )

    def _next_file(self, bucket: Bucket) -> tuple[str, str]:
        name = f"{self._prefix}-{next(self._file_numbers)}.{self._options.format_of_level(self._level)}"
        path = f"{bucket.directory}/{name}"
        self.paths.append(path)
        return name, path

    def _describe(
        self,
        name: str,
        size_bytes: int,
        rows: pa.Table,
        sequence: np.ndarray,
        delete_row_count: int,
        created_ms: int,
    ) -> DataFile:
        schema = self._store.schema
        key_stats, (low, high) = EMPTY_STATS, (EMPTY_ROW, EMPTY_ROW)
        if self._key_fields:
            types = [field.type for field in self._key_fields]
            low, high = (encode(types, _row(rows, row, self._key_fields)) for row in (0, rows.num_rows - 1))
            collected = [collect(rows.column(field.name), field.type, KEY_STATS_MODE) for field in self._key_fields]
            key_stats = serialize(types, collected)
        columns = {field.name: rows.column(field.name) for field in schema.fields}
        value_stats, described = collect_dense(columns, schema.fields, self._stats_modes)
        return DataFile(
            name,
            size_bytes,
            rows.num_rows,
            low,
            high,
            key_stats,
            value_stats,
            int(sequence.min()),
            int(sequence.max()),
            schema.id,
            self._level,
            created_ms,
            delete_row_count,
            self._source,
            described,
        )


def _row(rows: pa.Table, row: int, fields: Sequence[DataField]) -> list[Any]:
    return [from_arrow(rows.column(field.name).slice(row, 1), field.type)[0] for field in fields]


def _local_ms(time_ms: int) -> int:
    """The wall-clock time of this machine, as if it were UTC: what the format records as creation time."""
    offset = dt.datetime.fromtimestamp(time_ms / 1000).astimezone().utcoffset() or dt.timedelta()
    return time_ms + offset // dt.timedelta(milliseconds=1)
