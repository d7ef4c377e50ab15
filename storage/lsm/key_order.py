"""The order of keys, computed for whole columns: sort rows by key, and keep the last row of each key.

Each column becomes whole numbers of the same order; if they fit together with the row number into 63 bits, one plain
sort of numbers does it all, and is stable because the row number is part of the number.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_MOST = np.iinfo(np.int64).max
_WHOLE_NUMBERS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def whole_numbers(column: pa.Array) -> np.ndarray | None:
    """The column as int64 of the same order, or None if its type is not held as whole numbers. No nulls allowed."""
    kind, numbers = column.type, None
    if pa.types.is_boolean(kind):
        numbers = column.to_numpy(zero_copy_only=False)
    elif pa.types.is_integer(kind):
        numbers = column.to_numpy()
    elif pa.types.is_temporal(kind):
        numbers = column.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy()
    return None if numbers is None else np.asarray(numbers, np.int64)


def ranks(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Whole numbers in the order of the column's values, nulls first; equal values have equal numbers.

    They begin at 0, unless the values of an integer column lie too far apart for that.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.null_count == 0 and (numbers := whole_numbers(column)) is not None:
        return _from_zero(numbers)
    encoded = column.dictionary_encode(null_encoding="encode")
    values = encoded.dictionary
    if pa.types.is_floating(values.type):
        # -0.0 sorts before 0.0 and NaN last.
        order = np.lexsort((_total_order(values),))
    else:
        # A dictionary holds null once at the most, which is sorted last.
        order = np.roll(pc.sort_indices(values).to_numpy(), 1 if values.null_count else 0)
    rank_of = np.empty(len(order), np.int64)
    rank_of[order] = np.arange(len(order))
    ranked: np.ndarray = rank_of[encoded.indices.to_numpy()]
    return ranked


def reversed_ranks(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Whole numbers against the order of the column's values, nulls first all the same."""
    ascending = ranks(column)
    if not len(ascending) or ascending.min() < 0:
        # Columns with nulls have ranks from 0 on.
        return ~ascending
    descending = ascending.max() + 1 - ascending if ascending.max() < _MOST else ~ascending
    if column.null_count:
        descending[np.asarray(column.is_null())] = 0
    return descending


def _from_zero(numbers: np.ndarray) -> np.ndarray:
    if not len(numbers):
        return numbers
    lowest, highest = int(numbers.min()), int(numbers.max())
    # Beyond this the difference would overflow and turn the order around.
    return numbers - lowest if highest - lowest <= _MOST else numbers


def _total_order(values: pa.Array) -> np.ndarray:
    numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    bits = numbers.view(np.int64)
    ordered = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    ordered[np.isnan(numbers)] = np.iinfo(np.int64).max
    if values.null_count:
        ordered[np.asarray(values.is_null())] = np.iinfo(np.int64).min
    ranked: np.ndarray = ordered
    return ranked


def stable_order(columns: Sequence[np.ndarray], row_count: int) -> np.ndarray:
    """Row numbers that sort the rows by the given ranks (first column first), equal rows in their order."""
    position_bits = max(row_count - 1, 1).bit_length()
    bits = [int(column.max(initial=0)).bit_length() for column in columns]
    if sum(bits) + position_bits <= 63 and all(column.min(initial=0) >= 0 for column in columns):
        packed = np.zeros(row_count, np.int64)
        for column, width in zip(columns, bits, strict=True):
            packed = (packed << width) | column
        if row_count < 2 or bool((packed[1:] >= packed[:-1]).all()):
            return np.arange(row_count)
        packed = (packed << position_bits) | np.arange(row_count)
        packed.sort()
        return packed & ((1 << position_bits) - 1)
    if _are_sorted(columns, row_count):
        return np.arange(row_count)
    return np.lexsort(tuple(reversed(columns)))


def _are_sorted(columns: Sequence[np.ndarray], row_count: int) -> bool:
    """Whether the rows are in order already, as those are that an engine has sorted."""
    if row_count < 2:
        return True
    tied = np.ones(row_count - 1, bool)
    for column in columns:
        if bool((tied & (column[1:] < column[:-1])).any()):
            return False
        tied &= column[1:] == column[:-1]
    return True


def last_of_each(columns: Sequence[np.ndarray], order: np.ndarray) -> np.ndarray:
    """Mask over `order`: true where the next row in that order has another key."""
    last = np.zeros(len(order), bool)
    if len(order):
        last[-1] = True
    for column in columns:
        ordered = column[order]
        last[:-1] |= ordered[1:] != ordered[:-1]
    return last
