"""Data files in Parquet, the format that is written unless an option says otherwise."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..data_types import DataField
from ..errors import Unsupported
from ..file_formats import COMPRESSIONS
from ..file_io import FileIO
from ..options import TableOptions
from .data_file import (
    BATCH_BYTES,
    BATCH_ROWS,
    MOST_BATCH_ROWS,
    DataFileReader,
    ExpectedFile,
    RowRange,
    StreamWriter,
    check_types,
    codec,
    damage_named,
)
from .field_ids import FIELD_ID, with_field_ids
from .parquet_footer import name_timestamps
from .parquet_timestamps import as_numbers, is_fine, leaves, same_moments, timestamps_to_name
from .required_parts import has_required_parts, with_required_parts
from .seal import KEY, UNKNOWN, check_parquet_end, check_parquet_rows, damaged, footer_bytes

_ANYTHING = ExpectedFile()
# How much of the end of a file is read at once: a request costs more than what it brings.
_LEAST_END, _END = 8, 1 << 16


# How many rows are looked at to tell whether the values of a column repeat, and how few of them must differ.
_LEAST_SAMPLE, _MOST_SAMPLE = 256, 4096
_REPEATING = 0.7
_MOST_DIGITS_OF_A_NUMBER = 18
# Parquet's own types of texts, bytes and wide decimals.
_OF_BYTES = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
# What a text and the like is taken for.
_VARYING_BYTES = 40


class ParquetWriter(StreamWriter):
    """Writes one Parquet file."""

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        schema: pa.Schema,
        fields: Mapping[str, DataField],
        options: TableOptions,
        compression: str,
    ) -> None:
        """`fields`: those of the table, by name, whose ids the file tells."""
        # Named, not told by their type: pyarrow takes all timestamps of a file for INT96, or none.
        self._timestamps = timestamps_to_name(schema)
        self._plain = as_numbers(schema) if self._timestamps else schema
        self._schema = with_field_ids(self._plain, fields)
        self._with_required_parts = any(has_required_parts(field.type) for field in self._schema)
        self._row_group_rows = options.row_group_rows
        self._how = {
            "compression": codec(compression, COMPRESSIONS["parquet"], "Parquet"),
            "compression_level": options.file_compression_zstd_level if compression == "zstd" else None,
            "store_schema": False,
            # As Paimon's Java library writes them, and alone filters rightly.
            "store_decimal_as_integer": True,
            "use_deprecated_int96_timestamps": any(map(is_fine, leaves(schema))),
            "write_page_checksum": True,
            # Their extremes would leave NaN out, which is larger than all others to Spark: its readers would skip it.
            "write_statistics": [
                field.name
                for field in schema
                if not pa.types.is_floating(field.type) and not pa.types.is_nested(field.type)
            ],
        }
        self._writer: Any = None
        super().__init__(file_io.open_output(path), path)

    def write(self, table: pa.Table) -> None:
        self._begin(_repeating(table))
        table = table.cast(self._plain) if self._timestamps else table
        if self._with_required_parts:
            table = with_required_parts(table, self._schema)
        self._writer.write_table(table, row_group_size=self._row_group_rows)

    def _finish(self) -> int:
        self._begin([])
        self._writer.add_key_value_metadata({KEY: UNKNOWN * 2})
        self._writer.close()
        if self._timestamps is None:
            return self._sealing.finish_parquet()
        return self._sealing.finish_parquet(partial(name_timestamps, leaves=self._timestamps))

    def _begin(self, dictionaries: list[str]) -> None:
        """Open the file, if it is not yet: with its first rows it is known which columns gain by a dictionary."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._sink, self._schema, use_dictionary=dictionaries, **self._how)


class ParquetReader(DataFileReader):
    """An open Parquet file."""

    def __init__(self, file_io: FileIO, path: str, expected: ExpectedFile = _ANYTHING) -> None:
        self._path = path
        self._source = file_io.open_input(path, expected.size_bytes)
        try:
            with damage_named(path):
                self._file = self._open(file_io, expected)
        except BaseException:
            self._source.close()
            raise

    def _open(self, file_io: FileIO, expected: ExpectedFile) -> pq.ParquetFile:
        size_bytes = self._source.size()
        expected.check_size(self._path, size_bytes)
        if expected.whole:
            check_parquet_rows(memoryview(self._source.read_at(size_bytes, 0)), self._path)
        # The end is read once: what is asked for here, and what its last bytes say is missing.
        taken = min(size_bytes, _LEAST_END if file_io.is_local else _END)
        end = memoryview(self._source.read_at(taken, size_bytes - taken))
        length = footer_bytes(end[-8:], size_bytes, self._path)
        if length > taken:
            end = memoryview(self._source.read_at(length, size_bytes - length))
        check_parquet_end(end[-length:], self._path)
        metadata = pq.read_metadata(pa.BufferReader(pa.py_buffer(end[-length:])))
        expected.check_rows(self._path, metadata.num_rows)
        # Reading ahead pays where a request costs much; a mapped local file is there already.
        file = pq.ParquetFile(
            self._source, metadata=metadata, pre_buffer=not file_io.is_local, page_checksum_verification=True
        )
        check_types(file.schema_arrow, expected, self._path)
        return file

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._source.close()

    @property
    def column_names(self) -> list[str]:
        return list(self._file.schema_arrow.names)

    @property
    def is_of_java(self) -> bool:
        return (self._file.metadata.created_by or "").startswith("parquet-mr")

    @property
    def has_field_ids(self) -> bool:
        """Whether its columns can be told by their ids, which earlier versions did not write."""
        return all(FIELD_ID in (field.metadata or {}) for field in self._file.schema_arrow)

    @property
    def outdated_columns(self) -> list[str]:
        metadata = self._file.metadata
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        outdated = []
        for index in range(len(metadata.schema.names)):
            column = metadata.schema.column(index)
            logical = json.loads(column.logical_type.to_json())
            is_decimal = logical.get("Type") == "Decimal"
            is_short = column.physical_type == "FIXED_LEN_BYTE_ARRAY" and column.precision <= _MOST_DIGITS_OF_A_NUMBER
            is_wide = column.precision > _MOST_DIGITS_OF_A_NUMBER and "." not in column.path and not self.is_of_java
            in_dictionary = is_wide and any(group.column(index).has_dictionary_page for group in groups)
            of_nanoseconds = column.physical_type == "INT64" and logical.get("timeUnit") == "nanoseconds"
            if (is_decimal and (is_short or in_dictionary)) or (logical.get("Type") == "Timestamp" and of_nanoseconds):
                outdated.append(column.path)
        return outdated

    @property
    def has_constant_beside_nulls(self) -> bool:
        metadata = self._file.metadata
        leaves = [metadata.schema.column(index) for index in range(len(metadata.schema.names))]
        varying = [index for index, leaf in enumerate(leaves) if leaf.physical_type in _OF_BYTES]
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        return any(_is_constant_beside_nulls(group.column(index)) for group in groups for index in varying)

    @property
    def group_starts(self) -> list[int]:
        metadata = self._file.metadata
        return list(
            accumulate((metadata.row_group(each).num_rows for each in range(metadata.num_row_groups)), initial=0)
        )

    def row_groups(self, ranges: Sequence[RowRange]) -> list[int]:
        """Row groups that can hold rows within all of the ranges, judged by Parquet's own statistics."""
        metadata = self._file.metadata
        groups = list(range(metadata.num_row_groups))
        if not ranges or len(groups) == 1:
            return groups
        paths = {metadata.schema.column(index).path: index for index in range(len(metadata.schema.names))}
        known = [(paths[span.column], span) for span in ranges if span.column in paths]
        return [
            group for group in groups if all(_overlaps(metadata.row_group(group).column(i), each) for i, each in known)
        ]

    def group_extremes(self, column: str) -> list[tuple[Any, Any] | None] | None:
        metadata = self._file.metadata
        names = [metadata.schema.column(index).path for index in range(len(metadata.schema.names))]
        if column not in names:
            return None
        index = names.index(column)
        statistics = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
        return [None if each is None or not each.has_min_max else (each.min, each.max) for each in statistics]

    def extremes(self, column: str) -> tuple[Any, Any] | None:
        """Smallest and largest value of a column by Parquet's own statistics; None if they do not tell."""
        known = [] if (group_extremes := self.group_extremes(column)) is None else group_extremes
        sure = [each for each in known if each is not None]
        if not known or len(sure) < len(known):
            return None
        return min(low for low, _ in sure), max(high for _, high in sure)

    def read_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Batches of the given row groups, of at most MOST_BATCH_ROWS rows, in file order.

        `use_threads` decodes columns in parallel, which only disturbs a caller that reads several files at once.
        """
        with damage_named(self._path):
            wanted = sum(self._file.metadata.row_group(group).num_rows for group in row_groups)
            if columns:
                groups, names = list(row_groups), list(columns)
                rows = min(max(BATCH_BYTES // self._row_bytes(columns), BATCH_ROWS), MOST_BATCH_ROWS)
                self._check_int96(groups, names)
                for batch in self._file.iter_batches(rows, groups, names, use_threads=use_threads):
                    wanted -= batch.num_rows
                    yield batch
                if wanted:
                    raise damaged(self._path, f"{wanted} rows are missing in its pages")
                return
            for group in row_groups:
                row_count = self._file.metadata.row_group(group).num_rows
                yield pa.record_batch([pa.nulls(row_count)], ["_rows"]).select([])

    def _check_int96(self, groups: list[int], names: list[str]) -> None:
        """Raise Unsupported for timestamps of Java's that nanoseconds in Arrow have no place for: they would come as others."""
        schema = self._file.metadata.schema
        columns = [schema.column(index) for index in range(len(schema.names))]
        fine = {column.path.split(".")[0] for column in columns if column.physical_type == "INT96"}
        for name in [name for name in names if name in fine]:
            coarse = pq.ParquetFile(self._source, metadata=self._file.metadata, coerce_int96_timestamp_unit="us")
            pairs = zip(
                *(value.iter_batches(BATCH_ROWS, groups, [name]) for value in (self._file, coarse)), strict=True
            )
            if not all(same_moments(each.column(0), other.column(0)) for each, other in pairs):
                raise Unsupported(
                    f"Data file {self._path} has timestamps outside of the years 1678 to 2261 in column {name!r}, which "
                    "nanoseconds have no place for here. Store them as TIMESTAMP(6), or leave the column out."
                )

    def _row_bytes(self, columns: Sequence[str]) -> int:
        """About how many bytes a row of some columns takes in memory."""
        fields = [self._file.schema_arrow.field(name).type for name in columns]
        return sum(field.bit_width // 8 if pa.types.is_primitive(field) else _VARYING_BYTES for field in fields) or 1


def _is_wide_decimal(kind: pa.DataType) -> bool:
    """Whether Java's filter looks for its values in a dictionary by the fewest bytes that hold them, and finds none."""
    return bool(pa.types.is_decimal(kind) and kind.precision > _MOST_DIGITS_OF_A_NUMBER)


def _repeating(table: pa.Table) -> list[str]:
    """The columns that a sample says repeat their values. A dictionary of others costs time and space for nothing."""
    count = min(max(table.num_rows // 16, _LEAST_SAMPLE), _MOST_SAMPLE)
    sample = table.slice(max(table.num_rows - count, 0) // 2, count)
    return [
        field.name
        for field, column in zip(sample.schema, sample.columns, strict=True)
        if not pa.types.is_nested(field.type)
        and not _is_wide_decimal(field.type)
        and len(column.unique()) < _REPEATING * sample.num_rows
    ]


def _is_constant_beside_nulls(chunk: Any) -> bool:
    known = chunk.statistics
    if chunk.has_dictionary_page or known is None or not known.has_min_max or known.null_count == 0:
        return False
    return bool(known.min_raw == known.max_raw)


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
