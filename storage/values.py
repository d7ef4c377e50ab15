"""Single values outside of Arrow: partition values, keys and statistics in manifests.

A value is held so that comparing and hashing it is plain Python:

    BOOLEAN bool · integers int · FLOAT, DOUBLE float · text str · bytes bytes · DECIMAL Decimal
    DATE int, days since 1970-01-01 · TIME int, milliseconds of the day
    TIMESTAMP and TIMESTAMP_LTZ int, nanoseconds since the epoch
"""

import datetime as dt
import decimal
import math
import re
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arguments import shown
from .data_types import DataType
from .errors import InvalidRequest

_NANOS_PER = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_LARGEST_EXPONENT = 40
# Doubles from here on are infinite as single-precision numbers.
_ABOVE_SINGLES = float((2**25 - 1) * 2**103)
_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_SECOND_FRACTION = re.compile(r":\d\d([.,](\d{1,30}))(?!\d)")
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.toordinal()


def from_arrow(array: pa.Array | pa.ChunkedArray, data_type: DataType) -> list[Any]:
    """Values of a column (or of a few picked rows of it)."""
    values: list[Any]
    if data_type.root in ("DATE", "TIME"):
        values = array.cast(pa.int32()).to_pylist()
        return values
    if data_type.is_timestamp:
        factor = _NANOS_PER[array.type.unit]
        return [None if value is None else value * factor for value in array.cast(pa.int64()).to_pylist()]
    values = array.to_pylist()
    return values


def from_scalar(scalar: pa.Scalar, data_type: DataType) -> Any:
    """The value of a cell that is not null."""
    if data_type.is_timestamp:
        return scalar.value * _NANOS_PER[scalar.type.unit]
    return scalar.value if data_type.root in ("DATE", "TIME") else scalar.as_py()


def to_arrow(values: Sequence[Any], data_type: DataType) -> pa.Array:
    """An Arrow array of `data_type.to_arrow()` from values."""
    arrow = data_type.to_arrow()
    if data_type.root == "DATE" or data_type.root == "TIME":
        return pa.array(values, pa.int32()).cast(arrow)
    if data_type.is_timestamp:
        factor = _NANOS_PER[arrow.unit]
        return pa.array([None if value is None else value // factor for value in values], pa.int64()).cast(arrow)
    return pa.array(values, arrow)


def from_literal(literal: Any, data_type: DataType) -> Any:
    """The value that a user meant by a Python literal. Raises InvalidRequest if it does not fit the type.

    Takes the obvious Python objects, and text for dates, times, timestamps and decimals. A number that the type has no
    place for raises OutOfRange, which is an InvalidRequest.
    """
    if literal is None:
        return None
    try:
        value = _from_literal(literal, data_type)
        limits = bounds_of(data_type)
        if limits is None or limits[0] <= value <= limits[1]:
            # Arrow is asked as well: it is what the value will be compared in.
            to_arrow([value], data_type)
            return value
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException) as error:
        raise InvalidRequest(f"{shown(literal)} is not a value of type {data_type}: {error}") from None
    raise OutOfRange(
        f"{shown(literal)} is not a value of type {data_type}: those go from {limits[0]} to {limits[1]}.",
        above=value > limits[1],
    )


class OutOfRange(InvalidRequest):
    """A number that is larger, or smaller, than any that a type has."""

    def __init__(self, message: str, above: bool = True) -> None:
        super().__init__(message)
        self.above = above


def below_of(literal: Any, data_type: DataType) -> Any:
    """The largest value of a type of exact numbers, times or timestamps that is less than a literal with more digits behind the
    point than the type has; None for whatever else.
    """
    if data_type.is_timestamp or data_type.root == "TIME":
        return _moment_below(literal, data_type)
    if (
        bounds_of(data_type) is None
        or isinstance(literal, bool)
        or not isinstance(literal, str | float | decimal.Decimal)
    ):
        return None
    try:
        number = decimal.Decimal(str(literal))
    except decimal.InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > _LARGEST_EXPONENT:
        return None
    scale = 0 if data_type.is_integer else data_type.scale
    context = decimal.Context(prec=2 * _LARGEST_EXPONENT, rounding=decimal.ROUND_FLOOR)
    below = number.quantize(decimal.Decimal(1).scaleb(-scale), context=context)
    if below == number:
        return None
    return int(below) if data_type.is_integer else below


def bounds_of(data_type: DataType) -> tuple[Any, Any] | None:
    """The smallest and the largest value of a type of exact numbers; None for other types."""
    if data_type.is_integer:
        high = 2 ** (data_type.to_arrow().bit_width - 1)
        return -high, high - 1
    if data_type.root == "DECIMAL":
        largest = decimal.Decimal((0, (9,) * data_type.precision, -data_type.scale))
        return largest.copy_negate(), largest
    return None


def _from_literal(literal: Any, data_type: DataType) -> Any:
    if isinstance(literal, bytes) and not data_type.is_bytes:
        raise ValueError("it is bytes")
    if data_type.root == "BOOLEAN":
        if isinstance(literal, str) and literal.lower() in ("true", "false"):
            return literal.lower() == "true"
        if not isinstance(literal, bool):
            raise ValueError("write true or false")
        return literal
    if data_type.is_integer:
        number = _decimal(literal) if not isinstance(literal, bool) else None
        if number is not None and number.is_finite() and number.adjusted() > _LARGEST_EXPONENT:
            # To write its digits down could take all memory; so much is larger than any number of a column.
            return 10**_LARGEST_EXPONENT * (-1 if number < 0 else 1)
        if number is None or number != int(number):
            raise ValueError("not a whole number")
        return int(number)
    if data_type.is_float:
        try:
            double = float(literal)
        except OverflowError:
            # As text says it that is too large for a double.
            return math.inf if literal > 0 else -math.inf
        # What the column would hold of it.
        return struct.unpack("f", struct.pack("f", double))[0] if _fits_single(double, data_type) else double
    if data_type.root == "DECIMAL":
        number = decimal.Decimal(literal if isinstance(literal, int) else str(literal))
        if not number.is_finite():
            raise ValueError("not a number")
        return number
    if data_type.is_text:
        if not isinstance(literal, str):
            raise ValueError("not text")
        return literal
    if data_type.is_bytes:
        return literal.encode() if isinstance(literal, str) else bytes(literal)
    if data_type.root == "DATE":
        if isinstance(literal, str):
            literal = _day(literal.strip())
        if isinstance(literal, dt.datetime):
            if literal.time() != dt.time():
                raise ValueError("it has a time of day")
            literal = literal.date()
        return literal if isinstance(literal, int) else (literal - _EPOCH.date()).days
    if data_type.root == "TIME":
        if isinstance(literal, int):
            return literal
        return _whole(_time_nanos(literal), data_type) // 10**6
    if data_type.is_timestamp:
        return _whole(_timestamp_nanos(literal, data_type), data_type)
    raise ValueError("comparison with nested values is not supported")


def _decimal(literal: Any) -> decimal.Decimal:
    try:
        return decimal.Decimal(literal)
    except decimal.InvalidOperation:
        raise ValueError("not a whole number") from None


def _day(text: str) -> dt.date:
    """The day of `2024-05-01`, or `2024-5-1`."""
    match = _DAY.fullmatch(text)
    if match is not None:
        return dt.date(*map(int, match.groups()))
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise ValueError("write a day, as in 2024-05-01") from None


def _fits_single(number: float, data_type: DataType) -> bool:
    return data_type.root == "FLOAT" and abs(number) < _ABOVE_SINGLES


def _whole(nanos: decimal.Decimal, data_type: DataType) -> int:
    """Nanoseconds, if the type has a place for all of them."""
    if nanos % _tick(data_type):
        raise ValueError(f"it has more digits of a second than the {data_type.precision} of the type")
    return int(nanos)


def _moment_below(literal: Any, data_type: DataType) -> int | None:
    is_time = data_type.root == "TIME"
    if is_time and isinstance(literal, int):
        return None
    try:
        nanos = _time_nanos(literal) if is_time else _timestamp_nanos(literal, data_type)
    except (ValueError, TypeError, ArithmeticError):
        return None
    tick = _tick(data_type)
    below = (nanos / tick).to_integral_value(decimal.ROUND_FLOOR) * tick
    if below == nanos:
        return None
    return int(below) // 10**6 if is_time else int(below)


def _tick(data_type: DataType) -> int:
    """Nanoseconds of the last digit of a time; times have milliseconds at the most."""
    return int(10 ** (9 - (min(data_type.precision, 3) if data_type.root == "TIME" else data_type.precision)))


def _split(text: str) -> tuple[str, decimal.Decimal]:
    """A time without its fraction of a second, and the nanoseconds of that: Python cuts it at microseconds."""
    match = _SECOND_FRACTION.search(text)
    if match is None:
        return text, decimal.Decimal(0)
    return text[: match.start(1)] + text[match.end(1) :], decimal.Decimal(f"0.{match[2]}").scaleb(9)


def _time_nanos(literal: Any) -> decimal.Decimal:
    fraction = decimal.Decimal(0)
    if isinstance(literal, str):
        text, fraction = _split(literal)
        literal = dt.time.fromisoformat(text)
    seconds = (literal.hour * 60 + literal.minute) * 60 + literal.second
    return decimal.Decimal(seconds * 10**9 + literal.microsecond * 1000) + fraction


def _timestamp_nanos(literal: Any, data_type: DataType) -> decimal.Decimal:
    fraction = decimal.Decimal(0)
    if isinstance(literal, str):
        text, fraction = _split(literal.strip().replace(" ", "T", 1))
        literal = dt.datetime.fromisoformat(text)
    elif isinstance(literal, dt.date) and not isinstance(literal, dt.datetime):
        literal = dt.datetime(literal.year, literal.month, literal.day)
    if not isinstance(literal, dt.datetime):
        raise TypeError("write a datetime, or text like 2024-05-14 01:02:03")
    # Those of pandas have nanoseconds beside their microseconds.
    fraction += getattr(literal, "nanosecond", 0)
    if literal.tzinfo is not None:
        if data_type.root == "TIMESTAMP":
            raise ValueError("the column has no time zone, the literal has one")
        literal = literal.astimezone(dt.UTC).replace(tzinfo=None)
    delta = literal - _EPOCH
    return decimal.Decimal((delta.days * 86_400 + delta.seconds) * 10**9 + delta.microseconds * 1000) + fraction


def java_text(data_type: DataType, value: Any) -> str:
    """Java's `toString` of a value: the default form of partition directories."""
    if data_type.root == "BOOLEAN":
        return "true" if value else "false"
    if data_type.is_float:
        return _java_float_text(value, single=data_type.root == "FLOAT")
    if data_type.is_timestamp:
        text, second, nanos = _minutes(value, "T")
        return f"{text}:{second:02d}{_java_fraction(nanos)}" if second or nanos else text
    if data_type.root == "DECIMAL":
        return f"{value:f}"
    return str(value)


def cast_text(data_type: DataType, value: Any) -> str:
    """A value cast to text as SQL does it."""
    return text_caster(data_type)(value)


def text_caster(data_type: DataType) -> Callable[[Any], str]:
    """What casts values of a type to text as SQL does it; for those who have many."""
    if data_type.root == "DATE":
        return _date_text
    precision = data_type.precision
    if data_type.root == "TIME":
        return lambda value: (
            (_EPOCH + dt.timedelta(milliseconds=value)).strftime("%H:%M:%S")
            + _time_fraction(value % 1000 * 10**6, precision)
        )
    if data_type.is_timestamp:
        return lambda value: _seconds(value) + _fraction(value % 10**9, precision)
    if data_type.is_integer or data_type.is_text:
        return str
    return partial(java_text, data_type)


def _date_text(days: int) -> str:
    """A day as Java writes it: also of years that Python has no dates of, which it has from 1 to 9999."""
    if 0 < _EPOCH_DAY + days <= dt.date.max.toordinal():
        return dt.date.fromordinal(_EPOCH_DAY + days).isoformat()
    return f"{'+' if days > 0 else ''}{np.datetime64(days, 'D')}"


def _minutes(nanos: int, between: str) -> tuple[str, int, int]:
    """A moment to the minute, as text, and its second and nanoseconds."""
    seconds, rest = divmod(nanos, 10**9)
    days, second = divmod(seconds, 86_400)
    return f"{_date_text(days)}{between}{second // 3600:02d}:{second // 60 % 60:02d}", second % 60, rest


def _seconds(nanos: int) -> str:
    text, second, _ = _minutes(nanos, " ")
    return f"{text}:{second:02d}"


def _fraction(nanos: int, precision: int) -> str:
    return "." + f"{nanos:09d}"[:precision] if precision else ""


def _time_fraction(nanos: int, precision: int) -> str:
    """Up to the last digit that is not 0, but for the first."""
    text = _fraction(nanos, precision)
    return text[:2] + text[2:].rstrip("0")


def _java_fraction(nanos: int) -> str:
    text = f"{nanos:09d}"
    if nanos == 0:
        return ""
    return "." + (text[:3] if text.endswith("000000") else text[:6] if text.endswith("000") else text)


def _java_float_text(value: float, *, single: bool) -> str:
    """Shortest digits that give the value back; scientific outside of 10^-3 … 10^7, as Java prints it."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if not single and 1e-3 <= abs(value) < 1e7:
        # Here Python writes the same.
        return repr(value)
    shortest = str(pc.cast(pa.scalar(value, pa.float32()), pa.string())) if single else repr(value)
    sign, digits, exponent = decimal.Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + int(exponent)
    prefix = "-" if sign else ""
    if text == "0":
        return f"{prefix}0.0"
    if -3 < point <= 7:
        if point <= 0:
            return f"{prefix}0.{'0' * -point}{text}"
        text = text.ljust(point, "0")
        return f"{prefix}{text[:point]}.{text[point:] or '0'}"
    return f"{prefix}{text[0]}.{text[1:] or '0'}E{point - 1}"
