"""Bring a column of an older schema into the shape of the current one, matching nested fields by id."""

import pyarrow as pa

from ..data_types import DataType
from ..errors import Unsupported
from .casts import cast


def evolve(column: pa.Array, old: DataType, new: DataType, name: str) -> pa.Array:
    """The column under its new type. Raises Unsupported if a value cannot be had under it, naming the column."""
    is_same, target = old.not_null() == new.not_null(), new.to_arrow()
    # A field that was dropped and added again looks alike and is another one: its id tells.
    if is_same and column.type == target:
        return column
    if new.root == "ROW" and old.root == "ROW":
        return _evolve_row(column, old, new, name)
    if new.root == "ARRAY" and old.root == "ARRAY" and old.element and new.element:
        elements = evolve(column.values, old.element, new.element, name)
        return pa.ListArray.from_arrays(column.offsets, elements, type=target, mask=_nulls(column))
    if new.root == "MAP" and old.root == "MAP" and old.key and new.key and old.element and new.element:
        keys = evolve(column.keys, old.key, new.key, name)
        items = evolve(column.items, old.element, new.element, name)
        return pa.MapArray.from_arrays(column.offsets, keys, items, type=target, mask=_nulls(column))
    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if old.root == "TIME" and pa.types.is_integer(column.type):
            # ORC has whole numbers.
            column = column.cast(pa.int32()).cast(pa.time32("ms"))
        return column.cast(target) if is_same else cast(column, old, new)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise Unsupported(
            f"Column {name!r} was of type {old} when some of its rows were written, and is of type {new} now, under which they "
            f"cannot be read: {error}. The files are sound: change the type back."
        ) from None


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
