"""Rows that are too old, which compactions leave out (`record-level.expire-time`).

A row is gone for a compaction once the time in its column `record-level.time-field` is further back than that, before rows of a
key are merged; whoever reads sees it until then. Source: `docs/format.md`, "Compaction".
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..data_types import DataField
from ..errors import InvalidRequest
from ..metadata.schema import KEY_PREFIX, TableSchema

EXPIRE_TIME, TIME_FIELD = "record-level.expire-time", "record-level.time-field"
# BIGINT from here on is taken for milliseconds, below for seconds.
_LEAST_MILLISECONDS = 1_000_000_000_000
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Which rows are too old: those with a time, in seconds since 1970, before `earliest`."""

    field: DataField
    earliest: int

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are not too old; those without a time never are."""
        name = self.field.name
        column = rows.column(name if name in rows.schema.names else f"{KEY_PREFIX}{name}")
        kept = (self._seconds(column) >= self.earliest) | np.asarray(column.is_null())
        return rows if kept.all() else rows.filter(pa.array(kept))

    def is_past(self, value: int) -> bool:
        """Whether a value of the column (`storage.values`) is too old."""
        if self.field.type.is_timestamp:
            return value // _PER_SECOND["ns"] < self.earliest
        in_milliseconds = value >= _LEAST_MILLISECONDS and self.field.type.root == "BIGINT"
        return (value // 1000 if in_milliseconds else value) < self.earliest

    def _seconds(self, column: pa.Array) -> np.ndarray:
        if pa.types.is_timestamp(column.type):
            # Cut towards 1970, as Java does.
            per_second = _PER_SECOND[column.type.unit]
            numbers = column.view(pa.int64()).fill_null(0).to_numpy()
            seconds: np.ndarray = np.sign(numbers) * (np.abs(numbers) // per_second)
        else:
            numbers = column.cast(pa.int64()).fill_null(0).to_numpy()
            in_milliseconds = (numbers >= _LEAST_MILLISECONDS) & (self.field.type.root == "BIGINT")
            seconds = np.where(in_milliseconds, numbers // 1000, numbers)
        return seconds


def record_expiry_of(schema: TableSchema, now_ms: int) -> RecordExpiry | None:
    """What is too old for compactions at a moment; None where rows do not expire. Raises InvalidRequest that says what is wrong
    with the options.
    """
    options = schema.table_options
    if options.record_level_expire_time_ms is None:
        if options.record_level_time_field is not None:
            _check_type(schema.field(options.record_level_time_field))
        return None
    if options.record_level_time_field is None:
        raise InvalidRequest(f"Option {EXPIRE_TIME!r} needs {TIME_FIELD!r}, the column that tells how old a row is.")
    field = _check_type(schema.field(options.record_level_time_field))
    return RecordExpiry(field, now_ms // 1000 - options.record_level_expire_time_ms // 1000)


def _check_type(field: DataField) -> DataField:
    if field.type.root not in ("INT", "BIGINT") and not field.type.is_timestamp:
        raise InvalidRequest(
            f"Option {TIME_FIELD!r} = {field.name!r}: a column of type {field.type} tells no time. Use INT (seconds), BIGINT "
            "(seconds, or milliseconds) or TIMESTAMP."
        )
    return field
