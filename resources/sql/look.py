"""Statements that look: SHOW, DESCRIBE, and the tables of `information_schema`. Each is read whole first: see `unread`."""

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from storage import Catalog, ComputedColumn, InvalidRequest, KafkaTable, NotFound, Table, View, shown_options
from storage.sql.commands import DescribeTable, Show

from ..warehouse.warehouse_session import WarehouseSession
from .changes import partition_values
from .information import INFORMATION_SCHEMA
from .kafka_statements import create_topic_statement, described_topic
from .names import Names
from .place import at
from .procedures import PROCEDURES
from .result import Result, rows_result
from .settings import Settings
from .table_text import create_statement, type_text
from .views import create_view_statement, described_view

Act = Callable[[], Result]
_SHOWN = (
    "CATALOGS",
    "COLUMNS",
    "CREATE TABLE",
    "CURRENT CATALOG",
    "CURRENT DATABASE",
    "DATABASES",
    "PARTITIONS",
    "PROCEDURES",
    "FUNCTIONS",
    "TABLES",
    "TAGS",
    "BRANCHES",
    "SNAPSHOTS",
    "TBLPROPERTIES",
    "VIEWS",
)
_SYSTEM = ("PARTITIONS", "TAGS", "BRANCHES", "SNAPSHOTS")
_INNER = ("paimon", INFORMATION_SCHEMA)


class Look:
    """Reads SHOW and DESCRIBE for a session; what it returns gives the rows."""

    def __init__(self, session: WarehouseSession, settings: Settings, names: Names) -> None:
        self._session = session
        self._settings = settings
        self._names = names

    def show(self, node: Show, functions: Callable[[], list[str]]) -> Act:
        """`functions`: the names of those that the engine runs."""
        subject = node.this
        if subject in _SYSTEM or subject in ("CREATE TABLE", "TBLPROPERTIES", "COLUMNS"):
            return self._show_table(node, subject)
        place: Any = node.args.get("place") if subject in ("DATABASES", "SCHEMAS", "TABLES", "VIEWS") else None
        pattern = (
            node.args.get("pattern") if subject not in ("PROCEDURES", "CURRENT CATALOG", "CURRENT DATABASE") else None
        )
        matching = _matcher(pattern)
        match subject:
            case "CATALOGS":
                return lambda: rows_result(["catalog"], matching(self._session.catalog_names(anew=True)))
            case "CURRENT CATALOG":
                return lambda: rows_result(["catalog"], [(self._settings.catalog,)])
            case "CURRENT DATABASE":
                return lambda: rows_result(["database"], [(self._settings.database,)])
            case "DATABASES" | "SCHEMAS":
                catalog = self._session.catalog_of(place.name if place else self._settings.catalog)
                return lambda: rows_result(["database"], matching([*catalog.databases(), *_INNER]))
            case "TABLES":
                named = self._database(place)
                return lambda: rows_result(["table"], matching(self._names.tables_of(*named)))
            case "VIEWS":
                catalog, database = self._database(place)
                return lambda: rows_result(["view"], matching([*catalog.views.names(database), *self._names.temporary]))
            case "FUNCTIONS":
                return lambda: rows_result(["function"], matching(functions()))
            case "PROCEDURES":
                procedures = [
                    (f"sys.{name}", procedure.signature, action.meaning)
                    for name, (action, procedure) in PROCEDURES.items()
                ]
                return lambda: rows_result(["procedure", "arguments", "meaning"], procedures)
        raise InvalidRequest(f"SHOW {subject} is not known. Known: {', '.join(_SHOWN)}.")

    def _database(self, place: exp.Table | None) -> tuple[Catalog, str]:
        """The catalog and the database that a statement names. Raises NotFound."""
        catalog = self._session.catalog_of((place.db if place else "") or self._settings.catalog)
        database = place.name if place else self._settings.database
        known = sorted({*catalog.databases(), "default", *_INNER})
        if database not in known:
            error = NotFound(f"Database {database!r} does not exist. Databases: {', '.join(known)}.")
            raise error if place is None else at(place, error)
        return catalog, database

    def _show_table(self, node: Show, subject: str) -> Act:
        place: Any = node.args.get("place")
        if place is None:
            raise InvalidRequest(f"SHOW {subject} of which table? SHOW {subject} IN t.")
        view = self._names.view(place) if subject in ("CREATE TABLE", "TBLPROPERTIES", "COLUMNS") else None
        if view is not None:
            return self._show_view(node, subject, view)
        topic = (
            self._names.kafka(self._names.place(place))
            if subject in ("CREATE TABLE", "TBLPROPERTIES", "COLUMNS")
            else None
        )
        if topic is not None:
            return self._show_topic(node, subject, topic)
        table = self._names.table(place)
        if subject == "CREATE TABLE":
            return lambda: rows_result(["statement"], [(create_statement(table),)])
        if subject == "COLUMNS":
            columns = [*table.schema.column_names, *(column.name for column in table.computed_columns)]
            return lambda: rows_result(["col_name"], [(name,) for name in columns])
        if subject == "TBLPROPERTIES":
            keys = node.args.get("keys")
            options = sorted(table.schema.options.items())
            missing = [key for key in keys or () if key not in dict(options)]
            if missing:
                raise at(
                    place, NotFound(f"{table.identifier} has no option {missing[0]!r}. SHOW TBLPROPERTIES lists them.")
                )
            return lambda: rows_result(
                ["key", "value"], [option for option in options if keys is None or option[0] in keys]
            )
        if subject != "PARTITIONS":
            return lambda: Result(rows=table.system_table(subject.lower()))
        where = partition_values(node.args.get("partition"), table)
        return lambda: Result(rows=table.system_table("partitions", partition=where))

    def _show_topic(self, node: Show, subject: str, topic: KafkaTable) -> Act:
        if subject == "CREATE TABLE":
            return lambda: rows_result(["statement"], [(create_topic_statement(topic),)])
        if subject == "COLUMNS":
            return lambda: rows_result(["col_name"], [(name,) for name in topic.order])
        keys = node.args.get("keys")
        missing = [key for key in keys or () if key not in topic.options]
        if missing:
            raise at(node.args["place"], NotFound(f"{topic.identifier} has no option {missing[0]!r}."))
        return lambda: rows_result(
            ["key", "value"], [each for each in sorted(topic.options.items()) if keys is None or each[0] in keys]
        )

    def _show_view(self, node: Show, subject: str, view: View) -> Act:
        if subject == "CREATE TABLE":
            shown = self._names.place(node.args["place"])
            if shown.is_temporary:
                text = create_view_statement(shown.identifier.table, view).replace(
                    "CREATE VIEW", "CREATE TEMPORARY VIEW", 1
                )
                return lambda: rows_result(["statement"], [(text,)])
            name = str(shown.identifier)
            return lambda: rows_result(["statement"], [(create_view_statement(name, view),)])
        if subject == "COLUMNS":
            return lambda: rows_result(["col_name"], [(column.name,) for column in view.columns])
        keys = node.args.get("keys")
        missing = [key for key in keys or () if key not in view.options]
        if missing:
            raise at(
                node.args["place"], NotFound(f"The view has no option {missing[0]!r}. SHOW TBLPROPERTIES lists them.")
            )
        options = sorted(shown_options(view.options).items())
        return lambda: rows_result(
            ["key", "value"], [option for option in options if keys is None or option[0] in keys]
        )

    def describe(self, node: DescribeTable, as_read: Callable[[exp.Table, View], View]) -> Act:
        """DESCRIBE: the columns of a table or view, a row each; with EXTENDED, or a partition, properties by name.

        `as_read`: a view with the types that it has now.
        """
        place = node.this
        view = self._names.view(place)
        if view is not None:
            long = bool(node.args.get("extended"))
            names = ["kind", "name", "value"] if long else ["name", "type", "null", "key", "partition", "comment"]
            return lambda: rows_result(names, described_view(as_read(place, view), long))
        topic = self._names.kafka(self._names.place(place))
        if topic is not None:
            is_long = bool(node.args.get("extended"))
            return lambda: rows_result(*described_topic(topic, is_long))
        if self._names.is_system(place):
            schema = self._names.source(place.copy()).schema
            return lambda: rows_result(
                ["name", "type", "null"],
                [(field.name, str(field.type), "YES" if field.nullable else "NO") for field in schema],
            )
        table = self._names.table(place)
        where = partition_values(node.args.get("partition"), table)
        if where:
            missing = [name for name in table.schema.partition_keys if name not in where]
            if missing:
                raise at(place, InvalidRequest(f"Give every partition column a value: {', '.join(missing)} has none."))
            node.args.get("extended")
            return lambda: _properties(table.describe(where))
        extended = bool(node.args.get("extended"))
        return lambda: _described(table, extended)


def _matcher(pattern: str | None) -> Callable[[list[str]], list[tuple[str]]]:
    """Keeps names that match a pattern as Spark has it: `*` is any text, `|` separates patterns, case does not count."""
    if pattern is not None and "%" in pattern:
        raise InvalidRequest(
            f"The pattern {pattern!r} of a SHOW is no LIKE pattern: write * for any text, | between patterns."
        )
    parts = [".*".join(map(re.escape, part.strip().split("*"))) for part in (pattern or "*").split("|")]
    matches = re.compile("|".join(f"(?:{part})" for part in parts), re.IGNORECASE | re.DOTALL)
    return lambda names: [(name,) for name in names if matches.fullmatch(name)]


def _described(table: Table, extended: bool) -> Result:
    schema = table.schema
    keys = dict.fromkeys(schema.primary_keys, "PRI")
    columns = [
        (
            field.name,
            type_text(field.type).removesuffix(" NOT NULL"),
            "YES" if field.type.nullable else "NO",
            keys.get(field.name, ""),
            "yes" if field.name in schema.partition_keys else "",
            field.description or "",
        )
        for field in schema.fields
    ]
    columns += [
        (column.name, column.data_type, "YES", "", "", _of_computed(column)) for column in table.computed_columns
    ]
    if extended:
        defaults = {
            field.name: f" default {field.default_value}" for field in schema.fields if field.default_value is not None
        }
        facts = [(name, "" if value is None else str(value)) for name, value in table.describe().items()]
        rows = [
            (
                "column",
                column[0],
                f"{column[1]}{' key' if column[3] else ''}{' partition' if column[4] else ''}{defaults.get(column[0], '')}",
            )
            for column in columns
        ]
        return rows_result(["kind", "name", "value"], [*rows, *[("property", *fact) for fact in facts]])
    return rows_result(["name", "type", "null", "key", "partition", "comment"], columns)


def _of_computed(column: ComputedColumn) -> str:
    """How a column is computed, and its comment."""
    return f"AS {column.expression}" + (f" ({column.comment})" if column.comment else "")


def _properties(facts: dict[str, Any]) -> Result:
    return rows_result(
        ["property", "value"], [(name, "" if value is None else str(value)) for name, value in facts.items()]
    )
