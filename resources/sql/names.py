"""From the name of a table in a statement to the table, at the version that the statement asks for."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from lineage import LineageStore
from storage import (
    BRANCH_OPTIONS,
    VERSION_OPTIONS,
    Catalog,
    ComputedColumn,
    Identifier,
    InvalidRequest,
    KafkaTable,
    NotFound,
    SnapshotRef,
    StorageError,
    Table,
    Version,
    View,
    version_of_options,
)
from storage.engines.kafka_rows import TopicReading, options_of_reads
from storage.sql.dialect import HINT_OPTIONS

from ..warehouse.catalogs import CATALOG_NAME
from ..warehouse.lineage_tables import CATALOG_OPTIONS, LINEAGE_DATABASE, LINEAGE_TABLES, lineage_rows
from ..warehouse.warehouse_session import WarehouseSession
from .constant import moment
from .information import INFORMATION_SCHEMA, information
from .place import at
from .settings import RUNTIME_MODE, STARTUP_OPTION, Settings

# What FLIP-188 calls them.
_DOCUMENT_OPTIONS = {"log.scan": "scan.mode", "log.scan.timestamp-mills": "scan.timestamp-millis"}
# How a statement is run, rather than what it reads.
# Of a table that is read, where a stream reads it.
STREAM_OPTIONS = ("scan.mode", "consumer-id", "snapshots-per-batch", "read.changelog")
# Where temporary views lie, in no catalog.
TEMPORARY = "__temporary"
RUN_OPTIONS = ("change-tracking", *STREAM_OPTIONS)
# Of a Kafka table, where a stream reads it.
RECORDS_PER_BATCH = "records-per-batch"


@dataclass(frozen=True)
class Place:
    """A name, complete: the catalog and what comes after it."""

    catalog: str
    identifier: Identifier

    @property
    def is_temporary(self) -> bool:
        """Whether it is that of a temporary view."""
        return self.identifier.database == TEMPORARY


@dataclass(frozen=True)
class Source:
    """Something that a query reads: a table at one snapshot, or rows of a system or lineage table."""

    name: str
    schema: pa.Schema
    table: Table | None = None
    warehouse: str = ""
    catalog: str = ""
    rows: pa.Table | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    kafka: KafkaTable | None = None
    # Of a Kafka table: the records that a statement reads, the same whenever it reads them.
    reading: TopicReading | None = None

    @property
    def computed(self) -> list[ComputedColumn]:
        """The columns that are computed whenever the table is read."""
        if self.kafka is not None:
            return list(self.kafka.computed)
        return [] if self.table is None else self.table.computed_columns

    @property
    def ref(self) -> SnapshotRef | None:
        """The snapshot that made the rows."""
        return None if self.table is None else self.table.last_change()


class Names:
    """Looks names up for one session."""

    def __init__(
        self,
        session: WarehouseSession,
        settings: Settings,
        open_table: Callable[[str], Table] | None = None,
        opened: str = CATALOG_NAME,
        change: Callable[[str], Table] | None = None,
    ) -> None:
        self._session = session
        self._settings = settings
        self._open = open_table
        self._opened = opened
        self._change = change
        # The views of this session, by name: their catalog, and what they are.
        self.temporary: dict[str, tuple[str, View]] = {}

    def place(self, node: exp.Table) -> Place:
        """Complete a name with what USE said; a temporary view comes before a table of its name. Raises InvalidRequest for what
        is no name of a table.
        """
        if not node.db and not node.catalog and node.name in self.temporary:
            return Place(self.temporary[node.name][0], Identifier(TEMPORARY, node.name))
        catalog = node.catalog or self._settings.catalog
        try:
            name = f"{node.db or self._settings.database}.{node.name}"
            if not node.name:
                raise InvalidRequest(f"{node.sql()!r} is not the name of a table.")
            return Place(catalog, Identifier.parse(name))
        except StorageError as error:
            raise at(node, error) from None

    def place_beside(self, node: exp.Table, place: Place) -> Place:
        """A new name for what is at a place: in its catalog and database, as in Spark, if the name says no others."""
        try:
            name = f"{node.db or place.identifier.database}.{node.name}"
            return Place(node.catalog or place.catalog, Identifier.parse(name))
        except StorageError as error:
            raise at(node, error) from None

    def temporary_place(self, node: exp.Table) -> Place:
        """Where a temporary view of that name is. Raises InvalidRequest for a name in a database."""
        if node.db or node.catalog:
            raise at(node, InvalidRequest(f"A temporary view lies in no database: call it {node.name!r} alone."))
        return Place(self._settings.catalog, Identifier(TEMPORARY, node.name))

    def view_at(self, place: Place) -> View | None:
        """The view of a place, temporary or kept."""
        if place.is_temporary:
            return self.temporary.get(place.identifier.table, ("", None))[1]
        return self.catalog(place).views.get(str(place.identifier))

    def catalog(self, place: Place) -> Catalog:
        """The catalog that a name leads to. Raises NotFound if there is none."""
        return self._session.catalog_of(place.catalog)

    def warehouse(self, place: Place) -> str:
        """The URL of the warehouse that a name leads to."""
        return self.catalog(place).warehouse

    def table(self, node: exp.Table) -> Table:
        """The table to be changed or described. Raises NotFound with the nearest name."""
        place = self.place(node)
        try:
            self.refuse_read_only(place)
            if self._change is not None:
                if place.catalog != self._opened:
                    raise InvalidRequest(
                        f"{place.catalog}.{place.identifier} is in another catalog, and no part of this."
                    )
                return self._change(str(place.identifier))
            table = self.catalog(place).table(str(place.identifier))
            self._session.reconcile(table, place.catalog)
            return table
        except NotFound as error:
            if self._change is None and self.kafka(place) is not None:
                raise at(
                    node,
                    InvalidRequest(
                        f"{place.identifier} is a Kafka table: it takes SELECT, INSERT INTO, DESCRIBE and DROP."
                    ),
                ) from None
            if self._change is None and self.catalog(place).views.exists(str(place.identifier)):
                raise at(node, InvalidRequest(f"{place.identifier} is a view, which can only be read.")) from None
            raise at(node, NotFound(f"{error}{self._nearest(place)}")) from None
        except StorageError as error:
            raise at(node, error) from None

    def kafka(self, place: Place) -> KafkaTable | None:
        """The Kafka table of a place."""
        if place.is_temporary or _is_system(place):
            return None
        return self.catalog(place).kafka_tables.get(str(place.identifier))

    def view(self, node: exp.Table) -> View | None:
        """The view of a name; None for one of a table, or of nothing."""
        place = self.place(node)
        if not place.is_temporary and (_is_system(place) or self.catalog(place).exists(str(place.identifier))):
            return None
        return self.view_at(place)

    def refuse_read_only(self, place: Place) -> None:
        """Raise InvalidRequest for system and lineage tables."""
        if place.is_temporary:
            raise InvalidRequest(
                f"{place.identifier.table} is a temporary view: it is read, made anew by CREATE OR REPLACE TEMPORARY VIEW, and "
                "dropped by DROP VIEW."
            )
        if _is_system(place):
            system_table = place.identifier.system_table
            hint = f": ${system_table} names a system table, and no name of a table holds a $" if system_table else ""
            raise InvalidRequest(f"{place.identifier} can only be read{hint}.")

    def is_system(self, node: exp.Table) -> bool:
        """Whether a name is that of a system or lineage table, or of one of `information_schema`."""
        return _is_system(self.place(node))

    def tables_of(self, catalog: Catalog, database: str) -> list[str]:
        """The names of the tables of a database."""
        if database == LINEAGE_DATABASE:
            return sorted([*LINEAGE_TABLES, CATALOG_OPTIONS])
        if database == INFORMATION_SCHEMA:
            return ["columns", "schemata", "tables"]
        held = catalog.tables(database) if database in catalog.databases() else []
        return sorted([*(name.partition(".")[2] for name in held), *catalog.kafka_tables.names(database)])

    def source(self, node: exp.Table, writes_to: Place | None = None) -> Source:
        """What a query reads under a name, at the version that its hint or its VERSION AS OF asks for; or at the latest one, with
        the rows that no compaction has lifted yet if the statement `writes_to` it.
        """
        try:
            return self._source(node, writes_to)
        except StorageError as error:
            raise at(node, error) from None

    def _source(self, node: exp.Table, writes_to: Place | None) -> Source:
        place = self.place(node)
        identifier = place.identifier
        if place.is_temporary:
            # It is expanded.
            raise NotFound(f"There is no temporary view {identifier.table!r}.")
        store = self._session.lineage_stores
        if identifier.database == LINEAGE_DATABASE:
            return _given(f"{place.catalog}.{identifier.database}.{identifier.table}", self._lineage(place, store))
        if identifier.database == INFORMATION_SCHEMA:
            return _given(f"{place.catalog}.{identifier.database}.{identifier.table}", self._information(place))
        plain = Identifier(identifier.database, identifier.table, identifier.branch)
        catalog = self.catalog(place)
        if (topic := self.kafka(place)) is not None:
            return self._topic(topic, node, place)
        hints = self._hints(node)
        try:
            default = place.catalog == self._opened and self._open is not None
            asks = _version(node, hints)
            if asks is None and STARTUP_OPTION in self._settings.options:
                asks = self._startup(place, self._settings.options[STARTUP_OPTION])
                # For streams: begin with the whole table as it was then.
                hints |= {"scan.mode": "from-snapshot-full", "scan.snapshot-id": str(asks)}
            table = self._open(str(plain)) if default and asks is None and self._open else catalog.table(str(plain))
        except NotFound as error:
            # Of a table that is there, something else is missing.
            near = "" if catalog.exists(str(plain)) else self._nearest(place)
            raise NotFound(f"{error}{near}") from None
        for key in BRANCH_OPTIONS:
            if key in hints:
                table = table.on_branch(hints[key])
        if identifier.system_table is not None:
            if asks is not None:
                raise InvalidRequest(f"{identifier} tells of all versions: read it without one.")
            return _given(str(identifier), table.system_table(identifier.system_table))
        is_written = asks is None and writes_to == Place(place.catalog, table.identifier)
        pinned = table.as_written() if is_written else table.pinned(asks)
        schema = pinned.scan().schema
        return Source(str(pinned.identifier), schema, pinned, catalog.warehouse, place.catalog, options=hints)

    def _hints(self, node: exp.Table) -> dict[str, str]:
        """The options of a table in a statement, under one name each. Raises InvalidRequest for those of streams elsewhere."""
        given = dict(node.meta.get(HINT_OPTIONS) or ())
        for key in STREAM_OPTIONS:
            if key in given and self._settings.options.get(RUNTIME_MODE) != "streaming":
                raise InvalidRequest(f"{key!r} is for streams: SET '{RUNTIME_MODE}' = 'streaming'.")
        hints = {key: value for key, value in given.items() if key not in _DOCUMENT_OPTIONS}
        for key, name in _DOCUMENT_OPTIONS.items():
            if key not in given:
                continue
            if self._settings.options.get(RUNTIME_MODE) != "streaming":
                raise InvalidRequest(f"{key!r} is where a stream begins: SET '{RUNTIME_MODE}' = 'streaming'.")
            if name in hints:
                raise InvalidRequest(f"{key!r} and {name!r} are one option: say one.")
            hints[name] = given[key]
        return hints

    def _topic(self, topic: KafkaTable, node: exp.Table, place: Place) -> Source:
        """A Kafka table as it is read, with what the statement says of where to begin and to end."""
        if node.args.get("version"):
            raise InvalidRequest(
                f"{topic.identifier} is a Kafka table, which has no versions: OPTIONS('scan.startup.mode' = …)."
            )
        given = dict(node.meta.get(HINT_OPTIONS) or ())
        streams = self._settings.options.get(RUNTIME_MODE) == "streaming"
        known = (*options_of_reads(topic.options), *([RECORDS_PER_BATCH] if streams else []))
        for key in given:
            if key not in known:
                raise InvalidRequest(
                    f"Option {key!r} is none of a Kafka table that is read. Options: {', '.join(known)}."
                )
        read = {key: value for key, value in given.items() if key != RECORDS_PER_BATCH}
        if STARTUP_OPTION in self._settings.options:
            own = {key: value for key, value in topic.options.items() if not key.startswith("scan.startup.")}
            topic = replace(topic, options=own)
            read |= self._topic_startup(topic, place, self._settings.options[STARTUP_OPTION])
        topic = replace(topic, options={**topic.options, **read})
        reading = TopicReading(topic, place.catalog)
        name = str(topic.identifier)
        return Source(name, topic.schema, catalog=place.catalog, options=given, kafka=topic, reading=reading)

    def _topic_startup(self, topic: KafkaTable, place: Place, job: str) -> dict[str, str]:
        """The options by which a read begins where a job began. Raises NotFound if it has not begun with this table."""
        where = {"database": topic.identifier.database, "table": topic.identifier.table}
        startups = self._session.lineage_stores[place.catalog].startups(job=job, **where)
        if not startups:
            raise NotFound(
                f"Job {job!r} has not begun with {topic.identifier}, so that nothing can start where it did."
            )
        offsets = [f"partition:{each.branch.rpartition('/')[2]},offset:{each.snapshot_id}" for each in startups]
        return {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": ";".join(offsets)}

    def lineage_catalogs(self, tree: exp.Expr) -> list[str]:
        """The catalogs whose lineage tables a query reads."""
        places = [self.place(each) for each in tree.find_all(exp.Table) if each.name]
        return [
            place.catalog
            for place in places
            if place.identifier.database == LINEAGE_DATABASE and place.identifier.table != CATALOG_OPTIONS
        ]

    def refuse_unknown_job(self, job: str) -> None:
        """Raise NotFound, with the nearest names, for a job of which no catalog knows what it began with."""
        stores = self._session.stores_to_ask()
        if any(store.startups(job=job) for store in stores.values()):
            return
        known = {row.job for store in stores.values() for row in store.startups()}
        near = difflib.get_close_matches(job, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else f" Jobs: {', '.join(sorted(known)[:10]) or 'none'}."
        raise NotFound(f"No job {job!r} has begun, so that nothing can start where it did.{hint}")

    def _startup(self, place: Place, job: str) -> int:
        """The snapshot of a table that a job began with. Raises NotFound."""
        identifier = place.identifier
        where = {"database": identifier.database, "table": identifier.table, "branch": identifier.branch}
        startups = self._session.lineage_stores[place.catalog].startups(job=job, **where)
        if not startups:
            raise NotFound(f"Job {job!r} has not begun with {identifier}, so that nothing can start where it did.")
        return startups[0].snapshot_id

    def _lineage(self, place: Place, stores: Mapping[str, LineageStore]) -> pa.Table:
        return lineage_rows(place.identifier.table, stores[place.catalog], self.catalog(place))

    def _information(self, place: Place) -> pa.Table:
        catalog = self.catalog(place)
        return information(
            place.identifier.table,
            place.catalog,
            lambda: [catalog.table(table) for table in catalog.tables()],
            [*catalog.databases(), LINEAGE_DATABASE, INFORMATION_SCHEMA],
            lambda: [(database, view) for database in catalog.databases() for view in catalog.views.names(database)],
            lambda: _topics(catalog),
        )

    def _nearest(self, place: Place) -> str:
        catalog, database = self.catalog(place), place.identifier.database
        if place.identifier.table in catalog.kafka_tables.names(database):
            return ""
        others = [*catalog.views.names(database), *catalog.kafka_tables.names(database)]
        known = [*catalog.tables(), *(f"{database}.{name}" for name in others)]
        matches = difflib.get_close_matches(place.identifier.full_name, known, n=1, cutoff=0.5)
        return f" Did you mean {matches[0]}?" if matches else ""


def _topics(catalog: Catalog) -> list[KafkaTable]:
    names = [f"{database}.{name}" for database in catalog.databases() for name in catalog.kafka_tables.names(database)]
    return [table for name in names if (table := catalog.kafka_tables.get(name)) is not None]


def _is_system(place: Place) -> bool:
    identifier = place.identifier
    return identifier.database in (LINEAGE_DATABASE, INFORMATION_SCHEMA) or identifier.system_table is not None


def _given(name: str, rows: pa.Table) -> Source:
    return Source(name, rows.schema, rows=rows)


def refuse_named_twice(named: Sequence[tuple[exp.Expr, Place]]) -> None:
    """Raise InvalidRequest for the first of several names that stands there twice."""
    known: set[Place] = set()
    for node, place in named:
        if place in known:
            raise at(node, InvalidRequest(f"{place.identifier} is named twice. Name it once."))
        known.add(place)


def _version(node: exp.Table, hints: Mapping[str, str]) -> Version:
    """The version that a statement asks for, None for the latest. Raises InvalidRequest for options that are not known."""
    for key in hints:
        if key not in (*VERSION_OPTIONS, *BRANCH_OPTIONS, *RUN_OPTIONS):
            near = difflib.get_close_matches(key, [*VERSION_OPTIONS, *BRANCH_OPTIONS, *RUN_OPTIONS], n=1)
            raise InvalidRequest(
                f"Option {key!r} is not known in a hint." + (f" Did you mean {near[0]!r}?" if near else "")
            )
    streamed = hints.get("scan.mode", "").lower() in ("from-snapshot", "from-snapshot-full", "from-timestamp")
    asked: list[Version] = [] if streamed else [value for value in [version_of_options(hints)] if value is not None]
    clause = node.args.get("version")
    if clause is not None:
        kind, given = clause.args.get("kind"), clause.expression
        if kind != "AS OF" or given is None:
            raise InvalidRequest(f"{clause.this} {kind} is not known: VERSION AS OF …, TIMESTAMP AS OF ….")
        asked.append(moment(given) if clause.this == "TIMESTAMP" else given.name)
    if len(asked) > 1:
        raise InvalidRequest(f"{node.name!r} is asked for at several versions: say one.")
    return asked[0] if asked else None
