"""JSON documents: read safely, and written with a checksum, by which a damaged one is told from a sound one.

The checksum is a key of the document. It counts the name of the file in, so that a file in another's place is noticed.
Documents of other writers have none; they are read as they are. Other readers ignore the key. Follows `docs/damage.md`.
"""

import datetime as dt
import json
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from .errors import CorruptData, InvalidRequest

CHECKSUM = "snapline.crc32"
_LARGEST = 2**63
# One segment of a path, on every store: no separator, and nothing that leads elsewhere or that no store can write.
_FILE_NAME = re.compile(r"(?!\.{1,2}\Z)[^/\\\x00\ud800-\udfff]{1,255}")
_SURROGATE = re.compile("[\ud800-\udfff]")
# How a half of a pair of surrogates may stand in a file.
_MAY_HOLD_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")


def sealed(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The document with the checksum that it has in a file of that name."""
    plain = {key: each for key, each in value.items() if key != CHECKSUM}
    return {**plain, CHECKSUM: _checksum(plain, name)}


def read_document(text: str | bytes, path: str, *names: str) -> dict[str, Any]:
    """The object that a file holds, without its checksum. `names`: what it may have been written as, by default the
    name that the path ends with.

    Raises CorruptData that names the file for what is no JSON object, is nested without end, holds text that cannot be
    written, or has another checksum.
    """
    try:
        value = json.loads(text)
        if _MAY_HOLD_SURROGATE.search(text.encode(errors="surrogatepass") if isinstance(text, str) else text):
            json.dumps(value, ensure_ascii=False).encode()
        if not isinstance(value, dict):
            raise CorruptData(f"File {path} is damaged: it holds no JSON object.")
        checksum = value.pop(CHECKSUM, None)
        wanted = (
            [_checksum(value, name) for name in names or (path.rsplit("/", 1)[-1],)] if checksum is not None else []
        )
    except RecursionError:
        raise CorruptData(f"File {path} is damaged: its JSON is nested without end.") from None
    except ValueError as error:
        raise CorruptData(f"File {path} is damaged: it is no JSON: {error}") from None
    if checksum is not None and checksum not in wanted:
        raise CorruptData(f"File {path} is damaged: its content does not have the checksum that it names.")
    return value


def writable(write: Callable[[], str], read: Callable[[str], object], what: str) -> bytes:
    """The content of a file, once it has been seen that it can be read again. Raises InvalidRequest if it cannot: a value
    that was given for it is of a wrong type.
    """
    try:
        text = write()
        read(text)
        return text.encode()
    except (CorruptData, TypeError, ValueError, AttributeError) as error:
        raise InvalidRequest(f"A value for the {what} cannot be written: {error}. Nothing is written.") from None


def is_damaged(read: Callable[[], object]) -> bool:
    """Whether something is there that cannot be read."""
    try:
        read()
    except CorruptData:
        return True
    return False


def integer(value: Any, path: str, key: str) -> int:
    """A value that must be a whole number of 64 bits. Raises CorruptData that names the file and the key."""
    if isinstance(value, bool) or not isinstance(value, int) or not -_LARGEST <= value < _LARGEST:
        raise CorruptData(f"File {path} is damaged: {key} is {_short(value)}, not a whole number.")
    return value


def moment(value: Any, path: str, key: str) -> int:
    """A value that must be a time, in milliseconds since 1970. Raises CorruptData that names the file and the key."""
    number = integer(value, path, key)
    try:
        dt.datetime.fromtimestamp(number // 1000)
    except (ValueError, OverflowError, OSError):
        raise CorruptData(f"File {path} is damaged: {key} is {number}, no time.") from None
    return number


def text(value: Any, path: str, key: str) -> str:
    """A value that must be text, which can be written. Raises CorruptData that names the file and the key."""
    if not isinstance(value, str) or _SURROGATE.search(value):
        raise CorruptData(f"File {path} is damaged: {key} is {_short(value)}, not text.")
    return value


def file_name(value: Any, path: str, key: str) -> str:
    """A value that becomes part of a path: the name of a file, without its directory. Raises CorruptData that names the
    file that holds it, the key and the value.
    """
    if not isinstance(value, str) or not _FILE_NAME.fullmatch(value):
        raise CorruptData(f"File {path} is damaged: {key} is {_short(value)}, not the name of a file.")
    return value


def texts(value: Any, path: str, key: str) -> dict[str, str]:
    """A value that must be an object of texts. Raises CorruptData that names the file and the key."""
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise CorruptData(f"File {path} is damaged: {key} is {_short(value)}, not an object of texts.")
    return value


def numbers(value: Any, path: str, key: str) -> dict[str, int]:
    """A value that must be an object of whole numbers. Raises CorruptData that names the file and the key."""
    if not isinstance(value, dict):
        raise CorruptData(f"File {path} is damaged: {key} is {_short(value)}, not an object of numbers.")
    return {name: integer(each, path, f"{key} of {name}") for name, each in value.items()}


def _checksum(value: Mapping[str, Any], name: str) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(canonical.encode(), zlib.crc32(name.encode(errors='surrogatepass'))):08x}"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def as_text(content: bytes, path: str) -> str:
    """What a file holds as text. Raises CorruptData that names it for what is none."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CorruptData(f"File {path} is damaged: it is no text: {error}") from None
