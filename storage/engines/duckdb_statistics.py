"""Statistics of a table's rows, computed by DuckDB: what ANALYZE writes."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from ..data_types import DataField, DataType
from ..errors import CommitConflict, CommitOutcomeUnknown, InvalidRequest, StorageError, StoreUnavailable, TakenBack
from ..metadata.snapshot import ANALYZE, Snapshot
from ..metadata.table_statistics import ColumnStatistics, TableStatistics, write_statistics
from ..table import Table
from .duckdb_connection import sealed_duckdb
from .duckdb_views import add_views, quoted

# Bytes of a value, as Spark counts them.
_LENGTHS = {
    "BOOLEAN": 1,
    "TINYINT": 1,
    "SMALLINT": 2,
    "INT": 4,
    "BIGINT": 8,
    "FLOAT": 4,
    "DOUBLE": 8,
    "DATE": 4,
    "TIMESTAMP": 8,
    "TIMESTAMP_LTZ": 8,
}
_LONG_DECIMAL_DIGITS = 19
_MICROSECONDS = 6
_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
# Of years that texts of both sides write alike.
_LEAST_MOMENT, _MOST_MOMENT = (int(np.datetime64(value, "us").astype(int)) for value in ("0001-01-01", "9999-12-31"))
_ASKED = 6


def analyze(table: Table, names: Sequence[str] | None) -> Snapshot | None:
    """Write statistics of a table's rows, and of columns (None: of all that have any), and commit a snapshot that names them.
    Returns it; None if the table has no snapshot. Raises InvalidRequest for columns without statistics, CommitConflict if
    the columns of the table change meanwhile.
    """
    store = table.store
    if names is None:
        names = [field.name for field in table.schema.fields if can_be_analyzed(field)]
    for each in map(table.schema.field, names):
        if not can_be_analyzed(each):
            raise InvalidRequest(f"Column {each.name!r} is a {each.type}: there are no statistics of such a column.")
    snapshot = store.snapshots.latest()
    if snapshot is None:
        return None
    name = write_statistics(store, compute_statistics(table, snapshot, names))

    def refuse_other_columns(latest: Snapshot | None) -> None:
        if latest is None or latest.schema_id > table.schema.id:
            raise CommitConflict(f"{table.identifier} has got other columns meanwhile. Run the statement again.")

    commit = table.new_commit()
    try:
        return commit.commit(
            [], kind=ANALYZE, operation=ANALYZE, guard=refuse_other_columns, even_empty=True, statistics=name
        )
    except (CommitOutcomeUnknown, StoreUnavailable, TakenBack):
        raise
    except StorageError:
        store.file_io.delete_quietly([store.paths.statistics(name)])
        raise


def can_be_analyzed(field: DataField) -> bool:
    """Whether a column has statistics: those of plain types have, as in Spark."""
    kind = field.type
    return kind.root in _LENGTHS or kind.root == "DECIMAL" or kind.is_text or kind.is_bytes


def compute_statistics(table: Table, snapshot: Snapshot, names: Sequence[str]) -> TableStatistics:
    """Statistics of the rows of a snapshot, and of some columns. How many distinct values there are is estimated."""
    fields = [table.schema.field(name) for name in names]
    scan = table.scan(columns=list(names) or table.schema.column_names[:1], version=snapshot.id)
    size_bytes = sum(entry.file.size_bytes for entry in scan.entries)
    chosen = ["CAST(count(*) AS VARCHAR)", *(text for field in fields for text in _asked(field))]
    with sealed_duckdb(partial(add_views, "main", {"t": scan}), settings=("SET TimeZone = 'UTC'",)) as connection:
        row = connection.sql(f"SELECT {', '.join(chosen)} FROM main.t").fetchall()[0]
    columns = {
        field.name: _column(field, row[1 + _ASKED * position : 1 + _ASKED * (position + 1)])
        for position, field in enumerate(fields)
    }
    return TableStatistics(snapshot.id, table.schema.id, int(row[0]), size_bytes, columns)


def _asked(field: DataField) -> list[str]:
    """What is computed of a column, all of it as texts: distinct values, nulls, the ends, lengths."""
    name, kind = quoted(field.name), field.type
    length = f"octet_length({name}::BLOB)" if kind.is_bytes else f"strlen({name})"
    has_length = kind.is_text or kind.is_bytes
    expressions = [
        f"approx_count_distinct({name})",
        f"count(*) - count({name})",
        *(_end(word, name, kind) for word in ("min", "max")),
        f"ceil(avg({length}))::BIGINT" if has_length else "NULL",
        f"max({length})" if has_length else "NULL",
    ]
    return [f"CAST({each} AS VARCHAR)" for each in expressions]


def _end(word: str, name: str, kind: DataType) -> str:
    if kind.is_text or kind.is_bytes or kind.root == "TIMESTAMP_LTZ" or (kind.precision or 0) > _most_digits(kind):
        return "NULL"
    if kind.root == "DATE":
        return f"date_diff('day', DATE '1970-01-01', {word}({name}))"
    return f"epoch_us({word}({name}))" if kind.is_timestamp else f"{word}({name})"


def _most_digits(kind: DataType) -> int:
    return _MICROSECONDS if kind.is_timestamp else 38


def _column(field: DataField, values: Sequence[str | None]) -> ColumnStatistics:
    distinct, nulls, *ends, average, greatest = values
    if average is None and not (field.type.is_text or field.type.is_bytes):
        fixed = _LENGTHS.get(field.type.root) or (16 if (field.type.precision or 0) >= _LONG_DECIMAL_DIGITS else 8)
        average = greatest = str(fixed)
    minimum, maximum = (None if each is None else _shown(each, field.type) for each in ends)
    return ColumnStatistics(
        field.id, int(distinct or 0), minimum, maximum, int(nulls or 0), int(average or 0), int(greatest or 0)
    )


def _shown(value: str, kind: DataType) -> str | None:
    """An end of a column as the format writes it."""
    if kind.is_timestamp:
        if not _LEAST_MOMENT <= int(value) <= _MOST_MOMENT:
            return None
        return str(np.datetime64(int(value), "us")).replace("T", " ")
    return _FLOATS.get(value, value) if kind.is_float else value
