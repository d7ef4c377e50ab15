"""Parts of values that a file says are never null: in Arrow they are null where the value that they are a part of is."""

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidRequest


def has_required_parts(kind: pa.DataType) -> bool:
    """Whether a row, at any depth of a type, has fields that are never null."""
    parts = [kind.field(index) for index in range(kind.num_fields)]
    is_row = pa.types.is_struct(kind)
    return any((is_row and not part.nullable) or has_required_parts(part.type) for part in parts)


def with_required_parts(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows under a schema that has parts of rows that are never null. Raises InvalidRequest if one is null in a row."""
    for index, field in enumerate(schema):
        if has_required_parts(field.type):
            chunks = [_required(chunk, field.type, field.name) for chunk in table.column(index).chunks]
            column = pa.chunked_array(chunks, field.type)
            table = table.set_column(index, table.schema.field(index).with_type(field.type), column)
    return table


def _required(column: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
    nulls = column.is_null() if column.null_count else None
    if pa.types.is_struct(kind):
        parts = []
        for index, field in enumerate(kind):
            part = _required(column.field(index), field.type, f"{path}.{field.name}")
            if not field.nullable and part.null_count:
                if nulls is None or pc.any(pc.and_not(part.is_null(), nulls)).as_py():
                    raise InvalidRequest(
                        f"{path}.{field.name} is NOT NULL, but values are null there. Fill or drop them."
                    )
                part = _without_nulls(part)
            parts.append(part)
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=nulls)
    if not has_required_parts(kind):
        return column
    first, last = (column.offsets[0].as_py(), column.offsets[-1].as_py()) if len(column) else (0, 0)
    offsets = pc.subtract(column.offsets, first)
    if pa.types.is_map(kind):
        keys = _required(column.keys.slice(first, last - first), kind.key_type, f"{path}.key")
        items = _required(column.items.slice(first, last - first), kind.item_type, f"{path}.value")
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=nulls)
    values = _required(column.values.slice(first, last - first), kind.value_type, f"{path}.element")
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=nulls)


def _without_nulls(column: pa.Array) -> pa.Array:
    """The same memory, in which what was null is whatever lies there."""
    kind = column.type
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([column.field(index) for index in range(kind.num_fields)], fields=list(kind))
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(column.offsets, column.keys, column.items, type=kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(column.offsets, column.values, type=kind)
    return pa.Array.from_buffers(kind, len(column), [None, *column.buffers()[1:]], 0, column.offset)
