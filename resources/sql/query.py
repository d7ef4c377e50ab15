"""A SELECT before it runs: every table found and fixed at a snapshot, and for each the columns and conditions that matter.

sqlglot qualifies a copy of the statement and pushes its conditions down; what that says of each table is given to the
reader. The statement itself runs as it was written, over views that hold at least the rows it needs.
"""

import difflib
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import OptimizeError, SqlglotError
from sqlglot.optimizer.pushdown_predicates import pushdown_predicates
from sqlglot.optimizer.pushdown_projections import pushdown_projections
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.optimizer.simplify import simplify
from sqlglot.schema import MappingSchema

from storage import InvalidRequest, NotFound, Predicate, Scan, metadata_field, metadata_of
from storage.engines.kafka_rows import read_topic
from storage.sql.declared_types import cast_to_declared
from storage.sql.dialect import HINT_OPTIONS, SnaplineSql
from storage.sql.predicate_text import predicate_of
from storage.sql.pure_expression import columns_of, parse_expression

from .names import Source
from .place import at
from .row_metadata import COMPUTES, PREFIX, RowMetadata
from .struct_stars import expand_structs

_SQL_TYPES: list[tuple[Callable[[pa.DataType], bool], str]] = [
    (pa.types.is_integer, "BIGINT"),
    (pa.types.is_floating, "DOUBLE"),
    (pa.types.is_decimal, "DECIMAL"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_timestamp, "TIMESTAMP"),
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_binary, "BINARY"),
]

# Others, such as '2024', are days in Spark too: it reads them itself.
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
# With more of them the time to simplify them, which grows with their square, is more than what it saves.
_MOST_CONDITIONS = 150


Expand = Callable[[exp.Table, tuple[str, ...], NotFound], tuple[exp.Subquery, tuple[str, ...]]]


@dataclass(frozen=True)
class Input:
    """A source of a query, the view that stands for it, and what is read of it."""

    view: str
    source: Source
    columns: tuple[str, ...] | None = None
    where: Predicate | None = None
    # The same as text: as the statement has it, and of the columns' names alone.
    condition: str = ""
    where_text: str = ""
    # Columns, in lower case, that are read whatever the query needs: others are computed from them.
    needed: frozenset[str] = frozenset()
    # Metadata of the rows that is read beside the table's columns.
    metadata: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The columns that the view may have."""
        return pa.schema([*self.source.schema, *map(metadata_field, self.metadata)])

    @property
    def rows(self) -> pa.Table | None:
        """The rows that are read as they are, rather than planned: those that are given, and those of a topic."""
        if self.source.kafka is not None:
            return read_topic(self.source.kafka, self.columns)
        return self.source.rows

    def scan(self) -> Scan:
        """The read that the query needs, planned."""
        assert self.source.table is not None
        return self.source.table.scan(columns=self._read_columns, where=self.where)

    def unfiltered(self) -> Scan:
        """The same read without its filter."""
        assert self.source.table is not None
        return self.source.table.scan(columns=self._read_columns)

    @property
    def _read_columns(self) -> tuple[str, ...] | None:
        return tuple(self.schema.names) if self.metadata and self.columns is None else self.columns


@dataclass(frozen=True)
class Query:
    """A statement that reads views, and what they stand for."""

    tree: exp.Expr
    inputs: tuple[Input, ...]


def prepare(
    tree: exp.Expr,
    look_up: Callable[[exp.Table], Source],
    prefix: str,
    outer: Collection[str] = (),
    expand: Expand | None = None,
    *,
    streaming: bool = False,
) -> Query:
    """Make a query ready. Raises InvalidRequest or NotFound that points at the name that is wrong.

    `outer`: the columns around a query inside of a statement, which it may name as well. `expand` puts a query in the place of
    a name that is no table's. `streaming`: the tables are followed, which tells no metadata of rows.
    """
    tree = _with_names(tree.copy())
    if isinstance(tree, exp.Select) and not tree.expressions:
        raise InvalidRequest("A SELECT names what it selects: write columns, or *, before FROM.")
    inputs: list[Input] = []
    around: dict[int, tuple[str, ...]] = {}
    places: dict[str, set[tuple[str, str]]] = {}
    left = deque(_tables(tree))
    while left:
        node = left.popleft()
        try:
            source = look_up(node)
        except NotFound as error:
            if expand is None:
                raise
            made, way = expand(node, around.get(id(node), ()), error)
            # By themselves: a name of theirs is none of a WITH around them.
            inner = list(_tables(_query_of_view(made)))
            around |= {id(each): way for each in inner}
            left.extendleft(reversed(inner))
            continue
        view = f"{prefix}_{len(inputs)}"
        if not node.alias:
            if source.table is not None:
                places.setdefault(node.name, set()).add((source.catalog, source.table.identifier.database))
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        node.args.pop(HINT_OPTIONS, None)
        node.set("this", exp.to_identifier(view))
        for part in ("db", "catalog", "version"):
            node.set(part, None)
        computed = _computed(source)
        needed = {column.lower() for _, made in computed for column in columns_of(made)}
        inputs.append(Input(view, source, needed=frozenset(needed)))
        if computed:
            _compute(node, computed)
    _refuse_ambiguous_words(tree, inputs, outer)
    aliases = {node.alias_or_name for node in tree.find_all(exp.Table, exp.Subquery)}
    for column in tree.find_all(exp.Column):
        # db.t.c is t.c by now.
        if column.args.get("db") and column.table in aliases and is_of(column, places.get(column.table)):
            column.set("db", None)
            column.set("catalog", None)
    wanted = RowMetadata(tree, {source.view: source.source for source in inputs}, outer).resolve()
    if wanted and streaming:
        raise InvalidRequest(
            f"{wanted.popitem()[1][0]!r} is metadata of the rows of a table, and a stream reads changes: read the table in batch."
        )
    inputs = [replace(source, metadata=wanted.get(source.view, ())) for source in inputs]
    expand_structs(tree, {source.view: source.schema for source in inputs})
    return Query(tree, tuple(_pruned(tree, inputs, outer)))


def is_of(column: exp.Column, places: Collection[tuple[str, str]] | None) -> bool:
    """Whether a column that names a database, and maybe a catalog, is of the only table of that name. `places`: the catalogs
    and databases of such tables, None if they are not known.
    """
    if places is None:
        return True
    [(catalog, database), *others] = places
    return not others and column.text("db") == database and column.text("catalog") in ("", catalog)


def _refuse_ambiguous_words(tree: exp.Expr, inputs: list[Input], outer: Collection[str]) -> None:
    """Raise InvalidRequest for `current_date` and its like beside a column of that name: in Spark the column goes first."""
    words = list(
        tree.find_all(exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentUser, exp.CurrentTime, exp.SessionUser)
    )
    if not words:
        return
    held = {name.lower() for source in inputs for name in source.source.schema.names}
    held |= {made.name.lower() for source in inputs for made in source.source.computed} | {
        name.lower() for name in outer
    }
    held |= {name.name.lower() for alias in tree.find_all(exp.TableAlias) for name in alias.columns}
    aliases = list(tree.find_all(exp.Alias))
    for word in words:
        name = word.sql_name().lower()
        clause = word.find_ancestor(exp.Order, exp.Having, exp.Group, exp.Select)
        own = None if not isinstance(clause, exp.Select) else clause
        others = {alias.alias.lower() for alias in aliases if own is None or alias.parent is not own}
        if name in held | others:
            raise at(
                word,
                InvalidRequest(
                    f"{name} is also the name of a column here: write `{name}` in back quotes for the column. For the "
                    "function give the column another name."
                ),
            )


def _query_of_view(made: exp.Subquery) -> exp.Expr:
    tree = made.this.args["from_"].this.this
    assert isinstance(tree, exp.Expr)
    return tree


def tables_read(tree: exp.Expr) -> list[exp.Table]:
    """Every table and view that a query names, once each."""
    return list(_tables(tree))


def as_select(values: exp.Values) -> exp.Select:
    """The SELECT of the rows after VALUES; their columns have Spark's names. Raises InvalidRequest for rows that differ."""
    inner = values.copy()
    modifiers = {key: inner.args.pop(key) for key in ("order", "limit", "offset") if inner.args.get(key)}
    _name_columns(inner)
    select = exp.select("*").from_(inner)
    for key, value in modifiers.items():
        select.set(key, value)
    return select


def _with_names(tree: exp.Expr) -> exp.Expr:
    """A query of which every list of values has names for its columns: `col1` and so on, as in Spark."""
    if isinstance(tree, exp.Values):
        return as_select(tree)
    for values in list(tree.find_all(exp.Values)):
        if isinstance(values.parent, exp.Subquery | exp.SetOperation | exp.CTE):
            values.replace(as_select(values))
        elif not isinstance(values.parent, exp.Insert):
            _name_columns(values)
    return tree


def _name_columns(values: exp.Values) -> None:
    widths = {len(row.expressions) if isinstance(row, exp.Tuple) else 1 for row in values.expressions}
    if len(widths) != 1:
        raise at(values, InvalidRequest("The rows after VALUES have different numbers of values."))
    alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("_values"))
    if not alias.columns:
        names = [exp.to_identifier(f"col{number}") for number in range(1, widths.pop() + 1)]
        values.set("alias", exp.TableAlias(this=alias.this or exp.to_identifier("_values"), columns=names))


def _computed(source: Source) -> list[tuple[str, exp.Expr]]:
    """The computed columns of a source, of which everything that they need is there at its version."""
    names = {name.lower() for name in source.schema.names}
    computed = [
        (
            column.name,
            cast_to_declared(parse_expression(column.expression, None, f"Computed column {column.name!r}"), column),
        )
        for column in source.computed
    ]
    return [(name, made) for name, made in computed if {column.lower() for column in columns_of(made)} <= names]


def _compute(node: exp.Table, computed: list[tuple[str, exp.Expr]]) -> None:
    """Put a query in the place of a table that adds its computed columns."""
    made = [exp.alias_(each, exp.to_identifier(name, quoted=True)) for name, each in computed]
    alias = node.args["alias"].copy()
    joins = node.args.pop("joins", None)
    node.set("alias", None)
    whole = exp.Subquery(this=exp.select(exp.Star(), *made).from_(node.copy()), alias=alias, joins=joins)
    whole.meta[COMPUTES] = True
    node.replace(whole)


def _tables(tree: exp.Expr) -> Iterator[exp.Table]:
    """Every table that a statement reads, names of common table expressions left out."""
    seen: set[int] = set()
    for scope in traverse_scope(tree):
        for source in scope.sources.values():
            if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier) and id(source) not in seen:
                seen.add(id(source))
                yield source


def _pruned(tree: exp.Expr, inputs: list[Input], outer: Collection[str]) -> list[Input]:
    schema: dict[str, Any] = {
        source.view: {field.name: sql_type(field.type) for field in source.schema} for source in inputs
    }
    conditions = sum(1 for _ in tree.find_all(exp.Connector))
    if conditions > 10 * _MOST_CONDITIONS or _reads_unnamed(tree):
        return inputs
    try:
        analysed = qualify(tree.copy(), schema=known_columns(schema), dialect=SnaplineSql, identify=False)
    except OptimizeError:
        _refuse_unknown(tree, inputs, outer)
        return inputs
    except SqlglotError:
        # The engine will say what is wrong with it, if anything is.
        return inputs
    if conditions > _MOST_CONDITIONS:
        return inputs
    if any(not is_count_of_rows(star) for star in analysed.find_all(exp.Star)):
        # It stands for columns that the analysis does not name.
        return inputs
    try:
        analysed = pushdown_predicates(simplify(analysed, dialect=SnaplineSql), dialect=SnaplineSql)
        analysed = pushdown_projections(analysed)
        needs, filters = _needs(analysed, schema)
    except (SqlglotError, KeyError, AttributeError, ValueError, TypeError):
        return inputs
    # What the text names has to be there, whether its values are used or not; so has what EXCEPT leaves out.
    named = {column.name for column in tree.find_all(exp.Column)}
    named |= {column.name for star in tree.find_all(exp.Star) for column in star.args.get("except_") or []}
    return [
        _with_needs(source, _both(needs.get(source.view), named), filters.get(source.view, [])) for source in inputs
    ]


def is_count_of_rows(star: exp.Star) -> bool:
    """Whether a * is that of count(*), which stands for no column."""
    return isinstance(star.parent, exp.Count) and not any(star.args.values())


def _reads_unnamed(tree: exp.Expr) -> bool:
    """Whether a query has a part that needs columns which it does not name: all are read then."""
    for star in tree.find_all(exp.Star):
        outermost = star.parent if isinstance(star.parent, exp.Column) else star
        selected = isinstance(outermost.parent, exp.Select) and outermost.arg_key == "expressions"
        if not selected and not is_count_of_rows(star):
            return True
    for join in tree.find_all(exp.Join):
        if join.method.upper() == "NATURAL":
            return True
    if tree.find(exp.Pivot) or any(isinstance(node.this, exp.Subquery) for node in tree.find_all(exp.Lateral)):
        return True
    relations = {each.alias_or_name.lower() for each in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    return any(not each.table and each.name.lower() in relations for each in tree.find_all(exp.Column))


def refuse_open(query: Query, statement: str) -> None:
    """Raise InvalidRequest for a query that may name columns of others around it."""
    schema = {source.view: {field.name: sql_type(field.type) for field in source.schema} for source in query.inputs}
    try:
        qualify(query.tree.copy(), schema=known_columns(schema), dialect=SnaplineSql, identify=False)
    except SqlglotError as error:
        raise InvalidRequest(
            f"{statement} cannot be read inside of another query: {str(error).splitlines()[0]}"
        ) from None


def _both(columns: set[str] | None, named: set[str]) -> set[str] | None:
    return None if columns is None else columns | named


def _with_needs(read: Input, columns: set[str] | None, conditions: list[tuple[Predicate, str, str]]) -> Input:
    if read.source.table is None and read.source.kafka is None:
        return read
    names = read.schema.names
    if columns is not None:
        wanted = {name.lower() for name in columns} | read.needed
        kept = tuple(name for name in names if name.lower() in wanted)
        # count(*) needs rows without any column.
        read = replace(read, columns=kept or (names[0],))
    where: Predicate | None = None
    for predicate, _, _ in conditions:
        where = predicate if where is None else where & predicate
    condition, where_text = (
        " AND ".join(shown for _, shown, _ in conditions),
        " AND ".join(text for _, _, text in conditions),
    )
    return replace(read, where=where, condition=condition, where_text=where_text)


def _needs(
    tree: exp.Expr, schema: Mapping[str, Mapping[str, str]]
) -> tuple[dict[str, set[str]], dict[str, list[tuple[Predicate, str, str]]]]:
    columns: dict[str, set[str]] = {view: set() for view in schema}
    filters: dict[str, list[tuple[Predicate, str, str]]] = {}
    for scope in traverse_scope(tree):
        views = {
            alias: source.name
            for alias, source in scope.sources.items()
            if isinstance(source, exp.Table) and source.name in schema
        }
        for column in scope.columns:
            if column.table in views:
                columns[views[column.table]].add(column.name)
        for alias, predicate in _conditions(scope, views, schema):
            filters.setdefault(views[alias], []).append(predicate)
    return columns, filters


def _conditions(
    scope: Scope, views: Mapping[str, str], schema: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, tuple[Predicate, str, str]]]:
    """The conditions of a SELECT that speak of one table alone and can be told to its reader."""
    where = scope.expression.args.get("where") if isinstance(scope.expression, exp.Select) else None
    if where is None:
        return
    absent = _may_be_absent(scope.expression)
    for condition in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        tables = {column.table for column in condition.find_all(exp.Column)}
        if len(tables) != 1 or condition.find(exp.Query):
            continue
        [alias] = tables
        if alias not in views or alias in absent:
            continue
        types = {name.lower(): (name, kind) for name, kind in schema[views[alias]].items()}
        pushed = _predicate(condition, types)
        if pushed is not None:
            predicate, text = pushed
            yield alias, (predicate, condition.sql(SnaplineSql), text)


def _may_be_absent(select: exp.Expr) -> set[str]:
    """The tables of outer joins whose rows may be missing: a condition on them is not about their rows alone."""
    views: set[str] = set()
    before = {select.args["from_"].this.alias_or_name} if select.args.get("from_") else set()
    for join in select.args.get("joins") or []:
        side, name = join.side.upper(), join.this.alias_or_name
        if side in ("RIGHT", "FULL"):
            views |= before
        if side in ("LEFT", "FULL"):
            views.add(name)
        before.add(name)
    return views


def _predicate(condition: exp.Expr, types: Mapping[str, tuple[str, str]]) -> tuple[Predicate, str] | None:
    """A condition as the reader takes it, and its text, if it means the same there as in the engine."""
    copy = condition.copy()
    kinds = set()
    for column in copy.find_all(exp.Column):
        if column.name.lower() not in types:
            return None
        name, kind = types[column.name.lower()]
        if name.startswith(PREFIX) and metadata_of(name) is not None:
            # What is made when rows are read says nothing of files.
            return None
        kinds.add(kind)
        column.replace(exp.column(exp.to_identifier(name, quoted=True)))
    if len(kinds) != 1:
        return None
    [kind] = kinds
    for literal in copy.find_all(exp.Literal):
        cast_to = literal.parent.to.this if isinstance(literal.parent, exp.Cast) else None
        numeric = not literal.is_string and cast_to is None
        fits = {
            "BIGINT": numeric and literal.is_int,
            "DECIMAL": numeric,
            "TEXT": literal.is_string and cast_to is None,
            "DATE": literal.is_string
            and cast_to in (None, exp.DataType.Type.DATE)
            and bool(_DAY.fullmatch(literal.this)),
        }.get(kind, False)
        if not fits:
            return None
    if kind not in ("BIGINT", "DECIMAL", "TEXT", "DATE"):
        return None
    try:
        predicate = predicate_of(copy)
        # Others are put beside it.
        return predicate, (exp.paren(copy, copy=False) if isinstance(copy, exp.Or) else copy).sql(SnaplineSql)
    except InvalidRequest:
        return None


def known_columns(schema: Mapping[str, Mapping[str, str]]) -> MappingSchema:
    """Columns and their types by view, as sqlglot takes them.

    It would read names as SQL, of which a semicolon or a comment ends some; those in statements are in lower case by then.
    """
    lower: dict[str, object] = {
        view: {name.lower(): kind for name, kind in columns.items()} for view, columns in schema.items()
    }
    return MappingSchema(lower, dialect=SnaplineSql, normalize=False)


def sql_type(kind: pa.DataType) -> str:
    """The name that sqlglot's type checks know for an Arrow type; TEXT for those without one."""
    return next((name for matches, name in _SQL_TYPES if matches(kind)), "TEXT")


# Functions that group rows by time.
_WINDOWS = ("window", "session_window")


def _refuse_unknown(tree: exp.Expr, inputs: list[Input], outer: Collection[str]) -> None:
    """Raise InvalidRequest for a column that no table has, with the nearest name."""
    names = [name for source in inputs for name in source.source.schema.names]
    names += [computed.name for source in inputs for computed in source.source.computed]
    names += outer
    known = {name.lower(): name for name in names}
    made = {node.alias.lower() for node in tree.find_all(exp.Alias)} | {
        name.name.lower() for alias in tree.find_all(exp.TableAlias) for name in alias.columns
    }
    if any(call.name.lower() in _WINDOWS for call in tree.find_all(exp.Anonymous)):
        # A window of time is a struct of that name.
        made |= {*_WINDOWS, "start", "end"}
    for column in tree.find_all(exp.Column):
        name = column.name.lower()
        if name in known or name in made or isinstance(column.this, exp.Star) or column.find_ancestor(exp.Lambda):
            continue
        near = difflib.get_close_matches(name, [*known, *made], n=1)
        hint = (
            f"Did you mean {known.get(near[0], near[0])!r}?"
            if near
            else f"Columns: {', '.join(sorted(known.values()))}."
        )
        raise at(column, InvalidRequest(f"There is no column {column.name!r}. {hint}")) from None


def described(given: Input) -> dict[str, Any]:
    """What is read of an input, for EXPLAIN: snapshot, columns, condition, files read and skipped."""
    if given.source.table is None:
        return {
            "table": given.source.name,
            "snapshot": None,
            "columns": "",
            "condition": "",
            "files": None,
            "skipped": None,
        }
    scan, everything = given.scan(), given.source.table.scan()
    read = sum(len(split.file_paths) for split in scan.splits)
    total = sum(len(split.file_paths) for split in everything.splits)
    return {
        "table": given.source.name,
        "snapshot": scan.snapshot.id if scan.snapshot else None,
        "columns": ", ".join(given.columns or given.schema.names),
        "condition": given.condition,
        "files": read,
        "skipped": total - read,
    }
