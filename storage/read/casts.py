"""Values of files that were written when their column had another type, under the type that it has now.

What comes out is what Paimon's Java library makes of them (`CastExecutors`, checked by `tests/interop/test_java_casts.py`; where
it is not followed: `docs/decisions/0020`, "Changed types"). Whole columns are converted by Arrow and numpy. One value after the
other, and each distinct one once, is what Arrow has no parser for: Java's texts of whole numbers (`12.9`), of decimals that
are rounded, of truth (`yes`), of dates and times in parts (`2020-2`), and floats that Java writes with an exponent.
"""

import datetime as dt
import re
from calendar import monthrange
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import MAX_LENGTH, DataType

_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_MS = 86_400_000
_EPOCH = dt.date(1970, 1, 1)
# More digits than any decimal of 256 bits can have are not needed: products of 38 digits fit.
_EXACT = Context(prec=1000)
_WIDE = 76
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_INTEGER = re.compile(r"[+-]?\d*(?:\.\d*)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_FLOAT = r"^[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?)$"
_DATE = re.compile(r"(\d{1,4})(?:-(\d{1,2})(?:-(\d{1,2})(?: .*)?)?)?", re.ASCII)
_TIME = re.compile(r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?", re.ASCII)
_MOMENT = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?", re.ASCII)


def cast(column: pa.Array, old: DataType, new: DataType) -> pa.Array:
    """The values of a column of no nested type under another type, null where they were null, and where Java makes null of them.

    `column`: of the Arrow type of `old`, not as a dictionary. Returns an array of the same length, of the Arrow type of `new`.
    Raises ArrowException, ValueError or OverflowError, which say what cannot be had under the new type.
    """
    if new.is_text:
        return _to_text(column, old, new)
    if new.is_bytes:
        return _to_bytes(column, old, new)
    if new.root == "BOOLEAN":
        return _by_value(column, _boolean, pa.bool_()) if old.is_text else pc.not_equal(column, _zero(column.type))
    if new.is_integer:
        return _to_integer(column, old, new)
    if new.is_float:
        return _to_float(column, old, new)
    if new.root == "DECIMAL":
        return _to_decimal(column, old, new)
    if new.root == "DATE":
        return _to_date(column, old)
    if new.root == "TIME":
        return _to_time(column, old)
    if new.is_timestamp:
        return _to_timestamp(column, old, new)
    return column.cast(new.to_arrow())


def _by_value(column: pa.Array, convert: Callable[[Any], Any], target: pa.DataType) -> pa.Array:
    """Each value that there is converted once, for what Arrow has no function."""
    encoded = column.dictionary_encode()
    return pa.array(map(convert, encoded.dictionary.to_pylist()), target).take(encoded.indices)


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(0, pa.int8()).cast(kind) if not pa.types.is_decimal(kind) else pa.scalar(Decimal(0), kind)


# --- text and bytes


def _to_text(column: pa.Array, old: DataType, new: DataType) -> pa.Array:
    if old.is_bytes:
        # Of any length, as Java has it.
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            return _by_value(column, lambda value: value.decode(errors="replace"), pa.string())
    text = column if old.is_text else _text_of(column, old)
    if new.root == "CHAR":
        return pc.utf8_rpad(pc.utf8_slice_codeunits(text, 0, new.length), new.length, " ")
    if new.length == MAX_LENGTH or (old.is_text and old.length <= new.length):
        return text
    return pc.utf8_slice_codeunits(text, 0, new.length)


def _text_of(column: pa.Array, old: DataType) -> pa.Array:
    if old.root == "BOOLEAN":
        return pc.if_else(column, "true", "false")
    if old.is_float:
        return _text_of_float(column)
    if old.root == "DECIMAL":
        text = column.cast(pa.string())
        return _repaired(text, pc.match_substring(text, "E"), lambda shown: format(Decimal(shown), "f"))
    if old.root == "TIME":
        shown = pc.utf8_slice_codeunits(column.cast(pa.string()), 0, 8 + (old.precision and 1 + old.precision))
        # Zeros at the end but the first behind the point.
        return pc.replace_substring_regex(shown, r"(\.\d+?)0+$", r"\1")
    if old.is_timestamp:
        naive = _without_zone(column)
        return pc.utf8_slice_codeunits(naive.cast(pa.string()), 0, 19 + (old.precision and 1 + old.precision))
    return column.cast(pa.string())


def _text_of_float(column: pa.Array) -> pa.Array:
    """As Java writes it: `1.0E10`, `0.001`, `-Infinity`."""
    shown = column.cast(pa.string())
    # Numbers that Java writes without an exponent, Arrow does too, but for the `.0` of whole ones.
    size = pc.abs(column)
    is_plain = pc.or_(pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)), pc.equal(column, 0))
    plain = pc.if_else(pc.match_substring(shown, "."), shown, pc.binary_join_element_wise(shown, ".0", ""))
    return _repaired(plain, pc.invert(is_plain), _java_float, of=shown)


def _java_float(shown: str) -> str:
    if shown.lstrip("-") in ("inf", "nan"):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(shown, "NaN")
    sign, digits, exponent = Decimal(shown).normalize().as_tuple()
    head, tail = str(digits[0]), "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{head}.{tail}E{int(exponent) + len(digits) - 1}"


def _repaired(text: pa.Array, where: pa.Array, repair: Callable[[str], str], of: pa.Array | None = None) -> pa.Array:
    """The texts, with those `where` replaced by what a function makes of the ones in `of`."""
    where = pc.fill_null(where, False)
    if not pc.any(where).as_py():
        return text
    return pc.replace_with_mask(text, where, _by_value((text if of is None else of).filter(where), repair, pa.string()))


def _to_bytes(column: pa.Array, old: DataType, new: DataType) -> pa.Array:
    data = column.cast(pa.binary())
    if new.root == "BINARY":
        padding = pa.scalar(bytes(new.length), pa.binary())
        data = pc.binary_join_element_wise(data, padding, pa.scalar(b"", pa.binary()))
    elif new.length == MAX_LENGTH or (old.is_bytes and old.length <= new.length):
        return data
    return pc.binary_slice(data, 0, new.length)


# --- numbers


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    raise ValueError(f"{text!r} is neither true nor false")


def _to_integer(column: pa.Array, old: DataType, new: DataType) -> pa.Array:
    target = new.to_arrow()
    if old.is_text:
        return _by_value(column, _integer, pa.int64()).cast(target)
    if old.root == "BOOLEAN":
        return column.cast(target)
    if old.is_float:
        column = _saturated(column, min(64, max(32, _INTEGER_BITS[new.root])))
    elif old.root == "DECIMAL":
        column = _low_bits(column)
    elif old.is_timestamp:
        column = pc.divide(_milliseconds(column), 1000)
    # The low bits, as Java narrows.
    return column.cast(target, safe=False)


def _integer(text: str) -> int:
    """Digits, of which those behind a point count for nothing."""
    if not text or text in ("+", "-") or not _INTEGER.fullmatch(text):
        raise ValueError(f"{text!r} is no whole number")
    return int(text.partition(".")[0].strip("+") or 0) if text.partition(".")[0] not in ("+", "-") else 0


def _saturated(column: pa.Array, bits: int) -> pa.Array:
    """Floats cut to whole numbers; those too large become the largest, NaN becomes 0."""
    values = column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    whole = np.trunc(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.clip(whole, float(low), np.nextafter(float(2 ** (bits - 1)), 0)).astype(np.int64)
    numbers = np.where(whole >= float(2 ** (bits - 1)), high, np.where(whole <= float(low), low, inside))
    return pa.array(numbers, pa.int64(), mask=np.asarray(column.is_null()))


def _low_bits(column: pa.Array) -> pa.Array:
    """Decimals cut to whole numbers, of which the low 64 bits."""
    kind = column.type
    whole = column.cast(pa.decimal256(_WIDE, kind.scale)).cast(pa.decimal256(_WIDE, 0), safe=False)
    words = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset * 4 :][: len(whole) * 4 : 4]
    return pa.array(words, pa.int64(), mask=np.asarray(column.is_null()))


def _to_float(column: pa.Array, old: DataType, new: DataType) -> pa.Array:
    target = new.to_arrow()
    if old.root == "DECIMAL":
        # By its digits: to divide would round twice.
        return column.cast(pa.string()).cast(target)
    if not old.is_text:
        return column.cast(target, safe=False)
    text = pc.utf8_trim_whitespace(column)
    strange = text.filter(pc.invert(pc.match_substring_regex(text, _FLOAT)))
    if len(strange):
        raise ValueError(f"{strange[0].as_py()!r} is no number")
    return pc.replace_substring_regex(text, "(?:[fFdD])$", "").cast(target)


def _to_decimal(column: pa.Array, old: DataType, new: DataType) -> pa.Array:
    """Rounded half up; null where it has too many digits."""
    if old.is_text or old.is_float:
        text = column if old.is_text else column.cast(pa.float64()).cast(pa.string())
        return _by_value(text, lambda value: _decimal(value, new), new.to_arrow())
    if old.root == "BOOLEAN":
        column = column.cast(pa.int8())
    if old.root == "DECIMAL":
        wide = column.cast(pa.decimal256(_WIDE, old.scale))
        if old.scale > new.scale:
            wide = pc.round(wide, new.scale, round_mode="half_towards_infinity")
    else:
        wide = column.cast(pa.decimal256(_WIDE, 0))
    limit = pa.scalar(Decimal(10) ** (new.precision - new.scale), wide.type)
    fits = pc.and_(pc.less(wide, limit), pc.greater(wide, pa.scalar(-limit.as_py(), wide.type)))
    return pc.if_else(fits, wide, pa.scalar(None, wide.type)).cast(new.to_arrow())


def _decimal(text: str, new: DataType) -> Decimal | None:
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text!r} is no decimal number")
    value = Decimal(text)
    if value.adjusted() > new.precision:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-new.scale), ROUND_HALF_UP, _EXACT)
    return rounded if rounded == 0 or rounded.adjusted() < new.precision - new.scale else None


# --- times


def _ticks(column: pa.Array) -> pa.Array:
    """Times as whole numbers of their unit since 1970, UTC."""
    return column.cast(pa.int64())


def _without_zone(column: pa.Array) -> pa.Array:
    return _ticks(column).cast(pa.timestamp(column.type.unit))


def _floored(numbers: pa.Array, divisor: int) -> pa.Array:
    """Whole quotients, those of negative numbers downwards."""
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(values // divisor, pa.int64(), mask=np.asarray(numbers.is_null()))


def _milliseconds(column: pa.Array) -> pa.Array:
    per_second = _TICKS[column.type.unit]
    return _floored(_ticks(column), per_second // 1000) if per_second >= 1000 else pc.multiply(_ticks(column), 1000)


def _to_date(column: pa.Array, old: DataType) -> pa.Array:
    if old.is_text:
        return _by_value(column, _date, pa.int32()).cast(pa.date32())
    if old.is_timestamp:
        days = _floored(_ticks(column), _TICKS[column.type.unit] * 86_400)
        return days.cast(pa.int32()).cast(pa.date32())
    return column.cast(pa.date32())


def _date(text: str) -> int:
    """Days since 1970: a date, or that number."""
    if re.fullmatch(r"-?\d+", text, re.ASCII):
        return int(text)
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no date")
    year, month, day = (int(part) if part else 1 for part in match.groups())
    return (dt.date(year, month, day) - _EPOCH).days


def _to_time(column: pa.Array, old: DataType) -> pa.Array:
    if old.is_text:
        return _by_value(column, _time_ms, pa.int32()).cast(pa.time32("ms"))
    if old.is_timestamp:
        ms = _milliseconds(column)
        return pc.subtract(ms, pc.multiply(_floored(ms, _DAY_MS), _DAY_MS)).cast(pa.int32()).cast(pa.time32("ms"))
    return column.cast(pa.time32("ms"))


def _time_ms(text: str) -> int:
    """Milliseconds of a day: a time, or that number."""
    if re.fullmatch(r"-?\d+", text, re.ASCII):
        return int(text)
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no time")
    hour, minute, second, fraction = (part or "0" for part in match.groups())
    time = dt.time(int(hour), int(minute), int(second))
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1000 + int(fraction.ljust(9, "0")[:3])


def _to_timestamp(column: pa.Array, old: DataType, new: DataType) -> pa.Array:
    target = new.to_arrow()
    per_second = _TICKS[target.unit]
    if old.is_text:
        numbers = _by_value(column, lambda text: _moment(text, new), pa.int64())
    elif old.is_integer:
        numbers = pc.multiply_checked(column.cast(pa.int64()), per_second)
    elif old.root == "TIME":
        numbers = pc.multiply_checked(column.cast(pa.int32()).cast(pa.int64()), per_second // 1000)
    elif old.root == "DATE":
        numbers = pc.multiply_checked(column.cast(pa.int32()).cast(pa.int64()), 86_400 * per_second)
    elif new.precision < 3:
        # Towards 1970, as Java cuts milliseconds; finer digits are cut downwards.
        step = 10 ** (3 - new.precision)
        numbers = pc.multiply(pc.divide(_milliseconds(column), step), step)
    else:
        unit, step = _TICKS[column.type.unit], per_second // 10**new.precision
        numbers = _ticks(column)
        if unit > per_second:
            numbers = _floored(numbers, unit // per_second)
        elif unit < per_second:
            numbers = pc.multiply_checked(numbers, per_second // unit)
        if step > 1:
            # Digits that the type does not have.
            numbers = pc.multiply(_floored(numbers, step), step)
    return numbers.cast(target)


def _moment(text: str, new: DataType) -> int:
    """A time in the unit of a type: text of a date and a time of day, or without a zone also a number of the type's digits."""
    per_second = _TICKS[new.to_arrow().unit]
    if new.root == "TIMESTAMP" and re.fullmatch(r"-?\d+", text, re.ASCII):
        if new.precision % 3:
            raise ValueError(f"{text!r} is a number, of which {new} has no unit")
        return int(int(text) * (per_second // 10**new.precision))
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time")
    year, month, day, hour, minute, second, fraction = (part or "0" for part in match.groups())
    # Days up to 31 that a month does not have are its last one.
    last = monthrange(int(year), int(month))[1] if 1 <= int(month) <= 12 else 31
    days = (dt.date(int(year), int(month), min(int(day), last) if int(day) <= 31 else int(day)) - _EPOCH).days
    time = dt.time(int(hour), int(minute), int(second))
    seconds = days * 86_400 + (time.hour * 60 + time.minute) * 60 + time.second
    digits = int(fraction.ljust(9, "0")) // 10 ** (9 - new.precision)
    return int(seconds * per_second + digits * (per_second // 10**new.precision))
