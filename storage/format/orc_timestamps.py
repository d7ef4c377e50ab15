"""Timestamps of ORC files that 64 bits of nanoseconds have no place for, such as the year 9999.

pyarrow makes nanoseconds of every ORC timestamp, and refuses a stripe that has one outside of the years 1678 to 2261. ORC itself
keeps seconds since 2015 and nanoseconds apart. So the bytes of one column of one stripe are put into a small ORC file in memory
that calls the seconds whole numbers, and has the nanoseconds as timestamps of the first second of 2015: pyarrow reads both.
Follows the ORC specification, version 1 (https://orc.apache.org/specification/ORCv1/).
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyarrow import orc

from ..errors import Unsupported

_EPOCH_SECONDS = 1_420_070_400
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6}
# Compressions, kinds of types and kinds of streams, as the specification numbers them.
_ZLIB, _SNAPPY, _LZ4, _ZSTD = 1, 2, 4, 5
_LONG, _TIMESTAMP, _STRUCT = 4, 9, 12
_PRESENT, _DATA, _SECONDARY = 0, 1, 5
_INDEXES = (6, 7, 8)
_UTC = (b"", b"UTC", b"GMT", b"Etc/UTC", b"Z")
# So many zeros are written at once, in the encodings of both versions of the format.
_ZEROS_V1, _ZEROS_V2 = (130, bytes([127, 0, 0])), (512, bytes([0xC1, 0xFF, 0, 0]))

_Message = dict[int, list[Any]]


class Source(Protocol):
    """A file that is read at any place."""

    def size(self) -> int: ...

    def read_at(self, nbytes: int, offset: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Stream:
    kind: int
    offset: int
    length: int


class StripeTimestamps:
    """Reads timestamps of the top level of an ORC file, a column of a stripe at a time."""

    def __init__(self, source: Source, path: str) -> None:
        self._source, self._path = source, path
        size_bytes = source.size()
        end = bytes(source.read_at(min(size_bytes, 256), max(0, size_bytes - 256)))
        self._postscript = _parsed(end[-1 - end[-1] : -1])
        self._compression = _number(self._postscript, 2)
        self._block_bytes = _number(self._postscript, 3) or 1 << 18
        length = _number(self._postscript, 1)
        footer = source.read_at(length, size_bytes - 1 - end[-1] - length)
        self._footer = _parsed(self._unpacked(footer))
        root = _parsed(self._footer[4][0])
        self._ids = dict(zip((name.decode() for name in root.get(3, [])), _packed(root, 2), strict=True))

    def read(self, stripe: int, column: str, target: pa.TimestampType) -> pa.Array:
        """A column of a stripe, of a type whose unit is not nanoseconds; finer digits are cut.

        Raises Unsupported for what was written in a time zone other than UTC.
        """
        info = _parsed(self._footer[3][stripe])
        offset, rows = _number(info, 1), _number(info, 5)
        length = _number(info, 2) + _number(info, 3)
        footer = _parsed(self._unpacked(self._source.read_at(_number(info, 4), offset + length)))
        zone = footer.get(3, [b""])[0]
        if zone not in _UTC:
            raise Unsupported(
                f"Data file {self._path} is sound, and has times outside of the years 1678 to 2261 that were written in time "
                f"zone {zone.decode()!r}: they cannot be read from ORC here. Leave column {column!r} out."
            )
        number = self._ids[column]
        encoding = _parsed(footer[2][number])
        streams = {stream.kind: stream for stream in _streams(footer, number, offset)}
        batch = orc.ORCFile(pa.BufferReader(self._transplanted(streams, encoding, rows))).read_stripe(0)
        seconds, fractions = batch.column(0), batch.column(1)
        mask = np.asarray(seconds.is_null())
        whole = seconds.fill_null(0).to_numpy() + _EPOCH_SECONDS
        nanoseconds = fractions.cast(pa.int64()).fill_null(0).to_numpy() % 10**9
        # As every reader of ORC undoes what every writer does.
        whole -= (whole < 0) & (nanoseconds > 999_999)
        ticks = _TICKS[target.unit]
        return pa.array(whole * ticks + nanoseconds // (10**9 // ticks), pa.int64(), mask=mask).cast(target)

    def _transplanted(self, streams: dict[int, _Stream], encoding: _Message, rows: int) -> bytes:
        """An ORC file of one stripe: the seconds as whole numbers, and the nanoseconds in timestamps."""
        content, listed = bytearray(b"ORC"), b""
        count, run = _ZEROS_V2 if _number(encoding, 1) == 2 else _ZEROS_V1
        zeros = self._chunks(run * (rows // count + 1))
        for column, kinds in ((1, (_PRESENT, _DATA)), (2, (_PRESENT, _DATA, _SECONDARY))):
            for kind in kinds:
                if kind not in streams:
                    continue
                stream = streams[kind]
                is_zeros = column == 2 and kind == _DATA
                data = zeros if is_zeros else bytes(self._source.read_at(stream.length, stream.offset))
                listed += _field(1, _field(1, kind) + _field(2, column) + _field(3, len(data)))
                content += data
        data_bytes = len(content) - 3
        own = _field(1, _number(encoding, 1))
        stripe_footer = self._chunks(listed + _field(2, _field(1, 0)) + _field(2, own) + _field(2, own))
        content += stripe_footer
        stripe = _field(1, 3) + _field(2, 0) + _field(3, data_bytes) + _field(4, len(stripe_footer)) + _field(5, rows)
        root = _field(1, _STRUCT) + _field(2, bytes([1, 2])) + _field(3, b"s") + _field(3, b"n")
        types = _field(4, root) + _field(4, _field(1, _LONG)) + _field(4, _field(1, _TIMESTAMP))
        body = _field(1, 3) + _field(2, len(content)) + _field(3, stripe) + types + _field(6, rows) + _field(8, 0)
        footer = self._chunks(body)
        postscript = (
            _field(1, len(footer))
            + _field(2, self._compression)
            + _field(3, self._block_bytes)
            + _field(4, bytes([0, 12]))
            + _field(5, 0)
            + _field(6, _number(self._postscript, 6))
            + _field(8000, b"ORC")
        )
        return bytes(content + footer + postscript + bytes([len(postscript)]))

    def _chunks(self, data: bytes) -> bytes:
        """Data in the form that all of a file with this compression has, not compressed."""
        if not self._compression:
            return data
        parts = [data[start : start + self._block_bytes] for start in range(0, len(data), self._block_bytes)]
        return b"".join((len(part) << 1 | 1).to_bytes(3, "little") + part for part in parts)

    def _unpacked(self, data: bytes) -> bytes:
        if not self._compression:
            return bytes(data)
        parts, at = [], 0
        while at < len(data):
            header = int.from_bytes(data[at : at + 3], "little")
            part = bytes(data[at + 3 : at + 3 + (header >> 1)])
            parts.append(part if header & 1 else self._decompressed(part))
            at += 3 + len(part)
        return b"".join(parts)

    def _decompressed(self, part: bytes) -> bytes:
        if self._compression == _ZLIB:
            return zlib.decompress(part, -15)
        if self._compression == _ZSTD:
            return bytes(pa.CompressedInputStream(pa.BufferReader(part), "zstd").read())
        if self._compression == _SNAPPY:
            size, _ = _varint(part, 0)
            return bytes(pa.decompress(part, size, "snappy", asbytes=True))
        if self._compression == _LZ4:
            return bytes(pa.decompress(part, _lz4_bytes(part), "lz4_raw", asbytes=True))
        raise Unsupported(
            f"Data file {self._path} is sound, and has times outside of the years 1678 to 2261, which cannot be read here from "
            "ORC compressed by LZO. Leave the column out."
        )


def _streams(footer: _Message, column: int, offset: int) -> Iterator[_Stream]:
    """The streams of a column, with their places in the file; those of indexes lie before the others."""
    for data in footer.get(1, []):
        message = _parsed(data)
        kind, length = _number(message, 1), _number(message, 3)
        if _number(message, 2) == column and kind not in _INDEXES:
            yield _Stream(kind, offset, length)
        offset += length


def _lz4_bytes(block: bytes) -> int:
    """How long the content of an LZ4 block is: literals and repetitions in turn, the last of them literals."""

    def extended(length: int, at: int) -> tuple[int, int]:
        more = 255 if length == 15 else 0
        while more == 255:
            more, at = block[at], at + 1
            length += more
        return length, at

    size_bytes = at = 0
    while True:
        token = block[at]
        literals, at = extended(token >> 4, at + 1)
        size_bytes, at = size_bytes + literals, at + literals
        if at >= len(block):
            return size_bytes
        repeated, at = extended(token & 15, at + 2)
        size_bytes += repeated + 4


# --- protocol buffers


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where what follows it begins."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _parsed(data: bytes) -> _Message:
    """The values of each field: numbers, or bytes. Raises ValueError, IndexError for what is no message."""
    message: _Message = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value: int | bytes
        match key & 7:
            case 0:
                value, at = _varint(data, at)
            case 2:
                length, at = _varint(data, at)
                value, at = bytes(data[at : at + length]), at + length
            case 1 | 5 as kind:
                length = 8 if kind == 1 else 4
                value, at = bytes(data[at : at + length]), at + length
            case kind:
                raise ValueError(f"its metadata has a field of kind {kind}")
        message.setdefault(key >> 3, []).append(value)
    return message


def _number(message: _Message, field: int) -> int:
    return int(message.get(field, [0])[0])


def _packed(message: _Message, field: int) -> Sequence[int]:
    """Numbers that are written one by one, or all into one value."""
    numbers = []
    for value in message.get(field, []):
        if isinstance(value, int):
            numbers.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            numbers.append(number)
    return numbers


def _field(number: int, value: int | bytes) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return _encoded(number << 3) + _encoded(value)
    return _encoded(number << 3 | 2) + _encoded(len(value)) + value


def _encoded(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)
