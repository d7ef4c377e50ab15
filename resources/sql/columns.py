"""Which columns of tables the columns of a query are computed from: read off its text, never guessed.

A column is computed from the columns whose values its own are made of; conditions, joins and groups do not count.
"""

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.lineage import Node, lineage
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import build_scope

from lineage import SourceColumn
from storage.sql.dialect import SnaplineSql

from .fill import Fill
from .query import Input, Query, known_columns, sql_type


def column_sources(query: Query, fills: Sequence[Fill]) -> dict[str, list[SourceColumn]]:
    """For each column of the table that is filled from a query, the columns of tables that it comes from; columns of
    which that cannot be told are left out.
    """
    inputs = {source.view: source for source in query.inputs}
    schema = known_columns(
        {source.view: {field.name: sql_type(field.type) for field in source.schema} for source in query.inputs}
    )
    try:
        tree = qualify(query.tree.copy(), schema=schema, dialect=SnaplineSql, identify=False)
        scope = build_scope(tree)
        names = tree.named_selects  # type: ignore[attr-defined]
    except (SqlglotError, KeyError, AttributeError, ValueError):
        return {}
    by_column: dict[str, list[SourceColumn]] = {}
    for fill in fills:
        if fill.position is None or fill.position >= len(names):
            continue
        try:
            node = lineage(names[fill.position], tree, schema=schema, scope=scope, dialect=SnaplineSql, copy=False)
        except (SqlglotError, KeyError, AttributeError, ValueError):
            continue
        sources = _leaves(node, inputs)
        if sources:
            by_column[fill.name] = sources
    return by_column


def _leaves(node: Node, inputs: dict[str, Input]) -> list[SourceColumn] | None:
    """The columns of tables at the ends; None if there is an end that is no table, and so not known."""
    sources: set[SourceColumn] = set()
    for part in node.walk():
        if part.downstream:
            continue
        if not isinstance(part.expression, exp.Table):
            if part.expression.find(exp.Column) is not None:
                return None
            continue
        given = inputs.get(part.expression.name)
        if given is None or given.source.table is None:
            return None
        column = part.name.rpartition(".")[2].strip('`"')
        named = {name.lower(): name for name in given.source.schema.names}.get(column.lower())
        if column.lower() in given.metadata:
            # It is made of no column.
            continue
        if named is None:
            return None
        identifier = given.source.table.identifier
        sources.add((given.source.catalog, identifier.database, identifier.table, named))
    return sorted(sources)
