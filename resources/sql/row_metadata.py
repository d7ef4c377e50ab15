"""Metadata columns of rows in a query: which of its names mean them, and the reads that bring them.

A name means metadata only where it means nothing else: no column of what the query reads, or of a query around it, and no name
that the SELECT gives. So a table needs no column for them, `*` does not have them, and no query changes its meaning. What is
read is put in the place of the table as a query with names that nobody else has.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from storage import InvalidRequest, metadata_field, metadata_of

from .names import Source
from .place import at

PREFIX = "__paimon_"
# Of a query that stands for a table with its computed columns.
COMPUTES = "snapline_computes"


@dataclass
class _Offer:
    """A table that a query reads, which can tell the metadata of its rows."""

    node: exp.Table
    alias: str
    number: int
    own: frozenset[str]
    # What is asked for, and under which names of its own.
    held: dict[str, str]

    def hold(self, key: str) -> str:
        return self.held.setdefault(key, f"__snapline_row_{self.number}_{key}")


class RowMetadata:
    """The metadata that a query asks for. `sources`: what stands behind its views, by their names."""

    def __init__(self, tree: exp.Expr, sources: Mapping[str, Source], outer: Collection[str]) -> None:
        self._tree = tree
        self._sources = sources
        self._outer = {name.lower() for name in outer}
        self._offers: dict[int, _Offer] = {}
        self._outputs: dict[int, frozenset[str] | None] = {}

    def resolve(self) -> dict[str, tuple[str, ...]]:
        """Put what stands for them in the place of the names that mean metadata; returns what has to be read of each view.

        Raises InvalidRequest for a name that is metadata of several tables.
        """
        asked = [candidate for candidate in self._tree.find_all(exp.Column) if self._may_mean(candidate)]
        offered = [(column, offer) for column in asked if (offer := self._offer_for(column)) is not None]
        for column, offer in offered:
            self._put(column, offer)
        used = [offer for offer in self._offers.values() if offer.held]
        for select in list(self._tree.find_all(exp.Select)) if used else []:
            self._hide(select)
        for offer in used:
            _read(offer, self._sources[offer.node.name])
        return {offer.node.name: tuple(f"{PREFIX}{key}" for key in offer.held) for offer in used}

    def _may_mean(self, column: exp.Column) -> bool:
        if metadata_of(column.name) is None or isinstance(column.this, exp.Star) or isinstance(column.parent, exp.Star):
            return False
        if column.args.get("db") or column.name.lower() in self._outer:
            return False
        scope: exp.Expr | None = column.find_ancestor(exp.Lambda)
        while scope is not None:
            if any(parameter.name.lower() == column.name.lower() for parameter in scope.expressions):
                return False
            scope = scope.find_ancestor(exp.Lambda)
        return True

    def _offer_for(self, column: exp.Column) -> _Offer | None:
        """The table whose metadata a name means; None if it means something else, or that cannot be told."""
        name = column.name.lower()
        select = _select_of(column)
        if select is None or (not column.table and _is_named(select, column)):
            return None
        candidates: list[_Offer] = []
        while select is not None:
            relations = _relations(select)
            if column.table:
                matching = [
                    from_item for from_item in relations if from_item.alias_or_name.lower() == column.table.lower()
                ]
                if matching:
                    offer = self._offer(matching[0])
                    return None if offer is None or name in offer.own else offer
            for relation in relations:
                columns = self._columns(relation)
                if columns is None or (column.table.lower() or name) in columns:
                    return None
            if not candidates and not column.table:
                candidates = [offer for from_item in relations if (offer := self._offer(from_item)) is not None]
            select = None if _is_in_from(select) else _select_of(select)
        if len(candidates) > 1:
            tables = ", ".join(candidate.alias for candidate in candidates)
            raise at(
                column,
                InvalidRequest(
                    f"{column.name!r} is metadata of the rows of several tables: {tables}. Write table.column."
                ),
            )
        return candidates[0] if candidates else None

    def _offer(self, relation: exp.Expr) -> _Offer | None:
        node = relation
        if isinstance(relation, exp.Subquery) and relation.meta.get(COMPUTES):
            node = relation.this.args["from_"].this
        source = self._sources.get(node.name) if isinstance(node, exp.Table) and not node.args.get("db") else None
        if source is None or source.table is None or not isinstance(node, exp.Table):
            return None
        if id(relation) not in self._offers:
            own = self._columns(relation) or frozenset()
            number = len(self._offers)
            self._offers[id(relation)] = _Offer(node, relation.alias_or_name, number, own, {})
        return self._offers[id(relation)]

    def _columns(self, relation: exp.Expr) -> frozenset[str] | None:
        """The columns of what a FROM reads, in lower case; None if that cannot be told."""
        alias = relation.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            return frozenset(column.name.lower() for column in alias.columns)
        if isinstance(relation, exp.Table):
            if relation.args.get("pivots") or relation.args.get("laterals"):
                return None
            source = self._sources.get(relation.name)
            if source is not None:
                return frozenset(name.lower() for name in source.schema.names)
            made = _with_of(relation)
            return None if made is None else self._columns(made) if made.alias_column_names else self._output(made.this)
        return self._output(relation.this) if isinstance(relation, exp.Subquery) else None

    def _output(self, query: exp.Expr) -> frozenset[str] | None:
        """The columns of a query, in lower case; None if that cannot be told."""
        if id(query) not in self._outputs:
            self._outputs[id(query)] = None
            self._outputs[id(query)] = self._output_of(query)
        return self._outputs[id(query)]

    def _output_of(self, query: exp.Expr) -> frozenset[str] | None:
        if isinstance(query, exp.SetOperation | exp.Subquery):
            return self._output(query.this)
        if not isinstance(query, exp.Select):
            return None
        names: set[str] = set()
        for projection in query.expressions:
            if not projection.is_star:
                names.add(projection.alias_or_name.lower())
                continue
            table = projection.table.lower() if isinstance(projection, exp.Column) else ""
            for relation in _relations(query):
                if not table or relation.alias_or_name.lower() == table:
                    columns = self._columns(relation)
                    if columns is None:
                        return None
                    names |= columns
        return frozenset(names)

    def _put(self, column: exp.Column, offer: _Offer) -> None:
        key = metadata_of(column.name)
        assert key is not None
        if f"{PREFIX}{key}" in offer.own:
            raise at(column, InvalidRequest(f"{offer.alias} has a column {PREFIX}{key}: its rows tell no {key}."))
        made: exp.Expr = exp.column(
            exp.to_identifier(offer.hold(key), quoted=True), table=exp.to_identifier(offer.alias, quoted=True)
        )
        if isinstance(column.parent, exp.Select) and column.arg_key == "expressions":
            made = exp.alias_(made, column.name, quoted=True)
        made.meta.update(column.this.meta)
        column.replace(made)

    def _hide(self, select: exp.Select) -> None:
        """Leave the columns that are read for metadata out of what a * stands for."""
        offers = [
            (from_item, offer)
            for from_item in _relations(select)
            if (offer := self._offers.get(id(from_item))) and offer.held
        ]
        if not offers:
            return
        for star in [node for node in select.find_all(exp.Star) if _select_of(node) is select]:
            outermost = star.parent if isinstance(star.parent, exp.Column) else star
            if isinstance(star.parent, exp.Count):
                continue
            if not isinstance(outermost.parent, exp.Select):
                raise at(
                    outermost,
                    InvalidRequest(
                        "Beside metadata of rows a * stands in the list of a SELECT, or in count(*), alone."
                    ),
                )
            table = outermost.table.lower() if isinstance(outermost, exp.Column) else ""
            hidden = [
                exp.to_identifier(name, quoted=True)
                for relation, offer in offers
                for name in offer.held.values()
                if not table or relation.alias_or_name.lower() == table
            ]
            if hidden:
                star.set("except_", [*(star.args.get("except_") or []), *hidden])


def with_metadata(source: Source, names: Collection[str]) -> Source:
    """A source of which metadata columns are read as well."""
    return replace(source, schema=pa.schema([*source.schema, *map(metadata_field, names)])) if names else source


def refuse_row_metadata(tree: exp.Expr, columns: Collection[str], statement: str, of: str = "") -> None:
    """Raise InvalidRequest for metadata of the rows of a table that a statement changes, in its conditions and values. `of`: only
    names that are said to be of that table.
    """
    own = {name.lower() for name in columns}
    for column in tree.find_all(exp.Column):
        if of and column.table.lower() != of.lower():
            continue
        if metadata_of(column.name) is None or column.name.lower() in own or column.find_ancestor(exp.Select):
            continue
        raise at(
            column,
            InvalidRequest(
                f"{column.name!r} is metadata of the rows, and {statement} takes the table's own columns. Choose rows by "
                f"a query: DELETE or UPDATE … WHERE id IN (SELECT id FROM t WHERE {column.name} …)."
            ),
        )


def _read(offer: _Offer, source: Source) -> None:
    """Put a query that has the metadata in the place of a table."""
    node = offer.node
    own = [exp.column(exp.to_identifier(name, quoted=True)) for name in source.schema.names]
    read = [
        exp.alias_(exp.column(exp.to_identifier(f"{PREFIX}{key}", quoted=True)), name, quoted=True)
        for key, name in offer.held.items()
    ]
    around = node.parent.parent if node.parent is not None else None
    if isinstance(around, exp.Select) and isinstance(around.parent, exp.Subquery) and around.parent.meta.get(COMPUTES):
        around.set("expressions", [*own, *around.expressions[1:], *read])
        return
    alias = node.args["alias"].copy()
    joins = node.args.pop("joins", None)
    node.set("alias", None)
    node.replace(exp.Subquery(this=exp.select(*own, *read).from_(node.copy()), alias=alias, joins=joins))


def _relations(select: exp.Expr) -> list[exp.Expr]:
    """What a SELECT reads."""
    start = select.args.get("from_")
    joins = [*(select.args.get("joins") or []), *((start.this.args.get("joins") or []) if start else [])]
    others = [lateral for key in ("laterals",) for lateral in select.args.get(key) or []]
    return [*([start.this] if start else []), *(join.this for join in joins), *others]


def _select_of(node: exp.Expr) -> exp.Select | None:
    """The SELECT that a name, or a query, stands in."""
    enclosing = node.find_ancestor(exp.Select, exp.SetOperation, exp.CTE)
    if isinstance(enclosing, exp.CTE):
        return None
    if isinstance(enclosing, exp.SetOperation):
        return _select_of(enclosing) if isinstance(node, exp.Query) else None
    return enclosing if isinstance(enclosing, exp.Select) else None


def _is_in_from(select: exp.Select) -> bool:
    """Whether a SELECT is what another one reads: it sees nothing of that."""
    node: exp.Expr = select
    while isinstance(node.parent, exp.Subquery | exp.SetOperation):
        node = node.parent
    return isinstance(node.parent, exp.From | exp.Join) and node.arg_key == "this"


def _is_named(select: exp.Select, column: exp.Column) -> bool:
    """Whether a name is what the SELECT calls one of its columns, in a place where that counts."""
    name = column.name.lower()
    place: exp.Expr = column
    while place.parent is not None and place.parent is not select:
        place = place.parent
    if place.arg_key in ("where", "joins", "from_"):
        return False
    for projection in select.expressions:
        if projection is place:
            continue
        if isinstance(projection, exp.Alias) and projection.alias.lower() == name:
            return True
        if place.arg_key == "order" and isinstance(projection, exp.Column) and projection.name.lower() == name:
            return True
    return False


def _with_of(table: exp.Table) -> exp.CTE | None:
    """The query of a WITH that a name in a FROM means."""
    node: exp.Expr | None = table
    while node is not None:
        made = node.args.get("with_")
        for cte in made.expressions if made is not None else []:
            if cte.alias.lower() == table.name.lower():
                return cte if isinstance(cte, exp.CTE) else None
        node = node.parent
    return None
