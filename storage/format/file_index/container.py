"""The container of file indexes: several indexes of several columns, one after the other, behind a directory of them."""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from ...errors import CorruptData

_MAGIC = 1493475289347502
_VERSION = 1
# In place of a start: the index of a column without any value.
_EMPTY = -1


class Section(NamedTuple):
    """Where an index lies in the container; `start` -1 says that no row has a value."""

    start: int
    length: int


def write_container(indexes: Mapping[str, Mapping[str, bytes]]) -> bytes:
    """The container of `indexes`: for each column, the bytes of its index of each type."""
    columns = [
        (_text(column), [(_text(kind), data) for kind, data in by_type.items()]) for column, by_type in indexes.items()
    ]
    names = sum(len(column) + sum(len(kind) for kind, _ in by_type) for column, by_type in columns)
    counts = sum(len(by_type) for _, by_type in columns)
    head_length = 8 + 4 + 4 + 4 + 4 * len(columns) + 8 * counts + names + 4
    head = [struct.pack(">qiii", _MAGIC, _VERSION, head_length, len(columns))]
    body: list[bytes] = []
    start = head_length
    for column, by_type in columns:
        head.append(column + struct.pack(">i", len(by_type)))
        for kind, data in by_type:
            head.append(kind + struct.pack(">ii", start, len(data)))
            body.append(data)
            start += len(data)
    # Room that later versions may fill.
    head.append(struct.pack(">i", 0))
    return b"".join([*head, *body])


def read_container(data: bytes, source: str) -> dict[str, dict[str, Section]]:
    """Where the indexes lie, by column and type. Raises CorruptData that names the `source` if the bytes are no container."""
    try:
        magic, version, head_length, column_count = struct.unpack_from(">qiii", data)
        if magic != _MAGIC:
            raise ValueError("it does not begin as one")
        if version != _VERSION:
            raise ValueError(f"version {version} is not known")
        at = 20
        columns: dict[str, dict[str, Section]] = {}
        for _ in range(column_count):
            column, at = _read_text(data, at, head_length)
            (type_count,) = struct.unpack_from(">i", data, at)
            at += 4
            sections = columns.setdefault(column, {})
            for _ in range(type_count):
                kind, at = _read_text(data, at, head_length)
                section = Section(*struct.unpack_from(">ii", data, at))
                at += 8
                if section.start != _EMPTY and not 0 <= section.start <= section.start + section.length <= len(data):
                    raise ValueError(f"index {kind!r} of column {column!r} lies outside of it")
                sections[kind] = section
        return columns
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptData(f"{source} is no file index, or damaged: {error}") from None


def _text(text: str) -> bytes:
    """A text as Java's `writeUTF` writes it: characters above 0xFFFF as two surrogates, and 0 as two bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    encoded = b"".join(
        b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass")
        for unit in struct.unpack(f">{len(units) // 2}H", units)
    )
    return struct.pack(">H", len(encoded)) + encoded


def _read_text(data: bytes, at: int, end: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">H", data, at)
    stop = at + 2 + length
    if stop > end:
        raise ValueError("a name goes beyond its head")
    text = data[at + 2 : stop].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be"), stop
