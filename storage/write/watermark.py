"""The watermark of rows that are written: how far the time of a table has come, for its snapshots. Pure.

Of a table with `WATERMARK FOR at AS at - INTERVAL '5' SECOND`, the largest value of the expression, in milliseconds, as Paimon
keeps it. Known here are a column of the table, and one with a fixed time taken away, which is what watermarks are; of another
expression, which only an engine could compute, no watermark is written.
"""

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from ..metadata.derived_columns import watermark
from ..metadata.schema import TableSchema

_EXPRESSION = re.compile(
    r"\(?\s*(?:`((?:[^`]|``)+)`|(\w+))(?:\s*-\s*INTERVAL\s*'?\s*(\d{1,9})(?:\.(\d{1,3})\d*)?\s*'?\s*(\w+?)S?)?\s*\)?",
    re.IGNORECASE,
)
_UNIT_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}
_PER_MS = {"s": (1000, 1), "ms": (1, 1), "us": (1, 1000), "ns": (1, 1_000_000)}


class RowTime:
    """The largest time among rows, less what the watermark lags behind."""

    def __init__(self, column: str, lag_ms: int) -> None:
        self.column = column
        self._lag_ms = lag_ms

    def of(self, rows: pa.Table) -> int | None:
        """The watermark of rows, in milliseconds since 1970; None if none of them has a time."""
        column = rows.column(self.column)
        highest = pc.max(column)
        if not highest.is_valid:
            return None
        times, parts = _PER_MS[column.type.unit]
        return int(highest.cast(pa.int64()).as_py() * times // parts - self._lag_ms)


def row_time(schema: TableSchema) -> RowTime | None:
    """How the watermark of a table's rows is computed; None if it has none that is known here."""
    mark = watermark(schema.options)
    match = _EXPRESSION.fullmatch(mark.expression.strip()) if mark is not None else None
    if match is None:
        return None
    name = (match[1] or "").replace("``", "`") or match[2]
    columns = [field for field in schema.fields if field.name.lower() == name.lower()]
    unit = (match[5] or "SECOND").upper()
    if len(columns) != 1 or not pa.types.is_timestamp(columns[0].to_arrow().type) or unit not in _UNIT_MS:
        return None
    lag = int(match[3] or 0) * _UNIT_MS[unit] + int((match[4] or "0").ljust(3, "0")) * _UNIT_MS[unit] // 1000
    return RowTime(columns[0].name, lag)


def highest(marks: Iterable[int | None]) -> int | None:
    """The largest of some watermarks, of which there may be none."""
    return max((mark for mark in marks if mark is not None), default=None)
