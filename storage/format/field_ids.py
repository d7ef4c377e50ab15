"""Ids of fields in Parquet files, by which readers find a column whatever it is called by now, as Paimon's Java library has them.

Columns and fields of rows have those of the schema; elements, keys and values of collections get ids that are computed from
the column's and from how deep they lie.
"""

from collections.abc import Mapping

import pyarrow as pa

from ..data_types import DataField, DataType

# What pyarrow calls the id of a field.
FIELD_ID = b"PARQUET:field_id"
_KEY_PREFIX = "_KEY_"
_FIRST_OF_KEYS = (2**31 - 1) // 2
_SYSTEM_IDS = {"_SEQUENCE_NUMBER": 2**31 - 2, "_VALUE_KIND": 2**31 - 3}
_BASE, _DEPTHS = (2**31 - 1) // 4, 1 << 10
_INT_OF_MULTISETS = DataType("INT", nullable=False)


def element_id(field_id: int, depth: int) -> int:
    """The id of the elements of an array, or of the values of a map, in a column of some id."""
    return _BASE + field_id * _DEPTHS + depth


def key_id(field_id: int, depth: int) -> int:
    """The id of the keys of a map in a column of some id."""
    return _BASE - field_id * _DEPTHS - depth


def map_types(data_type: DataType) -> tuple[DataType, DataType]:
    """The types of keys and values of a map, or of a multiset, whose values are counts."""
    key, value = (
        (data_type.element, _INT_OF_MULTISETS) if data_type.root == "MULTISET" else (data_type.key, data_type.element)
    )
    assert key is not None
    assert value is not None
    return key, value


def with_field_ids(schema: pa.Schema, fields: Mapping[str, DataField]) -> pa.Schema:
    """An Arrow schema of a data file with the ids of its fields, and parts of values that are never null said to be so.

    `fields`: those of the table, by name.
    """
    return pa.schema([_with_ids(column, fields) for column in schema])


def _with_ids(column: pa.Field, fields: Mapping[str, DataField]) -> pa.Field:
    if column.name in _SYSTEM_IDS:
        return _named(column, _SYSTEM_IDS[column.name])
    if column.name not in fields and column.name.startswith(_KEY_PREFIX):
        return _named(column, _FIRST_OF_KEYS + fields[column.name.removeprefix(_KEY_PREFIX)].id)
    field = fields[column.name]
    return _named(column.with_type(_inside(column.type, field.type, field.id, 1)), field.id)


def _named(column: pa.Field, field_id: int) -> pa.Field:
    return column.with_metadata({FIELD_ID: str(field_id).encode()})


def _inside(arrow: pa.DataType, kind: DataType, field_id: int, depth: int) -> pa.DataType:
    """An Arrow type whose parts have ids. `depth`: how many collections its parts lie in, within the column or field."""
    if kind.root == "ROW":
        parts = zip(arrow, kind.fields, strict=True)
        return pa.struct(
            [
                _named(pa.field(part.name, _inside(part.type, field.type, field.id, 1), field.type.nullable), field.id)
                for part, field in parts
            ]
        )
    if kind.root == "VARIANT":
        return pa.struct([pa.field(part.name, part.type, nullable=False) for part in arrow])
    if kind.root in ("MAP", "MULTISET"):
        key, value = map_types(kind)
        keys, values = arrow.key_field, arrow.item_field
        return pa.map_(
            _named(keys.with_type(_inside(keys.type, key, field_id, depth + 1)), key_id(field_id, depth)),
            _named(values.with_type(_inside(values.type, value, field_id, depth + 1)), element_id(field_id, depth)),
        )
    if kind.root == "ARRAY" and kind.element is not None:
        inner = arrow.value_field
        typed = inner.with_type(_inside(inner.type, kind.element, field_id, depth + 1))
        return pa.list_(_named(typed, element_id(field_id, depth)))
    return arrow
