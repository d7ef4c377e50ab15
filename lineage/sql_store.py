"""Lineage in a SQL database, through SQLAlchemy: SQLite embedded, PostgreSQL and MySQL by URL."""

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Table, create_engine, delete, event, select, text, update
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, IntegrityError, NoSuchTableError, OperationalError
from sqlalchemy.pool import NullPool

from storage import InvalidRequest

from . import schema
from .database_url import database_url
from .entities import (
    NAME_LENGTH,
    ColumnLineage,
    JobStartup,
    OffsetLineage,
    Reconciled,
    Side,
    SnapshotLineage,
    TableLineage,
    replaced_branch,
)
from .jdbc_url import url_setting
from .migrations import upgrade
from .store import LineageStore, UnreachableStore, UnreadableStore

_TABLES: dict[Side, Table] = {"source": schema.source_job_lineage, "sink": schema.sink_job_lineage}
_SNAPSHOTS: dict[Side, Table] = {"source": schema.source_snapshot_lineage, "sink": schema.sink_snapshot_lineage}
# SQLite waits this long for another process that writes: longer than any of ours takes, with many of them about.
_BUSY_TIMEOUT_SECONDS = 30
# What SQLite says of a file that is damaged, or no database at all; and of one whose tables are not those of lineage.
_UNREADABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_OTHER_TABLES = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH)
_OTHERWISE = "Its tables are not those of lineage."
# What is raised while a connection is prepared comes as it is, the rest from SQLAlchemy.
_ERRORS = (DBAPIError, sqlite3.Error)
# A server that does not answer is away.
_CONNECT_TIMEOUT_SECONDS = 10


def open_sql_store(options: Mapping[str, str]) -> LineageStore:
    """The store of the factory `jdbc`."""
    return SqlLineageStore(database_url(options), url_setting(options))


class SqlLineageStore(LineageStore):
    """See LineageStore. Creates the database and its tables when they are missing, and upgrades what is older."""

    def __init__(self, url: URL, setting: str = "'jdbc.url'") -> None:
        """`setting`: what gave the URL, for messages."""
        self._setting = setting
        self._engine = _engine(url)
        try:
            self._open(url)
        except _ERRORS as error:
            self.close()
            raise _failure(url, error, self._setting) from None
        except (NoSuchTableError, TypeError, ValueError) as error:
            self.close()
            if url.get_backend_name() != "sqlite":
                raise
            why = f"table {error} is missing" if isinstance(error, NoSuchTableError) else str(error)
            raise UnreadableStore(f"{_refused(url, why)} {_OTHERWISE}", _file(url)) from None
        except BaseException:
            self.close()
            raise

    def _open(self, url: URL) -> None:
        try:
            upgrade(self._engine)
        except OperationalError:
            if not _create_database(url):
                raise
            upgrade(self._engine)

    def store_tables(self, side: Side, rows: Iterable[TableLineage], *, replace: bool = False) -> None:
        self._insert(_TABLES[side], [asdict(row) for row in rows], replaced=("create_time",) if replace else ())

    def store_snapshots(self, side: Side, rows: Iterable[SnapshotLineage]) -> None:
        self._insert(_SNAPSHOTS[side], [asdict(row) for row in rows])

    def store_columns(self, rows: Iterable[ColumnLineage]) -> None:
        records = [asdict(row) for row in rows]
        self._insert(schema.column_lineage, [{"digest": _digest(row), **row} for row in records])

    def store_startups(self, rows: Iterable[JobStartup]) -> None:
        self._insert(schema.job_startup, [asdict(row) for row in rows])

    def store_offsets(self, rows: Iterable[OffsetLineage]) -> None:
        self._insert(schema.source_offset_lineage, [asdict(row) for row in rows])

    def store_reconciled(self, row: Reconciled) -> None:
        self._insert(schema.reconciled, [asdict(row)], replaced=("snapshot_id", "snapshot_time"))

    def tables(self, side: Side, **where: Any) -> Sequence[TableLineage]:
        return self._select(_TABLES[side], TableLineage, where)

    def snapshots(self, side: Side, **where: Any) -> Sequence[SnapshotLineage]:
        return self._select(_SNAPSHOTS[side], SnapshotLineage, where)

    def has_snapshots(self, side: Side, **where: Any) -> bool:
        table = _SNAPSHOTS[side]
        statement = select(table.c.snapshot_id).where(*_conditions(table, where)).limit(1)
        with self._engine.connect() as connection:
            return connection.execute(statement).first() is not None

    def committed_since(self, moment: datetime) -> Sequence[SnapshotLineage]:
        table = schema.sink_snapshot_lineage
        columns = [table.c[field.name] for field in fields(SnapshotLineage)]
        statement = select(*columns).where(table.c.create_time >= moment).order_by(table.c.create_time, *columns)
        with self._engine.connect() as connection:
            return [SnapshotLineage(*row) for row in connection.execute(statement)]

    def newest(self, limit: int, until: datetime | None = None) -> Sequence[SnapshotLineage]:
        table = schema.sink_snapshot_lineage
        columns = [table.c[field.name] for field in fields(SnapshotLineage)]
        order = [column.desc() for column in (table.c.create_time, *columns)]
        where = [] if until is None else [table.c.create_time <= until]
        statement = select(*columns).where(*where).order_by(*order).limit(limit)
        with self._engine.connect() as connection:
            return [SnapshotLineage(*row) for row in connection.execute(statement)]

    def columns(self, **where: Any) -> Sequence[ColumnLineage]:
        return self._select(schema.column_lineage, ColumnLineage, where)

    def startups(self, **where: Any) -> Sequence[JobStartup]:
        return self._select(schema.job_startup, JobStartup, where)

    def offsets(self, **where: Any) -> Sequence[OffsetLineage]:
        return self._select(schema.source_offset_lineage, OffsetLineage, where)

    def reconciled(self, **where: Any) -> Sequence[Reconciled]:
        return self._select(schema.reconciled, Reconciled, where)

    def delete_tables(self, job: str) -> int:
        self._delete([schema.column_lineage], {"job": job})
        return self._delete(_TABLES.values(), {"job": job})

    def delete_snapshots(self, job: str, barrier_ids: Sequence[int] | None = None) -> int:
        where: dict[str, Any] = {"job": job}
        if barrier_ids is not None:
            where |= {"barrier_id": list(barrier_ids)}
        return self._delete([*_SNAPSHOTS.values(), schema.source_offset_lineage], where)

    def delete_startups(self, job: str) -> int:
        return self._delete([schema.job_startup], {"job": job})

    def rename_table(self, name: tuple[str, str], new: tuple[str, str]) -> None:
        with self._engine.begin() as connection:
            for table in (*_TABLES.values(), schema.job_startup, schema.reconciled):
                _make_room(connection, table, name, new)
            for table in (*_TABLES.values(), *_SNAPSHOTS.values(), schema.job_startup, schema.reconciled):
                _rename(connection, table, "database", "table", name, new)
            for prefix in ("", "source_"):
                _rename(connection, schema.column_lineage, f"{prefix}database", f"{prefix}table", name, new)

    def set_apart(self, snapshot: SnapshotLineage) -> None:
        with self._engine.connect() as connection:
            for table in _SNAPSHOTS.values():
                _set_apart(connection, table, snapshot)
            connection.commit()

    def catalogs(self) -> dict[str, str]:
        """The options of the catalogs that are registered here, by name, as texts."""
        table = schema.registered_catalog
        with self._engine.connect() as connection:
            return {row.name: row.options for row in connection.execute(select(table))}

    def store_catalog(self, name: str, options: str, create_time: datetime) -> bool:
        """Register a catalog; false if there is one of that name, which stays as it is."""
        row = {"name": name, "options": options, "create_time": create_time}
        try:
            with self._engine.begin() as connection:
                connection.execute(schema.registered_catalog.insert().values(row))
        except IntegrityError:
            return False
        return True

    def delete_catalog(self, name: str) -> bool:
        """Forget a catalog; false if there is none of that name."""
        return self._delete([schema.registered_catalog], {"name": name}) > 0

    def check(self) -> None:
        if self._engine.dialect.name != "sqlite":
            return
        url = self._engine.url
        try:
            with self._engine.connect() as connection:
                verdict = connection.execute(text("PRAGMA integrity_check(1)")).scalar()
                for table in schema.metadata.sorted_tables:
                    connection.execute(select(table).limit(1)).first()
        except _ERRORS as error:
            raise _failure(url, error, self._setting) from None
        if verdict != "ok":
            raise UnreadableStore(f"The lineage database {_shown(url)} is damaged: {verdict}", _file(url))

    def close(self) -> None:
        self._engine.dispose()

    def _insert(self, table: Table, rows: list[dict[str, Any]], replaced: Sequence[str] = ()) -> None:
        """Add the rows that are not there; of those that are, replace some columns."""
        if not rows:
            return
        _check_lengths(rows)
        dialect = self._engine.dialect.name
        with self._engine.begin() as connection:
            if dialect in ("sqlite", "postgresql"):
                adding = (sqlite.insert if dialect == "sqlite" else postgresql.insert)(table)
                key = [column.name for column in table.primary_key]
                new = {name: adding.excluded[name] for name in replaced}
                statement = (
                    adding.on_conflict_do_update(index_elements=key, set_=new)
                    if new
                    else adding.on_conflict_do_nothing()
                )
                connection.execute(statement, rows)
            else:
                into = mysql.insert(table)
                first = next(iter(table.primary_key)).name
                # A row that is there is set to what it is: IGNORE would also swallow values that do not fit.
                kept = {first: table.c[first]}
                connection.execute(
                    into.on_duplicate_key_update({name: into.inserted[name] for name in replaced} or kept), rows
                )

    def _select(self, table: Table, kind: type, where: Mapping[str, Any]) -> list[Any]:
        names = [field.name for field in fields(kind)]
        columns = [table.c[name] for name in names]
        statement = select(*columns).where(*_conditions(table, where)).order_by(*columns)
        with self._engine.connect() as connection:
            return [kind(*row) for row in connection.execute(statement)]

    def _delete(self, tables: Iterable[Table], where: Mapping[str, Any]) -> int:
        count = 0
        with self._engine.begin() as connection:
            for table in tables:
                count += connection.execute(delete(table).where(*_conditions(table, where))).rowcount
        return count


def _conditions(table: Table, where: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    return [
        table.c[name].in_(value) if isinstance(value, list | tuple) else table.c[name] == value
        for name, value in where.items()
    ]


def _check_lengths(rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        for name, value in row.items():
            if isinstance(value, str) and len(value) > NAME_LENGTH:
                raise InvalidRequest(
                    f"Lineage cannot keep {name} {value[:60]!r}…: it has {len(value)} characters, of at most "
                    f"{NAME_LENGTH}. Choose a shorter name."
                )


def _digest(row: Mapping[str, Any]) -> str:
    return hashlib.sha1("\0".join(map(str, row.values())).encode()).hexdigest()


def _rename(
    connection: Connection, table: Table, database: str, name: str, old: tuple[str, str], new: tuple[str, str]
) -> None:
    same = (table.c[database] == old[0]) & (table.c[name] == old[1])
    connection.execute(update(table).where(same).values({database: new[0], name: new[1]}))


def _set_apart(connection: Connection, table: Table, snapshot: SnapshotLineage) -> None:
    lineage_row, moment = snapshot, snapshot.snapshot_time
    about = (
        (table.c.database == lineage_row.database)
        & (table.c.table == lineage_row.table)
        & (table.c.snapshot_id == lineage_row.snapshot_id)
    )
    other = (table.c.branch == lineage_row.branch) & (table.c.snapshot_time != moment)
    if moment is not None:
        other |= (table.c.branch == replaced_branch(lineage_row.branch, moment)) & (table.c.snapshot_time == moment)
    asked = select(table.c.branch, table.c.snapshot_time).where(about, other).distinct()
    for branch, time in connection.execute(asked).fetchall():
        name = replaced_branch(branch, time) if branch == lineage_row.branch else lineage_row.branch
        _give_branch(connection, table, about & (table.c.branch == branch) & (table.c.snapshot_time == time), name)


def _give_branch(connection: Connection, table: Table, rows: ColumnElement[bool], name: str) -> None:
    """Give rows another branch; those go that would say what another row says."""
    key = [column for column in table.primary_key if column.name != "branch"]
    for row in connection.execute(select(*key).where(rows)).fetchall():
        same = [column == value for column, value in zip(key, row, strict=True)]
        if connection.execute(select(table.c.job).where(table.c.branch == name, *same)).first() is None:
            connection.execute(update(table).where(rows, *same).values(branch=name))
        else:
            connection.execute(delete(table).where(rows, *same))


def _make_room(connection: Connection, table: Table, name: tuple[str, str], new: tuple[str, str]) -> None:
    """Delete the rows under a new name whose places those of the old name take: they are of a table that was dropped, or
    of this one, written before its renaming could be told.
    """
    own = [column for column in table.primary_key if column.name not in ("database", "table")]
    for row in connection.execute(select(*own).where(table.c.database == name[0], table.c.table == name[1])).fetchall():
        same = [column == value for column, value in zip(own, row, strict=True)]
        connection.execute(delete(table).where(table.c.database == new[0], table.c.table == new[1], *same))


def _file(url: URL) -> str:
    return url.database or ""


def _shown(url: URL) -> str:
    # Parameters may be secret.
    return url.set(query={}).render_as_string()


def _refused(url: URL, why: str) -> str:
    return f"The lineage database {_shown(url)} cannot be opened: {' '.join(why.split())}."


def _failure(url: URL, error: Exception, setting: str) -> UnreachableStore:
    """What a driver's error means, and what to do."""
    cause = getattr(error, "orig", None) or error
    message = _refused(url, str(cause))
    if url.get_backend_name() != "sqlite":
        return UnreachableStore(f"{message} Check {setting}, and that the server runs.")
    if (file := Path(_file(url))).is_dir():
        return UnreachableStore(
            f"The lineage database {_shown(url)} is a directory: correct {setting}, or move {file} away."
        )
    # The lowest byte is the kind of the error.
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in _UNREADABLE:
        return UnreadableStore(message, _file(url))
    if code in _OTHER_TABLES:
        return UnreadableStore(f"{message} {_OTHERWISE}", _file(url))
    return UnreachableStore(f"{message} Check {setting}, and that the directory exists and may be written.")


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        timeout = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_TIMEOUT_SECONDS}
        return create_engine(url, pool_pre_ping=True, connect_args=timeout)
    # A connection of its own for each use: they may come from any thread, and a fork must not share one.
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _BUSY_TIMEOUT_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        # Transactions begin where we say, not where the driver thinks that a statement needs one.
        connection.isolation_level = None
        try:
            # With a write-ahead log readers and the writer do not wait for each other.
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # What cannot be written may be read.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                raise
        connection.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and then writes would be refused, instead of waiting, once another has written.
        connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('snapline_begin', '')}".strip())

    return engine


def _create_database(url: URL) -> bool:
    """Create the database of a server that can be reached; false if that is not what was wrong."""
    backend = url.get_backend_name()
    if backend == "sqlite" or url.database is None:
        return False
    server = create_engine(
        url.set(database="postgres" if backend == "postgresql" else ""),
        isolation_level="AUTOCOMMIT",
        poolclass=NullPool,
    )
    quoted = server.dialect.identifier_preparer.quote_identifier(url.database)
    try:
        with server.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {quoted}"))
    except Exception as error:
        # Another process may have been faster.
        return "exists" in str(error)
    return True
