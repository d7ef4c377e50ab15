"""Views: CREATE, ALTER and DROP VIEW, and what stands for a view in a query that reads it.

A view is read as the SELECT that it is, over tables that are each read at one snapshot: what reads a view has read those tables.
Its text may be anybody's, so that it is checked whenever it is read (`storage.sql.pure_query`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from storage import (
    AlreadyExists,
    Catalog,
    CorruptData,
    InvalidRequest,
    NotFound,
    StorageError,
    Unsupported,
    View,
    ViewColumn,
)
from storage.sql.commands import AlterView
from storage.sql.dialect import HINT_OPTIONS, SnaplineSql
from storage.sql.pure_query import parse_query
from storage.sql.table_definition import options_of

from .names import Names, Place, refuse_named_twice
from .place import at
from .prepare import tables_read
from .query import Query
from .result import Result
from .unread import plain, take

Act = Callable[[], Result]
_MOST_NESTED = 20
_OF_TABLES = ("joins", "laterals", "pivots", "sample")


class ViewStatements:
    """Reads statements about views; what it returns carries them out."""

    def __init__(self, names: Names, prepare: Callable[[exp.Expr], Query]) -> None:
        self._names = names
        self._prepare = prepare

    def create(self, node: exp.Create, columns_of: Callable[[Query], pa.Schema]) -> Act:
        """CREATE VIEW; `columns_of` finds the columns of its query. Raises InvalidRequest or Unsupported."""
        name = node.this.this if isinstance(node.this, exp.Schema) else node.this
        properties = node.args.get("properties")
        given = list(properties.expressions) if properties else []
        is_temporary = any(isinstance(node, exp.TemporaryProperty) and not node.this for node in given)
        place = self._names.temporary_place(name) if is_temporary else self._place(name)
        listed = (
            [_listed(expression) for expression in node.this.expressions] if isinstance(node.this, exp.Schema) else []
        )
        comment, options = None, options_of(node)
        for column in given:
            if isinstance(column, exp.SchemaCommentProperty):
                comment = column.this.name
        if_not_exists, replaces = bool(node.args.get("exists")), bool(node.args.get("replace"))
        if if_not_exists and replaces:
            raise at(name, InvalidRequest("CREATE OR REPLACE VIEW … IF NOT EXISTS: say one of the two."))
        if node.expression is None:
            raise at(name, InvalidRequest("CREATE VIEW v AS SELECT …: it needs a query."))
        view = self._view(take(node.expression), name, place, columns_of, listed)
        view = View(view.query, view.columns, comment, options)
        if is_temporary:
            return self._temporary(name, place, view, if_not_exists, replaces)

        def act() -> Result:
            try:
                written = self._names.catalog(place).views.create(
                    str(place.identifier), view, if_not_exists=if_not_exists, replaces=replaces
                )
            except StorageError as error:
                raise at(name, error) from None
            if written:
                return Result(f"Created view {place.identifier}.")
            return Result(f"View {place.identifier} exists already; it stays as it is.")

        return act

    def _temporary(self, name: exp.Table, place: Place, view: View, if_not_exists: bool, replaces: bool) -> Act:
        """What makes a view of this session known."""
        if if_not_exists:
            raise at(
                name, InvalidRequest("A temporary view is made anew by CREATE OR REPLACE, there is no IF NOT EXISTS.")
            )
        held = self._names.temporary
        if name.name in held and not replaces:
            raise at(name, AlreadyExists(f"There is a temporary view {name.name!r}. CREATE OR REPLACE makes it anew."))

        def act() -> Result:
            held[name.name] = (place.catalog, view)
            return Result(f"Created view {name.name} until the session ends.")

        return act

    def as_read(self, node: exp.Table, view: View, columns_of: Callable[[Query], pa.Schema]) -> View:
        """A view with the types that its rows have now, for tables below may have others than when it was made; as it was made
        if it cannot be read any more, or not by DuckDB.
        """
        named = node.copy()
        try:
            schema = columns_of(
                self._prepare(exp.select(*(_column(column.name) for column in view.columns)).from_(named))
            )
            columns = [
                ViewColumn.of(column.name, field.type, column.comment)
                for column, field in zip(view.columns, schema, strict=True)
            ]
        except StorageError:
            return view
        return replace(view, columns=tuple(columns))

    def drop(self, node: exp.Drop) -> Act:
        """DROP VIEW, of one or several, temporary ones too. Raises NotFound without IF EXISTS, InvalidRequest for a table or what
        is named twice: then none is dropped.
        """
        if_exists = bool(node.args.get("exists"))
        if node.args.get("temporary"):
            raise InvalidRequest("DROP VIEW drops temporary views as well: leave TEMPORARY out.")
        named = [(argument, self._names.place(argument)) for argument in node.args["tables"]]
        for dropped, place in named:
            if not place.is_temporary:
                self._place(dropped)

        refuse_named_twice(named)

        def act() -> Result:
            for node, place in named:
                self._refuse_dropping(node, place, if_exists)
            sentences = []
            for node, place in named:
                if place.is_temporary:
                    self._names.temporary.pop(place.identifier.table, None)
                    sentences.append(f"{place.identifier.table} dropped.")
                    continue
                catalog, name = self._names.catalog(place), str(place.identifier)
                if if_exists and not catalog.views.exists(name):
                    sentences.append(f"There is no view {name}; nothing was dropped.")
                    continue
                try:
                    catalog.views.drop(name)
                except StorageError as error:
                    raise at(node, error) from None
                sentences.append(f"{name} dropped.")
            return Result(" ".join(sentences))

        return act

    def _refuse_dropping(self, node: exp.Expr, place: Place, if_exists: bool) -> None:
        """Raise InvalidRequest for a table, NotFound for a view that is not there, unless that may be."""
        if place.is_temporary:
            return
        catalog, name = self._names.catalog(place), str(place.identifier)
        if catalog.views.exists(name):
            return
        if catalog.exists(name):
            raise at(node, InvalidRequest(f"{name} is a table: DROP TABLE."))
        if not if_exists:
            raise at(node, catalog.views.missing(name))

    def alter(self, node: AlterView, columns_of: Callable[[Query], pa.Schema]) -> Act:
        """ALTER VIEW: another name, query or options. Raises NotFound for an unknown view."""
        name, action = node.this, node.args["action"]
        values: Any = node.args.get("values")
        place = self._place(name)
        catalog, called = self._names.catalog(place), str(place.identifier)
        if not catalog.views.exists(called):
            raise at(name, self._missing(catalog, called))
        if action == "rename to":
            target = self._names.place_beside(values, place)
            self._names.refuse_read_only(target)
            if target.catalog != place.catalog:
                raise at(name, InvalidRequest("A view stays in its catalog."))
            if target.identifier.database not in catalog.databases():
                raise at(values, NotFound(f"There is no database {target.identifier.database!r}. Create it first."))
            return lambda: self._done(name, lambda: catalog.views.rename(called, str(target.identifier)), called)
        if action == "as":
            made = self._view(take(values), name, place, columns_of, [])

            def change(view: View) -> View:
                return View(made.query, made.columns, view.comment, view.options)

        elif action == "set":
            given = dict(values)

            def change(view: View) -> View:
                return view.with_options(given)

        else:
            keys, if_exists = tuple(values), bool(node.args.get("action_exists"))

            def change(view: View) -> View:
                missing = [key for key in keys if key not in view.options]
                if missing and not if_exists:
                    raise InvalidRequest(f"Option {missing[0]!r} is not set, so that it cannot be reset.")
                return view.with_options({}, keys)

        return lambda: self._done(name, lambda: catalog.views.change(called, change), called)

    @staticmethod
    def _done(node: exp.Expr, change: Callable[[], object], called: str) -> Result:
        try:
            change()
        except StorageError as error:
            raise at(node, error) from None
        return Result(f"View {called} is changed.")

    def _place(self, node: exp.Table) -> Place:
        place = self._names.place(node)
        self._names.refuse_read_only(place)
        return place

    def _missing(self, catalog: Catalog, name: str) -> StorageError:
        if catalog.exists(name):
            return InvalidRequest(f"{name} is a table, no view.")
        return catalog.views.missing(name)

    def _view(
        self,
        query: exp.Expr,
        name: exp.Table,
        place: Place,
        columns_of: Callable[[Query], pa.Schema],
        listed: list[tuple[str, str | None]],
    ) -> View:
        """A view of a query, checked as it will be read: it can be run, and does not read itself."""
        tree = plain(query)
        for table in tables_read(tree):
            target = self._names.place(table)
            if target.catalog != place.catalog:
                raise at(
                    table,
                    Unsupported(f"A view reads tables of its own catalog, {place.catalog}, and no others."),
                )
            if target.is_temporary and not place.is_temporary:
                raise at(
                    table,
                    Unsupported(
                        f"{table.name} is a temporary view, which goes with the session: a view that stays does not read it."
                    ),
                )
            if table.meta_get(HINT_OPTIONS):
                raise at(table, Unsupported("OPTIONS(…) has no place in a view. Use VERSION AS OF."))
            table.set("catalog", None)
            table.set("db", exp.to_identifier(target.identifier.database, quoted=True))
        subject = f"View {place.identifier.table if place.is_temporary else place.identifier}"
        try:
            text = parse_query(tree.sql(SnaplineSql), subject).sql(SnaplineSql)
            parse_query(text, subject)
        except StorageError as error:
            raise at(name, error) from None
        prepared = self._prepare(_as_subquery(text, subject, place))
        self._refuse_itself(text, subject, place, 0)
        schema = columns_of(prepared)
        if listed and len(listed) != len(schema):
            raise at(name, InvalidRequest(f"{subject} names {len(listed)} columns, the query gives {len(schema)}."))
        given = listed or [(name, None) for name in schema.names]
        if len({each.lower() for each, _ in given}) < len(given) or len(set(schema.names)) < len(schema):
            raise at(
                name, InvalidRequest(f"{subject} has two columns of one name: {', '.join(each for each, _ in given)}.")
            )
        columns = []
        for (column, comment), field in zip(given, schema, strict=True):
            if pa.types.is_null(field.type):
                raise at(name, InvalidRequest(f"{subject}: column {column!r} has no type. CAST it to one."))
            columns.append(ViewColumn.of(column, field.type, comment))
        wanted = [each for each, _ in given]
        if wanted != schema.names:
            text = _renamed(text, schema.names, wanted)
        inner = exp.Subquery(
            this=_as_subquery(text, subject, place), alias=exp.TableAlias(this=exp.to_identifier("__view"))
        )
        try:
            columns_of(self._prepare(exp.select(*map(_column, wanted)).from_(inner)))
        except InvalidRequest as error:
            raise at(name, InvalidRequest(f"{subject}: give each of its columns a name by AS. {error}")) from None
        return View(text, tuple(columns))

    def _refuse_itself(self, text: str, subject: str, place: Place, depth: int) -> None:
        """Raise InvalidRequest for a view that reads itself, by way of others or not."""
        for table in tables_read(parse_query(text, subject)):
            other = self._names.place(table)
            identifier = other.identifier
            if identifier.full_name == place.identifier.full_name:
                raise InvalidRequest(f"{subject} would read itself.")
            inner = self._names.view_at(Place(place.catalog, identifier)) if depth < _MOST_NESTED else None
            if inner is not None and (other.is_temporary or not self._names.catalog(place).exists(str(identifier))):
                self._refuse_itself(inner.query, subject, place, depth + 1)


def _as_subquery(text: str, what: str, place: Place) -> exp.Expr:
    tree = parse_query(text, what)
    for table in tables_read(tree):
        table.set("catalog", exp.to_identifier(place.catalog, quoted=True))
    return tree


def _renamed(text: str, held: list[str], wanted: list[str]) -> str:
    """A query under other names for its columns."""
    tree = parse_query(text, "The view")
    names = [exp.to_identifier(each, quoted=True) for each in wanted]
    alias = exp.TableAlias(this=exp.to_identifier("__view"))
    if not any(select.is_star for select in tree.selects):
        alias.set("columns", names)
        return exp.select("*").from_(exp.Subquery(this=tree, alias=alias)).sql(SnaplineSql)
    # Columns that the table gets later on are none of the view's.
    chosen = [exp.alias_(_column(each), name, quoted=True) for each, name in zip(held, names, strict=True)]
    return exp.select(*chosen).from_(exp.Subquery(this=tree, alias=alias)).sql(SnaplineSql)


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _listed(node: exp.Expr) -> tuple[str, str | None]:
    """A column of `CREATE VIEW v (a COMMENT '…', b)`."""
    if isinstance(node, exp.Identifier):
        return node.name, None
    if not isinstance(node, exp.ColumnDef) or node.args.get("kind") is not None:
        raise at(
            node, InvalidRequest("The columns of a view have names and comments: their types are those of the query.")
        )
    comment = None
    for argument in node.args.get("constraints") or []:
        kind = argument.args.get("kind")
        if not isinstance(kind, exp.CommentColumnConstraint):
            raise at(node, InvalidRequest(f"Column {node.name!r} of a view takes a COMMENT alone."))
        comment = kind.this.name
    return node.name, comment


def expanded(
    node: exp.Table, names: Names, around: tuple[str, ...], error: NotFound
) -> tuple[exp.Subquery, tuple[str, ...]]:
    """The query that stands for a view in a query, and the views that it stands in. `error`: what to raise if there is no view.

    Raises InvalidRequest for a version of a view, CorruptData and Unsupported for one that cannot be read.
    """
    place = names.place(node)
    name = place.identifier.table if place.is_temporary else str(place.identifier)
    view = names.view_at(place)
    if view is None:
        raise error
    if node.args.get("version") is not None or node.meta_get(HINT_OPTIONS):
        raise at(
            node, InvalidRequest(f"{name} is a view, which has no versions. Ask for them of the tables that it reads.")
        )
    if name in around or len(around) >= _MOST_NESTED:
        way = " → ".join([*around, name])
        raise at(
            node, CorruptData(f"View {name} cannot be read: it reads itself, or views lie {_MOST_NESTED} deep ({way}).")
        )
    subject = f"View {name}"
    try:
        tree = _as_subquery(view.query, subject, place)
    except StorageError as wrong:
        kind = Unsupported if isinstance(wrong, Unsupported) else CorruptData
        raise at(node, kind(f"{subject} cannot be read, nothing of it was run: {wrong}")) from None
    chosen = [_column(column.name) for column in view.columns]
    inner = exp.Subquery(this=tree, alias=exp.TableAlias(this=exp.to_identifier("__view")))
    alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
    made = exp.Subquery(this=exp.select(*chosen).from_(inner), alias=alias.copy())
    for key in _OF_TABLES:
        value = node.args.pop(key, None)
        if value:
            made.set(key, value)
    node.replace(made)
    return made, (*around, name)


def without_temporary(tree: exp.Expr, names: Names) -> exp.Expr:
    """A statement in which temporary views are the queries that they are: it means the same in other sessions."""
    if not names.temporary:
        return tree
    tree = tree.copy()
    while True:
        temporary = [each for each in tree.find_all(exp.Table) if _is_temporary(each, names)]
        if not temporary:
            return tree
        for node in temporary:
            expanded(node, names, (), NotFound(f"There is no temporary view {node.name!r}."))


def _is_temporary(node: exp.Table, names: Names) -> bool:
    if not node.name or not names.place(node).is_temporary:
        return False
    around: exp.Expr | None = node.parent
    while around is not None and not node.db:
        with_ = around.args.get("with_")
        if with_ is not None and any(expression.alias == node.name for expression in with_.expressions):
            return False
        around = around.parent
    return True


def create_view_statement(name: str, view: View) -> str:
    """A CREATE VIEW that makes a view like this one."""
    columns = ", ".join(
        _quoted(column.name) + (f" COMMENT {_literal(column.comment)}" if column.comment else "")
        for column in view.columns
    )
    text = f"CREATE VIEW {'.'.join(map(_quoted, name.split('.')))} ({columns})"
    if view.comment:
        text += f"\nCOMMENT {_literal(view.comment)}"
    if view.options:
        pairs = [f"{_literal(key)} = {_literal(value)}" for key, value in sorted(view.options.items())]
        text += f"\nTBLPROPERTIES ({', '.join(pairs)})"
    return f"{text}\nAS {view.query}"


def described_view(view: View, extended: bool) -> list[tuple[Any, ...]]:
    """The rows of DESCRIBE for a view."""
    if not extended:
        return [
            (column.name, column.type.removesuffix(" NOT NULL"), "YES", "", "", column.comment or "")
            for column in view.columns
        ]
    facts = [("type", "VIEW"), ("query", view.query), ("comment", view.comment or ""), *sorted(view.options.items())]
    return [("column", column.name, column.type) for column in view.columns] + [("property", *fact) for fact in facts]


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(SnaplineSql)


def _literal(text: str) -> str:
    return exp.Literal.string(text).sql(SnaplineSql)
