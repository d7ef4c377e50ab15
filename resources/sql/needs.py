"""What a query needs of each source: columns and conditions.

sqlglot qualifies a copy of the statement and pushes its conditions down; what that says of each table is given to the reader.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp
from sqlglot.errors import OptimizeError, SqlglotError
from sqlglot.optimizer.pushdown_predicates import pushdown_predicates
from sqlglot.optimizer.pushdown_projections import pushdown_projections
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.optimizer.simplify import simplify

from storage import InvalidRequest, Predicate, metadata_of
from storage.sql.dialect import SnaplineSql
from storage.sql.predicate_text import predicate_of

from .place import at
from .query import Input, known_columns, sql_type
from .row_metadata import PREFIX

# Others, such as '2024', are days in Spark too: it reads them itself.
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
# With more of them the time to simplify them, which grows with their square, is more than what it saves.
_MOST_CONDITIONS = 150


def pruned(tree: exp.Expr, inputs: list[Input], outer: Collection[str]) -> list[Input]:
    """The inputs of a query with what it needs of each; as they are where that cannot be told.

    `outer`: as in `prepare`. Raises InvalidRequest for a column that no table has.
    """
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
