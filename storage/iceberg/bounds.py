"""Single values as Iceberg stores the bounds of columns and partitions: in binary, by the type. Pure."""

import struct
from decimal import Decimal
from typing import Any

_FORMATS = {"boolean": "?", "int": "<i", "date": "<i", "long": "<q", "float": "<f", "double": "<d"}


def encoded(value: Any, kind: str) -> bytes | None:
    """A value (as `storage.values` holds it) in the form of a type of Iceberg's; None if that type is kept without bounds."""
    if kind in _FORMATS:
        return struct.pack(_FORMATS[kind], value)
    if kind in ("timestamp", "timestamptz"):
        return struct.pack("<q", value // 1000)
    if kind == "string":
        return str(value).encode()
    if kind.startswith("decimal"):
        return _unscaled(value)
    return None


def _unscaled(value: Decimal) -> bytes:
    """The digits of a decimal as a whole number, in as few bytes as hold it with its sign, the highest first."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
