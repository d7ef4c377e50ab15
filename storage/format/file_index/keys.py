"""Values of a column in the form that file indexes hold: whole numbers, or bytes, in the order of the index.

TINYINT … BIGINT, BOOLEAN the number · DATE days · TIME milliseconds · DECIMAL up to 18 digits the unscaled number
TIMESTAMP up to 3 digits milliseconds, else microseconds · text and bytes the bytes
FLOAT and DOUBLE a whole number that sorts as Java does: -0.0 below 0.0, NaN above all
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from ...data_types import DataType

# Of a key of each type as bytes in an index: numpy's name of it. Text and bytes have a length before them.
_STORED = {
    "BOOLEAN": ">u1",
    "TINYINT": ">i1",
    "SMALLINT": ">i2",
    "INT": ">i4",
    "BIGINT": ">i8",
    "DATE": ">i4",
    "TIME": ">i4",
    "DECIMAL": ">i8",
    "TIMESTAMP": ">i8",
    "TIMESTAMP_LTZ": ">i8",
    "FLOAT": ">i4",
    "DOUBLE": ">i8",
}
_MICROSECOND_DIGITS = 6
_MILLISECOND_DIGITS = 3
Key = int | bytes


@dataclass(frozen=True, slots=True)
class Ranked:
    """The distinct values of a column, ascending, and who holds them.

    `keys`: numbers (int64 or smaller) or a BinaryArray; `codes`: for each row that is not null, in the order of rows, the
    place of its value among the keys; `rows`: the numbers of those rows; `nulls`: the numbers of the others.
    """

    keys: Any
    codes: np.ndarray
    rows: np.ndarray
    nulls: np.ndarray

    @property
    def row_count(self) -> int:
        """How many rows were ranked."""
        return len(self.rows) + len(self.nulls)

    def groups(self) -> tuple[np.ndarray, np.ndarray]:
        """The row numbers, those of a key one after the other, and where each key's begin (with the end behind them)."""
        counts = np.bincount(self.codes, minlength=len(self.keys))
        return self.rows[np.argsort(self.codes, kind="stable")], np.concatenate([[0], np.cumsum(counts)])


def stored_width(data_type: DataType) -> int | None:
    """Bytes of a key; None if their number differs."""
    stored = _STORED.get(data_type.root)
    return None if stored is None else np.dtype(stored).itemsize


def stored_dtype(data_type: DataType) -> np.dtype:
    """How numpy calls the bytes of a key that is a number."""
    return np.dtype(_STORED[data_type.root])


def rank(column: pa.Array | pa.ChunkedArray, data_type: DataType) -> Ranked:
    """The distinct values of a column of the type's Arrow type."""
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) and column.num_chunks else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.array([], column.type)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    rows, nulls = (np.flatnonzero(each).astype(np.uint32) for each in (valid, ~valid))
    present = array.drop_null() if len(nulls) else array
    if data_type.is_text or data_type.is_bytes:
        encoded = present.cast(pa.binary()).dictionary_encode()
        order = pc.array_sort_indices(encoded.dictionary)
        places = np.empty(len(order), np.int64)
        places[order.to_numpy()] = np.arange(len(order))
        return Ranked(encoded.dictionary.take(order), places[encoded.indices.to_numpy()], rows, nulls)
    keys, codes = np.unique(numbers(present, data_type), return_inverse=True)
    return Ranked(keys, codes.reshape(-1), rows, nulls)


def numbers(array: pa.Array, data_type: DataType) -> np.ndarray:
    """The keys of values that are not null, of a type that is neither text nor bytes."""
    if data_type.root == "BOOLEAN":
        return np.asarray(array.to_numpy(zero_copy_only=False), np.uint8)
    if data_type.root in ("DATE", "TIME"):
        return np.asarray(array.cast(pa.int32()))
    if data_type.root == "DECIMAL":
        # The lower half of each number.
        halves = np.frombuffer(array.buffers()[1], np.int64) if len(array) else np.empty(0, np.int64)
        return halves.reshape(-1, 2)[array.offset : array.offset + len(array), 0]
    if data_type.is_timestamp:
        ticks = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return np.asarray(ticks // 1000) if data_type.precision > _MICROSECOND_DIGITS else ticks
    values = array.to_numpy(zero_copy_only=False)
    return sortable(values) if data_type.is_float else values


def sortable(values: np.ndarray) -> np.ndarray:
    """Whole numbers that sort as Java sorts floating-point numbers; from them the same gives their bits back."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.array(np.nan, values.dtype), values)
        values = values.view(np.int32 if values.dtype.itemsize == 4 else np.int64)
    largest = np.iinfo(values.dtype).max
    return np.where(values < 0, values ^ largest, values)


def key_of(value: Any, data_type: DataType) -> Key | None:
    """The key of a value (`storage.values`) of a column; None if the index cannot hold it exactly."""
    if data_type.is_text:
        return str(value).encode()
    if data_type.is_bytes:
        return bytes(value)
    if data_type.is_timestamp:
        ticks, rest = divmod(value, 10**6 if data_type.precision <= _MILLISECOND_DIGITS else 1000)
        return int(ticks) if rest == 0 else None
    if data_type.root == "DECIMAL":
        return int(value.scaleb(data_type.scale))
    if data_type.is_float:
        kind = np.float32 if data_type.root == "FLOAT" else np.float64
        return int(sortable(np.array([value], kind))[0])
    return int(value)


def is_zero(value: Any) -> bool:
    """Whether a value has two keys: 0.0 and -0.0, which are equal."""
    return isinstance(value, float) and value == 0 and not math.isnan(value)


def interleaved(keys: Any, data_type: DataType, *columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keys as bytes, each followed by a number (4 bytes, big-endian) of each of some columns, and where each begins."""
    count, behind = len(keys), 4 * len(columns)
    width = stored_width(data_type)
    tail = np.stack(columns, axis=1).astype(">i4") if columns else np.empty((count, 0), ">i4")
    if width is not None:
        stored = sortable(keys) if data_type.is_float else keys
        out = np.empty((count, width + behind), np.uint8)
        out[:, :width] = np.ascontiguousarray(stored, stored_dtype(data_type)).view(np.uint8).reshape(count, width)
        out[:, width:] = tail.view(np.uint8).reshape(count, behind)
        return out.reshape(-1), np.arange(count + 1, dtype=np.int64) * (width + behind)
    offsets, content = _binary_parts(keys)
    lengths = np.diff(offsets)
    starts = np.concatenate([[0], np.cumsum(lengths + 4 + behind)]).astype(np.int64)
    result = np.empty(int(starts[-1]), np.uint8)
    _put(result, starts[:-1], lengths.astype(">i4").view(np.uint8).reshape(count, 4))
    result[np.repeat(starts[:-1] + 4 - offsets[:-1], lengths) + np.arange(offsets[0], offsets[-1])] = content[
        offsets[0] : offsets[-1]
    ]
    _put(result, starts[1:] - behind, tail.view(np.uint8).reshape(count, behind))
    return result, starts


def _put(target: np.ndarray, starts: np.ndarray, blocks: np.ndarray) -> None:
    target[starts[:, None] + np.arange(blocks.shape[1])] = blocks


def _binary_parts(keys: pa.BinaryArray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (int64) and bytes of an array of byte strings."""
    _, offsets, content = keys.buffers()
    read = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1] if offsets else np.zeros(1)
    return read.astype(np.int64), np.frombuffer(content, np.uint8) if content else np.empty(0, np.uint8)


def parts_by_length(keys: pa.BinaryArray) -> Sequence[tuple[np.ndarray, np.ndarray]]:
    """The byte strings of each length: their places in the array, and a matrix with one of them in each line."""
    offsets, content = _binary_parts(keys)
    lengths = np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    ends = np.flatnonzero(np.diff(lengths[order], append=-1))
    result, start = [], 0
    for end in (ends + 1).tolist():
        places = order[start:end]
        length = int(lengths[places[0]])
        result.append((places, content[offsets[places][:, None] + np.arange(length)]))
        start = end
    return result


def bitmap(rows: np.ndarray) -> BitMap:
    """The Roaring bitmap of some row numbers."""
    return BitMap(np.ascontiguousarray(rows, np.uint32))


def serialized(rows: BitMap) -> bytes:
    """A bitmap as Java writes it: runs where they are shorter."""
    rows.run_optimize()
    return bytes(rows.serialize())
