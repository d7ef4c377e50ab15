"""Bring a column of an older schema into the shape of the current one, matching nested fields by id."""

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataType
from ..errors import CorruptData


def evolve(column: pa.Array, old: DataType, new: DataType, name: str) -> pa.Array:
    """The column under its new type. Raises CorruptData if a value cannot be cast, naming the column."""
    target = new.to_arrow()
    # A field that was dropped and added again looks alike and is another one.
    if column.type == target and (old == new or not _holds_row(new)):
        return column
    try:
        if new.root == "ROW" and old.root == "ROW":
            return _evolve_row(column, old, new, name)
        if new.root == "ARRAY" and old.root == "ARRAY" and old.element and new.element and _holds_row(new):
            elements = evolve(column.values, old.element, new.element, name)
            return pa.ListArray.from_arrays(column.offsets, elements, type=target, mask=_nulls(column))
        if new.root == "MAP" and old.root == "MAP" and old.element and new.element and _holds_row(new):
            items = evolve(column.items, old.element, new.element, name)
            return pa.MapArray.from_arrays(column.offsets, column.keys, items, type=target, mask=_nulls(column))
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if new.is_text and pa.types.is_boolean(column.type):
            return pc.if_else(column, "true", "false")
        # Narrowing a number, or cutting a fraction of a second, is what the change of type asked for.
        return column.cast(target, safe=not (old.is_timestamp and new.is_timestamp))
    except pa.ArrowException as error:
        raise CorruptData(f"Column {name!r} of type {old} cannot be read as {new}: {error}") from None


def _holds_row(data_type: DataType) -> bool:
    if data_type.root == "ROW":
        return True
    return any(_holds_row(inner) for inner in (data_type.key, data_type.element) if inner is not None)


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _evolve_row(column: pa.Array, old: DataType, new: DataType, name: str) -> pa.Array:
    old_fields = {field.id: (index, field) for index, field in enumerate(old.fields)}
    children = []
    for field in new.fields:
        index, old_field = old_fields.get(field.id, (-1, None))
        if old_field is None:
            children.append(pa.nulls(len(column), field.type.to_arrow()))
        else:
            position = column.type.get_field_index(old_field.name)
            child = column.field(position if position >= 0 else index)
            children.append(evolve(child, old_field.type, field.type, f"{name}.{field.name}"))
    return pa.StructArray.from_arrays(children, fields=list(new.to_arrow()), mask=_nulls(column))
