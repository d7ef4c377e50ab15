"""Queries made ready for an engine: names looked up, tables pinned, views put in their place."""

from collections.abc import Collection
from itertools import count
from typing import Protocol

from sqlglot import exp

from storage import (
    NotFound,
)
from storage.sql.dialect import SnaplineSql

from .names import Place, Source
from .prepare import prepare
from .query import Query, refuse_open
from .statement_context import StatementContext
from .stream_sources import streamed
from .views import expanded

_view_numbers = count()
_PLACES = (exp.CurrentCatalog, exp.CurrentDatabase, exp.CurrentSchema)


class Prepare(Protocol):
    """Makes a query ready; see `QueryPreparation.prepare`."""

    def __call__(
        self, tree: exp.Expr, outer: Collection[str] = (), *, streaming: bool = False, writes_to: Place | None = None
    ) -> Query: ...


class QueryPreparation:
    """Prepares the queries of a session, those inside of other statements as well."""

    def __init__(self, context: StatementContext) -> None:
        self._context = context

    def prepare(
        self, tree: exp.Expr, outer: Collection[str] = (), *, streaming: bool = False, writes_to: Place | None = None
    ) -> Query:
        """A query with its tables found and pinned, ready for an engine. Lineage that it reads is brought up to date.

        `streaming`: the tables are followed, rather than read once. `writes_to`: the table that the statement changes, of which
        rows are read as well that no compaction has lifted yet: what is made of the others would undo them.
        """
        catalogs = self._context.names.lineage_catalogs(tree)
        if catalogs:
            self._context.session.stores_to_ask(*catalogs)
        tree = self._with_places(tree)

        def look_up(node: exp.Table) -> Source:
            source = self._context.names.source(node, writes_to)
            return streamed(source, node) if streaming else source

        return prepare(tree, look_up, f"__snapline_{next(_view_numbers)}", outer, self._expand, streaming=streaming)

    def _expand(
        self, node: exp.Table, around: tuple[str, ...], error: NotFound
    ) -> tuple[exp.Subquery, tuple[str, ...]]:
        """What stands for a view. By itself first: a name that it lacks is none of the query around it."""
        select = node.find_ancestor(exp.Select)
        may_see_others = bool(around) or (select is not None and select.find_ancestor(exp.Select) is not None)
        made, way = expanded(node, self._context.names, around, error)
        if not around:
            alone = prepare(made.this, self._context.names.source, "__view", (), self._expand_within)
            if may_see_others:
                refuse_open(alone, f"View {way[-1]}")
        return made, way

    def _expand_within(
        self, node: exp.Table, around: tuple[str, ...], error: NotFound
    ) -> tuple[exp.Subquery, tuple[str, ...]]:
        return expanded(node, self._context.names, around, error)

    def _with_places(self, tree: exp.Expr) -> exp.Expr:
        """A copy of a query in which current_catalog() and its like are what USE has said."""
        copy = tree.copy()
        for node in list(copy.find_all(*_PLACES)):
            text = (
                self._context.settings.catalog
                if isinstance(node, exp.CurrentCatalog)
                else self._context.settings.database
            )
            literal: exp.Expr = exp.Literal.string(text)
            if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
                literal = exp.alias_(literal, node.sql(SnaplineSql).lower(), quoted=True)
            node.replace(literal)
        return copy
