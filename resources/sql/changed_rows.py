"""DELETE, UPDATE and MERGE: the conditions and values of a statement that changes rows that are there.

A condition or a value sees the tables of which there is a row where it is computed: both for rows that match, one for those that
do not. What names a column of the other is refused.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from storage import DataField, InvalidRequest, SnapshotRef, StorageError
from storage.engines.merge_clauses import HIDDEN, SOURCE, TARGET, Kind, MergeClause, refuse_unreachable, seen_by
from storage.sql.dialect import SnaplineSql

from .default_words import default_tree, is_default
from .engine import Engine
from .names import Place
from .needs import is_count_of_rows
from .place import at
from .prepare import is_of
from .query import Input, Query


class Sources:
    """The queries inside of the conditions and values of a change, and the tables that they read, each at one version."""

    def __init__(
        self,
        prepare: Callable[[exp.Expr], Query],
        names: Mapping[str, str],
        default: str | None,
        engine: Engine,
        tables: Mapping[str, pa.Schema],
        fields: Sequence[DataField],
    ) -> None:
        """`names`: what the tables of the statement are called where the change is computed, by their names in the
        statement; `tables`: their columns, by that name; `default`: whose columns those without a table are; `fields`: the
        columns of the table that changes.
        """
        for name in (name for schema in tables.values() for name in schema.names if name.lower() in HIDDEN):
            raise InvalidRequest(
                f"UPDATE, DELETE and MERGE are not done beside a column {name!r}, a name that the platform uses: rename it "
                "(ALTER TABLE … RENAME COLUMN)."
            )
        self._tables = tables
        self._fields = {field.name: field for field in fields}
        self._prepare = prepare
        self._names = names
        self._default = default
        self._engine = engine
        self.inputs: list[Input] = []

    def has_field(self, name: str) -> bool:
        """Whether a name is that of a column of the table that changes, and of none of its tables."""
        return name.lower() not in self._names and name.lower() in {each.lower() for each in self._fields}

    @property
    def references(self) -> list[SnapshotRef]:
        """The snapshots that are read."""
        return [ref for source in self.inputs if (ref := source.source.ref) is not None]

    def condition(self, node: exp.Expr, sees: Sequence[str] = (TARGET,)) -> str:
        """A condition over the tables that it sees, in the engine's SQL. Raises InvalidRequest for what is none, and for
        columns of other tables.
        """
        tree = self._read(node, sees, self._default)
        try:
            return self._engine.condition(tree, self._seen(sees), self.inputs)
        except StorageError as error:
            raise at(node, error) from None

    def value(self, node: exp.Expr, column: str, sees: Sequence[str] = (TARGET,), default: str | None = None) -> str:
        """The value of a column, likewise; `default`: whose columns those without a table are."""
        if is_default(node) and node.name not in self._fields:
            node = default_tree(self._fields[column])
        tree = self._read(node, sees, default or self._default)
        to = self._tables[TARGET].field(column).type
        try:
            return self._engine.expression(tree, self._seen(sees), self.inputs, to, column)
        except StorageError as error:
            raise at(node, error) from None

    def _seen(self, sees: Sequence[str]) -> dict[str, pa.Schema]:
        return {name: held for name, held in self._tables.items() if name in sees}

    def _read(self, node: exp.Expr, sees: Sequence[str], default: str | None) -> exp.Expr:
        """An expression with its columns and its queries as they are called where the change is computed."""
        if len(sees) == 1:
            default = sees[0]
        copy = exp.Paren(this=node.copy())
        for star in copy.find_all(exp.Star):
            self._refuse_star(star)
        queries = [each for each in copy.find_all(exp.Query) if each.find_ancestor(exp.Query) is None]
        for named in list(copy.find_all(exp.Column)):
            self._rename(named, default, sees)
        for inner in queries:
            query = self._prepare(inner)
            self.inputs += query.inputs
            inner.replace(query.tree)
        expression: exp.Expr = copy.this
        return expression

    def of_source(self, columns: Sequence[str]) -> dict[str, str] | None:
        """The source's columns of those names; None if it is not known, or does not have them all."""
        held = {name.lower() for name in self._tables["source"].names}
        if not columns or not all(name.lower() in held for name in columns):
            return None
        called = next(name for name, table in self._names.items() if table == "source")
        return {name: self.value(_column(name, called), name, (TARGET, SOURCE)) for name in columns}

    def of_source_if_there(self, columns: Sequence[str]) -> dict[str, str]:
        """The source's columns of those names, without those that it does not have."""
        held = {name.lower() for name in self._tables["source"].names}
        return self.of_source([name for name in columns if name.lower() in held]) or {}

    def defaults(self, given: Collection[str]) -> dict[str, str]:
        """The defaults of the columns that are not given a value."""
        return {
            name: self.value(default_tree(field), name)
            for name, field in self._fields.items()
            if name not in given and field.default_value is not None
        }

    def column(self, node: exp.Expr) -> str:
        """The table's own name of a column. Raises InvalidRequest."""
        names = self._tables["target"].names
        for name in names:
            if name.lower() == node.name.lower():
                return str(name)
        raise at(node, InvalidRequest(f"There is no column {node.name!r}. Columns: {', '.join(names)}."))

    def _refuse_star(self, star: exp.Star) -> None:
        """Raise InvalidRequest for a * that takes the columns of what changes: beside them stand the platform's own."""
        if is_count_of_rows(star):
            return
        query = star.find_ancestor(exp.Query)
        column = star.parent if isinstance(star.parent, exp.Column) else None
        name = "" if column is None else column.table.lower()
        if (
            query is not None
            and column is not None
            and name
            and (name not in self._names or _names_of_queries(column, name))
        ):
            return
        # One of a query with tables of its own takes theirs.
        if query is not None and not name and (not isinstance(query, exp.Select) or query.args.get("from_")):
            return
        raise at(
            star,
            InvalidRequest(
                "* is not known in the conditions and values of UPDATE, DELETE and MERGE: name the columns."
            ),
        )

    def _rename(self, column: exp.Column, default: str | None, sees: Sequence[str]) -> None:
        inner = column.find_ancestor(exp.Query) is not None
        name = column.table.lower()
        if (
            inner
            and column.name.lower() not in HIDDEN
            and (not name or name not in self._names or _names_of_queries(column, name))
        ):
            return
        table = self._names.get(name) if name else default
        if column.name.lower() in HIDDEN:
            raise at(
                column,
                InvalidRequest(
                    f"No column {column.name!r} can be named in UPDATE, DELETE and MERGE: the platform uses the name."
                ),
            )
        if name and table is not None and table not in sees:
            raise at(
                column,
                InvalidRequest(
                    f"{column.sql()!r} is a column of the {'source' if table == SOURCE else 'table'}, which has no row here: "
                    f"{_NO_ROW[table]}"
                ),
            )
        is_path = bool(name) and (table is None or bool(column.args.get("db")))
        field = self._field_of_struct(column, default, sees) if is_path else None
        if field is not None:
            column.replace(field)
            return
        if name and (table is None or column.args.get("db")):
            raise at(
                column,
                InvalidRequest(f"{column.sql()!r} is of no table of this statement. Tables: {', '.join(self._names)}."),
            )
        if table is not None:
            column.set("table", exp.to_identifier(table))
            column.set("db", None)
            column.set("catalog", None)

    def _field_of_struct(self, column: exp.Column, default: str | None, sees: Sequence[str]) -> exp.Expr | None:
        """A path such as `st.x` or `t.st.x` as the field of a column that is a struct; None if there is no such column."""
        parts = column.parts
        table = self._names.get(parts[0].name.lower())
        first = [default] if default is not None else []
        tables = [*first, *(each for each in self._seen(sees) if each != default)] if table is None else [table]
        path = parts if table is None else parts[1:]
        for view in tables if len(path) > 1 else ():
            columns = self._tables[view]
            # Of a query the columns, or their types, are not always known.
            names = [held.name for held in columns if pa.types.is_struct(held.type) or pa.types.is_null(held.type)]
            name = next((held for held in names if held.lower() == path[0].name.lower()), None)
            if name is None and table is not None and not len(columns):
                name = path[0].name
            if name is not None:
                field: exp.Expr = _column(name, view)
                for part in path[1:]:
                    field = exp.Dot(this=field, expression=part.copy())
                return field
        return None


_NO_ROW = {
    SOURCE: "WHEN NOT MATCHED BY SOURCE is about rows of the table that no row of the source matches.",
    TARGET: "WHEN NOT MATCHED is about rows of the source that match none of the table.",
}


def _column(name: str, table: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def _names_of_queries(column: exp.Column, name: str) -> bool:
    """Whether a query around a column reads something under a name."""
    query = column.find_ancestor(exp.Query)
    while query is not None:
        held = [*query.find_all(exp.Table), *query.find_all(exp.Subquery)]
        if any(each.alias_or_name.lower() == name for each in held):
            return True
        query = query.find_ancestor(exp.Query)
    return False


def assignments(
    expressions: Sequence[exp.Expr], names: Mapping[str, str], sources: Sources, sees: Sequence[str] = (TARGET,)
) -> dict[str, str]:
    """`SET column = value, …`: the values in the engine's SQL, by column."""
    values: dict[str, str] = {}
    for assignment in expressions:
        if not isinstance(assignment, exp.EQ) or not isinstance(assignment.this, exp.Column):
            raise at(assignment, InvalidRequest(f"{assignment.sql(SnaplineSql)!r} sets no column: SET column = value."))
        column = assignment.this
        if sources.has_field(column.table):
            said = f"{column.sql()!r} is a field of column {column.table!r}, and whole columns are set"
            raise at(column, InvalidRequest(f"{said}: {column.table} = named_struct(…)."))
        if column.args.get("db") or (column.table and names.get(column.table.lower()) != "target"):
            raise at(
                column, InvalidRequest(f"{column.sql()!r} cannot be set: it is no column of the table that changes.")
            )
        if column.name.lower() in {name.lower() for name in values}:
            raise at(column, InvalidRequest(f"Column {column.name!r} is set twice."))
        name = sources.column(column)
        values[name] = sources.value(assignment.expression, name, sees)
    return values


def merge_clauses(
    merge: exp.Merge, names: Mapping[str, str], columns: Sequence[str], sources: Sources, fixed: Collection[str]
) -> list[MergeClause]:
    """The WHEN clauses of a MERGE; `fixed` are the columns that an update does not set. Raises InvalidRequest for what the table
    cannot do.
    """
    clauses: list[MergeClause] = []
    for when in merge.args["whens"].expressions:
        kind: Kind = (
            "matched"
            if when.args.get("matched")
            else "not matched by source"
            if when.args.get("source")
            else "not matched"
        )
        condition, then = when.args.get("condition"), when.args["then"]
        sees = seen_by(kind)
        text = sources.condition(condition, sees) if condition is not None else None
        if isinstance(then, exp.Update | exp.Insert):
            _refuse_unused_then(then)
        if isinstance(then, exp.Update):
            if any(isinstance(expression, exp.Star) for expression in then.expressions):
                if SOURCE not in sees:
                    raise at(when, InvalidRequest(f"UPDATE SET * takes the source's columns: {_NO_ROW[SOURCE]}"))
                values = sources.of_source([column for column in columns if column not in fixed])
                unset = sources.of_source_if_there(sorted(fixed)) if values is not None else {}
            else:
                values, unset = assignments(then.expressions, names, sources, sees), {}
            clauses.append(MergeClause(kind, "update", text, values, unset))
        elif isinstance(then, exp.Insert):
            clauses.append(MergeClause(kind, "insert", text, _inserted(then, columns, sources)))
        elif then.name.upper() == "DELETE":
            clauses.append(MergeClause(kind, "delete", text))
        else:
            raise InvalidRequest(f"WHEN … THEN {then.sql()} is not known: UPDATE, DELETE or INSERT.")
        try:
            refuse_unreachable(clauses)
        except InvalidRequest as error:
            raise at(when, error) from None
    return clauses


def _refuse_unused_then(then: exp.Update | exp.Insert) -> None:
    """Raise InvalidRequest for what UPDATE and INSERT in a MERGE cannot do."""
    used = {"expressions"} if isinstance(then, exp.Update) else {"this", "expression"}
    stars = [value for value in (then.this, *then.expressions) if isinstance(value, exp.Star)]
    if any(value for key, value in then.args.items() if key not in used) or any(
        any(star.args.values()) for star in stars
    ):
        raise InvalidRequest(
            f"WHEN … THEN {then.sql()}: conditions stand before THEN, and * takes all columns: no WHERE, no EXCEPT."
        )
    if len(then.expressions) > 1 and stars:
        raise InvalidRequest(f"WHEN … THEN {then.sql()}: * sets every column, so that nothing stands beside it.")


def _inserted(then: exp.Insert, columns: Sequence[str], sources: Sources) -> dict[str, str] | None:
    if isinstance(then.this, exp.Star) or then.expression is None:
        return sources.of_source(columns)
    listed = [expression.name for expression in then.this.expressions] if then.this is not None else list(columns)
    if len({each.lower() for each in listed}) < len(listed):
        raise InvalidRequest(f"A column is named twice: {', '.join(listed)}.")
    values = then.expression.expressions
    if len(listed) != len(values):
        raise InvalidRequest(f"INSERT names {len(listed)} columns and gives {len(values)} values.")
    named = [sources.column(exp.to_identifier(name)) for name in listed]
    assigned = {name: sources.value(value, name, (SOURCE,)) for name, value in zip(named, values, strict=True)}
    return {**assigned, **sources.defaults(named)}


def without_place(tree: exp.Expr, table: exp.Table, place: Place) -> None:
    """Take database and catalog away from the columns of a statement that name its table in full: `db.t.c` is `t.c`.

    Not inside of queries, where `t.c` may be of another table.
    """
    if table.alias:
        return
    for column in list(tree.find_all(exp.Column)):
        if not column.args.get("db") or column.table != table.name or column.find_ancestor(exp.Query) is not None:
            continue
        if is_of(column, [(place.catalog, place.identifier.database)]):
            column.set("db", None)
            column.set("catalog", None)
