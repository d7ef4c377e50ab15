"""Statements that change catalogs, databases and tables: CREATE, ALTER, DROP, USE, TRUNCATE.

Each is read first, whole, and gives what is to be done: see `unread`.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
from sqlglot import exp

from storage import (
    AlreadyExists,
    Catalog,
    ChangeType,
    CommitConflict,
    DropColumn,
    DropNotNull,
    InvalidRequest,
    MoveColumn,
    NotFound,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetNotNull,
    SetOptions,
    StorageError,
    Table,
    nullable_arrow,
    options_in_case,
    refuse_without_effect,
    shown_options,
    with_an_effect,
)
from storage.sql.commands import AlterTable, CreateCatalog, DropCatalog
from storage.sql.table_definition import constant_of, define_table, like_of, options_of, type_of

from ..warehouse.warehouse_session import WarehouseSession
from .added_column import added_column
from .changes import partition_values
from .computed import check_computed, with_renamed, without
from .held_names import held_names, in_place, in_words_of, is_held
from .names import Names
from .place import at
from .result import Result
from .settings import Settings
from .unread import take

_log = logging.getLogger(__name__)
Act = Callable[[], Result]


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
            if name in self._session.catalog_names() and not if_not_exists:
                raise InvalidRequest(f"Catalog {name!r} exists. Drop it first, or choose another name.")
            if name in self._session.catalog_names():
                return Result(self._as_it_is(name, options))
            self._session.registry.create(name, options, if_not_exists=if_not_exists)
            return Result(f"Catalog {name} is there. USE CATALOG {name} makes it the current one.")

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
            if if_exists and name not in self._session.catalog_names():
                return Result(f"There is no catalog {name}; nothing was dropped.")
            self._session.registry.drop(name, if_exists=if_exists)
            self._session.forget_catalog(name)
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
        database, catalog_name = place.name, place.args.get("db")

        def act() -> Result:
            catalog = self._session.catalog_of(catalog_name.name if catalog_name else self._settings.catalog)
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
            catalog.create_database(name, if_not_exists=if_not_exists)
            return Result(f"Database {name} is there.")

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
            return Result(f"Database {name} is gone.")

        return act

    # --- tables

    def create_table(self, node: exp.Create, *, replaces: bool = False) -> Callable[[pa.Schema | None], Table]:
        """What creates a table, given the columns of the query of a CREATE TABLE AS. `replaces`: what gives the table that is
        there under its new definition.
        """
        name = node.this.this if isinstance(node.this, exp.Schema) else node.this
        place = self._names.place(name)
        self._names.refuse_read_only(place)
        catalog = self._names.catalog(place)
        if_not_exists, is_or_replace = bool(node.args.get("exists")), bool(node.args.get("replace"))
        if node.expression is not None:
            # Only what the statement has made itself is filled.
            if_not_exists = False
        like = like_of(node)
        if like is not None:
            if node.expression is not None:
                raise at(name, InvalidRequest("A table is made LIKE another one or AS a SELECT: say one."))
            if replaces:
                raise at(
                    name, InvalidRequest("CREATE OR REPLACE TABLE … LIKE is not supported here: list the columns.")
                )
            model, options = self._names.place(like), options_of(node)

            def copy(_: pa.Schema | None) -> Table:
                try:
                    return catalog.create_table_like(
                        str(place.identifier),
                        str(model.identifier),
                        if_not_exists=if_not_exists,
                        options=options_in_case(options, catalog.table(str(model.identifier)).schema.column_names),
                    )
                except StorageError as error:
                    raise at(name, error) from None

            return copy
        definition = define_table(node)
        _refuse_twins(
            [field.name for field in definition.fields] + [column.name for column in definition.computed_columns]
        )
        if definition.fields:
            check_computed(definition, [field.name for field in definition.fields])
        if node.expression is not None and definition.fields:
            raise at(name, InvalidRequest("CREATE TABLE … AS SELECT takes its columns from the query: list none."))
        # Defaults (`SET 'table-storage.*'`) are for those tables that they have an effect on.
        keyed = bool(definition.primary_key) or bool(definition.options.get("primary-key"))
        partitioned = bool(definition.partition_by) or bool(definition.options.get("partition"))
        defaults = with_an_effect(self._settings.table_defaults, keyed=keyed, partitioned=partitioned)
        refuse_without_effect(definition.options, defaults, keyed=keyed, partitioned=partitioned)
        # A table with a key has one bucket, unless somebody says more.
        options = {**({"bucket": "1"} if keyed else {}), **defaults, **definition.options}

        def create(schema: pa.Schema | None) -> Table:
            properties: dict[str, Any] = {
                "primary_key": definition.primary_key,
                "partition_by": definition.partition_by,
                "options": options,
                "comment": definition.comment,
                "computed_columns": definition.computed_columns,
                "watermark": definition.watermark,
            }
            columns = definition.fields or pa.schema(map(nullable_arrow, schema or ()))
            names = [column.name for column in columns]
            _refuse_twins(names)
            for what in ("primary_key", "partition_by"):
                properties[what] = held_names(properties[what], names)
            properties["options"] = options_in_case(options, names)
            try:
                if replaces:
                    return catalog.redefined_table(str(place.identifier), columns, **properties)
                return catalog.create_table(str(place.identifier), columns, if_not_exists=if_not_exists, **properties)
            except AlreadyExists as error:
                if not (is_or_replace and catalog.exists(str(place.identifier))):
                    raise at(name, error) from None
                said_again = (
                    f"Table {place.identifier} was created by somebody else meanwhile. Run the statement again."
                )
                raise at(name, CommitConflict(said_again)) from None
            except StorageError as error:
                raise at(name, error) from None

        return create

    def take_back(self, node: exp.Create, table: Table) -> None:
        """Drop a table that a statement has created and could not fill."""
        name = node.this.this if isinstance(node.this, exp.Schema) else node.this
        with suppress(StorageError):
            if self._names.catalog(self._names.place(name)).drop_unwritten(table):
                return
            if table.snapshots.latest_id() is None:
                _log.warning("Table %s was created and could not be filled: it is empty. Drop it.", table.identifier)

    def exists(self, node: exp.Create) -> bool:
        """Whether the table of a CREATE TABLE exists already."""
        name = node.this.this if isinstance(node.this, exp.Schema) else node.this
        place = self._names.place(name)
        return self._names.catalog(place).exists(str(place.identifier))

    def drop_tables(self, node: exp.Drop) -> Act:
        """DROP TABLE, of one or several, in their order. Raises NotFound without IF EXISTS, InvalidRequest for a view."""
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

        def act() -> Result:
            sentences = []
            for node, place in named:
                identifier, catalog = str(place.identifier), self._names.catalog(place)
                if catalog.kafka_tables.exists(identifier):
                    catalog.kafka_tables.drop(identifier)
                    sentences.append(f"{identifier} dropped; its topic stays.")
                    continue
                if not catalog.exists(identifier) and catalog.views.exists(identifier):
                    raise at(node, InvalidRequest(f"{identifier} is a view: DROP VIEW."))
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

    def alter(self, node: AlterTable) -> Act:
        """ALTER TABLE. With IF EXISTS an unknown table is no error; errors of the store say where in the text they arose."""
        action, values = node.args["action"], node.args.get("values")
        if_exists = bool(node.args.get("exists"))
        if action == "rename to" and isinstance(values, exp.Table):
            return self._rename(node.this, values, if_exists)
        try:
            table = self._names.table(node.this)
        except NotFound:
            if if_exists:
                take(node)
                return lambda: Result("There is no such table; nothing to alter.")
            raise
        try:
            act = self._alter(node, table, action, values)
        except StorageError as error:
            raise at(node.this, error) from None

        def placed() -> Result:
            try:
                return act()
            except StorageError as error:
                raise at(node.this, error) from None

        return placed

    def _alter(self, node: AlterTable, table: Table, action: str, values: Any) -> Act:
        where = partition_values(node.args.get("partition"), table)
        if action == "compact":
            return lambda: _compacted(table, where)
        if action == "drop partition":
            partitions = [partition_values(value, table) for value in values]
            if_exists = bool(node.args.get("action_exists"))
            return lambda: _partitions_dropped(table, partitions, if_exists)
        if action == "add partition":
            for value in values:
                partition_values(value, table)
            node.args.get("action_exists")
            return lambda: Result("A partition is there as soon as it has rows.")
        if where:
            if action in ("set", "reset") and set(dict(values) if action == "set" else values) == {"change-tracking"}:
                tracked = action == "reset" or _boolean("change-tracking", dict(values)["change-tracking"])
                return lambda: self._track(table, where, tracked)
            raise InvalidRequest("Of a partition only 'change-tracking' can be set; or compact it.")
        changes = self._changes(node, table, action, values)

        def act() -> Result:
            if not changes:
                return Result(f"{table.identifier} stays as it is.")
            changed = table.alter(*changes)
            return Result(f"{table.identifier} has schema {changed.schema.id}.")

        return act

    def _changes(self, node: AlterTable, table: Table, action: str, values: Any) -> list[SchemaChange]:
        """The changes of an ALTER TABLE; none if IF EXISTS or IF NOT EXISTS leave nothing to do."""
        values = in_words_of(table, action, values)
        if action == "add":
            added = [in_place(added_column(value), table) for value in values]
            _refuse_twins(
                [*table.schema.column_names, *(each.name for each in added)]
                if not node.args.get("action_exists")
                else []
            )
            if node.args.get("action_exists"):
                added = [each for each in added if not is_held(each.name, table.schema.fields)]
            return list(added)
        if action == "drop":
            computed = {column.name.lower() for column in table.computed_columns}
            wanted = [
                partition
                for partition in values
                if not node.args.get("action_exists")
                or partition.lower() in computed
                or is_held(partition, table.schema.fields)
            ]
            held, changes = without(table, wanted)
            return [*changes, *(DropColumn(name) for name in held)]
        if action == "rename":
            old, new = values
            if "." not in old:
                _refuse_twins([*(name for name in table.schema.column_names if name.lower() != old.lower()), new])
            return [RenameColumn(*values), *with_renamed(table, *values)]
        if action == "reset":
            values = [*options_in_case(dict.fromkeys(values, ""), table.schema.column_names)]
            is_commented = table.schema.comment is not None and "comment" in values
            missing = [
                key for key in values if key not in table.schema.options and not (key == "comment" and is_commented)
            ]
            if missing and not node.args.get("action_exists"):
                raise InvalidRequest(f"Option {missing[0]!r} is not set, so that it cannot be reset.")
            kept = tuple(key for key in values if key in table.schema.options)
            return [*([SetComment(None, None)] if is_commented else []), *([SetOptions({}, kept)] if kept else [])]
        if action == "set default":
            name, value = values
            field = table.schema.field(name) if "." not in name else None
            return [SetDefault(name, value if field is None else constant_of(value, field.type, name))]
        if action == "set":
            values = options_in_case(_once(values), table.schema.column_names)
            if "comment" in values:
                # What Paimon's SQL calls a table's comment.
                said = values.pop("comment")
                return [SetComment(None, said), *([SetOptions(values)] if values else [])]
            keyed, partitioned = bool(table.schema.primary_keys), bool(table.schema.partition_keys)
            refuse_without_effect(values, table.schema.options, keyed=keyed, partitioned=partitioned)
            values = tuple(values.items())
        return _changes(action, values)

    def _track(self, table: Table, where: dict[str, str], tracked: bool) -> Result:
        path = "/".join(f"{name}={where[name]}" for name in table.schema.partition_keys if name in where)
        off = [
            key
            for key in table.schema.options.get("change-tracking.off-partitions", "").split(",")
            if key and key != path
        ]
        if not tracked:
            off.append(path)
        key = "change-tracking.off-partitions"
        changed = table.alter(SetOptions({key: ",".join(off)}) if off else SetOptions({}, (key,)))
        return Result(f"{table.identifier} has schema {changed.schema.id}.")

    def _rename(self, node: exp.Table, new: exp.Table, if_exists: bool) -> Act:
        place, target = self._names.place(node), self._names.place(new)
        if self._names.kafka(place) is not None:
            raise at(
                node, InvalidRequest(f"{place.identifier} is a Kafka table, which keeps its name: create another one.")
            )
        if place.catalog != target.catalog:
            raise at(new, InvalidRequest("A table stays in its catalog."))
        if target.identifier.database not in self._names.catalog(target).databases():
            raise at(new, NotFound(f"There is no database {target.identifier.database!r}. Create it first."))

        def act() -> Result:
            catalog = self._names.catalog(place)
            if if_exists and not catalog.exists(str(place.identifier)):
                return Result("There is no such table; nothing to alter.")
            try:
                catalog.rename_table(str(place.identifier), str(target.identifier))
            except StorageError as error:
                raise at(node, error) from None
            return Result(f"{place.identifier} is called {target.identifier}.")

        return act


def _refuse_twins(names: list[str]) -> None:
    """Raise InvalidRequest for columns whose names differ by case alone: statements could not tell them apart."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise InvalidRequest(f"Columns {other!r} and {name!r} differ by case alone. Rename one of them.")


def _compacted(table: Table, where: dict[str, str]) -> Result:
    snapshot = table.compact(partition=where or None)
    return Result(
        f"Snapshot {snapshot.id} of {table.identifier} is compacted." if snapshot else "There is nothing to compact."
    )


def _once(options: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Options by key. Raises InvalidRequest for one that is given twice."""
    merged = dict(options)
    if len(merged) < len(options):
        twice = next(key for at, (key, _) in enumerate(options) if key in dict(options[:at]))
        raise InvalidRequest(f"Option {twice!r} is given twice. Give it once.")
    return merged


def _partitions_dropped(table: Table, partitions: list[dict[str, str]], if_exists: bool) -> Result:
    snapshot = table.drop_partition(*partitions)
    if snapshot is None and not if_exists:
        raise NotFound(f"{table.identifier} has no such partition. IF EXISTS lets it be.")
    return Result(f"Snapshot {snapshot.id}: the partition is gone." if snapshot else "There was no such partition.")


def _boolean(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidRequest(f"Option {key!r} = {text!r} is neither true nor false.")
    return text.lower() == "true"


def _changes(action: str, values: Any) -> list[SchemaChange]:
    match action:
        case "set":
            return [SetOptions(dict(values))]
        case "type":
            return [ChangeType(values[0], type_of(values[1]))]
        case "drop not null":
            return [DropNotNull(values)]
        case "set not null":
            return [SetNotNull(values)]
        case "comment":
            return [SetComment(*values)]
        case "move":
            return [MoveColumn(values[0], first=values[2], after=values[1])]
    raise InvalidRequest(f"ALTER TABLE … {action} is not known.")
