"""`avro`: each message is one record in Avro's binary form, by the schema of the table's columns, without a registry.

Avro's library takes records one by one, so that this format is the slow one. Types: TINYINT, SMALLINT and INT are `int`; DECIMAL,
DATE, TIME and TIMESTAMP are Avro's logical types, up to microseconds; columns that may be null are unions with null.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any, ClassVar

import pyarrow as pa

from ..data_types import DataField, DataType
from ..errors import InvalidRequest, Unsupported
from ..format.avro import parse, read_datum, write_datum
from .json_codec import JsonCodec
from .message_format import (
    Decoded,
    FormatOption,
    Malformed,
    check_metadata,
    inserted,
    read_options,
    refuse_other_kinds,
)

_OPTIONS = {"ignore-parse-errors": FormatOption("false", "true or false")}
_PLAIN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "VARCHAR": "string",
    "CHAR": "string",
    "VARBINARY": "bytes",
    "BINARY": "bytes",
    # The library is given numbers, whose bytes are those of the logical types.
    "DATE": "int",
    "TIME": "int",
    "TIMESTAMP": "long",
    "TIMESTAMP_LTZ": "long",
    "DECIMAL": "bytes",
}
_EXACT = Context(prec=38)


@dataclass(frozen=True)
class AvroFormat:
    """Rows as records of Avro."""

    fields: tuple[DataField, ...]
    options: Mapping[str, str]
    codec: JsonCodec
    name: ClassVar[str] = "avro"
    is_insert_only: ClassVar[bool] = True
    readable_metadata: ClassVar[Mapping[str, DataType]] = {}
    # All columns of the message in their order, where only some are wanted.
    _schema: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        read_options(self.name, _OPTIONS, self.options)
        schema = _record(self.fields, "record", "")
        object.__setattr__(self, "_schema", parse(schema))

    def encode(self, rows: pa.Table, kinds: pa.Array | None = None) -> pa.ChunkedArray:
        """See `MessageFormat.encode`."""
        refuse_other_kinds(self.name, kinds)
        plain = rows.select([each.name for each in self.fields]).cast(_numbers(self.fields)).to_pylist()
        writers = [(each.name, _writer(each.type)) for each in self.fields]
        messages = []
        for index, row in enumerate(plain):
            try:
                messages.append(write_datum(self._schema, {name: write(row[name]) for name, write in writers}))
            except ValueError as error:
                raise InvalidRequest(f"Row {index} cannot be written as Avro: {error}") from None
        return pa.chunked_array([pa.array(messages, pa.binary())])

    def decode(self, values: pa.Array, metadata: Sequence[str] = ()) -> Decoded:
        """See `MessageFormat.decode`."""
        check_metadata(self.name, self.readable_metadata, metadata)
        readers = [(each.name, _reader(each.type)) for each in self.fields]
        rows, places = [], []
        malformed = []
        for index, value in enumerate(values.to_pylist()):
            if value is None:
                continue
            try:
                record = read_datum(value, self._schema)
                rows.append({name: read(record[name]) for name, read in readers})
                places.append(index)
            except ValueError as error:
                malformed.append(Malformed(index, str(error)))
        schema = pa.schema(
            [pa.field(each.name, type_) for each, type_ in zip(self.fields, _numbers(self.fields).types, strict=True)]
        )
        table = pa.Table.from_pylist(rows, schema)
        wanted = pa.schema([pa.field(each.name, each.type.to_arrow()) for each in self.fields])
        return Decoded(table.cast(wanted), inserted(len(rows)), pa.array(places, pa.int64()), {}, tuple(malformed))


def _record(fields: Sequence[DataField], name: str, path: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": each.name, "type": _avro(each.type, f"{name}_{each.name}", path + each.name)} for each in fields
        ],
    }


def _avro(type_: DataType, name: str, path: str) -> Any:
    kind: Any
    if type_.root == "ROW":
        kind = _record(type_.fields, name, f"{path}.")
    elif type_.root == "ARRAY" and type_.element is not None:
        kind = {"type": "array", "items": _avro(type_.element, name, f"{path}[]")}
    elif type_.root == "MAP" and type_.element is not None and type_.key is not None and type_.key.is_text:
        kind = {"type": "map", "values": _avro(type_.element, name, f"{path}[]")}
    elif type_.root in _PLAIN and not (type_.is_timestamp and type_.precision > 6):
        kind = _PLAIN[type_.root]
    else:
        raise Unsupported(
            f"Format 'avro' has no form for {path!r}, {type_}: maps have texts as keys, times six digits."
        )
    return ["null", kind] if type_.nullable else kind


def _numbers(fields: Sequence[DataField]) -> pa.Schema:
    """The columns with times as numbers."""
    return pa.schema([pa.field(each.name, _number(each.type.to_arrow())) for each in fields])


def _number(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(arrow) or pa.types.is_time32(arrow):
        return pa.int32()
    if pa.types.is_timestamp(arrow):
        return pa.int64()
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(each.name, _number(each.type), each.nullable) for each in arrow])
    if pa.types.is_map(arrow):
        return pa.map_(arrow.key_type, pa.field("value", _number(arrow.item_type)))
    if pa.types.is_list(arrow):
        return pa.list_(pa.field("element", _number(arrow.value_type)))
    return arrow


def _writer(type_: DataType) -> Callable[[Any], Any]:
    """From a value of Arrow to one that the library writes."""
    if type_.root == "DECIMAL":
        return lambda value: None if value is None else _unscaled(value, type_.scale)
    if type_.root == "ROW":
        inner = {each.name: _writer(each.type) for each in type_.fields}
        return lambda value: value and {name: write(value[name]) for name, write in inner.items()}
    if type_.root == "ARRAY" and type_.element is not None:
        write_element = _writer(type_.element)
        return lambda value: None if value is None else [write_element(each) for each in value]
    if type_.root == "MAP" and type_.element is not None:
        write_value = _writer(type_.element)
        return lambda value: None if value is None else {key: write_value(each) for key, each in value}
    return lambda value: value


def _reader(type_: DataType) -> Callable[[Any], Any]:
    """From a value that the library read to one of Arrow. What does not fit raises ValueError."""
    if type_.root == "DECIMAL":
        return lambda value: None if value is None else _decimal(value, type_)
    if type_.root == "ROW":
        inner = {each.name: _reader(each.type) for each in type_.fields}
        return lambda value: value and {name: read(value[name]) for name, read in inner.items()}
    if type_.root == "ARRAY" and type_.element is not None:
        read_element = _reader(type_.element)
        return lambda value: None if value is None else [read_element(each) for each in value]
    if type_.root == "MAP" and type_.element is not None:
        read_value = _reader(type_.element)
        return lambda value: None if value is None else [(key, read_value(each)) for key, each in value.items()]
    if type_.root in ("TINYINT", "SMALLINT"):
        most = 2 ** (7 if type_.root == "TINYINT" else 15)
        return lambda value: value if value is None or -most <= value < most else _too_large(value, type_)
    return lambda value: value


def _unscaled(value: Decimal, scale: int) -> bytes:
    number = int(value.scaleb(scale, _EXACT))
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _decimal(value: bytes, type_: DataType) -> Decimal:
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) >= 10**type_.precision:
        _too_large(number, type_)
    return Decimal(number).scaleb(-type_.scale, _EXACT)


def _too_large(value: object, type_: DataType) -> Any:
    raise ValueError(f"{value} is no {type_}.")
