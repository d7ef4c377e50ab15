"""Timestamps in Parquet: INT96 where they are finer than a microsecond, as Paimon's Java library writes them, else whole numbers.

PyArrow writes all timestamps of a file as INT96, or none: where a schema has both, the others are written as plain numbers and
`parquet_footer.py` names what they are.
"""

from collections.abc import Iterator

import pyarrow as pa

_WRAPPED_MICROSECONDS = 2**64 // 1000


def timestamps_to_name(schema: pa.Schema) -> list[pa.DataType | None] | None:
    """Of each column of values the timestamp type, if it has one that is stored as a number beside others of INT96."""
    kinds = list(leaves(schema))
    coarse = [kind if pa.types.is_timestamp(kind) and not is_fine(kind) else None for kind in kinds]
    return coarse if any(coarse) and any(map(is_fine, kinds)) else None


def as_numbers(schema: pa.Schema) -> pa.Schema:
    """A schema in which the timestamps that are stored as numbers are numbers."""
    return pa.schema([field.with_type(_number(field.type)) for field in schema])


def is_fine(kind: pa.DataType) -> bool:
    """Whether it is a timestamp that the format stores as INT96."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def same_moments(fine: pa.Array, coarse: pa.Array) -> bool:
    """Whether a column that was read as nanoseconds and as microseconds is the same: what has no nanoseconds comes as others.

    Two stretches cannot be told from others in this way: 2262 to 2554, and 1385 to 1677 with fractions of a second.
    """
    for field, other in zip(leaf_arrays(fine), leaf_arrays(coarse), strict=True):
        if pa.types.is_timestamp(field.type) and field.type != other.type:
            nanoseconds = field.drop_null().cast(pa.int64()).to_numpy()
            difference = other.drop_null().cast(pa.int64()).to_numpy() - nanoseconds // 1000
            # Java counts back from midnight before 1970, which pyarrow takes for a large number when it makes microseconds.
            if ((difference != 0) & ((nanoseconds >= 0) | (abs(difference - _WRAPPED_MICROSECONDS) > 1))).any():
                return False
    return True


def leaves(kind: pa.Schema | pa.DataType) -> Iterator[pa.DataType]:
    """The types of the columns of values, in the order in which Parquet has them."""
    if isinstance(kind, pa.Schema) or pa.types.is_struct(kind):
        for field in kind:
            yield from leaves(field.type)
    elif pa.types.is_map(kind):
        yield from leaves(kind.key_type)
        yield from leaves(kind.item_type)
    elif pa.types.is_list(kind):
        yield from leaves(kind.value_type)
    else:
        yield kind


def leaf_arrays(column: pa.Array) -> Iterator[pa.Array]:
    """The columns of values of an Arrow column."""
    if pa.types.is_struct(column.type):
        for part in column.flatten():
            yield from leaf_arrays(part)
    elif pa.types.is_map(column.type):
        yield from leaf_arrays(column.keys)
        yield from leaf_arrays(column.items)
    elif pa.types.is_list(column.type):
        yield from leaf_arrays(column.flatten())
    else:
        yield column


def _number(kind: pa.DataType) -> pa.DataType:
    """A type, with whole numbers in the place of timestamps that are stored as such."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_number(field.type)) for field in kind])
    if pa.types.is_map(kind):
        key, item = kind.key_field, kind.item_field
        return pa.map_(key.with_type(_number(key.type)), item.with_type(_number(item.type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_number(kind.value_type)))
    return pa.int64() if pa.types.is_timestamp(kind) and not is_fine(kind) else kind
