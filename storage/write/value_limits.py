"""How long a text may be, and how fine a moment: values beyond what the type of a column, or of a part of it, says."""

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import MAX_LENGTH, DataType
from ..errors import InvalidRequest

# Digits of a second by Arrow's units.
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_MOMENTS = ("TIMESTAMP", "TIMESTAMP_LTZ", "TIME")


def is_limited(data_type: DataType) -> bool:
    """Whether Arrow may hold values that the type has not."""
    return _is_of_length(data_type) or data_type.root in _MOMENTS


def cut_blanks(values: pa.ChunkedArray, data_type: DataType) -> pa.ChunkedArray:
    """Texts without the blanks at their ends by which they are longer than the type says: in SQL they fit."""
    if not (data_type.is_text and _is_of_length(data_type)):
        return values
    is_longer = pc.greater(pc.utf8_length(values), data_type.length)
    if not pc.any(is_longer).as_py():
        return values
    rest = pc.utf8_slice_codeunits(values, data_type.length)
    is_blank = pc.and_(is_longer, pc.equal(pc.utf8_rtrim(rest, " "), ""))
    return pc.if_else(is_blank, pc.utf8_slice_codeunits(values, 0, data_type.length), values)


def check_limits(values: pa.Array | pa.ChunkedArray, data_type: DataType, place: str, *, each: str) -> None:
    """Raise InvalidRequest for a text, or bytes, longer than the type says, and for a time with more digits of a second.

    `place` and `each` name the column, or the part of it, and one of its values: "Column 'c'" and "row", "c.element" and "value".
    """
    if _is_of_length(data_type):
        lengths = pc.utf8_length(values) if data_type.is_text else pc.binary_length(values)
        longest = pc.max(lengths).as_py()
        if longest is not None and longest > data_type.length:
            row = int(pc.index(pc.equal(lengths, longest), True).as_py())
            what = "characters" if data_type.is_text else "bytes"
            raise InvalidRequest(
                f"{place} has type {data_type}; {each} {row} has {longest} {what}. Cut it, or widen the column."
            )
    digits = _DIGITS.get(getattr(values.type, "unit", ""), 0)
    if data_type.root in _MOMENTS and data_type.precision < digits:
        step = 10 ** (digits - data_type.precision)
        units = values.cast(pa.int32() if pa.types.is_time32(values.type) else pa.int64())
        rest = pc.subtract(units, pc.multiply(pc.divide(units, step), step))
        row = int(pc.index(pc.not_equal(rest, 0), True).as_py())
        if row >= 0:
            raise InvalidRequest(
                f"{place} has type {data_type}; {each} {row} has {values[row]}, which has more digits of a second. "
                "Round it, or give the column more."
            )


def _is_of_length(data_type: DataType) -> bool:
    return (data_type.is_text or data_type.is_bytes) and data_type.length != MAX_LENGTH
