"""Data files in Parquet, the format that is written unless an option says otherwise."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import CorruptData
from ..file_io import FileIO
from ..options import TableOptions
from .data_file import BATCH_BYTES, BATCH_ROWS, MOST_BATCH_ROWS, DataFileReader, RowRange, StreamWriter, codec

_COMPRESSIONS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "lz4": "lz4",
    "gzip": "gzip",
    "none": "none",
    "uncompressed": "none",
}


# How many rows are looked at to tell whether the values of a column repeat, and how few of them must differ.
_LEAST_SAMPLE, _MOST_SAMPLE = 256, 4096
_REPEATING = 0.7
# What a text and the like is taken for.
_VARYING_BYTES = 40


class ParquetWriter(StreamWriter):
    """Writes one Parquet file."""

    def __init__(self, file_io: FileIO, path: str, schema: pa.Schema, options: TableOptions, compression: str) -> None:
        self._schema = schema
        self._row_group_rows = options.parquet_row_group_rows
        self._how = {
            "compression": codec(compression, _COMPRESSIONS, "Parquet"),
            "compression_level": options.file_compression_zstd_level if compression == "zstd" else None,
            "store_schema": False,
        }
        super().__init__(file_io.open_output(path), None)

    def write(self, table: pa.Table) -> None:
        self._begin(_repeating(table))
        self._writer.write_table(table, row_group_size=self._row_group_rows)

    def close(self) -> int:
        self._begin([])
        return super().close()

    def _begin(self, dictionaries: list[str]) -> None:
        """Open the file, if it is not yet: with its first rows it is known which columns gain by a dictionary."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._stream, self._schema, use_dictionary=dictionaries, **self._how)


class ParquetReader(DataFileReader):
    """An open Parquet file."""

    def __init__(self, file_io: FileIO, path: str) -> None:
        self._path = path
        self._source = file_io.open_input(path)
        try:
            # Reading ahead pays where a request costs much; a mapped local file is there already.
            self._file = pq.ParquetFile(self._source, pre_buffer=not file_io.is_local)
        except pa.ArrowException as error:
            self._source.close()
            raise CorruptData(f"Data file {path} is not a readable Parquet file: {error}") from None

    def close(self) -> None:
        self._file.close()
        self._source.close()

    @property
    def column_names(self) -> list[str]:
        return list(self._file.schema_arrow.names)

    def row_groups(self, ranges: Sequence[RowRange]) -> list[int]:
        """Row groups that can hold rows within all of the ranges, judged by Parquet's own statistics."""
        metadata = self._file.metadata
        groups = list(range(metadata.num_row_groups))
        if not ranges or len(groups) == 1:
            return groups
        paths = {metadata.schema.column(index).path: index for index in range(len(metadata.schema.names))}
        known = [(paths[one.column], one) for one in ranges if one.column in paths]
        return [
            group for group in groups if all(_overlaps(metadata.row_group(group).column(i), one) for i, one in known)
        ]

    def extremes(self, column: str) -> tuple[Any, Any] | None:
        """Smallest and largest value of a column by Parquet's own statistics; None if they do not tell."""
        metadata = self._file.metadata
        names = [metadata.schema.column(index).path for index in range(len(metadata.schema.names))]
        if column not in names or metadata.num_row_groups == 0:
            return None
        index = names.index(column)
        found = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
        if any(one is None or not one.has_min_max for one in found):
            return None
        return min(one.min for one in found), max(one.max for one in found)

    def read_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Batches of the given row groups, of at most MOST_BATCH_ROWS rows, in file order.

        `use_threads` decodes columns in parallel, which only disturbs a caller that reads several files at once.
        """
        try:
            if columns:
                groups, names = list(row_groups), list(columns)
                rows = min(max(BATCH_BYTES // self._row_bytes(columns), BATCH_ROWS), MOST_BATCH_ROWS)
                yield from self._file.iter_batches(rows, groups, names, use_threads=use_threads)
                return
            for group in row_groups:
                row_count = self._file.metadata.row_group(group).num_rows
                yield pa.record_batch([pa.nulls(row_count)], ["_rows"]).select([])
        except (pa.ArrowException, OSError) as error:
            raise CorruptData(f"Data file {self._path} cannot be read: {error}") from None

    def _row_bytes(self, columns: Sequence[str]) -> int:
        """About how many bytes a row of some columns takes in memory."""
        fields = [self._file.schema_arrow.field(name).type for name in columns]
        return sum(one.bit_width // 8 if pa.types.is_primitive(one) else _VARYING_BYTES for one in fields) or 1


def _repeating(table: pa.Table) -> list[str]:
    """The columns that a sample says repeat their values. A dictionary of others costs time and space for nothing."""
    count = min(max(table.num_rows // 16, _LEAST_SAMPLE), _MOST_SAMPLE)
    sample = table.slice(max(table.num_rows - count, 0) // 2, count)
    return [
        field.name
        for field, column in zip(sample.schema, sample.columns, strict=True)
        if not pa.types.is_nested(field.type) and len(column.unique()) < _REPEATING * sample.num_rows
    ]


def _overlaps(chunk: Any, wanted: RowRange) -> bool:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max:
        return True
    try:
        below = wanted.high is not None and wanted.high < statistics.min
        above = wanted.low is not None and statistics.max < wanted.low
    except TypeError:
        return True
    return not (below or above)
