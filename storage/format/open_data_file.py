"""Open data files by the format that their names tell."""

from collections.abc import Mapping

import pyarrow as pa

from ..data_types import DataField, DataType
from ..errors import Unsupported
from ..file_formats import added_format, file_format_names
from ..file_io import FileIO
from ..options import TableOptions
from .avro_file import AvroReader, AvroWriter
from .data_file import DataFileReader, DataFileWriter, ExpectedFile
from .orc_file import OrcReader, OrcWriter
from .parquet_file import ParquetReader, ParquetWriter


def open_reader(
    file_io: FileIO, path: str, types: Mapping[str, DataType], expected: ExpectedFile | None = None
) -> DataFileReader:
    """An open file. `types` are those of the table's columns under the schema that the file was written with.

    Raises Unsupported for other formats, CorruptData if the file is not what its name and the manifest say.
    """
    expected = expected or ExpectedFile()
    match path.rsplit(".", 1)[-1]:
        case "parquet":
            return ParquetReader(file_io, path, expected)
        case "orc":
            return OrcReader(file_io, path, expected)
        case "avro":
            return AvroReader(file_io, path, types, expected)
        case suffix:
            added = added_format(suffix)
            if added is None:
                known = ", ".join(file_format_names())
                raise Unsupported(f"Data file {path} has format {suffix!r}. Supported for reading: {known}.")
            reader: DataFileReader = added.open_reader(file_io, path, types, expected)
            return reader


def open_writer(
    file_io: FileIO,
    path: str,
    schema: pa.Schema,
    fields: Mapping[str, DataField],
    options: TableOptions,
    compression: str,
) -> DataFileWriter:
    """A new file under a name nobody else uses, in the format that its name tells. `fields` are the table's, by name."""
    match path.rsplit(".", 1)[-1]:
        case "orc":
            return OrcWriter(file_io, path, schema, compression)
        case "avro":
            types = {name: field.type for name, field in fields.items()}
            return AvroWriter(file_io, path, schema, types, compression)
        case "parquet":
            return ParquetWriter(file_io, path, schema, fields, options, compression)
        case suffix:
            added = added_format(suffix)
            if added is None:
                raise Unsupported(
                    f"Data files of format {suffix!r} cannot be written. Supported: {', '.join(file_format_names())}."
                )
            writer: DataFileWriter = added.open_writer(file_io, path, schema, fields, compression)
            return writer
