"""`SELECT st.*` of a struct: its fields, by name, so that what reads the query sees which columns it has."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from sqlglot import exp

from storage import InvalidRequest

from .place import at


def expand_structs(tree: exp.Expr, schemas: Mapping[str, pa.Schema]) -> None:
    """Put the fields of a struct in the place of its star. `schemas`: the columns of the tables that are read, by the names of
    their views. What is a table's star, or a struct of a query within, is left as it is. Raises InvalidRequest for a field that
    EXCEPT names and that is not there.
    """
    for select in list(tree.find_all(exp.Select)):
        relations = _relations(select)
        fields = {id(expression): _fields(expression, relations, schemas) for expression in select.expressions}
        if any(fields.values()):
            select.set(
                "expressions",
                [made for expression in select.expressions for made in fields[id(expression)] or [expression]],
            )


def _relations(select: exp.Select) -> dict[str, exp.Expr]:
    """What a SELECT reads, by its name in lower case."""
    start = select.args.get("from_")
    nodes = [*([start.this] if start else []), *(join.this for join in select.args.get("joins") or [])]
    return {node.alias_or_name.lower(): node for node in nodes}


def _fields(
    projection: exp.Expr, relations: Mapping[str, exp.Expr], schemas: Mapping[str, pa.Schema]
) -> list[exp.Expr]:
    """The fields that a star stands for; none if it is no star of a struct of a table."""
    if (
        not isinstance(projection, exp.Column)
        or not isinstance(projection.this, exp.Star)
        or projection.args.get("catalog")
    ):
        return []
    table, name = projection.args.get("db"), projection.table
    if not name or (table is None and name.lower() in relations):
        return []
    wanted = relations if table is None else {table.name.lower(): relations.get(table.name.lower())}
    fields = list(_structs(wanted, schemas, name))
    if len(fields) != 1:
        return []
    relation, column = fields[0]
    star = projection.this
    if any(value for key, value in star.args.items() if key != "except_"):
        return []
    left_out = {node.name.lower(): node for node in star.args.get("except_") or []}
    held = [field.name for field in column.type]
    for key, node in left_out.items():
        if key not in [name.lower() for name in held]:
            raise at(node, InvalidRequest(f"EXCEPT names {node.name!r}, which is no field of {column.name}."))
    struct = exp.column(exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(relation, quoted=True))
    return [
        exp.alias_(exp.Dot(this=struct.copy(), expression=exp.to_identifier(name, quoted=True)), name, quoted=True)
        for name in held
        if name.lower() not in left_out
    ]


def _structs(
    relations: Mapping[str, exp.Expr | None], schemas: Mapping[str, pa.Schema], name: str
) -> Iterator[tuple[str, pa.Field]]:
    """The columns of that name that tables have and that are structs, each with the name of the table."""
    for node in relations.values():
        if isinstance(node, exp.Table) and node.name in schemas:
            for field in schemas[node.name]:
                if field.name.lower() == name.lower() and pa.types.is_struct(field.type):
                    yield node.alias_or_name, field
