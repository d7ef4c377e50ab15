"""Data files in ORC. A row group is a stripe."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import orc

from ..errors import CorruptData
from ..file_io import FileIO
from .data_file import BATCH_ROWS, DataFileReader, RowRange, StreamWriter, codec

_COMPRESSIONS = {"zstd": "zstd", "snappy": "snappy", "lz4": "lz4", "zlib": "zlib", "none": "uncompressed"}


class OrcWriter(StreamWriter):
    """Writes one ORC file."""

    def __init__(self, file_io: FileIO, path: str, schema: pa.Schema, compression: str) -> None:
        known = codec(compression, _COMPRESSIONS, "ORC")
        self._schema = pa.schema([pa.field(one.name, _storable(one.type), one.nullable) for one in schema])
        stream = file_io.open_output(path)
        super().__init__(stream, orc.ORCWriter(stream, compression=known))

    def write(self, table: pa.Table) -> None:
        self._writer.write(table.cast(self._schema))


def _storable(kind: pa.DataType) -> pa.DataType:
    """The Arrow type that ORC has a place for: times are whole numbers there, bytes have no fixed size."""
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return kind


class OrcReader(DataFileReader):
    """An open ORC file."""

    def __init__(self, file_io: FileIO, path: str) -> None:
        self._path = path
        self._source = file_io.open_input(path)
        try:
            self._file = orc.ORCFile(self._source)
        except (pa.ArrowException, OSError) as error:
            self._source.close()
            raise CorruptData(f"Data file {path} is not a readable ORC file: {error}") from None

    def close(self) -> None:
        self._source.close()

    @property
    def column_names(self) -> list[str]:
        return list(self._file.schema.names)

    def row_groups(self, ranges: Sequence[RowRange]) -> list[int]:
        # pyarrow does not show the statistics of stripes.
        return list(range(self._file.nstripes))

    def read_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        try:
            for stripe in row_groups:
                batch = self._file.read_stripe(stripe, columns=list(columns))
                ordered = batch.select(list(columns))
                for start in range(0, ordered.num_rows, BATCH_ROWS):
                    yield ordered.slice(start, BATCH_ROWS)
        except (pa.ArrowException, OSError) as error:
            raise CorruptData(f"Data file {self._path} cannot be read: {error}") from None
