"""What options of file systems take, in words and as a test of values: each is declared by its kind, and what it does not take is
refused by those words before anything is done.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class ValueKind:
    """The values of an option: `values` follows "takes" in a sentence."""

    values: str
    accepts: Callable[[Any], bool]


BOOLEAN = ValueKind("true or false", lambda value: isinstance(value, bool))
TEXT = ValueKind("a text", lambda value: isinstance(value, str))
FILLED_TEXT = ValueKind("a text that is not empty", lambda value: isinstance(value, str) and value != "")
OBJECT = ValueKind('an object of JSON, {"name": "value", …}', lambda value: isinstance(value, Mapping))


def whole_from(least: int, most: int | None = None) -> ValueKind:
    """Whole numbers within a range."""
    upper = "" if most is None else f" and at most {most}"
    return ValueKind(
        f"a whole number, at least {least}{upper}",
        lambda value: type(value) is int and least <= value <= (value if most is None else most),
    )


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


SECONDS = ValueKind("a number above 0, of seconds", _is_duration)


def choice_of(values: Iterable[str]) -> ValueKind:
    """One of a few texts."""
    among = tuple(values)
    return ValueKind(
        " or ".join(filter(None, (", ".join(map(repr, among[:-1])), repr(among[-1])))),
        lambda value: isinstance(value, str) and value in among,
    )


def list_of(values: Iterable[str]) -> ValueKind:
    """Several of a few texts, in one text, separated by commas."""
    among = frozenset(values)
    return ValueKind(
        f"a text of names separated by commas, of {', '.join(sorted(among))}",
        lambda value: isinstance(value, str) and {name.strip() for name in value.split(",")} <= among,
    )


def _is_address(value: Any) -> bool:
    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        return parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _is_proxy(value: Any) -> bool:
    # As botocore reads it: what names no scheme is spoken to by http.
    if not isinstance(value, str):
        return False
    if "://" in value:
        return _is_address(value)
    return _is_address(f"http:{value}" if value.startswith("//") else f"http://{value}")


ADDRESS = ValueKind("the address of a server, http://host:port or https://host", _is_address)
PROXY = ValueKind("the address of a proxy, http://host:port or host:port", _is_proxy)


def _is_file(value: Any) -> bool:
    return isinstance(value, str) and os.path.isfile(value) and os.access(value, os.R_OK)


def _holds_certificates(value: Any) -> bool:
    # Not loaded where no store is asked.
    ssl = import_module("ssl")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=value)
    except (OSError, TypeError, ValueError):
        return False
    return True


FILE = ValueKind("the path of a file that can be read here", _is_file)
CERTIFICATES = ValueKind("the path of a file of certificates (PEM) that can be read here", _holds_certificates)
CHECKED_BY = ValueKind(
    f"true, false, or {CERTIFICATES.values}", lambda value: isinstance(value, bool) or _holds_certificates(value)
)
TEXTS = ValueKind(
    "an object of JSON whose values are texts",
    lambda value: isinstance(value, Mapping) and all(isinstance(each, str) for each in value.values()),
)


def accepted_by(parse: Callable[[Any], object], values: str) -> ValueKind:
    """Texts that a function reads without an error."""

    def accepts(value: Any) -> bool:
        try:
            parse(value)
        except Exception:
            return False
        return isinstance(value, str) and value != ""

    return ValueKind(values, accepts)
