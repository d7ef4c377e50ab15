"""Statements about catalogs, databases and tables: CREATE, ALTER, DROP, SHOW, DESCRIBE."""

import difflib
import fnmatch
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from storage import (
    AddColumn,
    Catalog,
    ChangeType,
    DropColumn,
    DropNotNull,
    InvalidRequest,
    MoveColumn,
    NotFound,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetOptions,
    StorageError,
    Table,
    TableOptions,
    shown_options,
)
from storage.sql.dialect import AlterTable, CreateCatalog, DescribeTable, DropCatalog, Show, SnaplineSql
from storage.sql.table_definition import define_table, like_of, type_of

from ..session import Session
from .changes import partition_values
from .names import Names, Settings
from .place import at
from .procedures import PROCEDURES
from .result import Result, rows_result

_SHOWN = (
    "CATALOGS", "DATABASES", "TABLES", "CREATE TABLE", "PARTITIONS", "TAGS", "BRANCHES", "SNAPSHOTS", "PROCEDURES",
    "CURRENT CATALOG", "CURRENT DATABASE",
)  # fmt: skip


# As near as this, a key that nobody knows is a slip of the pen.
_MISSPELT = 0.9


def _refuse_misspelt(keys: Iterable[str]) -> None:
    """Raise InvalidRequest for an option that is hardly anything else than a misspelt one. Others are kept as they are:
    other readers of the format may know them.
    """
    known = [one["key"] for one in TableOptions.declared()]
    for key in keys:
        near = difflib.get_close_matches(key, known, n=1, cutoff=_MISSPELT)
        if key not in known and near:
            raise InvalidRequest(f"There is no option {key!r}. Did you mean {near[0]!r}?")


class Definitions:
    """Carries out definitions for a session."""

    def __init__(self, session: Session, settings: Settings, names: Names) -> None:
        self._session = session
        self._settings = settings
        self._names = names

    # --- catalogs and databases

    def create_catalog(self, node: CreateCatalog) -> Result:
        name = node.this.name
        if name in self._session.catalog_names() and not node.args.get("exists"):
            raise InvalidRequest(f"Catalog {name!r} exists. Drop it first, or choose another name.")
        self._session.registry.create(name, dict(node.args["options"]), if_not_exists=bool(node.args.get("exists")))
        return Result(f"Catalog {name} is there. USE CATALOG {name} makes it the current one.")

    def drop_catalog(self, node: DropCatalog) -> Result:
        name = node.this.name
        if name == self._settings.catalog:
            raise InvalidRequest(f"Catalog {name!r} is the current one. USE another CATALOG first.")
        self._session.registry.drop(name, if_exists=bool(node.args.get("exists")))
        self._session.forget_catalog(name)
        return Result(f"Catalog {name} is forgotten; its warehouse stays.")

    def use_catalog(self, name: str) -> Result:
        self._session.catalog_of(name)
        self._settings.catalog, self._settings.database = name, "default"
        return Result(f"The current catalog is {name}.")

    def use(self, node: exp.Use) -> Result:
        place = node.this
        catalog = self._session.catalog_of(place.db or self._settings.catalog)
        known = sorted({*catalog.databases(), "default", "paimon"})
        if place.name not in known:
            raise at(place, NotFound(f"Database {place.name!r} does not exist. Databases: {', '.join(known)}."))
        self._settings.catalog, self._settings.database = catalog.name, place.name
        return Result(f"The current database is {catalog.name}.{place.name}.")

    def _catalog(self, node: exp.Table) -> Catalog:
        return self._session.catalog_of(node.db or self._settings.catalog)

    def create_database(self, node: exp.Create) -> Result:
        self._catalog(node.this).create_database(node.this.name, if_not_exists=bool(node.args.get("exists")))
        return Result(f"Database {node.this.name} is there.")

    def drop_database(self, node: exp.Drop) -> Result:
        [place] = node.args["tables"]
        self._catalog(place).drop_database(
            place.name, if_exists=bool(node.args.get("exists")), cascade=bool(node.args.get("cascade"))
        )
        return Result(f"Database {place.name} is gone.")

    # --- tables

    def create_table(self, node: exp.Create, schema: pa.Schema | None) -> Table:
        """Create a table; `schema` are the columns of the query of a CREATE TABLE AS."""
        name = node.this.this if isinstance(node.this, exp.Schema) else node.this
        place = self._names.place(name)
        self._names.refuse_read_only(place)
        catalog = self._names.catalog(place)
        definition = define_table(node)
        session_wide = {
            key.removeprefix("table-storage."): value
            for key, value in self._settings.options.items() if key.startswith("table-storage.")
        }  # fmt: skip
        # A table with a key has one bucket, unless somebody says more.
        keyed = {"bucket": "1"} if definition.primary_key else {}
        options = {**keyed, **session_wide, **definition.options}
        try:
            _refuse_misspelt(options)
        except StorageError as error:
            raise at(name, error) from None
        if_not_exists = bool(node.args.get("exists"))
        like = like_of(node)
        try:
            if like is not None:
                model = self._names.place(like)
                return catalog.create_table_like(
                    str(place.identifier),
                    str(model.identifier),
                    options=definition.options,
                    if_not_exists=if_not_exists,
                )
            return catalog.create_table(
                str(place.identifier), definition.fields or schema or [], primary_key=definition.primary_key,
                partition_by=definition.partition_by, options=options, comment=definition.comment,
                if_not_exists=if_not_exists, computed_columns=definition.computed_columns, watermark=definition.watermark,
            )  # fmt: skip
        except StorageError as error:
            raise at(name, error) from None

    def exists(self, node: exp.Create) -> bool:
        name = node.this.this if isinstance(node.this, exp.Schema) else node.this
        place = self._names.place(name)
        return self._names.catalog(place).exists(str(place.identifier))

    def drop_tables(self, node: exp.Drop) -> Result:
        gone = []
        if node.args.get("temporary"):
            if node.args.get("exists"):
                return Result("There are no temporary tables; nothing was dropped.")
            raise InvalidRequest("There are no temporary tables: leave TEMPORARY out.")
        for one in node.args["tables"]:
            place = self._names.place(one)
            self._names.refuse_read_only(place)
            try:
                self._names.catalog(place).drop_table(str(place.identifier), if_exists=bool(node.args.get("exists")))
            except StorageError as error:
                raise at(one, error) from None
            gone.append(str(place.identifier))
        return Result(f"{', '.join(gone)} dropped.")

    def truncate(self, node: exp.TruncateTable) -> Result:
        for one in node.expressions:
            table = self._names.table(one)
            values = partition_values(node.args.get("partition") or one.args.get("partition"), table)
            snapshot = table.drop_partition(values) if values else table.truncate()
        return Result(f"Snapshot {snapshot.id}: no rows are left." if snapshot else "There were no rows.")

    def alter(self, node: AlterTable) -> Result:
        action, values = node.args["action"], node.args.get("values")
        if action == "rename to" and isinstance(values, exp.Table):
            return self._rename(node.this, values)
        try:
            table = self._names.table(node.this)
        except NotFound:
            if node.args.get("exists"):
                return Result("There is no such table; nothing to alter.")
            raise
        try:
            return self._alter(node, table, action, values)
        except StorageError as error:
            raise at(node.this, error) from None

    def _alter(self, node: AlterTable, table: Table, action: str, values: Any) -> Result:
        where = partition_values(node.args.get("partition"), table)
        if action == "compact":
            snapshot = table.compact(partition=where or None)
            return Result(
                f"Snapshot {snapshot.id} of {table.identifier} is compacted."
                if snapshot
                else "There is nothing to compact."
            )
        if action == "drop partition":
            snapshot = table.drop_partition(*[partition_values(one, table) for one in values])
            return Result(
                f"Snapshot {snapshot.id}: the partition is gone." if snapshot else "There was no such partition."
            )
        if action == "add partition":
            return Result("A partition is there as soon as it has rows.")
        if where:
            if action in ("set", "reset") and set(dict(values) if action == "set" else values) == {"change-tracking"}:
                return self._track(
                    table, where, action == "reset" or dict(values)["change-tracking"].lower() != "false"
                )
            raise InvalidRequest("Of a partition only 'change-tracking' can be set; or compact it.")
        changed = table.alter(*_changes(action, values))
        return Result(f"{table.identifier} has schema {changed.schema.id}.")

    def _track(self, table: Table, where: dict[str, str], tracked: bool) -> Result:
        path = "/".join(f"{name}={where[name]}" for name in table.schema.partition_keys if name in where)
        off = [
            one
            for one in table.schema.options.get("change-tracking.off-partitions", "").split(",")
            if one and one != path
        ]
        if not tracked:
            off.append(path)
        key = "change-tracking.off-partitions"
        changed = table.alter(SetOptions({key: ",".join(off)}) if off else SetOptions({}, (key,)))
        return Result(f"{table.identifier} has schema {changed.schema.id}.")

    def _rename(self, node: exp.Table, new: exp.Table) -> Result:
        place, target = self._names.place(node), self._names.place(new)
        if place.catalog != target.catalog:
            raise at(new, InvalidRequest("A table stays in its catalog."))
        try:
            self._names.catalog(place).rename_table(str(place.identifier), str(target.identifier))
        except StorageError as error:
            raise at(node, error) from None
        return Result(f"{place.identifier} is called {target.identifier}.")

    # --- what there is

    def show(self, node: Show) -> Result:
        what, pattern = node.this, node.args.get("pattern")
        place: Any = node.args.get("place")

        def matching(names: list[str]) -> list[tuple[str]]:
            glob = (pattern or "*").replace("%", "*")
            return [(name,) for name in names if fnmatch.fnmatchcase(name, glob)]

        match what:
            case "CATALOGS":
                return rows_result(["catalog"], matching(self._session.catalog_names()))
            case "CURRENT CATALOG":
                return rows_result(["catalog"], [(self._settings.catalog,)])
            case "CURRENT DATABASE":
                return rows_result(["database"], [(self._settings.database,)])
            case "DATABASES" | "SCHEMAS":
                catalog = self._session.catalog_of(place.name if place else self._settings.catalog)
                return rows_result(["database"], matching([*catalog.databases(), "paimon"]))
            case "TABLES":
                database = place.name if place else self._settings.database
                catalog = self._session.catalog_of((place.db if place else "") or self._settings.catalog)
                held = catalog.tables(database) if database in catalog.databases() else []
                return rows_result(["table"], matching([name.partition(".")[2] for name in held]))
            case "PROCEDURES":
                return rows_result(
                    ["procedure", "arguments", "meaning"],
                    [(one.name, one.signature, one.meaning) for one in PROCEDURES.values()],
                )
            case "CREATE TABLE":
                return rows_result(["statement"], [(create_statement(self._names.table(place)),)])
            case "PARTITIONS" | "TAGS" | "BRANCHES" | "SNAPSHOTS":
                return Result(rows=self._names.table(place).system_table(what.lower()))
        raise InvalidRequest(f"SHOW {what} is not known. Known: {', '.join(_SHOWN)}.")

    def describe(self, node: DescribeTable) -> Result:
        table = self._names.table(node.this)
        where = partition_values(node.args.get("partition"), table)
        if where:
            return _properties(table.describe(where))
        schema = table.schema
        keys = dict.fromkeys(schema.primary_keys, "PRI")
        columns = [
            (
                one.name, _type_sql(one.type).removesuffix(" NOT NULL"), "YES" if one.type.nullable else "NO",
                keys.get(one.name, ""), "yes" if one.name in schema.partition_keys else "", one.description or "",
            )
            for one in schema.fields
        ]  # fmt: skip
        if node.args.get("extended"):
            facts = [(name, "" if value is None else str(value)) for name, value in table.describe().items()]
            rows = [
                ("column", one[0], f"{one[1]}{' key' if one[3] else ''}{' partition' if one[4] else ''}")
                for one in columns
            ]
            return rows_result(["kind", "name", "value"], [*rows, *[("property", *fact) for fact in facts]])
        return rows_result(["name", "type", "null", "key", "partition", "comment"], columns)


def _properties(facts: dict[str, Any]) -> Result:
    return rows_result(
        ["property", "value"], [(name, "" if value is None else str(value)) for name, value in facts.items()]
    )


def _changes(action: str, values: Any) -> list[SchemaChange]:
    match action:
        case "set":
            _refuse_misspelt(dict(values))
            return [SetOptions(dict(values))]
        case "reset":
            return [SetOptions({}, tuple(values))]
        case "add":
            return [_added(*one) for one in values]
        case "drop":
            return [DropColumn(name) for name in values]
        case "rename":
            return [RenameColumn(*values)]
        case "type":
            return [ChangeType(values[0], type_of(values[1]))]
        case "drop not null":
            return [DropNotNull(values)]
        case "comment":
            return [SetComment(*values)]
        case "move":
            return [MoveColumn(values[0], first=values[2], after=values[1])]
    raise InvalidRequest(f"ALTER TABLE … {action} is not known.")


def _added(column: exp.ColumnDef, after: str | None, first: bool) -> AddColumn:
    comment = column.find(exp.CommentColumnConstraint)
    required = column.find(exp.NotNullColumnConstraint)
    kind = type_of(column.args["kind"], nullable=required is None)
    return AddColumn(column.name, kind, comment.this.name if comment else None, first, after)


def create_statement(table: Table) -> str:
    """A CREATE TABLE that makes a table like this one."""
    schema = table.schema
    lines = [_column_line(one) for one in schema.fields]
    if schema.primary_keys:
        lines.append(f"PRIMARY KEY ({', '.join(map(_quoted, schema.primary_keys))}) NOT ENFORCED")
    text = (
        f"CREATE TABLE {'.'.join(map(_quoted, str(table.identifier).split('.')))} (\n  " + ",\n  ".join(lines) + "\n)"
    )
    if schema.comment:
        text += f"\nCOMMENT {_literal(schema.comment)}"
    if schema.partition_keys:
        text += f"\nPARTITIONED BY ({', '.join(map(_quoted, schema.partition_keys))})"
    if schema.options:
        pairs = [
            f"  {_literal(key)} = {_literal(value)}" for key, value in sorted(shown_options(schema.options).items())
        ]
        text += "\nWITH (\n" + ",\n".join(pairs) + "\n)"
    return text


def _column_line(one: Any) -> str:
    comment = f" COMMENT {_literal(one.description)}" if one.description else ""
    return f"{_quoted(one.name)} {_type_sql(one.type)}{comment}"


def _type_sql(kind: Any) -> str:
    required = "" if kind.nullable else " NOT NULL"
    match kind.root:
        case "ARRAY":
            return f"ARRAY<{_type_sql(kind.element).removesuffix(' NOT NULL')}>{required}"
        case "MAP":
            inner = f"{_type_sql(kind.key)}, {_type_sql(kind.element)}".replace(" NOT NULL", "")
            return f"MAP<{inner}>{required}"
        case "ROW":
            fields = ", ".join(f"{_quoted(one.name)} {_type_sql(one.type)}" for one in kind.fields)
            return f"ROW<{fields}>{required}"
    return str(kind)


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(SnaplineSql)


def _literal(text: str) -> str:
    return exp.Literal.string(text).sql(SnaplineSql)
