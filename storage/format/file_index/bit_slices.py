"""The index `bsi`: the values of a column of whole numbers bit by bit, numbers from 0 on and below 0 apart."""

import struct

import numpy as np
from pyroaring import BitMap

from ...data_types import DataType
from .keys import Key, Ranked, bitmap, serialized

KIND = "bsi"
_VERSION = 1
_SMALLEST = -(2**63)


def write_bit_slices(ranked: Ranked, _: DataType) -> bytes | None:
    """The index of a column; None if it holds the smallest number of 64 bits, which has no absolute value there."""
    if len(ranked.keys) and int(ranked.keys[0]) == _SMALLEST:
        return None
    values = ranked.keys.astype(np.int64)[ranked.codes]
    below = values < 0
    result = struct.pack(">bi", _VERSION, ranked.row_count)
    for rows, amounts in ((ranked.rows[~below], values[~below]), (ranked.rows[below], -values[below])):
        result += struct.pack(">?", len(rows) > 0)
        if len(rows):
            largest = int(amounts.max())
            slices = [rows[(amounts >> bit & 1).astype(bool)] for bit in range(largest.bit_length())]
            result += struct.pack(">bqq", _VERSION, 0, largest) + serialized(bitmap(rows))
            result += struct.pack(">i", len(slices)) + b"".join(serialized(bitmap(each)) for each in slices)
    return result


class BitSlices:
    """An index that was read. Raises ValueError for bytes that are none."""

    def __init__(self, data: bytes, _: DataType) -> None:
        version, self.row_count = struct.unpack_from(">bi", data)
        if version != _VERSION:
            raise ValueError(f"version {version} of index {KIND!r} is not known")
        self._positive, at = _read(data, 5)
        self._negative, _at = _read(data, at)

    def not_null(self) -> BitMap:
        """The rows that are not null."""
        return self._positive.rows | self._negative.rows

    def nulls(self) -> BitMap:
        """The rows that are null."""
        return BitMap(range(self.row_count)) - self.not_null()

    def equal(self, key: Key) -> BitMap:
        """The rows that have the key."""
        return self._side(key).compared(abs(int(key)))[1]

    def below(self, key: Key, *, or_equal: bool) -> BitMap:
        """The rows whose value is below a key."""
        number = int(key)
        less, equal, more = self._side(key).compared(abs(number))
        matching = more if number < 0 else less | self._negative.rows
        return matching | equal if or_equal else matching

    def above(self, key: Key, *, or_equal: bool) -> BitMap:
        """The rows whose value is above a key."""
        return self.not_null() - self.below(key, or_equal=not or_equal)

    def _side(self, key: Key) -> "_Slices":
        return self._negative if int(key) < 0 else self._positive


class _Slices:
    def __init__(self, rows: BitMap, slices: list[BitMap], least: int, largest: int) -> None:
        self.rows = rows
        self._slices = slices
        self._least = least
        self._largest = largest

    def compared(self, amount: int) -> tuple[BitMap, BitMap, BitMap]:
        """The rows below, at and above an amount."""
        if amount < self._least:
            return BitMap(), BitMap(), self.rows
        if amount > self._largest:
            return self.rows, BitMap(), BitMap()
        less, equal, more = BitMap(), self.rows, BitMap()
        for bit in range(len(self._slices) - 1, -1, -1):
            if (amount - self._least) >> bit & 1:
                less |= equal - self._slices[bit]
                equal = equal & self._slices[bit]
            else:
                more |= equal & self._slices[bit]
                equal = equal - self._slices[bit]
        return less, equal, more


def _read(data: bytes, at: int) -> tuple[_Slices, int]:
    (is_there,) = struct.unpack_from(">?", data, at)
    if not is_there:
        return _Slices(BitMap(), [], 0, 0), at + 1
    version, least, largest = struct.unpack_from(">bqq", data, at + 1)
    if version != _VERSION:
        raise ValueError(f"version {version} of bit slices is not known")
    rows, at = _bitmap_at(data, at + 18)
    (count,) = struct.unpack_from(">i", data, at)
    if not 0 <= count <= 64:
        raise ValueError(f"{count} bit slices are more than a number has")
    at += 4
    slices = []
    for _ in range(count):
        one_slice, at = _bitmap_at(data, at)
        slices.append(one_slice)
    return _Slices(rows, slices, least, largest), at


def _bitmap_at(data: bytes, at: int) -> tuple[BitMap, int]:
    read = BitMap.deserialize(data[at:])
    return read, at + len(read.serialize())
