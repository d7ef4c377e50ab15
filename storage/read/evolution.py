"""Bring a column of a file into the shape that the table's schema gives it, matching nested fields by id."""

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataType
from ..errors import Unsupported
from .casts import cast


def evolve(column: pa.Array, old: DataType, new: DataType, name: str, *, trims_char: bool = False) -> pa.Array:
    """The column under its new type; `name` is for errors.

    `trims_char`: blanks at the end of a CHAR, at any depth, are no part of it, as Java reads ORC.
    Raises Unsupported if a value cannot be had under the new type, naming the column and both types.
    """
    is_same, target = old.not_null() == new.not_null(), new.to_arrow()
    trims_char = trims_char and holds_char(old)
    # A field that was dropped and added again looks alike and is another one: its id tells.
    if is_same and column.type == target and not trims_char:
        return column
    if old.root == "VARIANT" and column.type.num_fields != target.num_fields:
        raise Unsupported(
            f"Column {name!r} holds variants that are shredded: parts of them lie in columns of their own, which are not "
            "read here."
        )
    if new.root == "ROW" and old.root == "ROW":
        return _evolve_row(column, old, new, name, trims_char)
    if new.root == "ARRAY" and old.root == "ARRAY" and old.element and new.element:
        offsets, (elements,) = _inside(column, [column.values])
        elements = evolve(elements, old.element, new.element, name, trims_char=trims_char)
        return pa.ListArray.from_arrays(offsets, elements, type=target, mask=_nulls(column))
    if new.root == "MAP" and old.root == "MAP" and old.key and new.key and old.element and new.element:
        offsets, (keys, items) = _inside(column, [column.keys, column.items])
        keys = evolve(keys, old.key, new.key, name, trims_char=trims_char)
        items = evolve(items, old.element, new.element, name, trims_char=trims_char)
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=_nulls(column))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if old.root == "TIME" and pa.types.is_integer(column.type):
        # ORC has whole numbers.
        column = column.cast(pa.int32()).cast(pa.time32("ms"))
    if trims_char and old.root == "CHAR":
        column = pc.utf8_rtrim(column, " ")
    if is_same:
        # ORC has nanoseconds, which are cut to what the type holds.
        return column.cast(target, safe=not old.is_timestamp)
    try:
        return cast(column, old, new)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise Unsupported(
            f"Column {name!r} was of type {old} when some of its rows were written, and is of type {new} now, under which they "
            f"cannot be read: {error}. The files are sound: change the type back."
        ) from None


def holds_char(data_type: DataType) -> bool:
    """Whether a type is CHAR, or has one inside of it."""
    inner = (*(field.type for field in data_type.fields), data_type.key, data_type.element)
    return data_type.root == "CHAR" or any(part is not None and holds_char(part) for part in inner)


def _nulls(column: pa.Array) -> pa.Array | None:
    return column.is_null() if column.null_count else None


def _inside(column: pa.Array, parts: list[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
    """Offsets from zero, and of the values of lists those that this slice of them holds."""
    offsets = column.offsets
    if not len(column):
        return offsets, [part.slice(0, 0) for part in parts]
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    return pc.subtract(offsets, offsets[0]), [part.slice(first, last - first) for part in parts]


def _evolve_row(column: pa.Array, old: DataType, new: DataType, name: str, trims_char: bool) -> pa.Array:
    old_fields = {field.id: (index, field) for index, field in enumerate(old.fields)}
    children = []
    for field in new.fields:
        index, old_field = old_fields.get(field.id, (-1, None))
        if old_field is None:
            children.append(pa.nulls(len(column), field.type.to_arrow()))
        else:
            position = column.type.get_field_index(old_field.name)
            child = column.field(position if position >= 0 else index)
            path = f"{name}.{field.name}"
            children.append(evolve(child, old_field.type, field.type, path, trims_char=trims_char))
    return pa.StructArray.from_arrays(children, fields=list(new.to_arrow()), mask=_nulls(column))
