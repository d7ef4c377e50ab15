"""Tables as views of a DuckDB connection: files that need no merge are read by DuckDB itself, the others are merged here."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa

from ..lsm.system_columns import INSERT, UPDATE_AFTER, VALUE_KIND
from ..metadata.case_twins import refuse_read_twins
from ..read.scan import Scan

_THREADS = max(2, os.cpu_count() or 2)
_ADDED = (INSERT, UPDATE_AFTER)


def add_views(database: str, views: Mapping[str, Scan | pa.Table], connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Make rows, and those of scans, known by their names in a database; returns the paths of the files that DuckDB reads."""
    paths: list[str] = []
    for name, rows in views.items():
        if isinstance(rows, pa.Table):
            add_arrow(connection, database, name, rows)
        else:
            paths += add_scan(connection, database, name, rows)
    return paths


def add_arrow(connection: duckdb.DuckDBPyConnection, database: str, name: str, rows: pa.Table) -> None:
    """Make rows known as `database.name`."""
    refuse_read_twins(f"{database}.{name}", rows.schema)
    held = f"__{database}__{name}"
    connection.register(held, rows)
    _create_view(connection, database, name, f"SELECT * FROM {quoted(held)}")


def add_scan(connection: duckdb.DuckDBPyConnection, database: str, name: str, scan: Scan) -> list[str]:
    """Make the rows of a scan known as `database.name`; returns the paths of the files that DuckDB reads for it itself."""
    refuse_read_twins(str(scan.store.identifier), scan.schema)
    local = scan.store.file_io.is_local
    native = [split for split in scan.splits if local and split.can_be_read_natively]
    if native:
        # DuckDB looks at no checksum of a page, and reads some files wrongly (decision 0041).
        with ThreadPoolExecutor(_THREADS) as pool:
            misread = list(pool.map(lambda split: split.check_files(whole=True), native))
        native = [split for split, wrongly in zip(native, misread, strict=True) if not wrongly]
    merged = [split for split in scan.splits if split not in native]
    columns = ", ".join(quoted(column) for column in scan.schema.names)
    parts: list[str] = []
    paths: list[str] = []
    if native:
        paths = [path for split in native for path in split.file_paths]
        kept = f" WHERE {VALUE_KIND} IN {_ADDED}" if any(split.may_hold_deletes for split in native) else ""
        parts.append(
            f"SELECT {columns} FROM read_parquet([{', '.join(map(_text, paths))}], hive_partitioning = false){kept}"
        )
    if merged or not native:
        batches = [batch for split in merged for batch in split.read()]
        held = f"__{database}__{name}"
        connection.register(held, pa.Table.from_batches(batches, scan.schema))
        parts.append(f"SELECT {columns} FROM {quoted(held)}")
    _create_view(connection, database, name, " UNION ALL ".join(parts))
    return paths


def _create_view(connection: duckdb.DuckDBPyConnection, database: str, name: str, query: str) -> None:
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(database)}")
    connection.execute(f"CREATE OR REPLACE VIEW {quoted(database)}.{quoted(name)} AS {query}")


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
