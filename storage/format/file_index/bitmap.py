"""The index `bitmap`: for each value of a column the rows that have it.

Version 1 lists all values and where their bitmaps lie; version 2 keeps them in blocks, of which a reader looks at one. The
number of a row that is alone with its value stands in place of a bitmap.
"""

import struct
from typing import Any

import numpy as np
from pyroaring import BitMap

from ...data_types import DataType
from .keys import Key, Ranked, bitmap, interleaved, serialized, stored_dtype, stored_width
from .keys import sortable as _sorted

KIND = "bitmap"
DEFAULT_BLOCK_BYTES = 16 * 1024


def write_bitmaps(ranked: Ranked, data_type: DataType, version: int, block_bytes: int) -> bytes | None:
    """The index of a column; None if a value has no room in a block of version 2."""
    null_bytes = serialized(bitmap(ranked.nulls))
    null_count = len(ranked.nulls)
    rows, starts = ranked.groups()
    offsets, lengths, body = _bodies(rows, starts, len(null_bytes) if null_count > 1 else 0)
    head = struct.pack(">bii?", version, ranked.row_count, len(ranked.keys), null_count > 0)
    if null_count:
        head += struct.pack(">i", -1 - int(ranked.nulls[0]) if null_count == 1 else 0)
    body = (null_bytes if null_count > 1 else b"") + body
    if version == 1:
        return head + interleaved(ranked.keys, data_type, offsets)[0].tobytes() + body
    if null_count:
        head += struct.pack(">i", len(null_bytes))
    entries, places = interleaved(ranked.keys, data_type, offsets, lengths)
    blocks = _blocks(places, block_bytes)
    if blocks is None:
        return None
    content = [struct.pack(">i", end - start) + entries[places[start] : places[end]].tobytes() for start, end in blocks]
    begun = np.concatenate([[0], np.cumsum([len(each) for each in content])])
    firsts = ranked.keys.take([start for start, _ in blocks]) if blocks else ranked.keys[:0]
    listed = interleaved(firsts, data_type, begun[:-1])[0].tobytes()
    return b"".join([head, struct.pack(">i", len(blocks)), listed, struct.pack(">i", int(begun[-1])), *content, body])


def _bodies(rows: np.ndarray, starts: np.ndarray, first_offset: int) -> tuple[np.ndarray, np.ndarray, bytes]:
    """Offset and length of the bitmap of each value, and the bitmaps."""
    counts = np.diff(starts)
    offsets, lengths = np.full(len(counts), -1, np.int64), np.full(len(counts), -1, np.int64)
    alone = counts == 1
    offsets[alone] = -1 - rows[starts[:-1][alone]].astype(np.int64)
    several = np.flatnonzero(~alone)
    parts = [serialized(bitmap(rows[starts[each] : starts[each + 1]])) for each in several.tolist()]
    lengths[several] = [len(each) for each in parts]
    offsets[several] = first_offset + np.cumsum(lengths[several]) - lengths[several]
    return offsets, lengths, b"".join(parts)


def _blocks(places: np.ndarray, block_bytes: int) -> list[tuple[int, int]] | None:
    """First and last entry of each block of at most so many bytes; None if an entry is longer than a block."""
    result: list[tuple[int, int]] = []
    start, count = 0, len(places) - 1
    while start < count:
        end = int(np.searchsorted(places, places[start] + block_bytes - 4, side="right")) - 1
        if end <= start:
            return None
        result.append((start, end))
        start = end
    return result


class Bitmaps:
    """An index that was read: its keys are looked up as they are asked for. Raises ValueError for bytes that are none."""

    def __init__(self, data: bytes, data_type: DataType) -> None:
        self._data = data
        self._type = data_type
        version, self.row_count, self._key_count, has_nulls = struct.unpack_from(">bii?", data)
        if version not in (1, 2):
            raise ValueError(f"version {version} of index {KIND!r} is not known")
        at = 10
        self._null_offset: int | None = None
        if has_nulls:
            (self._null_offset,) = struct.unpack_from(">i", data, at)
            at += 4 if version == 1 else 8
        if version == 1:
            self._firsts, (self._starts,), self._body = self._entries(at, self._key_count, 1)
            self._blocks_at = None
        else:
            (block_count,) = struct.unpack_from(">i", data, at)
            self._firsts, (self._starts,), at = self._entries(at + 4, block_count, 1)
            (length,) = struct.unpack_from(">i", data, at)
            self._blocks_at = at + 4
            self._body = at + 4 + length

    def equal(self, key: Key) -> BitMap | None:
        """The rows that have the key."""
        if self._blocks_at is None:
            return self._at(self._firsts, self._starts, key)
        place = _place(self._firsts, key, after=True) - 1
        if place < 0:
            return BitMap()
        at = self._blocks_at + int(self._starts[place])
        (count,) = struct.unpack_from(">i", self._data, at)
        keys, (offsets, _), _ = self._entries(at + 4, count, 2)
        return self._at(keys, offsets, key)

    def nulls(self) -> BitMap:
        """The rows that are null."""
        return BitMap() if self._null_offset is None else self._rows(self._null_offset)

    def _at(self, keys: Any, offsets: Any, key: Key) -> BitMap:
        if self._blocks_at is None:
            # Java writes version 1 in no order.
            hits = [index for index, each in enumerate(keys) if each == key]
            return self._rows(int(offsets[hits[0]])) if hits else BitMap()
        place = _place(keys, key, after=False)
        return self._rows(int(offsets[place])) if place < len(keys) and keys[place] == key else BitMap()

    def _rows(self, offset: int) -> BitMap:
        if offset < 0:
            return BitMap([-1 - offset])
        return BitMap.deserialize(self._data[self._body + offset :])

    def _entries(self, at: int, count: int, columns: int) -> tuple[Any, list[Any], int]:
        """`count` keys with so many numbers behind each, and where they end."""
        width = stored_width(self._type)
        if not 0 <= count <= len(self._data):
            raise ValueError("a list is longer than the index")
        if width is not None:
            shape = np.dtype([("key", stored_dtype(self._type)), *((str(each), ">i4") for each in range(columns))])
            read = np.frombuffer(self._data, shape, count, at)
            keys = read["key"].astype(stored_dtype(self._type).newbyteorder("="))
            keys = _sorted(keys) if self._type.is_float else keys
            return keys, [read[str(each)] for each in range(columns)], at + count * shape.itemsize
        texts: list[bytes] = []
        behind: list[tuple[int, ...]] = []
        for _ in range(count):
            (length,) = struct.unpack_from(">i", self._data, at)
            if length < 0:
                raise ValueError("a key has a negative length")
            texts.append(self._data[at + 4 : at + 4 + length])
            behind.append(struct.unpack_from(f">{columns}i", self._data, at + 4 + length))
            at += 4 + length + 4 * columns
        return texts, [[each[index] for each in behind] for index in range(columns)], at


def _place(keys: Any, key: Key, *, after: bool) -> int:
    """Where a key belongs among ascending ones: before or after an equal one."""
    low, high = 0, len(keys)
    while low < high:
        middle = (low + high) // 2
        goes_on = keys[middle] <= key if after else keys[middle] < key
        low, high = (middle + 1, high) if goes_on else (low, middle)
    return low
