"""Lineage in a SQL database, through SQLAlchemy: SQLite embedded, PostgreSQL and MySQL by URL.

Options are those of the lineage document: `jdbc.url`, `jdbc.username`, `jdbc.password`, `jdbc.database`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Engine, Table, create_engine, delete, event, insert, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.pool import NullPool

from storage import InvalidRequest

from . import schema
from .entities import JobStartup, Side, SnapshotLineage, TableLineage
from .store import LineageStore

_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "sqlite": "sqlite",
}
_TABLES: dict[Side, Table] = {"source": schema.source_job_lineage, "sink": schema.sink_job_lineage}
_SNAPSHOTS: dict[Side, Table] = {"source": schema.source_snapshot_lineage, "sink": schema.sink_snapshot_lineage}
# SQLite waits this long for another process that writes.
_BUSY_TIMEOUT_SECONDS = 60


def open_sql_store(options: Mapping[str, str]) -> LineageStore:
    """The store of the factory `jdbc`."""
    return SqlLineageStore(database_url(options))


def database_url(options: Mapping[str, str]) -> URL:
    """The SQLAlchemy URL that the `jdbc.*` options mean. Raises InvalidRequest for what is not understood."""
    text = options.get("jdbc.url", "")
    if not text:
        raise InvalidRequest("Lineage needs a database: set 'jdbc.url', for example jdbc:sqlite:/data/lineage.db.")
    text = text.removeprefix("jdbc:")
    kind = text.split(":", 1)[0].split("+")[0]
    if kind not in _DRIVERS:
        raise InvalidRequest(
            f"'jdbc.url' = {options['jdbc.url']!r}: databases of kind {kind!r} are not supported. "
            f"Supported: {', '.join(sorted(_DRIVERS))}."
        )
    if kind == "sqlite":
        return URL.create("sqlite", database=text.removeprefix("sqlite:").removeprefix("//"))
    parts = urlsplit(text)
    url = make_url(text.split("?")[0]).set(drivername=_DRIVERS[kind])
    database = parts.path.strip("/") or options.get("jdbc.database", "paimon")
    return url.set(
        database=database,
        username=options.get("jdbc.username", url.username),
        password=options.get("jdbc.password", url.password),
    )


class SqlLineageStore(LineageStore):
    """See LineageStore. Creates its tables when they are missing."""

    def __init__(self, url: URL) -> None:
        self._engine = _engine(url)
        try:
            schema.metadata.create_all(self._engine)
        except OperationalError as error:
            # Two processes may create the tables at the same moment.
            if "already exists" not in str(error):
                raise InvalidRequest(
                    f"The lineage database {url.render_as_string()} cannot be opened: {error.orig}. "
                    "Check 'jdbc.url', and that the directory exists and may be written."
                ) from None
            schema.metadata.create_all(self._engine)

    def store_tables(self, side: Side, rows: Iterable[TableLineage]) -> None:
        self._insert_missing(_TABLES[side], [asdict(row) for row in rows])

    def store_snapshots(self, side: Side, rows: Iterable[SnapshotLineage]) -> None:
        self._insert_missing(_SNAPSHOTS[side], [asdict(row) for row in rows])

    def store_startups(self, rows: Iterable[JobStartup]) -> None:
        self._insert_missing(schema.job_startup, [asdict(row) for row in rows])

    def tables(self, side: Side, **where: Any) -> Sequence[TableLineage]:
        return self._select(_TABLES[side], TableLineage, where)

    def snapshots(self, side: Side, **where: Any) -> Sequence[SnapshotLineage]:
        return self._select(_SNAPSHOTS[side], SnapshotLineage, where)

    def startups(self, **where: Any) -> Sequence[JobStartup]:
        return self._select(schema.job_startup, JobStartup, where)

    def delete_tables(self, job: str) -> int:
        return self._delete(_TABLES.values(), job)

    def delete_snapshots(self, job: str) -> int:
        return self._delete(_SNAPSHOTS.values(), job)

    def close(self) -> None:
        self._engine.dispose()

    def _insert_missing(self, table: Table, rows: list[dict[str, Any]]) -> None:
        if not rows:
            return
        dialect = self._engine.dialect.name
        if dialect in ("sqlite", "postgresql"):
            statement = _insert_of(dialect)(table).on_conflict_do_nothing()
            with self._engine.begin() as connection:
                connection.execute(statement, rows)
            return
        for row in rows:
            try:
                with self._engine.begin() as connection:
                    connection.execute(insert(table), row)
            except IntegrityError:
                continue

    def _select(self, table: Table, kind: type, where: Mapping[str, Any]) -> list[Any]:
        names = [field.name for field in fields(kind)]
        statement = select(*(table.c[name] for name in names)).order_by(*(table.c[name] for name in names))
        for name, value in where.items():
            column = table.c[name]
            statement = statement.where(column.in_(value) if isinstance(value, list | tuple) else column == value)
        with self._engine.connect() as connection:
            return [kind(*row) for row in connection.execute(statement)]

    def _delete(self, tables: Iterable[Table], job: str) -> int:
        with self._engine.begin() as connection:
            return sum(connection.execute(delete(table).where(table.c.job == job)).rowcount for table in tables)


def _insert_of(dialect: str) -> Any:
    return sqlite.insert if dialect == "sqlite" else postgresql.insert


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_pre_ping=True)
    # A connection of its own for each use: they may come from any thread, and a fork must not share one.
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _BUSY_TIMEOUT_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        # With a write-ahead log readers and the writer do not wait for each other.
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")

    return engine
