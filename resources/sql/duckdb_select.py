"""SELECT over the warehouse with DuckDB: tables, system tables (`core."flights$snapshots"`) and lineage (`paimon.*`).

Only what a statement names is made known to DuckDB, and only reading is possible: of tables, and of files below the
directories that the settings name.
"""

import difflib
import json
import re
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from storage import Identifier, InvalidRequest, NotFound, Table, Unsupported
from storage.engines.duckdb_connection import sealed_duckdb
from storage.engines.duckdb_views import add_arrow, add_scan

from ..warehouse.lineage_tables import CATALOG_OPTIONS, LINEAGE_DATABASE, lineage_rows
from ..warehouse.warehouse_session import WarehouseSession
from .duckdb_failure import failure

# A hint, where it stands in no text, name or comment.
_HINT = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|(/\*\+)|/\*.*?\*/""", re.DOTALL)


def run_query(session: WarehouseSession, sql: str, open_table: Callable[[str], Table] | None = None) -> pa.Table:
    """The rows of one SELECT. `open_table` decides at which version a table is read, by default the latest.

    Raises InvalidRequest for anything but a SELECT, NotFound for a table that is not there.
    """

    def add(connection: duckdb.DuckDBPyConnection) -> list[str]:
        _refuse_other(connection, sql)
        tables = _tables_of(connection, sql)
        if any(database == LINEAGE_DATABASE and name != CATALOG_OPTIONS for database, name in tables):
            # What a crash has left out of lineage is recorded before it is read.
            session.stores_to_ask(session.catalog.name)
        return [
            path
            for database, name in tables
            for path in _add(session, connection, database, name, open_table or session.table)
        ]

    try:
        with sealed_duckdb(add, threads=2, readable=session.settings.readable_directories) as connection:
            return connection.sql(sql).to_arrow_table()
    except duckdb.Error as error:
        raise InvalidRequest(f"DuckDB cannot run the query: {failure(error)}") from None
    except RecursionError:
        raise InvalidRequest(
            "The query is nested too deeply: a few hundred conditions in a row can be read. Write IN (…) instead of OR."
        ) from None


def check_query(sql: str) -> None:
    """Raise InvalidRequest for a text that is not one SELECT; whether its tables are there is not asked."""
    try:
        with sealed_duckdb(lambda _: []) as connection:
            _refuse_other(connection, sql)
    except duckdb.Error as error:
        raise InvalidRequest(f"DuckDB cannot run the query: {failure(error)}") from None


def _refuse_other(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    # DuckDB parses here, and runs nothing of the statement yet.
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InvalidRequest("Give one SELECT statement: tables are changed by assets and commands, not by queries.")
    if any(match[1] for match in _HINT.finditer(sql)):
        raise InvalidRequest(
            "To DuckDB, whose SQL this is, a hint (/*+ … */) is a comment: it would be passed over. Leave it out, or run the "
            "statement by `snapline sql --engine duckdb`, which carries hints out."
        )


def _add(
    session: WarehouseSession,
    connection: duckdb.DuckDBPyConnection,
    database: str,
    name: str,
    open_table: Callable[[str], Table],
) -> list[str]:
    """Make a table known; returns the paths of the files that DuckDB reads for it."""
    if not database:
        raise InvalidRequest(
            f"Table {name!r} needs its database: write database.table. Tables: {', '.join(session.catalog.tables())}."
        )
    if database == LINEAGE_DATABASE:
        add_arrow(connection, database, name, lineage_rows(name, session.lineage_store, session.catalog))
        return []
    identifier = Identifier.parse(f"{database}.{name}")
    try:
        if identifier.system_table is not None:
            add_arrow(connection, database, name, session.catalog.read(str(identifier)))
            return []
        return add_scan(connection, database, name, open_table(str(identifier)).scan())
    except NotFound as error:
        if session.catalog.views.exists(identifier.full_name):
            raise Unsupported(
                f"{identifier.full_name} is a view: read it by `snapline sql --engine duckdb`, which knows the SQL of views."
            ) from None
        close = difflib.get_close_matches(identifier.full_name, session.catalog.tables(), n=1)
        raise NotFound(f"{error} Did you mean {close[0]}?" if close else str(error)) from None


def _tables_of(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[str, str]]:
    """Database and name of every table that a SELECT names, common table expressions left out; each once."""
    text = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0][0]
    tables: dict[tuple[str, str], None] = {}
    expressions: set[str] = set()

    def walk(node: Any) -> None:
        if isinstance(node, list):
            for part in node:
                walk(part)
        elif isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                tables[node["schema_name"], node["table_name"]] = None
            if "cte_map" in node:
                expressions.update(each["key"] for each in node["cte_map"]["map"])
            for part in node.values():
                walk(part)

    walk(json.loads(text))
    return [(database, name) for database, name in tables if database or name not in expressions]
