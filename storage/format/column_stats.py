"""Minimum, maximum and null count of columns, as manifests keep them for every data file.

Follows `docs/format.md`, "Statistics": text is truncated to a number of characters, the maximum upwards. A missing
minimum with fewer nulls than rows means "unknown", and nothing may be skipped by it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataField, DataType
from ..errors import InvalidRequest
from ..values import from_scalar
from . import binary_row

KEY_STATS_MODE = "truncate(128)"
_TRUNCATE = re.compile(r"truncate\((\d+)\)")


class ColumnStats(NamedTuple):
    """Values as in `storage.values`; None where unknown."""

    minimum: Any = None
    maximum: Any = None
    null_count: int | None = None
    # Whether values may be NaN that lie outside of the bounds, as in files of others.
    may_hold_nan: bool = False


@dataclass(frozen=True, slots=True)
class SerializedStats:
    """The STATS record of a manifest: two BinaryRows and one null count for each of their fields."""

    minimums: bytes
    maximums: bytes
    null_counts: tuple[int | None, ...]


EMPTY_STATS = SerializedStats(binary_row.EMPTY_ROW, binary_row.EMPTY_ROW, ())


def collect(column: pa.Array | pa.ChunkedArray, data_type: DataType, mode: str) -> ColumnStats:
    """Statistics of a column. `mode` is none, counts, truncate(n) or full."""
    if mode == "none":
        return ColumnStats()
    # Bytes have no bounds: Java compares them as signed numbers, and itself writes none.
    if mode == "counts" or data_type.is_nested or data_type.is_bytes or column.null_count == len(column):
        return ColumnStats(null_count=column.null_count)
    if data_type.is_float and pc.any(pc.is_nan(column)).as_py():
        # Engines disagree on where NaN sorts.
        return ColumnStats(null_count=column.null_count)
    extremes = pc.min_max(column)
    low, high = (from_scalar(extremes[end], data_type) for end in ("min", "max"))
    if length := _truncation(mode, data_type):
        low, high = low[:length], truncate_up(high, length)
        if high is None:
            low = None
    return ColumnStats(low, high, column.null_count)


def _truncation(mode: str, data_type: DataType) -> int | None:
    if mode == "full" or not data_type.is_text:
        return None
    match = _TRUNCATE.fullmatch(mode)
    if match is None:
        raise InvalidRequest(f"Option 'metadata.stats-mode' = {mode!r}: expected none, counts, truncate(n) or full.")
    return int(match[1])


def truncate_up(value: str, length: int) -> str | None:
    """The shortest text of at most `length` characters that is not below `value`; None if there is none."""
    if len(value) <= length:
        return value
    for end in range(length, 0, -1):
        if ord(value[end - 1]) < 0x10FFFF:
            raised = ord(value[end - 1]) + 1
            # Code points 0xD800 … 0xDFFF are no characters.
            return value[: end - 1] + chr(0xE000 if 0xD800 <= raised <= 0xDFFF else raised)
    return None


def serialize(types: Sequence[DataType], stats: Sequence[ColumnStats]) -> SerializedStats:
    """The STATS record for columns of the given types."""
    if not types:
        return EMPTY_STATS
    return SerializedStats(
        binary_row.encode(types, [statistics.minimum for statistics in stats]),
        binary_row.encode(types, [statistics.maximum for statistics in stats]),
        tuple(statistics.null_count for statistics in stats),
    )


def deserialize(
    stats: SerializedStats, types: Sequence[DataType], decode: Callable[[bytes], tuple[Any, ...]] | None = None
) -> list[ColumnStats]:
    """Statistics of each column; unknown ones for rows that were declared empty. `decode` is the types' decoder, for
    those who have many.
    """
    if stats.minimums == binary_row.EMPTY_ROW or not types:
        return [ColumnStats() for _ in types]
    decode = decode or binary_row.decoder(types)
    minimums, maximums = decode(stats.minimums), decode(stats.maximums)
    counts = stats.null_counts if len(stats.null_counts) == len(types) else (None,) * len(types)
    return [_read(*each) for each in zip(minimums, maximums, counts, types, strict=True)]


def _read(low: Any, high: Any, nulls: int | None, data_type: DataType) -> ColumnStats:
    """What is said of a column. Java's bounds are NaN wherever a value is, those of pypaimon and of ORC leave NaN out."""
    if data_type.is_float and (low != low or high != high):
        return ColumnStats(None, None, nulls, may_hold_nan=True)
    return ColumnStats(low, high, nulls, may_hold_nan=data_type.is_float)


def merge_ranges(ranges: Sequence[tuple[Any, ...]], types: Sequence[DataType]) -> SerializedStats:
    """The STATS record over rows of values, such as the partitions of a manifest's entries."""
    stats = []
    for index in range(len(types)):
        present = [row[index] for row in ranges if row[index] is not None]
        nulls = len(ranges) - len(present)
        stats.append(ColumnStats(min(present), max(present), nulls) if present else ColumnStats(null_count=nulls))
    return serialize(types, stats)


def collect_dense(
    columns: Mapping[str, pa.ChunkedArray], fields: Sequence[DataField], modes: Sequence[str]
) -> tuple[SerializedStats, tuple[str, ...] | None]:
    """Value statistics of a file by a mode for each column, and the columns they are for: None for all of them.

    Nested columns have no statistics, nor have those of mode `none`: they are left out, which makes the list explicit (the
    format's dense form).
    """
    kept = [
        (field, mode) for field, mode in zip(fields, modes, strict=True) if mode != "none" and not field.type.is_nested
    ]
    if not kept:
        return EMPTY_STATS, ()
    stats = serialize(
        [field.type for field, _ in kept], [collect(columns[field.name], field.type, mode) for field, mode in kept]
    )
    return stats, None if len(kept) == len(fields) else tuple(field.name for field, _ in kept)
