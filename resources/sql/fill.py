"""Where the columns of a table get their values when rows are inserted."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Fill:
    """Where a column of a table gets its values: from the query's column at a position, or one value, or null. A value is what
    the statement says of a partition, or the column's default, which has its type.
    """

    name: str
    position: int | None = None
    value: str | pa.Scalar | None = None
