"""Data files in Avro: row by row, as the format is, so that larger tables are better written in another."""

import datetime as dt
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..data_types import DataType
from ..errors import InvalidRequest
from ..file_formats import COMPRESSIONS
from ..file_io import FileIO
from . import avro
from .data_file import BATCH_ROWS, DataFileReader, DataFileWriter, ExpectedFile, RowRange, codec, damage_named

_ANYTHING = ExpectedFile()

_SYSTEM_TYPES = {"_SEQUENCE_NUMBER": pa.int64(), "_VALUE_KIND": pa.int8()}
_SYSTEM_DATA_TYPES = {"_SEQUENCE_NUMBER": DataType("BIGINT"), "_VALUE_KIND": DataType("TINYINT")}
_KEY_PREFIX = "_KEY_"

_PLAIN: dict[str, Any] = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME": {"type": "int", "logicalType": "time-millis"},
}


class AvroReader(DataFileReader):
    """An open Avro file. `types` are those of the table's columns under the schema that the file was written with."""

    def __init__(
        self, file_io: FileIO, path: str, types: Mapping[str, DataType], expected: ExpectedFile = _ANYTHING
    ) -> None:
        self._path = path
        self._types = types
        self._expected = expected
        self._data = file_io.read_bytes(path)
        expected.check_size(path, len(self._data))
        self._names = avro.field_names(self._data, path)

    def close(self) -> None:
        """Let go of the bytes of the file."""
        self._data = b""

    @property
    def column_names(self) -> list[str]:
        return self._names

    @property
    def is_of_java(self) -> bool:
        return avro.is_of_java(self._data)

    def row_groups(self, ranges: Sequence[RowRange]) -> list[int]:
        return [0]

    def read_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        held: list[Mapping[str, Any]] = []
        row_count = 0
        for record in avro.iterate_records(io.BytesIO(self._data), self._path):
            held.append(record)
            if len(held) == BATCH_ROWS:
                yield self._batch(columns, held)
                row_count, held = row_count + len(held), []
        if held:
            yield self._batch(columns, held)
        self._expected.check_rows(self._path, row_count + len(held))

    def _batch(self, columns: Sequence[str], records: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        with damage_named(self._path):
            return self._to_arrow(columns, records)

    def _to_arrow(self, columns: Sequence[str], records: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
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
        pairs = value.items() if isinstance(value, Mapping) else ((each["key"], each["value"]) for each in value)
        if data_type.root == "MULTISET" or data_type.key is None or data_type.element is None:
            return list(pairs)
        return [(_plain(key, data_type.key), _plain(each, data_type.element)) for key, each in pairs]
    if data_type.root == "ARRAY" and data_type.element is not None:
        return [_plain(each, data_type.element) for each in value]
    if data_type.root == "ROW":
        return {field.name: _plain(value[field.name], field.type) for field in data_type.fields}
    return value


class AvroWriter(DataFileWriter):
    """Writes one Avro file; it is held in memory until it is closed."""

    def __init__(
        self, file_io: FileIO, path: str, schema: pa.Schema, types: Mapping[str, DataType], compression: str
    ) -> None:
        self._file_io = file_io
        self._path = path
        self._codec = codec(compression, COMPRESSIONS["avro"], "Avro")
        self._types = [
            _SYSTEM_DATA_TYPES.get(field.name) or types[field.name.removeprefix(_KEY_PREFIX)] for field in schema
        ]
        self._types = [
            each if field.nullable else each.not_null() for each, field in zip(self._types, schema, strict=True)
        ]
        self._names = schema.names
        fields = [
            (name, _avro_type(kind, f"record_{name}")) for name, kind in zip(schema.names, self._types, strict=True)
        ]
        self._schema = avro.parse(avro.record("record", *fields))
        self._records: list[dict[str, Any]] = []
        self._size = 0

    def write(self, table: pa.Table) -> None:
        columns = [
            [_stored(value, kind) for value in _values(column, kind)]
            for column, kind in zip(table.columns, self._types, strict=True)
        ]
        self._records += [dict(zip(self._names, row, strict=True)) for row in zip(*columns, strict=True)]
        self._size += table.nbytes

    @property
    def bytes_written(self) -> int:
        return self._size

    def close(self) -> int:
        data = avro.write_records(self._schema, self._records, self._codec, self._path)
        self._file_io.write_bytes(self._path, data)
        return len(data)

    def abort(self) -> None:
        self._records = []


def _values(column: pa.ChunkedArray, kind: DataType) -> list[Any]:
    """Values of a column; those that Avro counts as whole numbers come as such."""
    if kind.is_timestamp:
        _refuse_nanoseconds(kind)
        column = column.cast(pa.int64())
    elif kind.root in ("DATE", "TIME"):
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    return values


def _refuse_nanoseconds(kind: DataType) -> None:
    if kind.precision > 6:
        raise InvalidRequest(f"Avro has no place for {kind}: use a precision of 6 or less, or another 'file.format'.")


def _avro_type(kind: DataType, name: str) -> Any:
    """The Avro type of a column, with logical types as the format uses them (`docs/format.md`, "Types")."""
    plain = _avro_type_not_null(kind, name)
    return avro.nullable(plain) if kind.nullable else plain


def _avro_type_not_null(kind: DataType, name: str) -> Any:
    if kind.root in _PLAIN:
        return _PLAIN[kind.root]
    if kind.is_text:
        return "string"
    if kind.is_bytes:
        return "bytes"
    if kind.root == "DECIMAL":
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind.is_timestamp:
        _refuse_nanoseconds(kind)
        unit = "millis" if kind.precision <= 3 else "micros"
        return {"type": "long", "logicalType": f"{'local-' if kind.root == 'TIMESTAMP_LTZ' else ''}timestamp-{unit}"}
    if kind.root == "ARRAY" and kind.element is not None:
        return {"type": "array", "items": _avro_type(kind.element, name)}
    if kind.root == "ROW":
        return avro.record(
            name, *((field.name, _avro_type(field.type, f"{name}_{field.name}")) for field in kind.fields)
        )
    key, value = _map_types(kind)
    if key.is_text:
        return {"type": "map", "values": _avro_type(value, name)}
    fields = (("key", _avro_type(key, f"{name}_key")), ("value", _avro_type(value, f"{name}_value")))
    return {"type": "array", "logicalType": "map", "items": avro.record(name, *fields)}


def _map_types(kind: DataType) -> tuple[DataType, DataType]:
    if kind.root == "MULTISET":
        assert kind.element is not None
        return kind.element, DataType("INT", nullable=False)
    assert kind.key is not None
    assert kind.element is not None
    return kind.key, kind.element


def _stored(value: Any, kind: DataType) -> Any:
    """A value as Avro takes it."""
    if value is None:
        return None
    if kind.root in ("MAP", "MULTISET"):
        key, value_type = _map_types(kind)
        pairs = [(_stored(name, key), _stored(what, value_type)) for name, what in value]
        return dict(pairs) if key.is_text else [{"key": name, "value": what} for name, what in pairs]
    if kind.root == "ARRAY" and kind.element is not None:
        return [_stored(each, kind.element) for each in value]
    if kind.root == "ROW":
        return {field.name: _stored(value[field.name], field.type) for field in kind.fields}
    if isinstance(value, dt.datetime):
        moment = value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
        return moment // dt.timedelta(
            milliseconds=1 if kind.precision <= 3 else 0, microseconds=0 if kind.precision <= 3 else 1
        )
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return value
