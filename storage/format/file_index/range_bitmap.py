"""The index `range-bitmap`: the distinct values of a column in order, in chunks, and the places of the rows' values among
them, bit by bit.
"""

import struct
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ...data_types import DataType
from .keys import Key, Ranked, bitmap, interleaved, serialized, sortable, stored_dtype, stored_width

KIND = "range-bitmap"
_VERSION = 1
_CHUNK_BYTES = 16 * 1024
# Types of which Java gives every value a chunk of its own.
_UNCHUNKED = ("BOOLEAN", "TINYINT", "SMALLINT")


def default_chunk_bytes(data_type: DataType) -> int:
    """Bytes of the keys of a chunk, behind its first key."""
    return 0 if data_type.root in _UNCHUNKED else _CHUNK_BYTES


def write_range_bitmap(ranked: Ranked, data_type: DataType, chunk_bytes: int) -> bytes | None:
    """The index of a column; None if it holds nulls only: of those, Java's reader finds but the first and the last one."""
    keys, count = ranked.keys, len(ranked.keys)
    if not count:
        return None
    extremes = b"".join(interleaved(keys[at : at + 1], data_type)[0].tobytes() for at in (0, count - 1))
    fixed = stored_width(data_type) is not None
    dictionary = (_fixed_dictionary if fixed else _text_dictionary)(keys, data_type, chunk_bytes)
    head = struct.pack(">bii", _VERSION, ranked.row_count, count) + extremes + struct.pack(">i", len(dictionary))
    return struct.pack(">i", len(head)) + head + dictionary + _slices(ranked)


def _dictionary(chunk_count: int, offsets: np.ndarray, chunks: bytes, keys: bytes) -> bytes:
    listed = offsets.astype(">i4").tobytes()
    head = struct.pack(">biii", _VERSION, chunk_count, len(listed), len(chunks))
    return struct.pack(">i", len(head)) + head + listed + chunks + keys


def _fixed_dictionary(keys: np.ndarray, data_type: DataType, chunk_bytes: int) -> bytes:
    width = stored_width(data_type) or 1
    behind = chunk_bytes // width
    firsts = np.arange(0, len(keys), 1 + behind)
    sizes = np.minimum(behind, len(keys) - 1 - firsts)
    lengths = sizes * width
    numbers = (firsts, np.cumsum(lengths) - lengths, sizes, lengths, np.full(len(firsts), width))
    content, starts = interleaved(keys[firsts], data_type, *numbers)
    size = 1 + width + 20
    chunks = np.full((len(firsts), size), _VERSION, np.uint8)
    chunks[:, 1:] = content.reshape(len(firsts), size - 1)
    rest = interleaved(np.delete(keys, firsts), data_type)[0].tobytes()
    return _dictionary(len(firsts), starts[:-1] + np.arange(len(firsts)), chunks.tobytes(), rest)


def _text_dictionary(keys: pa.BinaryArray, data_type: DataType, chunk_bytes: int) -> bytes:
    content, starts = interleaved(keys, data_type)
    offsets: list[int] = []
    chunks, bodies = bytearray(), bytearray()
    first = 0
    while first < len(keys):
        by_bytes = int(np.searchsorted(starts, starts[first + 1] + chunk_bytes, side="right")) - 1
        end = max(first + 1, min(by_bytes, first + 1 + chunk_bytes // 4, len(keys)))
        places = (starts[first + 1 : end] - starts[first + 1]).astype(">i4").tobytes()
        own = content[starts[first + 1] : starts[end]].tobytes()
        offsets.append(len(chunks))
        chunks += bytes([_VERSION]) + content[starts[first] : starts[first + 1]].tobytes()
        chunks += struct.pack(">iiiii", first, len(bodies), end - first - 1, len(places), len(own))
        bodies += places + own
        first = end
    return _dictionary(len(offsets), np.array(offsets, np.int64), bytes(chunks), bytes(bodies))


def _slices(ranked: Ranked) -> bytes:
    bits = max((len(ranked.keys) - 1).bit_length(), 1)
    rows = serialized(bitmap(ranked.rows))
    slices = [serialized(bitmap(ranked.rows[(ranked.codes >> bit & 1).astype(bool)])) for bit in range(bits)]
    lengths = np.array([len(each) for each in slices])
    indexes = np.stack([np.cumsum(lengths) - lengths, lengths], axis=1).astype(">i4").tobytes()
    head = struct.pack(">bbii", _VERSION, bits, len(rows), len(indexes)) + indexes
    return struct.pack(">i", len(head)) + head + rows + b"".join(slices)


class RangeBitmap:
    """An index that was read. Raises ValueError for bytes that are none."""

    def __init__(self, data: bytes, data_type: DataType) -> None:
        self._type = data_type
        (length,) = struct.unpack_from(">i", data)
        version, self.row_count, self._key_count = struct.unpack_from(">bii", data, 4)
        _check_version(version)
        (dictionary_length,) = struct.unpack_from(">i", data, length)
        self._dictionary = data[4 + length : 4 + length + dictionary_length]
        self._data = data[4 + length + dictionary_length :]
        (head,) = struct.unpack_from(">i", self._data)
        version, self._bits, self._rows_length, _ = struct.unpack_from(">bbii", self._data, 4)
        _check_version(version)
        self._body = 4 + head
        self.rows = BitMap.deserialize(self._data[self._body : self._body + self._rows_length])
        if not 0 <= self._bits <= 64:
            raise ValueError(f"{self._bits} bit slices are more than a number has")

    def not_null(self) -> BitMap:
        """The rows that are not null."""
        return self.rows

    def nulls(self) -> BitMap:
        """The rows that are null."""
        return BitMap(range(self.row_count)) - self.rows

    def equal(self, key: Key) -> BitMap:
        """The rows that have the key."""
        place, is_there = self._find(key)
        return self._from(place) - self._from(place + 1) if is_there else BitMap()

    def below(self, key: Key, *, or_equal: bool) -> BitMap:
        """The rows whose value is below a key."""
        return self.rows - self.above(key, or_equal=not or_equal)

    def above(self, key: Key, *, or_equal: bool) -> BitMap:
        """The rows whose value is above a key."""
        place, is_there = self._find(key)
        return self._from(place + (is_there and not or_equal))

    def with_prefix(self, prefix: bytes) -> BitMap:
        """The rows whose bytes begin so."""
        last = prefix.rstrip(b"\xff")
        low = self.above(prefix, or_equal=True)
        return low - self.above(last[:-1] + bytes([last[-1] + 1]), or_equal=True) if last else low

    def _from(self, code: int) -> BitMap:
        """The rows whose value is at this place in the order of values, or after it."""
        if code <= 0 or code >= self._key_count:
            return self.rows if code <= 0 else BitMap()
        # Above the place before it: where it has a bit, all bits from there on decide.
        before = code - 1
        matching: BitMap | None = None
        for bit in range(self._bits):
            if not before >> bit & 1:
                matching = self._slice(bit) if matching is None else matching | self._slice(bit)
            elif matching is not None:
                matching = matching & self._slice(bit)
        return BitMap() if matching is None else matching & self.rows

    def _slice(self, bit: int) -> BitMap:
        offset, length = struct.unpack_from(">ii", self._data, 14 + 8 * bit)
        start = self._body + self._rows_length + offset
        return BitMap.deserialize(self._data[start : start + length])

    def _find(self, key: Key) -> tuple[int, bool]:
        """The place of a key among all, or where it would be, and whether it is there."""
        (head,) = struct.unpack_from(">i", self._dictionary)
        version, count, offsets_length, chunks_length = struct.unpack_from(">biii", self._dictionary, 4)
        _check_version(version)
        if offsets_length != 4 * count:
            raise ValueError("its chunks are not those it counts")
        offsets = np.frombuffer(self._dictionary, ">i4", count, 4 + head)
        chunks = 4 + head + offsets_length
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            first, _ = self._key_at(chunks + int(offsets[middle]) + 1)
            low, high = (middle + 1, high) if first <= key else (low, middle)
        if low == 0:
            return 0, False
        return self._find_in_chunk(key, chunks + int(offsets[low - 1]), chunks + chunks_length)

    def _find_in_chunk(self, key: Key, at: int, keys_at: int) -> tuple[int, bool]:
        _check_version(self._dictionary[at])
        first, end = self._key_at(at + 1)
        code, offset, size, length, _ = struct.unpack_from(">iiiii", self._dictionary, end)
        if first == key:
            return code, True
        start = keys_at + offset
        keys: Any = (
            self._fixed_keys(start, size) if stored_width(self._type) is not None else _Texts(self, start, size, length)
        )
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if keys[middle] < key else (low, middle)
        return code + 1 + low, low < size and keys[low] == key

    def _fixed_keys(self, start: int, size: int) -> Any:
        dtype = stored_dtype(self._type)
        keys = np.frombuffer(self._dictionary, dtype, size, start).astype(dtype.newbyteorder("="))
        return sortable(keys) if self._type.is_float else keys

    def _key_at(self, at: int) -> tuple[Any, int]:
        width = stored_width(self._type)
        if width is not None:
            return self._fixed_keys(at, 1)[0], at + width
        return self.text_at(at)

    def text_at(self, at: int) -> tuple[bytes, int]:
        """The text or bytes at a place of the dictionary, and where they end."""
        (length,) = struct.unpack_from(">i", self._dictionary, at)
        if length < 0:
            raise ValueError("a key has a negative length")
        return self._dictionary[at + 4 : at + 4 + length], at + 4 + length

    def number_at(self, at: int) -> int:
        """The number (4 bytes) at a place of the dictionary."""
        return int(struct.unpack_from(">i", self._dictionary, at)[0])


class _Texts:
    """The keys of a chunk behind its first one, looked up one by one."""

    def __init__(self, index: RangeBitmap, start: int, size: int, offsets_length: int) -> None:
        self._index = index
        self._start = start
        self._size = size
        self._keys = start + offsets_length

    def __getitem__(self, place: int) -> bytes:
        return self._index.text_at(self._keys + self._index.number_at(self._start + 4 * place))[0]


def _check_version(version: int) -> None:
    if version != _VERSION:
        raise ValueError(f"version {version} of index {KIND!r} is not known")
