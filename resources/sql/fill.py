"""Where the columns of a table get their values when rows are inserted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fill:
    """Where a column of a table gets its values: from the query's column at a position, or one value, or null."""

    name: str
    position: int | None = None
    value: str | None = None
