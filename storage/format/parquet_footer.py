"""Say in the footer of a Parquet file which of its whole numbers are timestamps.

`parquet_timestamps.py` says why. Follows Thrift's compact protocol, and the record `SchemaElement` of Parquet's definition.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ..errors import CorruptData

# Types of fields in Thrift's compact protocol, by what follows them.
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_VARINTS = (4, 5, 6)
_SCHEMA, _CHILDREN, _LOGICAL_TYPE = 2, 5, 10
# The field of the union TimeUnit.
_UNITS = {"ms": 1, "us": 2}


def name_timestamps(footer: bytes, leaves: Sequence[pa.DataType | None]) -> bytes:
    """A footer in which some columns are timestamps. `leaves`: for each column of values, in the order of the file, its
    timestamp type, or None if it stays what it is.
    """
    result, taken, leaf = bytearray(), 0, 0
    for end, last_field, has_children in _schema_elements(footer):
        if has_children:
            continue
        if leaves[leaf] is not None:
            # Before the byte that ends the record.
            result += footer[taken : end - 1] + _logical_type(leaves[leaf], last_field)
            taken = end - 1
        leaf += 1
    if leaf != len(leaves):
        raise CorruptData(f"A Parquet footer has {leaf} columns of values instead of {len(leaves)}.")
    return bytes(result + footer[taken:])


def _logical_type(kind: pa.DataType, last_field: int) -> bytes:
    """The field `logicalType` of a record whose last field so far is the given one."""
    adjusted = _TRUE if kind.tz is not None else _FALSE
    # LogicalType is a union, of which field 8 is TimestampType: field 1 is a truth value, field 2 a union of empty records.
    unit = bytes([1 << 4 | _STRUCT, _UNITS[kind.unit] << 4 | _STRUCT, _STOP, _STOP])
    timestamp = bytes([8 << 4 | _STRUCT, 1 << 4 | adjusted]) + unit + bytes([_STOP])
    return bytes([(_LOGICAL_TYPE - last_field) << 4 | _STRUCT]) + timestamp + bytes([_STOP])


def _schema_elements(footer: bytes) -> Iterator[tuple[int, int, bool]]:
    """For each element of the schema: the position behind it, its last field, whether it has children."""
    position = next(start for number, _, start, _ in _fields(footer, 0) if number == _SCHEMA)
    count, _, position = _list_header(footer, position)
    for _ in range(count):
        fields = list(_fields(footer, position))
        # The byte that ends a record comes right behind its last field.
        position = fields[-1][3] + 1
        yield position, fields[-1][0], any(number == _CHILDREN for number, *_ in fields)


def _fields(data: bytes, position: int) -> Iterator[tuple[int, int, int, int]]:
    """Number and type of each field of a record, where its value starts and ends."""
    number = 0
    while (head := data[position]) != _STOP:
        position += 1
        if head >> 4:
            number += head >> 4
        else:
            zigzag, position = _varint(data, position)
            number = zigzag >> 1 ^ -(zigzag & 1)
        start, position = position, _skip(data, position, head & 15)
        yield number, head & 15, start, position


def _skip(data: bytes, position: int, kind: int) -> int:
    """The position behind a value."""
    if kind in (_TRUE, _FALSE):
        return position
    if kind == _BYTE:
        return position + 1
    if kind in _VARINTS:
        return _varint(data, position)[1]
    if kind == _DOUBLE:
        return position + 8
    if kind == _BINARY:
        length, position = _varint(data, position)
        return position + length
    if kind in (_LIST, _SET):
        count, inner, position = _list_header(data, position)
        for _ in range(count):
            # A truth value in a list is a byte.
            position = position + 1 if inner in (_TRUE, _FALSE) else _skip(data, position, inner)
        return position
    if kind == _STRUCT:
        for *_, end in list(_fields(data, position)):
            position = end
        return position + 1
    raise CorruptData(f"A Parquet footer has a value of type {kind}, which its definition does not have.")


def _list_header(data: bytes, position: int) -> tuple[int, int, int]:
    """Number of elements, their type, and the position of the first."""
    head = data[position]
    if head >> 4 < 15:
        return head >> 4, head & 15, position + 1
    count, position = _varint(data, position + 1)
    return count, head & 15, position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A number and the position behind it."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 127) << shift
        position += 1
        if byte < 128:
            return value, position
        shift += 7
