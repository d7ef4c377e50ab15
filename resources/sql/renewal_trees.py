"""Trees of the queries by which a stream renews groups of its sink."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from sqlglot import exp

from storage import InvalidRequest

# The view in which the groups to be made anew are, and its columns, followed by numbers.
GROUPS, GROUP = "__snapline_groups", "__group"
_Tree = TypeVar("_Tree", bound=exp.Expr)


def quoted_column(table: str, column: str, alias: str) -> exp.Expr:
    """A column of a table under another name, all three in quotes."""
    made = exp.column(exp.to_identifier(column, quoted=True), table=exp.to_identifier(table, quoted=True))
    return exp.alias_(made, alias, quoted=True)


def inlined(select: exp.Select) -> exp.Select:
    """A SELECT in which common table expressions stand where they are read."""
    tree = select.copy()
    before = tree.args.pop("with_", None)
    if before is None:
        return tree
    if before.args.get("recursive"):
        raise refused_query("WITH RECURSIVE")
    made: dict[str, exp.Expr] = {}
    for cte in before.expressions:
        if cte.args["alias"].columns:
            raise refused_query("WITH that names columns", "Name them in the SELECT.")
        made[cte.alias.lower()] = replaced(cte.this.copy(), made)
    return replaced(tree, made)


def replaced(tree: _Tree, made: Mapping[str, exp.Expr]) -> _Tree:
    """A tree in which queries stand for tables, by name."""
    for node in list(tree.find_all(exp.Table)):
        if node.name.lower() in made and not node.db:
            alias = exp.TableAlias(this=exp.to_identifier(node.alias_or_name, quoted=True))
            node.replace(exp.Subquery(this=made[node.name.lower()].copy(), alias=alias))
    return tree


def groups_query(tree: exp.Select, groups: Sequence[exp.Expr]) -> exp.Select:
    """The groups of rows, whether HAVING keeps them or not."""
    made = tree.copy()
    for key in ("having", "group", "distinct"):
        made.set(key, None)
    made.set("expressions", [exp.alias_(group.copy(), f"{GROUP}{number}") for number, group in enumerate(groups)])
    return made.distinct(copy=False)


def restricted(tree: exp.Select, groups: Sequence[exp.Expr]) -> exp.Select:
    """A SELECT of the groups in a view alone."""
    same = [
        exp.NullSafeEQ(this=exp.column(f"{GROUP}{number}", table=GROUPS), expression=group.copy())
        for number, group in enumerate(groups)
    ]
    held = exp.select("1").from_(GROUPS).where(*same)
    return tree.copy().where(exp.Exists(this=held), copy=False)


def refused_query(subject: str, advice: str = "") -> InvalidRequest:
    """The error that says of what a stream cannot renew the rows."""
    return InvalidRequest(
        f"A streaming INSERT cannot follow {subject} over a table whose rows change. "
        + (advice or "Run it in batch mode: SET 'execution.runtime-mode' = 'batch', INSERT OVERWRITE.")
    )
