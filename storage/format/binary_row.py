"""BinaryRow: the bytes of partition values, keys and statistics in manifests, and the hash that picks a bucket.

Follows `docs/format.md`, "BinaryRow". Single rows are encoded and decoded as values (`storage.values`); hashes are
computed for whole Arrow columns at once, because every written row is hashed.
"""

import decimal
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataType
from ..errors import CorruptData, Unsupported
from ..values import from_arrow

EMPTY_ROW = bytes(12)
_SEED = 42
_FIXED_FORMATS = {
    "BOOLEAN": "<?",
    "TINYINT": "<b",
    "SMALLINT": "<h",
    "INT": "<i",
    "DATE": "<i",
    "TIME": "<i",
    "BIGINT": "<q",
    "FLOAT": "<f",
    "DOUBLE": "<d",
}
# Rows whose variable part is longer than this are hashed one by one, to keep the matrix of the others small.
_LONG_ROW_BYTES = 512
_ROWS_PER_CHUNK = 65_536


def encode(types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    """Serialized row: 4 bytes field count, big-endian, then the body."""
    if not types:
        return EMPTY_ROW
    null_bytes = _null_bytes(len(types))
    body = bytearray(null_bytes + 8 * len(types))
    for index, (data_type, value) in enumerate(zip(types, values, strict=True)):
        slot = null_bytes + 8 * index
        if value is None:
            body[(index + 8) // 8] |= 1 << (index + 8) % 8
            reserved = _reserved_bytes(data_type)
            if reserved:
                struct.pack_into("<q", body, slot, len(body) << 32)
                body += bytes(reserved)
            continue
        if fixed := _FIXED_FORMATS.get(data_type.root):
            struct.pack_into(fixed, body, slot, value)
        elif data_type.is_text or data_type.is_bytes:
            data = value.encode() if data_type.is_text else bytes(value)
            if len(data) <= 7:
                body[slot : slot + len(data)] = data
                body[slot + 7] = 0x80 | len(data)
            else:
                struct.pack_into("<q", body, slot, len(body) << 32 | len(data))
                body += data + bytes(-len(data) % 8)
        elif data_type.root == "DECIMAL":
            unscaled = _unscaled(value, data_type.scale)
            if data_type.precision <= 18:
                struct.pack_into("<q", body, slot, unscaled)
            else:
                data = _shortest_two_complement(unscaled)
                struct.pack_into("<q", body, slot, len(body) << 32 | len(data))
                body += data.ljust(16, b"\0")
        elif data_type.is_timestamp:
            millis, nanos = divmod(value, 10**6)
            if data_type.precision <= 3:
                struct.pack_into("<q", body, slot, millis)
            else:
                struct.pack_into("<q", body, slot, len(body) << 32 | nanos)
                body += struct.pack("<q", millis)
        else:
            raise Unsupported(f"Values of type {data_type} cannot be keys, partitions or statistics.")
    return struct.pack(">i", len(types)) + bytes(body)


def decode(data: bytes, types: Sequence[DataType]) -> tuple[Any, ...]:
    """Values of a serialized row. Raises CorruptData if its field count is not the number of types."""
    if len(data) < 4:
        raise CorruptData(f"A BinaryRow of {len(data)} bytes is too short.")
    (count,) = struct.unpack_from(">i", data)
    if count != len(types):
        raise CorruptData(f"A BinaryRow has {count} fields, {len(types)} were expected.")
    body = memoryview(data)[4:]
    null_bytes = _null_bytes(count)
    try:
        return tuple(_decode_field(body, index, null_bytes + 8 * index, kind) for index, kind in enumerate(types))
    except (struct.error, IndexError) as error:
        raise CorruptData(f"A BinaryRow of {len(data)} bytes is cut short: {error}") from None


def decoder(types: Sequence[DataType]) -> Callable[[bytes], tuple[Any, ...]]:
    """A function that does what `decode` does for rows of these types, faster for many rows."""
    null_bytes = _null_bytes(len(types))
    formats = [_FIXED_FORMATS.get(data_type.root) for data_type in types]
    if None in formats or not types:
        return _mixed_decoder(types)
    slots = "".join(f"{form[1:]}{8 - struct.calcsize(form)}x" for form in formats if form)
    layout = struct.Struct(f"<{null_bytes}s{slots}")
    size, count = 4 + layout.size, struct.pack(">i", len(types))
    # Byte 0 is the row kind; without nulls all others are zero.
    no_nulls = bytes(null_bytes - 1)

    def read(data: bytes) -> tuple[Any, ...]:
        if len(data) != size or not data.startswith(count):
            return decode(data, types)
        head, *values = layout.unpack_from(data, 4)
        return tuple(values) if head[1:] == no_nulls else decode(data, types)

    return read


def _mixed_decoder(types: Sequence[DataType]) -> Callable[[bytes], tuple[Any, ...]]:
    """As `decoder`, for rows with columns of varying length."""
    null_bytes = _null_bytes(len(types))
    count = struct.pack(">i", len(types))
    columns = [
        (index, (index + 8) // 8, 1 << (index + 8) % 8, null_bytes + 8 * index, kind, _FIXED_FORMATS.get(kind.root))
        for index, kind in enumerate(types)
    ]
    texts = frozenset(index for index, kind in enumerate(types) if kind.is_text)
    unpack = struct.unpack_from

    def read(data: bytes) -> tuple[Any, ...]:
        if not data.startswith(count):
            return decode(data, types)
        body = data[4:]
        values: list[Any] = []
        try:
            for index, byte, bit, slot, kind, fixed in columns:
                if body[byte] & bit:
                    values.append(None)
                elif fixed:
                    values.append(unpack(fixed, body, slot)[0])
                elif index in texts and body[slot + 7] & 0x80:
                    values.append(body[slot : slot + (body[slot + 7] & 0x7F)].decode())
                elif index in texts:
                    length, start = unpack("<II", body, slot)
                    values.append(body[start : start + length].decode())
                else:
                    values.append(_decode_field(memoryview(body), index, slot, kind))
        except (struct.error, IndexError):
            return decode(data, types)
        return tuple(values)

    return read


def _decode_field(body: memoryview, index: int, slot: int, data_type: DataType) -> Any:
    if body[(index + 8) // 8] >> (index + 8) % 8 & 1:
        return None
    if fixed := _FIXED_FORMATS.get(data_type.root):
        return struct.unpack_from(fixed, body, slot)[0]
    (word,) = struct.unpack_from("<q", body, slot)
    if data_type.is_text or data_type.is_bytes:
        if word < 0:
            data = bytes(body[slot : slot + (body[slot + 7] & 0x7F)])
        else:
            data = bytes(body[word >> 32 : (word >> 32) + (word & 0xFFFFFFFF)])
        return data.decode() if data_type.is_text else data
    if data_type.root == "DECIMAL":
        if data_type.precision > 18:
            start = word >> 32
            word = int.from_bytes(body[start : start + (word & 0xFFFFFFFF)], "big", signed=True)
        return decimal.Decimal(word).scaleb(-data_type.scale, _WIDE)
    if data_type.is_timestamp:
        if data_type.precision <= 3:
            return word * 10**6
        return struct.unpack_from("<q", body, word >> 32)[0] * 10**6 + (word & 0xFFFFFFFF)
    raise Unsupported(f"Values of type {data_type} cannot be read from a BinaryRow.")


_WIDE = decimal.Context(prec=80)


def _null_bytes(field_count: int) -> int:
    return (field_count + 63 + 8) // 64 * 8


def _reserved_bytes(data_type: DataType) -> int:
    """Bytes that a null keeps in the variable part, as Java writes it."""
    if data_type.root == "DECIMAL" and data_type.precision > 18:
        return 16
    return 8 if data_type.is_timestamp and data_type.precision > 3 else 0


def _unscaled(value: decimal.Decimal, scale: int) -> int:
    return int(value.scaleb(scale, _WIDE).to_integral_exact(decimal.ROUND_HALF_UP, _WIDE))


def _shortest_two_complement(number: int) -> bytes:
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def hash_rows(columns: Sequence[pa.Array], types: Sequence[DataType]) -> np.ndarray:
    """Murmur3 of each row of the given columns: int32, one for each row. Columns have `type.to_arrow()`."""
    row_count = len(columns[0])
    result = np.empty(row_count, np.int32)
    for start in range(0, row_count, _ROWS_PER_CHUNK):
        chunk = [column.slice(start, _ROWS_PER_CHUNK) for column in columns]
        result[start : start + _ROWS_PER_CHUNK] = _hash_chunk(chunk, types)
    return result


def buckets_of(hashes: np.ndarray, bucket_count: int) -> np.ndarray:
    """Bucket of each hash: int32. Source: Java's `abs(hash % count)`, where `%` truncates toward zero."""
    return np.abs(np.fmod(hashes.astype(np.int64), bucket_count)).astype(np.int32)


def _hash_chunk(columns: Sequence[pa.Array], types: Sequence[DataType]) -> np.ndarray:
    row_count = len(columns[0])
    null_bytes = _null_bytes(len(types))
    fixed_bytes = null_bytes + 8 * len(types)
    lengths = [_variable_lengths(column, data_type) for column, data_type in zip(columns, types, strict=True)]
    total = np.full(row_count, fixed_bytes, np.int64)
    for length in lengths:
        if length is not None:
            total += (length + 7) // 8 * 8
    short = total <= fixed_bytes + _LONG_ROW_BYTES
    if not short.all():
        return _hash_long_rows(columns, types, short)
    body = np.zeros((row_count, int(total.max(initial=fixed_bytes))), np.uint8)
    ends = np.full(row_count, fixed_bytes, np.int64)
    for index, (column, data_type) in enumerate(zip(columns, types, strict=True)):
        if column.null_count:
            nulls = np.asarray(column.is_null())
            body[nulls, (index + 8) // 8] |= np.uint8(1 << (index + 8) % 8)
        slot = body[:, null_bytes + 8 * index : null_bytes + 8 * index + 8]
        _fill_column(body, slot, ends, column, data_type, lengths[index])
    return _murmur(body.view("<u4"), total)


def _hash_long_rows(columns: Sequence[pa.Array], types: Sequence[DataType], short: np.ndarray) -> np.ndarray:
    result = np.empty(len(short), np.int32)
    if short.any():
        mask = pa.array(short)
        result[short] = _hash_chunk([column.filter(mask) for column in columns], types)
    from_rows = np.flatnonzero(~short)
    picked = [from_arrow(column.take(pa.array(from_rows)), kind) for column, kind in zip(columns, types, strict=True)]
    for row, values in zip(from_rows, zip(*picked, strict=True), strict=True):
        words = np.frombuffer(encode(types, values)[4:], "<u4").reshape(1, -1)
        result[row] = _murmur(words, np.array([words.shape[1] * 4]))[0]
    return result


def _variable_lengths(column: pa.Array, data_type: DataType) -> np.ndarray | None:
    """Bytes of the variable part of each row, before padding; None for types that have none."""
    if data_type.is_text or data_type.is_bytes:
        lengths = _numpy(pc.binary_length(column), 0).astype(np.int64)
        return np.where(lengths > 7, lengths, 0)
    reserved = _reserved_bytes(data_type)
    return np.full(len(column), reserved, np.int64) if reserved else None


def _numpy(column: pa.Array, null_value: Any) -> np.ndarray:
    numbers: np.ndarray = (
        column.fill_null(null_value).to_numpy(zero_copy_only=False) if column.null_count else column.to_numpy()
    )
    return numbers


def _fill_column(
    body: np.ndarray,
    slot: np.ndarray,
    ends: np.ndarray,
    column: pa.Array,
    data_type: DataType,
    lengths: np.ndarray | None,
) -> None:
    """Write a column into its slots and the variable part, which grows: `ends` moves on."""
    if data_type.root == "BOOLEAN":
        slot[:, 0] = column.fill_null(False).to_numpy(zero_copy_only=False)
    elif data_type.is_integer or data_type.is_float:
        numbers = np.ascontiguousarray(_numpy(column, 0))
        slot[:, : numbers.itemsize] = numbers.view(np.uint8).reshape(len(column), numbers.itemsize)
    elif data_type.root in ("DATE", "TIME"):
        slot[:, :4] = np.ascontiguousarray(_numpy(column.cast(pa.int32()), 0)).view(np.uint8).reshape(-1, 4)
    elif data_type.is_timestamp:
        _fill_timestamps(body, slot, ends, column, data_type)
    elif data_type.root == "DECIMAL":
        _fill_decimals(body, slot, ends, column, data_type)
    elif lengths is not None:
        _fill_text(body, slot, ends, column, lengths)
    else:
        raise Unsupported(f"Rows cannot be hashed by a column of type {data_type}.")


def _words(numbers: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(numbers.astype("<i8")).view(np.uint8).reshape(-1, 8)


def _fill_timestamps(
    body: np.ndarray, slot: np.ndarray, ends: np.ndarray, column: pa.Array, data_type: DataType
) -> None:
    ticks = _numpy(column.cast(pa.int64()), 0)
    per_milli = {"ms": 1, "us": 1000, "ns": 10**6}[column.type.unit]
    millis = ticks // per_milli
    if data_type.precision <= 3:
        slot[:] = _words(millis)
        return
    nanos = (ticks - millis * per_milli) * (10**6 // per_milli)
    slot[:] = _words(ends << 32 | nanos)
    rows = np.arange(len(column))
    body[rows[:, None], ends[:, None] + np.arange(8)] = _words(millis)
    ends += 8


def _fill_decimals(body: np.ndarray, slot: np.ndarray, ends: np.ndarray, column: pa.Array, data_type: DataType) -> None:
    # An Arrow decimal is 16 bytes little-endian.
    filled = column.fill_null(decimal.Decimal(0)) if column.null_count else column
    raw = np.frombuffer(filled.buffers()[1], np.uint8)[filled.offset * 16 : (filled.offset + len(filled)) * 16]
    little = raw.reshape(-1, 16)
    if data_type.precision <= 18:
        slot[:] = little[:, :8]
        return
    big = little[:, ::-1]
    sign_byte = np.where(big[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    # Leading bytes that only repeat the sign are dropped, but for one whose top bit carries it.
    droppable = (big[:, :-1] == sign_byte[:, None]) & ((big[:, 1:] ^ sign_byte[:, None]) < 0x80)
    dropped = np.cumprod(droppable, axis=1).sum(axis=1)
    lengths = np.where(np.asarray(column.is_null()), 0, 16 - dropped)
    slot[:] = _words(ends << 32 | lengths)
    rows = np.arange(len(column))[:, None]
    places = np.arange(16)
    source = np.minimum(places + dropped[:, None], 15)
    shifted = np.where(places < lengths[:, None], np.take_along_axis(big, source, axis=1), 0)
    body[rows, ends[:, None] + places] = shifted
    ends += 16


def _fill_text(body: np.ndarray, slot: np.ndarray, ends: np.ndarray, column: pa.Array, lengths: np.ndarray) -> None:
    _, offset_buffer, data_buffer = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = (
        np.frombuffer(data_buffer, np.uint8) if data_buffer is not None and data_buffer.size else np.zeros(1, np.uint8)
    )
    sizes = offsets[1:] - offsets[:-1]
    valid = np.asarray(column.is_valid()) if column.null_count else np.ones(len(column), bool)
    inline = valid & (lengths == 0)
    rows = np.flatnonzero(inline)
    for place in range(int(sizes[inline].max(initial=0))):
        reach = rows[sizes[rows] > place]
        slot[reach, place] = data[offsets[reach] + place]
    slot[rows, 7] = 0x80 | sizes[rows].astype(np.uint8)
    outside = np.flatnonzero(lengths)
    if len(outside):
        slot[outside] = _words(ends[outside] << 32 | lengths[outside])
        for place in range(int(lengths.max())):
            reach = outside[lengths[outside] > place]
            body[reach, ends[reach] + place] = data[offsets[reach] + place]
        ends[outside] += (lengths[outside] + 7) // 8 * 8


def _murmur(words: np.ndarray, length_bytes: np.ndarray) -> np.ndarray:
    """Murmur3 (x86, 32 bits, seed 42) of each row of a matrix of 4-byte words, `length_bytes` of which count."""
    hashes = np.full(len(words), _SEED, np.uint32)
    shortest = int(length_bytes.min(initial=words.shape[1] * 4)) // 4
    with np.errstate(over="ignore"):
        for place in range(words.shape[1]):
            mixed = words[:, place] * np.uint32(0xCC9E2D51)
            mixed = (mixed << np.uint32(15) | mixed >> np.uint32(17)) * np.uint32(0x1B873593)
            stirred = hashes ^ mixed
            stirred = (stirred << np.uint32(13) | stirred >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
            hashes = stirred if place < shortest else np.where(place * 4 < length_bytes, stirred, hashes)
        hashes ^= length_bytes.astype(np.uint32)
        hashes ^= hashes >> np.uint32(16)
        hashes *= np.uint32(0x85EBCA6B)
        hashes ^= hashes >> np.uint32(13)
        hashes *= np.uint32(0xC2B2AE35)
        hashes ^= hashes >> np.uint32(16)
    return hashes.view(np.int32)
