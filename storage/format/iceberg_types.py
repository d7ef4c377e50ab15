"""Types and schemas as Iceberg names them, as Paimon's Java library maps them. Pure. Follows `docs/format.md`, "Iceberg".

What Iceberg lacks, or what its readers would not find in the files as they are, is refused by name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..data_types import DataField, DataType
from ..errors import Unsupported
from .field_ids import element_id, key_id, map_types

FIRST_PARTITION_FIELD = 1000
_PLAIN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DATE": "date",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "VARBINARY": "binary",
}
_TIMESTAMPS = {"TIMESTAMP": "timestamp", "TIMESTAMP_LTZ": "timestamptz"}
# The precisions of timestamps whose unit Iceberg's version 2 has.
_LEAST_DIGITS, _MOST_DIGITS = 3, 6
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")


def iceberg_fields(fields: Sequence[DataField]) -> list[dict[str, Any]]:
    """Columns as a schema of Iceberg's has them. Raises Unsupported, naming the column, for what it lacks."""
    return [_field(field, field.name) for field in fields]


def column_type(field: DataField) -> Any:
    """The type of a column: a name, or the description of a nested one. Raises Unsupported as above."""
    return _type(field.type, field.id, 0, field.name)


def highest_id(fields: Sequence[Mapping[str, Any]]) -> int:
    """The highest id of columns and of fields of rows in Iceberg's descriptions of them."""
    return max((field["id"] for field in _with_inner(fields)), default=0)


def partition_fields(fields: Sequence[DataField]) -> list[dict[str, Any]]:
    """Partition columns as a partition spec of Iceberg's has them. Raises Unsupported, naming the column, for decimals."""
    for field in fields:
        if field.type.root == "DECIMAL":
            raise Unsupported(
                f"Partition column {field.name!r} is of type {field.type}: Paimon's Java library and readers of Iceberg write "
                "decimals of partitions in different ways. Partition by another type, or leave 'metadata.iceberg.storage' out."
            )
    return [
        {"name": field.name, "transform": "identity", "source-id": field.id, "field-id": number}
        for number, field in enumerate(fields, FIRST_PARTITION_FIELD)
    ]


def _with_inner(fields: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for field in fields:
        yield field
        yield from _with_inner(list(_rows_in(field["type"])))


def _rows_in(kind: Any) -> Iterator[Mapping[str, Any]]:
    """The fields of the rows in a type."""
    if isinstance(kind, Mapping):
        yield from kind.get("fields", ())
        for part in ("element", "key", "value"):
            yield from _rows_in(kind.get(part))


def _field(field: DataField, path: str) -> dict[str, Any]:
    described = {
        "id": field.id,
        "name": field.name,
        "required": not field.type.nullable,
        "type": _type(field.type, field.id, 0, path),
    }
    return described if field.description is None else {**described, "doc": field.description}


def _type(kind: DataType, field_id: int, depth: int, path: str) -> Any:
    """A type of Iceberg's. `depth`: how many collections it lies in, within the column or field of that id."""
    if plain := _PLAIN.get(kind.root):
        return plain
    if kind.root == "DECIMAL":
        return f"decimal({kind.precision}, {kind.scale})"
    if kind.is_timestamp and _LEAST_DIGITS <= kind.precision <= _MOST_DIGITS:
        return _TIMESTAMPS[kind.root]
    if kind.root == "ROW":
        return {"type": "struct", "fields": [_field(field, f"{path}.{field.name}") for field in kind.fields]}
    if kind.root in ("MAP", "MULTISET"):
        key, value = map_types(kind)
        return {
            "type": "map",
            "key-id": key_id(field_id, depth + 1),
            "key": _type(key, field_id, depth + 1, f"{path}.key"),
            "value-id": element_id(field_id, depth + 1),
            "value-required": not value.nullable,
            "value": _type(value, field_id, depth + 1, f"{path}.value"),
        }
    if kind.root == "ARRAY" and kind.element is not None:
        return {
            "type": "list",
            "element-id": element_id(field_id, depth + 1),
            "element-required": not kind.element.nullable,
            "element": _type(kind.element, field_id, depth + 1, f"{path}.element"),
        }
    raise Unsupported(f"Column {path!r} is of type {kind}, which {_why_not(kind)}.")


def _why_not(kind: DataType) -> str:
    if kind.is_timestamp:
        return f"readers of Iceberg cannot be given: its timestamps have a precision of {_LEAST_DIGITS} to {_MOST_DIGITS} here"
    if kind.root == "TIME":
        return "data files hold in milliseconds, and readers of Iceberg expect in microseconds"
    return "Iceberg does not have in version 2"


def refuse_misread(before: Sequence[DataField], after: Sequence[DataField]) -> None:
    """Raise Unsupported, naming the column, for a change of types that readers of Iceberg do not follow in files that are there:
    they take whole numbers for wider ones, FLOAT for DOUBLE, and decimals for those of more digits and the same scale.
    """
    old, new = (leaf_types(iceberg_fields(fields)) for fields in (before, after))
    for field_id, (path, kind) in new.items():
        _, had = old.get(field_id, (path, kind))
        if not _reads_as(had, kind):
            raise Unsupported(
                f"Column {path!r} is of type {had} for Iceberg and would be {kind}: its readers do not take one for the other. "
                "Add another column instead, or set 'metadata.iceberg.storage' = 'disabled'."
            )


def leaf_types(fields: Sequence[Mapping[str, Any]]) -> dict[int, tuple[str, str]]:
    """Path and type of each column, and of each part of a nested one, that has no parts itself, by its id; from Iceberg's
    descriptions of the columns.
    """
    return {field_id: leaf for field in fields for field_id, leaf in _leaves(field["id"], field["name"], field["type"])}


def _leaves(field_id: int, path: str, kind: Any) -> Iterator[tuple[int, tuple[str, str]]]:
    if isinstance(kind, str):
        yield field_id, (path, kind)
        return
    for field in kind.get("fields", ()):
        yield from _leaves(field["id"], f"{path}.{field['name']}", field["type"])
    for part in ("element", "key", "value"):
        if part in kind:
            yield from _leaves(kind[f"{part}-id"], f"{path}.{part}", kind[part])


def _reads_as(old: str, new: str) -> bool:
    if old == new or (old, new) in (("int", "long"), ("float", "double")):
        return True
    before, after = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    return before is not None and after is not None and before[2] == after[2] and int(before[1]) <= int(after[1])
