"""Casts between the type that metadata has and the type that its column is declared with, both ways.

A number for a time means milliseconds since 1970. What does not fit is an error, never another value.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataType
from ..errors import InvalidRequest

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_TIMES = ("TIMESTAMP", "TIMESTAMP_LTZ")
_TEXTS = ("VARCHAR", "CHAR")
_BYTES = ("VARBINARY", "BINARY")


def can_cast(source: DataType, target: DataType) -> bool:
    """Whether values of one type can be told as another."""
    if source.is_nested or target.is_nested:
        return _can_cast_nested(source, target)
    kinds = [_kind(source), _kind(target)]
    if kinds[0] == kinds[1] or kinds[1] == "text":
        return True
    if kinds[0] == "text":
        return kinds[1] != "boolean"
    return sorted(kinds) == ["number", "time"] and "BIGINT" in (source.root, target.root)


def _can_cast_nested(source: DataType, target: DataType) -> bool:
    if source.root != target.root:
        return False
    if source.root == "MAP":
        assert source.key and target.key and source.element and target.element
        return source.key.is_text and target.key.is_text and can_cast(source.element, target.element)
    if source.root == "ARRAY":
        assert source.element and target.element
        return can_cast(source.element, target.element)
    names = [[field.name for field in each.fields] for each in (source, target)]
    return names[0] == names[1] and all(
        can_cast(source_field.type, other.type)
        for source_field, other in zip(source.fields, target.fields, strict=True)
    )


def _kind(type_: DataType) -> str:
    for kind, roots in {"number": _NUMBERS, "time": _TIMES, "text": _TEXTS, "bytes": _BYTES}.items():
        if type_.root in roots:
            return kind
    return type_.root.lower()


def cast_metadata(values: pa.Array, source: DataType, target: DataType, column: str) -> pa.Array:
    """Values in the declared type. Raises InvalidRequest that names the column for one that does not fit."""
    wanted = target.to_arrow()
    try:
        if _kind(source) == "time" and _kind(target) == "number":
            return values.cast(pa.timestamp("ms", tz=values.type.tz)).cast(pa.int64()).cast(wanted)
        if _kind(source) == "number" and _kind(target) == "time":
            return values.cast(pa.int64()).cast(pa.timestamp("ms")).cast(wanted)
        if _kind(source) == "time" and _kind(target) == "time":
            # Finer than the column is cut off, as in SQL.
            return values.cast(wanted, safe=False)
        if _kind(source) == "time" and _kind(target) == "text":
            return pc.strftime(values.cast(pa.timestamp("ms")), "%Y-%m-%d %H:%M:%S")
        if _kind(source) == "text" and _kind(target) == "time" and target.root == "TIMESTAMP_LTZ":
            # As they are told, without a zone: in UTC.
            has_zone = pc.match_substring_regex(values, r"(Z|[+-]\d\d(:?\d\d)?)$")
            values = pc.if_else(has_zone, values, pc.binary_join_element_wise(values, "Z", ""))
        return values.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequest(f"Metadata column {column!r} cannot be {target}: {error}") from None
