"""Types of columns: the texts of the format, and the Arrow type that holds each in memory.

Follows `docs/format.md`, "Types". A `DataType` is a value; `parse_type` reads every spelling that Paimon
writes, `DataType.to_json` writes the canonical one, `DataType.to_arrow` and `type_from_arrow` go to memory and back.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from .errors import InvalidRequest, Unsupported

MAX_LENGTH = 2147483647
_UNSUPPORTED_ROOTS = ("VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY", "VECTOR")
# A variant is held as Spark and Parquet encode it: its bytes, and the names in it. By the mark Spark knows it from a struct.
_VARIANT_MARK = {b"variant": b"true"}
VARIANT = pa.struct(
    [
        pa.field("value", pa.binary()),
        pa.field("metadata", pa.binary(), metadata=_VARIANT_MARK),
    ]
)
_INTEGERS: dict[str, pa.DataType] = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
}
_FLOATS: dict[str, pa.DataType] = {"FLOAT": pa.float32(), "DOUBLE": pa.float64()}
_PLAIN: dict[str, pa.DataType] = {"BOOLEAN": pa.bool_(), "DATE": pa.date32(), **_INTEGERS, **_FLOATS}
TEXT_ROOTS = ("CHAR", "VARCHAR")
BYTES_ROOTS = ("BINARY", "VARBINARY")
TIMESTAMP_ROOTS = ("TIMESTAMP", "TIMESTAMP_LTZ")
NESTED_ROOTS = ("ARRAY", "MAP", "MULTISET", "ROW", "VECTOR")


@dataclass(frozen=True, slots=True)
class DataType:
    """One type. `root` is the keyword; the other fields are set where the keyword has them.

    TIMESTAMP_LTZ stands for `TIMESTAMP(p) WITH LOCAL TIME ZONE`; STRING and BYTES are VARCHAR and VARBINARY of the
    largest length.
    """

    root: str
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    key: "DataType | None" = None
    element: "DataType | None" = None
    fields: "tuple[DataField, ...]" = ()

    def __str__(self) -> str:
        suffix = "" if self.nullable else " NOT NULL"
        if self.root not in NESTED_ROOTS:
            return self._keyword() + suffix
        if self.root == "ROW":
            inside = ", ".join(f"{field.name} {field.type}" for field in self.fields)
        else:
            inside = ", ".join(str(value) for value in (self.key, self.element) if value is not None)
        length = f"({self.length})" if self.root == "VECTOR" else ""
        return f"{self.root}<{inside}>{length}{suffix}"

    @property
    def is_nested(self) -> bool:
        """Whether values have parts, so that they have no order: an array, map, multiset, row or variant."""
        return self.root in NESTED_ROOTS or self.root == "VARIANT"

    @property
    def is_integer(self) -> bool:
        """Whether values are whole numbers of some width."""
        return self.root in _INTEGERS

    @property
    def is_float(self) -> bool:
        """Whether values are binary floating point numbers."""
        return self.root in _FLOATS

    @property
    def is_text(self) -> bool:
        """Whether values are text."""
        return self.root in TEXT_ROOTS

    @property
    def is_bytes(self) -> bool:
        """Whether values are bytes."""
        return self.root in BYTES_ROOTS

    @property
    def is_timestamp(self) -> bool:
        """Whether values are points in time, with or without a time zone."""
        return self.root in TIMESTAMP_ROOTS

    def not_null(self) -> "DataType":
        """The same type without nulls."""
        return replace(self, nullable=False)

    def to_json(self) -> Any:
        """The canonical text, or the object of a nested type."""
        suffix = "" if self.nullable else " NOT NULL"
        if self.root in NESTED_ROOTS:
            value: dict[str, Any] = {"type": self.root + suffix}
            if self.key is not None:
                value["key"] = self.key.to_json()
            if self.element is not None:
                value["value" if self.root == "MAP" else "element"] = self.element.to_json()
            if self.root == "ROW":
                value["fields"] = [field.to_json() for field in self.fields]
            if self.root == "VECTOR":
                value["length"] = self.length
            return value
        return self._keyword() + suffix

    def _keyword(self) -> str:
        if self.length == MAX_LENGTH and self.root in ("VARCHAR", "VARBINARY"):
            return "STRING" if self.root == "VARCHAR" else "BYTES"
        if self.is_text or self.is_bytes:
            return f"{self.root}({self.length})"
        if self.root == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.root == "TIMESTAMP_LTZ":
            return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"
        if self.root in ("TIME", "TIMESTAMP"):
            return f"{self.root}({self.precision})"
        return self.root

    def to_arrow(self) -> pa.DataType:
        """The type of a column of this type in memory. Raises Unsupported for types that are refused.

        Fields of a ROW may be null there whatever their type says: in Arrow they are where the row itself is.
        """
        if plain := _PLAIN.get(self.root):
            return plain
        if self.is_text:
            return pa.string()
        if self.is_bytes:
            return pa.binary()
        if self.root == "DECIMAL":
            return pa.decimal128(self.precision, self.scale)
        if self.root == "TIME":
            return pa.time32("ms")
        if self.is_timestamp:
            unit = "ms" if self.precision <= 3 else "us" if self.precision <= 6 else "ns"
            return pa.timestamp(unit, tz="UTC" if self.root == "TIMESTAMP_LTZ" else None)
        if self.root == "ARRAY" and self.element is not None:
            return pa.list_(pa.field("element", self.element.to_arrow(), self.element.nullable))
        if self.root == "MAP" and self.key is not None and self.element is not None:
            return pa.map_(self.key.to_arrow(), pa.field("value", self.element.to_arrow(), self.element.nullable))
        if self.root == "MULTISET" and self.element is not None:
            return pa.map_(self.element.to_arrow(), pa.field("value", pa.int32(), nullable=False))
        if self.root == "ROW":
            return pa.struct([pa.field(field.name, field.type.to_arrow()) for field in self.fields])
        if self.root == "VARIANT":
            return VARIANT
        raise Unsupported(f"Columns of type {self} are not supported. Leave the column out, or store it as BYTES.")


@dataclass(frozen=True, slots=True)
class DataField:
    """A column, or a field of a ROW: its id never changes and is never used again."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The field as schema files hold it."""
        value: dict[str, Any] = {"id": self.id, "name": self.name, "type": self.type.to_json()}
        if self.description is not None:
            value["description"] = self.description
        if self.default_value is not None:
            value["defaultValue"] = self.default_value
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "DataField":
        """The field that a schema file holds."""
        return cls(
            value["id"], value["name"], parse_type(value["type"]), value.get("description"), value.get("defaultValue")
        )

    def to_arrow(self) -> pa.Field:
        """The field as Arrow has it."""
        return pa.field(self.name, self.type.to_arrow(), self.type.nullable)


def arrow_schema(fields: "tuple[DataField, ...] | list[DataField]") -> pa.Schema:
    """The Arrow schema of the given columns, without metadata."""
    return pa.schema([field.to_arrow() for field in fields])


STRING = DataType("VARCHAR", length=MAX_LENGTH)
BYTES = DataType("VARBINARY", length=MAX_LENGTH)

_SPELLINGS = {"INTEGER": "INT", "NUMERIC": "DECIMAL", "DEC": "DECIMAL"}
_TYPE_TEXT = re.compile(
    r"\s*(?P<word>DOUBLE\s+PRECISION|[A-Z_]+)(?:\s*\(\s*(?P<first>\d+)\s*(?:,\s*(?P<second>\d+)\s*)?\))?"
    r"(?P<zone>\s+WITH(?:OUT)?(?:\s+LOCAL)?\s+TIME\s+ZONE)?",
)
_NULLABILITY = re.compile(r"\s+(?P<null>NOT\s+NULL|NULL)\b")
_SUFFIX = re.compile(r"\s+(?P<collection>ARRAY|MULTISET)\b")


def parse_type(value: str | Mapping[str, Any]) -> DataType:
    """Read a type as it stands in a schema file. Raises InvalidRequest when it is none, Unsupported never."""
    if isinstance(value, str):
        return _parse_text(value)
    root, nullable = _split_not_null(str(value["type"]))
    match root:
        case "ARRAY" | "MULTISET":
            return DataType(root, nullable, element=parse_type(value["element"]))
        case "MAP":
            return DataType(root, nullable, key=parse_type(value["key"]), element=parse_type(value["value"]))
        case "ROW":
            return DataType(root, nullable, fields=tuple(DataField.from_json(field) for field in value["fields"]))
        case "VECTOR":
            return DataType(root, nullable, element=parse_type(value["element"]), length=value["length"])
    raise InvalidRequest(f"{value!r} is not a type of the format.")


def _split_not_null(text: str) -> tuple[str, bool]:
    text = " ".join(text.upper().split())
    return (text.removesuffix(" NOT NULL"), False) if text.endswith(" NOT NULL") else (text, True)


def _parse_text(text: str) -> DataType:
    upper = text.upper().strip()
    match = _TYPE_TEXT.match(upper)
    if match is None:
        raise InvalidRequest(f"{text!r} is not a type of the format.")
    result = _simple_type(text, match)
    position = match.end()
    while position < len(upper):
        if suffix := _NULLABILITY.match(upper, position):
            result = replace(result, nullable=suffix["null"] == "NULL")
        elif suffix := _SUFFIX.match(upper, position):
            result = DataType(suffix["collection"], element=result)
        else:
            raise InvalidRequest(
                f"{text!r} is not a type of the format: {upper[position:].strip()!r} is not understood."
            )
        position = suffix.end()
    return result


def _simple_type(text: str, match: re.Match[str]) -> DataType:
    word = " ".join(match["word"].split())
    word = "DOUBLE" if word == "DOUBLE PRECISION" else _SPELLINGS.get(word, word)
    first = int(match["first"]) if match["first"] else None
    second = int(match["second"]) if match["second"] else None

    def bounded(number: int | None, default: int, low: int, high: int, what: str) -> int:
        number = default if number is None else number
        if not low <= number <= high:
            raise InvalidRequest(f"{text!r} is not a type of the format: {what} must be between {low} and {high}.")
        return number

    if word in _PLAIN or word in _UNSUPPORTED_ROOTS:
        return DataType(word)
    if word in ("STRING", "BYTES"):
        return STRING if word == "STRING" else BYTES
    if word in TEXT_ROOTS or word in BYTES_ROOTS:
        return DataType(word, length=bounded(first, 1, 1, MAX_LENGTH, "the length"))
    if word == "DECIMAL":
        precision = bounded(first, 10, 1, 38, "the precision")
        return DataType(word, precision=precision, scale=bounded(second, 0, 0, precision, "the scale"))
    if word == "TIME":
        return DataType(word, precision=bounded(first, 0, 0, 9, "the precision"))
    if word in TIMESTAMP_ROOTS:
        local = word == "TIMESTAMP_LTZ" or "LOCAL" in (match["zone"] or "")
        precision = bounded(first, 6, 0, 9, "the precision")
        return DataType("TIMESTAMP_LTZ" if local else "TIMESTAMP", precision=precision)
    raise InvalidRequest(f"{text!r} is not a type of the format.")


def type_from_arrow(arrow: pa.DataType, nullable: bool = True, next_id: Callable[[], int] = lambda: 0) -> DataType:
    """The type of the format that holds an Arrow type without loss. `next_id` numbers the fields of a ROW.

    Raises InvalidRequest for Arrow types that the format has no place for (unsigned integers, durations …), and for a struct
    without fields.
    """
    for root, plain in _PLAIN.items():
        if arrow == plain:
            return DataType(root, nullable)
    types = pa.types
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return replace(STRING, nullable=nullable)
    if types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_binary_view(arrow):
        return replace(BYTES, nullable=nullable)
    if types.is_fixed_size_binary(arrow):
        return DataType("BINARY", nullable, length=arrow.byte_width)
    if types.is_dictionary(arrow):
        return type_from_arrow(arrow.value_type, nullable, next_id)
    if types.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return DataType("DECIMAL", nullable, precision=arrow.precision, scale=arrow.scale)
    if types.is_date64(arrow):
        return DataType("DATE", nullable)
    if types.is_time(arrow):
        return DataType("TIME", nullable, precision={"s": 0, "ms": 3}.get(arrow.unit, 3))
    if types.is_timestamp(arrow):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[arrow.unit]
        return DataType("TIMESTAMP_LTZ" if arrow.tz else "TIMESTAMP", nullable, precision=precision)
    if types.is_list(arrow) or types.is_large_list(arrow) or types.is_fixed_size_list(arrow):
        element = type_from_arrow(arrow.value_type, arrow.value_field.nullable, next_id)
        return DataType("ARRAY", nullable, element=element)
    if types.is_map(arrow):
        key = type_from_arrow(arrow.key_type, False, next_id)
        value = type_from_arrow(arrow.item_type, arrow.item_field.nullable, next_id)
        return DataType("MAP", nullable, key=key, element=value)
    if is_variant(arrow):
        return DataType("VARIANT", nullable)
    if types.is_struct(arrow):
        if not arrow.num_fields:
            raise InvalidRequest(
                "A struct without fields holds nothing, and Parquet cannot write it. Give it a field, or leave the column out."
            )
        fields = []
        for field in arrow:
            field_id = next_id()
            fields.append(DataField(field_id, field.name, type_from_arrow(field.type, field.nullable, next_id)))
        return DataType("ROW", nullable, fields=tuple(fields))
    raise InvalidRequest(
        f"Arrow type {arrow} has no counterpart in the format. Cast the column first, for example to "
        f"{'int64' if types.is_integer(arrow) else 'string'}."
    )


def nullable_arrow(field: pa.Field) -> pa.Field:
    """A field that may be null, and whose parts may be at any depth, as Spark makes the columns of a table from a query."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([nullable_arrow(part) for part in kind])
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_type, nullable_arrow(kind.item_field))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = pa.list_(nullable_arrow(kind.value_field))
    return field.with_type(kind).with_nullable(True)


def is_variant(arrow: pa.DataType) -> bool:
    """Whether an Arrow type is that of variants: the struct of their parts, marked as Spark marks it."""
    if not pa.types.is_struct(arrow) or [field.name for field in arrow] != ["value", "metadata"]:
        return False
    return (arrow.field("metadata").metadata or {}) == _VARIANT_MARK


def nested_fields(data_type: DataType) -> Iterator[DataField]:
    """All fields of ROWs inside a type, at any depth."""
    for field in data_type.fields:
        yield field
        yield from nested_fields(field.type)
    for inner in (data_type.key, data_type.element):
        if inner is not None:
            yield from nested_fields(inner)
