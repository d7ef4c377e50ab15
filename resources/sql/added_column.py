"""The column that an ALTER TABLE … ADD COLUMN describes."""

from sqlglot import exp

from storage import AddColumn, InvalidRequest
from storage.sql.commands import AddedColumn
from storage.sql.dialect import shown
from storage.sql.table_definition import nullable_of, type_of

from .unread import take


def added_column(node: AddedColumn) -> AddColumn:
    """Read it whole. Raises InvalidRequest for what it says and is not carried out."""
    column = node.this
    # Its name is the path that the node has beside it.
    take(column.this)
    column.args.get("this")
    comment = None
    constraints = column.args.get("constraints") or []
    nullable = nullable_of([constraint.args.get("kind") or constraint for constraint in constraints], column.name)
    for constraint in constraints:
        kind = constraint.args.get("kind")
        if isinstance(kind, exp.CommentColumnConstraint):
            if comment is not None:
                raise InvalidRequest(f"The COMMENT of column {column.name!r} is given twice. Give it once.")
            comment = kind.this.name
        elif isinstance(kind, exp.NotNullColumnConstraint):
            continue
        elif isinstance(kind, exp.DefaultColumnConstraint):
            raise InvalidRequest(
                f"Column {column.name!r}: ADD COLUMN … DEFAULT is not supported here, for Spark shows the default in the rows "
                "that are there, and Paimon null. ADD COLUMN, ALTER COLUMN … SET DEFAULT for rows to come, and UPDATE the others."
            )
        else:
            raise InvalidRequest(f"Column {column.name!r}: {shown(kind or constraint)} is not known here.")
    kind = type_of(column.args["kind"], nullable=nullable)
    return AddColumn(node.args["name"], kind, comment, bool(node.args.get("first")), node.args.get("after"))
