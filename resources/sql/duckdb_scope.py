"""What names mean in a SELECT that is compiled for DuckDB, by Spark's rules."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from storage import InvalidRequest
from storage.sql.dialect import SnaplineSql

from .duckdb_aggregates import QUERY_RULES
from .duckdb_decimals import Typed
from .duckdb_expressions import Expressions, field_of, unknown
from .duckdb_relations import Compiled, Relation
from .place import at
from .spark_types import SparkType


class Queries(Protocol):
    """Compiles queries."""

    def within(self, around: "Scope") -> "Queries":
        """The same inside of a SELECT, whose names are known too."""

    def of(self, node: exp.Expr) -> Compiled:
        """Raises InvalidRequest for what has no rule."""


@dataclass
class Scope:
    """What the names in a SELECT mean."""

    queries: "Queries"
    parent: "Scope | None"
    relations: list[Relation] = field(default_factory=list)
    # Columns that a join USING has made one of two.
    merged: dict[str, Typed] = field(default_factory=dict)
    # What the SELECT calls its columns, and whether that comes before the columns of tables.
    aliases: dict[str, Typed] = field(default_factory=dict)
    aliases_first: bool = False
    # Names that the SELECT gives to several of its columns.
    twice: set[str] = field(default_factory=set)
    windows: dict[str, exp.Expr] = field(default_factory=dict)
    # Which of the SELECT's columns are aggregates.
    aggregated: set[str] = field(default_factory=set)

    def column(self, node: exp.Column) -> Typed:
        """The column of that name here, or around this query. Raises InvalidRequest, listing the columns, if there is none."""
        column = self._find(node)
        if column is None:
            names = [name for relation in self.relations for name, _ in relation.columns]
            raise at(
                node,
                InvalidRequest(f"There is no column {node.sql(SnaplineSql)}. Columns: {', '.join(names) or 'none'}."),
            )
        return column

    def _find(self, node: exp.Column) -> Typed | None:
        if node.args.get("catalog"):
            raise unknown(node, "catalog")
        if node.args.get("db"):
            # table.column.field
            outer = self._find(exp.column(node.args["table"].copy(), node.args["db"].copy()))
            return None if outer is None else field_of(outer, node.this)
        if isinstance(node.this, exp.Star):
            raise unknown(node)
        column = self._qualified(node) if node.table else self._plain(node, node.name)
        if column is None and self.parent is not None:
            return self.parent._find(node)
        return column

    def _qualified(self, node: exp.Column) -> Typed | None:
        for relation in self.relations:
            if relation.alias.lower() == node.table.lower():
                return _column_of(relation, node, node.name)
        held = self._plain(node, node.table)
        return None if held is None or held.type.word != "struct" else field_of(held, node.this)

    def _plain(self, node: exp.Column, name: str) -> Typed | None:
        alias = self.aliases.get(name.lower())
        if self.aliases_first and alias is not None:
            self._refuse_twice(node, name)
            return alias
        if name.lower() in self.merged:
            return self.merged[name.lower()]
        columns = [column for relation in self.relations if (column := _column_of(relation, node, name)) is not None]
        if not columns and alias is not None:
            self._refuse_twice(node, name)
        if len(columns) > 1:
            tables = ", ".join(relation.alias for relation in self.relations if relation.column(name) is not None)
            raise at(node, InvalidRequest(f"Column {name!r} is in several tables: {tables}. Write table.column."))
        return columns[0] if columns else alias

    def _refuse_twice(self, node: exp.Column, name: str) -> None:
        if name.lower() in self.twice:
            raise at(node, InvalidRequest(f"The SELECT calls several columns {name!r}. Give them different names."))

    def query(self, node: exp.Expr) -> tuple[str, list[SparkType]]:
        """A query within this one: its text, and the types of its columns."""
        compiled = self.queries.within(self).of(node)
        return compiled.sql, list(compiled.types)

    def star(self, table: str | None) -> list[tuple[str, Typed]]:
        """The columns of `*`, or of `table.*`."""
        columns = []
        if table is None:
            columns += [(name, each) for name, each in self.merged_in_order()]
        for relation in self.relations:
            if table is None or relation.alias.lower() == table.lower():
                for number, (name, _) in enumerate(relation.columns):
                    if table is not None or (name.lower() not in self.merged and name.lower() not in relation.hidden):
                        columns.append((name, relation.at(number)))
        return columns

    def merged_in_order(self) -> list[tuple[str, Typed]]:
        """The columns that a join with USING has once, as name and value, in the order in which they were joined."""
        names = {name.lower(): name for relation in reversed(self.relations) for name, _ in relation.columns}
        return [(names[name], value) for name, value in self.merged.items()]


def _column_of(relation: Relation, node: exp.Column, name: str) -> Typed | None:
    try:
        return relation.column(name)
    except InvalidRequest as error:
        raise at(node, error) from None


class Compiler(Expressions):
    def __init__(self, scope: Scope) -> None:
        super().__init__(scope, QUERY_RULES)
        self.scope = scope

    def window(self, name: str) -> exp.Expr | None:
        return self.scope.windows.get(name.lower())


def refuse_order_by_others(node: exp.Select, compiler: Compiler, chosen: Sequence[tuple[str, Typed]]) -> None:
    """Raise InvalidRequest if rows of which each is there once are to be in the order of what is no part of them."""
    parts = {node.sql for _, node in chosen}
    for ordering in node.args["order"].expressions if node.args.get("order") is not None else []:
        if (
            not (isinstance(ordering.this, exp.Literal) and ordering.this.is_int)
            and compiler.of(ordering.this).sql not in parts
        ):
            raise at(ordering, InvalidRequest("ORDER BY of SELECT DISTINCT takes columns of the SELECT alone."))


def refuse_both(node: exp.Expr, scope: Scope) -> None:
    """Raise InvalidRequest for a name after the grouping that is a column of a table and of the SELECT, and not the same."""
    for column in node.find_all(exp.Column):
        alias = scope.aliases.get(column.name.lower())
        if column.table or alias is None or column.find_ancestor(exp.Query) is not node.parent:
            continue
        held = [candidate for relation in scope.relations if (candidate := relation.column(column.name)) is not None]
        if held and held[0].sql != alias.sql:
            raise at(
                column, InvalidRequest(f"{column.name!r} is a column of a table and of the SELECT. Write table.column.")
            )
