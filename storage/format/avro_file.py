"""Data files in Avro, for reading: row by row, as the format is, so that larger tables are better written in another."""

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..data_types import DataType
from ..file_io import FileIO
from . import avro
from .data_file import BATCH_ROWS, DataFileReader, RowRange

_SYSTEM_TYPES = {"_SEQUENCE_NUMBER": pa.int64(), "_VALUE_KIND": pa.int8()}
_KEY_PREFIX = "_KEY_"


class AvroReader(DataFileReader):
    """An open Avro file. `types` are those of the table's columns under the schema that the file was written with."""

    def __init__(self, file_io: FileIO, path: str, types: Mapping[str, DataType]) -> None:
        self._path = path
        self._types = types
        self._data = file_io.read_bytes(path)
        self._names = avro.field_names(self._data, path)

    def close(self) -> None:
        self._data = b""

    @property
    def column_names(self) -> list[str]:
        return self._names

    def row_groups(self, ranges: Sequence[RowRange]) -> list[int]:
        return [0]

    def read_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        held: list[Mapping[str, Any]] = []
        for record in avro.iterate_records(io.BytesIO(self._data), self._path):
            held.append(record)
            if len(held) == BATCH_ROWS:
                yield self._batch(columns, held)
                held = []
        if held:
            yield self._batch(columns, held)

    def _batch(self, columns: Sequence[str], records: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        arrays = []
        for name in columns:
            if name in _SYSTEM_TYPES:
                arrays.append(pa.array([record[name] for record in records], _SYSTEM_TYPES[name]))
                continue
            data_type = self._types[name.removeprefix(_KEY_PREFIX)]
            values = [_plain(record[name], data_type) for record in records]
            arrays.append(pa.array(values, data_type.to_arrow()))
        return pa.RecordBatch.from_arrays(arrays, list(columns))


def _plain(value: Any, data_type: DataType) -> Any:
    """A value as Arrow takes it: maps as pairs, at any depth."""
    if value is None:
        return None
    if data_type.root in ("MAP", "MULTISET"):
        # Keys that are no text make it a list of records.
        pairs = value.items() if isinstance(value, Mapping) else ((one["key"], one["value"]) for one in value)
        if data_type.root == "MULTISET" or data_type.key is None or data_type.element is None:
            return list(pairs)
        return [(_plain(key, data_type.key), _plain(one, data_type.element)) for key, one in pairs]
    if data_type.root == "ARRAY" and data_type.element is not None:
        return [_plain(one, data_type.element) for one in value]
    if data_type.root == "ROW":
        return {field.name: _plain(value[field.name], field.type) for field in data_type.fields}
    return value
