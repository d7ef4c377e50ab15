"""Statements that change catalogs, databases and tables: CREATE, ALTER, DROP, USE, TRUNCATE.

Each is read first, whole, and gives what is to be done: see `unread`.
"""

import logging
from collections.abc import Mapping

from sqlglot import exp

from storage import (
    Catalog,
    InvalidRequest,
    NotFound,
    StorageError,
    shown_options,
)
from storage.sql.commands import CreateCatalog, DropCatalog

from ..warehouse.warehouse_session import WarehouseSession
from .changes import partition_values
from .names import Names, Place, refuse_named_twice
from .place import at
from .result import Act, Result
from .settings import Settings
from .unread import take

_log = logging.getLogger(__name__)


class Definitions:
    """Reads definitions for a session; what it returns carries them out."""

    def __init__(self, session: WarehouseSession, settings: Settings, names: Names) -> None:
        self._session = session
        self._settings = settings
        self._names = names

    # --- catalogs and databases

    def create_catalog(self, node: CreateCatalog) -> Act:
        """CREATE CATALOG. Raises InvalidRequest for an option given twice, and when run, for a name that is taken."""
        name, if_not_exists, options = node.this.name, bool(node.args.get("exists")), dict(node.args["options"])
        if len(options) < len(node.args["options"]):
            raise InvalidRequest("A catalog's option is given twice. Give it once.")

        def act() -> Result:
            if self._session.has_catalog(name):
                if not if_not_exists:
                    raise InvalidRequest(f"Catalog {name!r} exists. Drop it first, or choose another name.")
                return Result(self._as_it_is(name, options))
            self._session.registry.create(name, options, if_not_exists=if_not_exists)
            return Result(f"Created catalog {name}. USE CATALOG {name} makes it the current one.")

        return act

    def _as_it_is(self, name: str, options: Mapping[str, str]) -> str:
        """What is said of a catalog that is there already: what of the options is not what it has."""
        held = self._session.registry.written(name) or {"warehouse": self._session.settings.warehouse}
        given = dict(options)
        given.setdefault("warehouse", given.pop("table-storage.file.path", held["warehouse"]))
        others = [key for key, value in given.items() if held.get(key) != value]
        if not others:
            return f"Catalog {name} is there already; it stays as it is."
        shown = shown_options({"warehouse": held["warehouse"]})["warehouse"]
        return (
            f"Catalog {name} is there already, and is another one than asked for: its warehouse is {shown}, and what it has "
            f"differs in {', '.join(map(repr, sorted(others)))}. It stays as it is."
        )

    def drop_catalog(self, node: DropCatalog) -> Act:
        """DROP CATALOG: the registration goes, the warehouse stays. Raises InvalidRequest for the current catalog."""
        name, if_exists = node.this.name, bool(node.args.get("exists"))

        def act() -> Result:
            if name == self._settings.catalog:
                raise InvalidRequest(f"Catalog {name!r} is the current one. USE another CATALOG first.")
            is_there = self._session.registry.drop(name, if_exists=if_exists)
            self._session.forget_catalog(name)
            if not is_there:
                return Result(f"There is no catalog {name}; nothing was dropped.")
            return Result(f"Catalog {name} is forgotten; its warehouse stays.")

        return act

    def use_catalog(self, node: exp.Expr) -> Act:
        """USE CATALOG, whose database `default` becomes the current one. Raises NotFound for an unknown catalog."""
        name = node.this.name

        def act() -> Result:
            self._session.catalog_of(name)
            self._settings.catalog, self._settings.database = name, "default"
            return Result(f"The current catalog is {name}.")

        return act

    def use(self, node: exp.Use) -> Act:
        """USE db, USE catalog.db. Raises NotFound, listing the databases, for an unknown one."""
        place, kind = node.this, node.args.get("kind")
        if kind is not None and kind.name.upper() not in ("DATABASE", "SCHEMA"):
            raise InvalidRequest(f"USE {kind.name} is not known here: USE db, USE CATALOG c.")
        database, catalog_name = place.name, place.db

        def act() -> Result:
            catalog = self._session.catalog_of(catalog_name or self._settings.catalog)
            known = sorted({*catalog.databases(), "default", "paimon", "information_schema"})
            if database not in known:
                raise at(place, NotFound(f"Database {database!r} does not exist. Databases: {', '.join(known)}."))
            self._settings.catalog, self._settings.database = catalog.name, database
            return Result(f"The current database is {catalog.name}.{database}.")

        return act

    def _catalog(self, node: exp.Table) -> Catalog:
        return self._session.catalog_of(node.db or self._settings.catalog)

    def create_database(self, node: exp.Create) -> Act:
        """CREATE DATABASE. Raises AlreadyExists, unless IF NOT EXISTS is said."""
        name, catalog, if_not_exists = node.this.name, self._catalog(node.this), bool(node.args.get("exists"))

        def act() -> Result:
            if if_not_exists and name in catalog.databases():
                return Result(f"Database {name} is there already; it stays as it is.")
            catalog.create_database(name, if_not_exists=if_not_exists)
            return Result(f"Created database {name}.")

        return act

    def drop_database(self, node: exp.Drop) -> Act:
        """DROP DATABASE: with CASCADE its tables too; else it is refused while there are any."""
        [place] = node.args["tables"]
        name, catalog, if_exists = place.name, self._catalog(place), bool(node.args.get("exists"))
        # RESTRICT is what happens without CASCADE.
        cascade = bool(node.args.get("cascade")) and not node.args.get("restrict")
        node.args.get("restrict")

        def act() -> Result:
            if if_exists and name not in catalog.databases():
                return Result(f"There is no database {name}; nothing was dropped.")
            catalog.drop_database(name, if_exists=if_exists, cascade=cascade)
            return Result(f"Dropped database {name}.")

        return act

    # --- tables

    def drop_tables(self, node: exp.Drop) -> Act:
        """DROP TABLE, of one or several, in their order. Raises NotFound without IF EXISTS, InvalidRequest for a view or what is
        named twice: then none is dropped.
        """
        if_exists = bool(node.args.get("exists"))
        if node.args.get("temporary"):
            if if_exists:
                for table in node.args["tables"]:
                    take(table)
                return lambda: Result("There are no temporary tables; nothing was dropped.")
            raise InvalidRequest("There are no temporary tables: leave TEMPORARY out.")
        named = [(argument, self._names.place(argument)) for argument in node.args["tables"]]
        for _, place in named:
            self._names.refuse_read_only(place)
        refuse_named_twice(named)

        def act() -> Result:
            for node, place in named:
                # Of a single one whose drop broke off the drop itself tells.
                self._refuse_dropping(node, place, may_lack=if_exists or len(named) == 1)
            sentences = []
            for node, place in named:
                identifier, catalog = str(place.identifier), self._names.catalog(place)
                if catalog.kafka_tables.exists(identifier):
                    catalog.kafka_tables.drop(identifier)
                    sentences.append(f"{identifier} dropped; its topic stays.")
                    continue
                if if_exists and not catalog.exists(identifier):
                    sentences.append(f"There is no table {identifier}; nothing was dropped.")
                    continue
                try:
                    catalog.drop_table(identifier, if_exists=if_exists)
                except StorageError as error:
                    raise at(node, error) from None
                sentences.append(f"{identifier} dropped.")
            return Result(" ".join(sentences))

        return act

    def _refuse_dropping(self, node: exp.Expr, place: Place, *, may_lack: bool) -> None:
        """Raise InvalidRequest for a view, NotFound for a table that is not there, unless that may be."""
        identifier, catalog = str(place.identifier), self._names.catalog(place)
        if catalog.kafka_tables.exists(identifier) or catalog.exists(identifier):
            return
        if catalog.views.exists(identifier):
            raise at(node, InvalidRequest(f"{identifier} is a view: DROP VIEW."))
        if not may_lack:
            try:
                catalog.table(identifier)
            except StorageError as error:
                raise at(node, error) from None

    def truncate(self, node: exp.TruncateTable) -> Act:
        """TRUNCATE TABLE, or one partition of it: a snapshot without its rows. Raises InvalidRequest for several tables."""
        named = node.expressions
        if len(named) != 1:
            raise InvalidRequest("TRUNCATE TABLE takes one table.")
        partition = node.args.get("partition") or named[0].args.get("partition")
        named[0].args.get("partition")
        table = self._names.table(named[0])
        values = partition_values(partition, table)

        def act() -> Result:
            snapshot = table.drop_partition(values) if values else table.truncate()
            what = "of the partition " if values else ""
            return Result(f"Snapshot {snapshot.id}: no rows {what}are left." if snapshot else "There were no rows.")

        return act
