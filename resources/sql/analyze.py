"""ANALYZE TABLE: statistics of a table, in a file that a snapshot names."""

from collections.abc import Callable

from storage import InvalidRequest
from storage.engines.duckdb_statistics import analyze
from storage.sql.commands import AnalyzeTable

from .names import Names
from .place import at
from .result import Result


def analyzed(node: AnalyzeTable, names: Names) -> Callable[[], Result]:
    """What carries the statement out. Raises InvalidRequest for columns that the table does not have."""
    place = names.place(node.this)
    names.refuse_read_only(place)
    table = names.table(node.this)
    known = {name.lower(): name for name in table.schema.column_names}
    chosen: list[str] | None = None if node.args.get("all_columns") else []
    for column in node.args.get("columns") or []:
        if column.name.lower() not in known:
            raise at(
                column, InvalidRequest(f"There is no column {column.name!r}. Columns: {', '.join(known.values())}.")
            )
        if chosen is not None and known[column.name.lower()] not in chosen:
            chosen.append(known[column.name.lower()])

    def act() -> Result:
        snapshot = analyze(table, chosen)
        if snapshot is None:
            return Result(f"{table.identifier} has no snapshot; there is nothing to analyze.")
        return Result(
            f"Snapshot {snapshot.id}: {table.identifier} has statistics, see `{table.identifier.table}$statistics`."
        )

    return act
