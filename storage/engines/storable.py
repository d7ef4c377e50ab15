"""Which values a column takes in SQL: those that Spark stores without being told to cast them (its ANSI store assignment). Pure.

Numbers go into numbers, everything plain into text, days and moments into each other, and nested values if what is inside of
them does. A value that does not fit is an error when it is met; a text is no number, and a number no boolean.
"""

import pyarrow as pa

from ..data_types import is_variant
from ..errors import InvalidRequest

_t = pa.types


def is_storable(given: pa.DataType, held: pa.DataType) -> bool:
    """Whether values of a type go into a column of another."""
    if given == held or _t.is_null(given):
        return True
    if is_variant(given) and not is_variant(held):
        return False
    if _is_list(given) and _is_list(held):
        return is_storable(given.value_type, held.value_type)
    if _t.is_map(given) and _t.is_map(held):
        return is_storable(given.key_type, held.key_type) and is_storable(given.item_type, held.item_type)
    if _t.is_struct(given) and _t.is_struct(held):
        pairs = zip(given, held, strict=False)
        return given.num_fields == held.num_fields and all(
            is_storable(field.type, other.type) for field, other in pairs
        )
    if _t.is_nested(given) or _t.is_nested(held):
        return False
    if _is_text(held):
        return True
    if _is_moment(held):
        return _is_moment(given)
    if _is_bytes(held):
        return _is_bytes(given)
    return _is_number(given) and _is_number(held)


def refuse_unstorable(given: pa.DataType, held: pa.DataType, column: str) -> None:
    """Raise InvalidRequest for values that a column does not take."""
    if not is_storable(given, held):
        raise InvalidRequest(
            f"Column {column!r} holds {_named(held)}; the statement gives {_named(given)}, which is not stored without being "
            f"told to: {'parse_json makes one of a text' if is_variant(held) else 'CAST it'}."
        )


def _named(kind: pa.DataType) -> str:
    return "variants" if is_variant(kind) else str(kind)


def _is_list(kind: pa.DataType) -> bool:
    return bool(_t.is_list(kind) or _t.is_large_list(kind) or _t.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(_t.is_string(kind) or _t.is_large_string(kind) or _t.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        _t.is_binary(kind) or _t.is_large_binary(kind) or _t.is_fixed_size_binary(kind) or _t.is_binary_view(kind)
    )


def _is_moment(kind: pa.DataType) -> bool:
    return bool(_t.is_date(kind) or _t.is_timestamp(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(_t.is_integer(kind) or _t.is_floating(kind) or _t.is_decimal(kind))
