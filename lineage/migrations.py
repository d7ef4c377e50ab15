"""The lineage database, brought from any earlier version to this one, in place.

Each step is numbered and runs once, under a lock that other processes wait for. A new database gets today's tables at
once. Steps say what changed in words of their own, not in those of `schema`, which goes on changing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, Table, func, inspect, select, text

from storage import Unsupported

from . import schema

_LOCK_NAME = "snapline_lineage_schema"
# Any number will do, as long as it is always the same.
_LOCK_NUMBER = 7_236_120_019


def _add_columns_and_progress(connection: Connection) -> None:
    """Version 2: when a snapshot was committed, lineage of columns, and how far the tables were read."""
    kind = {"sqlite": "DATETIME", "postgresql": "TIMESTAMP"}.get(connection.dialect.name, "DATETIME(3)")
    for name in ("source_snapshot_lineage", "sink_snapshot_lineage"):
        # Not every database takes back what it did to its tables when a step breaks off: a step can be run again.
        if all(column["name"] != "snapshot_time" for column in inspect(connection).get_columns(name)):
            connection.execute(text(f"ALTER TABLE {name} ADD COLUMN snapshot_time {kind}"))
    connection.execute(text("UPDATE sink_snapshot_lineage SET snapshot_time = create_time"))
    _create(connection, schema.column_lineage, schema.reconciled)
    known = {str(index["name"]) for index in inspect(connection).get_indexes("sink_snapshot_lineage")}
    if schema.sink_by_time.name not in known:
        schema.sink_by_time.create(connection)


def _add_offsets(connection: Connection) -> None:
    """Version 3: the records of topics that commits were made from."""
    _create(connection, schema.source_offset_lineage)


def _add_catalogs(connection: Connection) -> None:
    """Version 4: the catalogs that all hosts of a platform know."""
    _create(connection, schema.registered_catalog)


def _create(connection: Connection, *tables: Table) -> None:
    schema.metadata.create_all(connection, tables=[*tables])


# What leads from the version before to each version.
_STEPS: dict[int, Callable[[Connection], None]] = {2: _add_columns_and_progress, 3: _add_offsets, 4: _add_catalogs}
CURRENT_VERSION = max(_STEPS)


def upgrade(engine: Engine) -> None:
    """Create the tables, or bring them up to date. Raises Unsupported for a database of a later version."""
    with engine.connect() as connection:
        version = _version(connection)
    if version == CURRENT_VERSION:
        return
    with _locked(engine) as connection:
        version = _version(connection)
        if version > CURRENT_VERSION:
            raise Unsupported(
                f"The lineage database {engine.url.render_as_string()} is of version {version}, this program knows versions "
                f"up to {CURRENT_VERSION}. Use the program that wrote it, or a later one."
            )
        if version == 0:
            schema.metadata.create_all(connection)
        for number in range(version + 1, CURRENT_VERSION + 1):
            if version:
                _STEPS[number](connection)
        if version != CURRENT_VERSION:
            _create(connection, schema.schema_version)
            connection.execute(schema.schema_version.delete())
            connection.execute(schema.schema_version.insert().values(version=CURRENT_VERSION))


def _version(connection: Connection) -> int:
    """0 for a database without our tables; the first version wrote no number."""
    existing = inspect(connection)
    if not existing.has_table("source_snapshot_lineage"):
        return 0
    if not existing.has_table(schema.schema_version.name):
        return 1
    version = connection.execute(select(func.max(schema.schema_version.c.version))).scalar() or 1
    if not isinstance(version, int):
        raise TypeError(f"its version is {str(version)[:40]!r}, no number")
    return version


@contextmanager
def _locked(engine: Engine) -> Iterator[Connection]:
    """A transaction that no other process changes the tables beside."""
    dialect = engine.dialect.name
    with engine.connect() as connection:
        if dialect == "sqlite":
            # The lock has to be taken before anything is read; see `sql_store`, which leaves transactions to us.
            connection.execution_options(snapline_begin="IMMEDIATE")
        with connection.begin():
            if dialect == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_LOCK_NUMBER)))
            elif dialect != "sqlite":
                connection.execute(select(func.get_lock(_LOCK_NAME, 60)))
            try:
                yield connection
            finally:
                if dialect not in ("sqlite", "postgresql"):
                    connection.execute(select(func.release_lock(_LOCK_NAME)))
