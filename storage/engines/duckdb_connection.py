"""The one place that opens DuckDB: a database in memory that reaches nothing but what is put before it.

    with sealed_duckdb(lambda duckdb: add_scan(duckdb, "main", "t", table.scan())) as duckdb:
        duckdb.sql("SELECT …")

What the platform itself makes known (views of tables, rows in memory) is made known first. Then the doors are closed: no
files but those of the tables and what whoever runs the platform has allowed by name, no network, no extensions, no other
databases, no variables of this process, and no setting can be changed any more. Only then comes anybody's SQL. What does
not fit into memory is spilled into a directory of the connection's own, which nobody else can read and which goes with it.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from ..errors import InvalidRequest

# What has to be said before the database is there; each door is closed whatever its default is.
_CONFIG = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
}


@contextmanager
def sealed_duckdb(
    add: Callable[[duckdb.DuckDBPyConnection], Iterable[str] | None],
    *,
    threads: int = 4,
    readable: Sequence[str] = (),
    settings: Sequence[str] = (),
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for SQL that somebody gave.

    `add` makes views known, and gives the paths of the files that DuckDB reads for them. `readable`: directories whose files
    SQL may read, by default none. `settings`: SET statements. Raises InvalidRequest for a directory that cannot be one.
    """
    directories = [_directory(each) for each in readable]
    with tempfile.TemporaryDirectory(prefix="snapline-duckdb-") as spilled:
        connection = duckdb.connect(config={**_CONFIG, "threads": threads, "temp_directory": spilled})
        try:
            files = list(add(connection) or ())
            for statement in settings:
                connection.execute(statement)
            connection.execute(f"SET allowed_paths = {_list(files)}")
            connection.execute(f"SET allowed_directories = {_list(directories)}")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            yield connection
        finally:
            connection.close()


def _directory(path: str) -> str:
    whole = Path(path).expanduser()
    if not path or not whole.is_absolute() or ".." in whole.parts:
        raise InvalidRequest(
            f"Directory {path!r}, from which SQL may read files, is no absolute path. Write it in full."
        )
    return str(whole.resolve())


def _list(values: Iterable[str]) -> str:
    return "[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "]"


def private_duckdb(threads: int = 2) -> duckdb.DuckDBPyConnection:
    """A connection for statements that this package wrote, over rows that are put before it: it reaches nothing else."""
    connection = duckdb.connect(config={**_CONFIG, "threads": threads})
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection
