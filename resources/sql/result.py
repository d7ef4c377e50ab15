"""What a statement gives: rows, or a sentence about what was done."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery


@dataclass(frozen=True)
class Result:
    """`rows` are in memory, or come from the Spark DataFrame `frame`; `stream` is a query that goes on running."""

    message: str = ""
    rows: pa.Table | None = None
    frame: "DataFrame | None" = None
    stream: "StreamingQuery | None" = None

    def to_arrow(self) -> pa.Table:
        """The rows in memory; for a statement that gives none, a table with its message."""
        if self.rows is not None:
            return self.rows
        if self.frame is not None:
            return self.frame.toArrow()
        return pa.table({"result": [self.message]})


def rows_result(names: list[str], rows: list[tuple[Any, ...]], types: dict[str, pa.DataType] | None = None) -> Result:
    """A result from rows of plain values; columns are text unless `types` says otherwise."""
    columns = [
        pa.array([row[index] for row in rows], (types or {}).get(name, pa.string())) for index, name in enumerate(names)
    ]
    return Result(rows=pa.Table.from_arrays(columns, names))
