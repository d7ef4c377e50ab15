"""Make a SELECT ready: every table found and fixed at a snapshot, columns that are computed put in, names judged.

The statement itself runs as it was written, over views that hold at least the rows it needs.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from storage import InvalidRequest, NotFound
from storage.sql.declared_types import cast_to_declared
from storage.sql.dialect import HINT_OPTIONS
from storage.sql.pure_expression import columns_of, parse_expression

from .names import Source
from .needs import pruned
from .place import at
from .query import Input, Query
from .row_metadata import COMPUTES, RowMetadata
from .struct_stars import expand_structs

Expand = Callable[[exp.Table, tuple[str, ...], NotFound], tuple[exp.Subquery, tuple[str, ...]]]


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
    inputs, places = _put_views(tree, look_up, prefix, expand)
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
    return Query(tree, tuple(pruned(tree, inputs, outer)))


def _put_views(
    tree: exp.Expr, look_up: Callable[[exp.Table], Source], prefix: str, expand: Expand | None
) -> tuple[list[Input], dict[str, set[tuple[str, str]]]]:
    """Put a view in the place of every table of a statement. Returns what the views stand for, and the catalogs and databases of
    the tables that were named without an alias.
    """
    inputs: list[Input] = []
    around: dict[int, tuple[str, ...]] = {}
    places: dict[str, set[tuple[str, str]]] = {}
    put: set[int] = set()
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
        put.add(id(node))
    _refuse_options_of_with([node for node in tree.find_all(exp.Table) if id(node) not in put])
    return inputs, places


def _refuse_options_of_with(others: Sequence[exp.Table]) -> None:
    """Raise InvalidRequest for options of what is no table: a query of WITH."""
    for node in others:
        if node.meta_get(HINT_OPTIONS) or node.args.get(HINT_OPTIONS):
            raise at(
                node,
                InvalidRequest(
                    f"{node.name} is a query of WITH, which takes no OPTIONS(…). Give them to the tables that it reads."
                ),
            )


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
