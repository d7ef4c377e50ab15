"""Data files in ORC. A row group is a stripe."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from ..errors import InvalidRequest, Unsupported
from ..file_formats import COMPRESSIONS
from ..file_io import FileIO
from .data_file import (
    BATCH_ROWS,
    DataFileReader,
    ExpectedFile,
    RowRange,
    StreamWriter,
    check_types,
    codec,
    damage_named,
)
from .orc_timestamps import StripeTimestamps
from .parquet_timestamps import leaf_arrays
from .seal import check_orc, damaged

_ANYTHING = ExpectedFile()
# How pyarrow tells of a time that nanoseconds have no place for.
_OUT_OF_RANGE = "out of range for nanosecond"
# On object stores, files of this size are read at once.
_MOST_AT_ONCE = 64 << 20


_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3}


class OrcWriter(StreamWriter):
    """Writes one ORC file."""

    def __init__(self, file_io: FileIO, path: str, schema: pa.Schema, compression: str) -> None:
        known = codec(compression, COMPRESSIONS["orc"], "ORC")
        self._schema = pa.schema([pa.field(field.name, _storable(field.type), field.nullable) for field in schema])
        super().__init__(file_io.open_output(path), path)
        self._writer = orc.ORCWriter(self._sink, compression=known)

    def write(self, table: pa.Table) -> None:
        for field, column in zip(table.schema, table.columns, strict=True):
            if pa.types.is_nested(field.type) and not all(map(_fits, column.chunks)):
                raise InvalidRequest(
                    f"Column {field.name!r} has timestamps outside of the years 1678 to 2261 inside of an ARRAY, MAP or ROW, "
                    "which cannot be read from ORC here. Use another 'file.format', or null for times without end."
                )
            for chunk in column.chunks:
                _refuse_negative_fractions(field.name, chunk)
        with self._sealing.failing_as_it_does():
            self._writer.write(table.cast(self._schema))

    def _finish(self) -> int:
        with self._sealing.failing_as_it_does():
            self._writer.close()
        return self._sealing.finish_orc()


def _fits(column: pa.Array) -> bool:
    """Whether its timestamps can be read again: pyarrow's ORC turns all of them into nanoseconds."""
    for values in leaf_arrays(column):
        if pa.types.is_timestamp(values.type) and values.type.unit != "ns" and values.null_count < len(values):
            extremes = pc.min_max(values.cast(pa.int64())).as_py()
            most = (2**63 - 1) // _NANOSECONDS[values.type.unit]
            if extremes["min"] < -most or extremes["max"] >= most:
                return False
    return True


def _refuse_negative_fractions(name: str, column: pa.Array) -> None:
    """pyarrow's ORC writes a negative number of nanoseconds for them: Paimon's Java library then reads no row of the file."""
    for values in leaf_arrays(column):
        if not pa.types.is_timestamp(values.type) or values.type.unit not in ("us", "ns"):
            continue
        numbers = values.cast(pa.int64()).drop_null().to_numpy()
        indices = np.flatnonzero(
            (numbers < 0) & (numbers % (_NANOSECONDS["ms"] // _NANOSECONDS.get(values.type.unit, 1)) != 0)
        )
        if len(indices):
            value = values.drop_null()[int(indices[0])].cast(pa.string()).as_py()
            raise InvalidRequest(
                f"Column {name!r} has the timestamp {value}: before 1970, ORC files have no place here for what is finer than a "
                "millisecond. Use another 'file.format', or cut such times to milliseconds."
            )


def _storable(kind: pa.DataType) -> pa.DataType:
    """The Arrow type that ORC has a place for: times are whole numbers there, bytes have no fixed size, at any depth."""
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_storable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_storable(kind.key_type), kind.item_field.with_type(_storable(kind.item_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_storable(field.type)) for field in kind])
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return kind


class OrcReader(DataFileReader):
    """An open ORC file."""

    trims_char = True

    def __init__(self, file_io: FileIO, path: str, expected: ExpectedFile = _ANYTHING) -> None:
        self._path, self._types = path, expected.types
        self._source = file_io.open_input(path, expected.size_bytes)
        try:
            with damage_named(path):
                size_bytes = self._source.size()
                expected.check_size(path, size_bytes)
                # The only checksum is one of the whole file.
                if file_io.is_local or expected.whole or size_bytes <= _MOST_AT_ONCE:
                    content = self._source.read_at(size_bytes, 0)
                    check_orc(memoryview(content), path)
                    self._file = orc.ORCFile(pa.BufferReader(pa.py_buffer(content)))
                else:
                    self._file = orc.ORCFile(self._source)
                expected.check_rows(path, self._file.nrows)
                check_types(self._file.schema, expected, path)
        except BaseException:
            self._source.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    @property
    def column_names(self) -> list[str]:
        return list(self._file.schema.names)

    @property
    def is_of_java(self) -> bool:
        return bool(self._file.writer == "ORC_JAVA")

    def row_groups(self, ranges: Sequence[RowRange]) -> list[int]:
        # pyarrow does not show the statistics of stripes.
        return list(range(self._file.nstripes))

    def _stripe(self, number: int, columns: Sequence[str]) -> pa.RecordBatch:
        """Some columns of a stripe; timestamps are of the unit of the table's type, if that is known, else nanoseconds.

        Raises Unsupported for times that nanoseconds have no place for, if they are nested, or the type is of nanoseconds.
        """
        coarse = {name: kind for name in columns if (kind := self._coarse_timestamp(name)) is not None}
        try:
            stripe = self._file.read_stripe(number, columns=list(columns))
            # Finer digits than the type has are cut.
            read = {name: stripe.column(name).cast(kind, safe=False) for name, kind in coarse.items()}
        except pa.ArrowInvalid as error:
            if _OUT_OF_RANGE not in str(error):
                raise
            try:
                stripe = self._file.read_stripe(number, columns=[name for name in columns if name not in coarse])
            except pa.ArrowInvalid:
                raise Unsupported(
                    f"Data file {self._path} is sound, and has a time outside of the years 1678 to 2261 in a column of "
                    f"nanoseconds, or inside of an ARRAY, MAP or ROW: {error}. Such times cannot be read from ORC here: leave "
                    "the column out."
                ) from None
            timestamps = StripeTimestamps(self._source, self._path)
            read = {name: timestamps.read(number, name, kind) for name, kind in coarse.items()}
        if not read:
            return stripe.select(list(columns))
        return pa.RecordBatch.from_arrays(
            [read[name] if name in read else stripe.column(name) for name in columns], names=list(columns)
        )

    def _coarse_timestamp(self, column: str) -> pa.TimestampType | None:
        """The type that a table gives a column of timestamps, if its unit is not nanoseconds; None for all other columns."""
        kind = (self._types or {}).get(column)
        is_coarse = kind is not None and pa.types.is_timestamp(kind) and kind.unit != "ns"
        return kind if is_coarse and pa.types.is_timestamp(self._file.schema.field(column).type) else None

    def read_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        with damage_named(self._path):
            row_count = 0
            for stripe in row_groups:
                ordered = self._stripe(stripe, columns)
                row_count += ordered.num_rows
                for start in range(0, ordered.num_rows, BATCH_ROWS):
                    yield ordered.slice(start, BATCH_ROWS)
            if columns and row_count != self._file.nrows:
                raise damaged(self._path, f"its stripes hold {row_count} of {self._file.nrows} rows")
