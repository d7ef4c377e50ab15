"""The index `bloom-filter`: says of single values that no row has them.

A number of hash functions (4 bytes, big-endian), then the bits. Numbers are hashed by Thomas Wang's 64-bit mix, text and
bytes by XXH64; both over arrays.
"""

import math
import struct

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ...data_types import DataType
from .keys import Key, Ranked, parts_by_length, sortable

KIND = "bloom-filter"
DEFAULT_ITEMS = 1_000_000
DEFAULT_FALSE_POSITIVES = 0.1
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    np.uint64(each)
    for each in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def write_bloom_filter(ranked: Ranked, data_type: DataType, items: int, false_positives: float) -> bytes:
    """The index of a column for so many values and that share of values that it does not tell from others."""
    bit_count = bits_for(items, false_positives)
    # As Java rounds.
    functions = max(1, math.floor(bit_count / items * math.log(2) + 0.5))
    bits = np.zeros(bit_count, np.uint8)
    for positions in _positions(hashes(ranked.keys, data_type), functions, bit_count):
        bits[positions] = 1
    return struct.pack(">i", functions) + np.packbits(bits, bitorder="little").tobytes()


def bits_for(items: int, false_positives: float) -> int:
    """The bits of a filter."""
    raw = int(-items * math.log(false_positives) / (math.log(2) * math.log(2)))
    return raw + 8 - raw % 8


class BloomFilter:
    """A filter that was read. Raises ValueError for bytes that are none."""

    def __init__(self, data: bytes, data_type: DataType) -> None:
        (self._functions,) = struct.unpack_from(">i", data)
        self._bits = np.frombuffer(data, np.uint8, offset=4)
        if self._functions < 1 or len(self._bits) == 0:
            raise ValueError("it has no hash function, or no bits")
        self._type = data_type

    def equal(self, key: Key) -> BitMap | None:
        """No rows, if no row has the key; else None: any row may."""
        keys = pa.array([key], pa.binary()) if isinstance(key, bytes) else np.array([key], np.int64)
        if self._type.is_float:
            keys = np.asarray(keys).astype(np.int32 if self._type.root == "FLOAT" else np.int64)
        bit_count = len(self._bits) * 8
        for (position,) in _positions(hashes(keys, self._type), self._functions, bit_count):
            if not self._bits[position >> 3] >> (position & 7) & 1:
                return BitMap()
        return None


def _positions(values: np.ndarray, functions: int, bit_count: int) -> list[np.ndarray]:
    """The bits of some hashes (uint64), for each function."""
    low, high = values.astype(np.uint32).view(np.int32), (values >> np.uint64(32)).astype(np.uint32).view(np.int32)
    result = []
    with np.errstate(over="ignore"):
        for number in range(1, functions + 1):
            combined = low + np.int32(number) * high
            combined = np.where(combined < 0, ~combined, combined)
            result.append(combined.astype(np.int64) % bit_count)
    return result


def hashes(keys: np.ndarray | pa.BinaryArray, data_type: DataType) -> np.ndarray:
    """The 64-bit hash (uint64) of each key."""
    if data_type.is_text or data_type.is_bytes:
        result = np.empty(len(keys), np.uint64)
        for places, content in parts_by_length(keys):
            result[places] = _xxh64(content)
        return result
    return _mixed((sortable(keys) if data_type.is_float else keys).astype(np.int64))


def _mixed(key: np.ndarray) -> np.ndarray:
    """Thomas Wang's mix of 64-bit numbers (int64), with shifts that keep the sign, as Java's."""
    with np.errstate(over="ignore"):
        key = ~key + (key << 21)
        key = key ^ (key >> 24)
        key = key + (key << 3) + (key << 8)
        key = key ^ (key >> 14)
        key = key + (key << 2) + (key << 4)
        key = key ^ (key >> 28)
        return np.asarray(key + (key << 31)).view(np.uint64)


def _rotated(value: np.ndarray, bits: int) -> np.ndarray:
    return value << np.uint64(bits) | value >> np.uint64(64 - bits)


def _round(state: np.ndarray, words: np.ndarray) -> np.ndarray:
    return _rotated(state + words * _PRIME_2, 31) * _PRIME_1


def _xxh64(content: np.ndarray) -> np.ndarray:
    """XXH64, with seed 0, of each line of a matrix of bytes."""
    count, length = content.shape
    content = np.ascontiguousarray(content)
    with np.errstate(over="ignore"):
        result, done = _long_part(content)
        result = result + np.uint64(length)
        for at in range(done, length - 7, 8):
            words = np.ascontiguousarray(content[:, at : at + 8]).view("<u8").reshape(count)
            result = _rotated(result ^ _round(np.zeros(count, np.uint64), words), 27) * _PRIME_1 + _PRIME_4
        done = length - length % 8
        if length - done >= 4:
            words = np.ascontiguousarray(content[:, done : done + 4]).view("<u4").reshape(count).astype(np.uint64)
            result = _rotated(result ^ words * _PRIME_1, 23) * _PRIME_2 + _PRIME_3
            done += 4
        for at in range(done, length):
            result = _rotated(result ^ content[:, at].astype(np.uint64) * _PRIME_5, 11) * _PRIME_1
        result = (result ^ result >> np.uint64(33)) * _PRIME_2
        result = (result ^ result >> np.uint64(29)) * _PRIME_3
        return np.asarray(result ^ result >> np.uint64(32))


def _long_part(content: np.ndarray) -> tuple[np.ndarray, int]:
    """The state after all whole blocks of 32 bytes, and how many bytes those are."""
    count, length = content.shape
    if length < 32:
        return np.full(count, _PRIME_5, np.uint64), 0
    starts = (_PRIME_1 + _PRIME_2, _PRIME_2, np.uint64(0), np.uint64(0) - _PRIME_1)
    states = [np.full(count, start, np.uint64) for start in starts]
    end = length - length % 32
    for at in range(0, end, 32):
        words = np.ascontiguousarray(content[:, at : at + 32]).view("<u8")
        states = [_round(state, words[:, place]) for place, state in enumerate(states)]
    result = sum((_rotated(state, bits) for state, bits in zip(states, (1, 7, 12, 18), strict=True)), np.uint64(0))
    for state in states:
        result = (result ^ _round(np.zeros(count, np.uint64), state)) * _PRIME_1 + _PRIME_4
    return np.asarray(result), end
