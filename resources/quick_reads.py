"""SELECT over the warehouse with DuckDB: tables, system tables (`core."flights$snapshots"`) and lineage (`paimon.*`).

Only what a statement names is made known to DuckDB, and only reading is possible.
"""

import difflib
from collections.abc import Callable
from dataclasses import fields

import duckdb
import pyarrow as pa

from lineage import JobStartup, SnapshotLineage, TableLineage
from storage import Identifier, InvalidRequest, NotFound, Table
from storage.engines.duckdb_views import add_arrow, add_scan

from .session import Session

LINEAGE_DATABASE = "paimon"
_ARROW_TYPES: dict[str, pa.DataType] = {
    "barrier_id": pa.int64(),
    "snapshot_id": pa.int64(),
    "create_time": pa.timestamp("ms"),
}
_SECRETS = ("password", "secret", "token")


def _rows(kind: type, rows: list[object]) -> pa.Table:
    names = [field.name for field in fields(kind)]
    columns = [pa.array([getattr(row, name) for row in rows], _ARROW_TYPES.get(name, pa.string())) for name in names]
    return pa.Table.from_arrays(columns, names)


def _catalog_options(session: Session) -> pa.Table:
    options = {key: value for key, value in session.catalog.options.items() if not any(one in key for one in _SECRETS)}
    return pa.table({"key": pa.array(options.keys(), pa.string()), "value": pa.array(options.values(), pa.string())})


LINEAGE_TABLES: dict[str, Callable[[Session], pa.Table]] = {
    "source_job_lineage": lambda one: _rows(TableLineage, [*one.lineage_store.tables("source")]),
    "sink_job_lineage": lambda one: _rows(TableLineage, [*one.lineage_store.tables("sink")]),
    "source_snapshot_lineage": lambda one: _rows(SnapshotLineage, [*one.lineage_store.snapshots("source")]),
    "sink_snapshot_lineage": lambda one: _rows(SnapshotLineage, [*one.lineage_store.snapshots("sink")]),
    "job_startup": lambda one: _rows(JobStartup, [*one.lineage_store.startups()]),
    "catalog_options": _catalog_options,
}


def run_query(session: Session, sql: str, open_table: Callable[[str], Table] | None = None) -> pa.Table:
    """The rows of one SELECT. `open_table` decides at which version a table is read, by default the latest.

    Raises InvalidRequest for anything but a SELECT, NotFound for a table that is not there.
    """
    connection = duckdb.connect(config={"threads": 2})
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InvalidRequest(
                "Give one SELECT statement: tables are changed by assets and commands, not by queries."
            )
        for name in connection.get_table_names(sql, qualified=True):
            _add(session, connection, name, open_table or session.table)
        # From here on the statement sees nothing but the tables of the warehouse.
        connection.execute("SET python_enable_replacements = false")
        return connection.sql(sql).to_arrow_table()
    except duckdb.Error as error:
        raise InvalidRequest(f"DuckDB cannot run the query: {error}") from None
    finally:
        connection.close()


def _add(
    session: Session, connection: duckdb.DuckDBPyConnection, qualified: str, open_table: Callable[[str], Table]
) -> None:
    parts = _split(qualified)
    if len(parts) != 2:
        raise InvalidRequest(
            f"Table {qualified!r} needs its database: write database.table. Tables: {', '.join(_all_names(session))}."
        )
    database, name = parts
    if database == LINEAGE_DATABASE:
        if name not in LINEAGE_TABLES:
            raise NotFound(f"There is no {database}.{name}. Lineage tables: {', '.join(LINEAGE_TABLES)}.")
        add_arrow(connection, database, name, LINEAGE_TABLES[name](session))
        return
    identifier = Identifier.parse(f"{database}.{name}")
    try:
        if identifier.system_table is not None:
            add_arrow(connection, database, name, session.catalog.read(str(identifier)))
        else:
            add_scan(connection, database, name, open_table(str(identifier)).scan())
    except NotFound as error:
        close = difflib.get_close_matches(identifier.full_name, _all_names(session), n=1)
        raise NotFound(f"{error} Did you mean {close[0]}?" if close else str(error)) from None


def _all_names(session: Session) -> list[str]:
    return session.catalog.tables()


def _split(qualified: str) -> list[str]:
    """The parts of a name as DuckDB writes it: quoted where need be."""
    parts, part, in_quotes = [], "", False
    for char in qualified:
        if char == '"':
            in_quotes = not in_quotes
        elif char == "." and not in_quotes:
            parts.append(part)
            part = ""
        else:
            part += char
    return [*parts, part]
