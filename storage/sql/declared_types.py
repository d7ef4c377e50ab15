"""The declared types of computed columns: their values are cast to them, by the rules of Spark's ANSI mode."""

from sqlglot import exp

from ..data_types import MAX_LENGTH, DataType, parse_type
from ..errors import InvalidRequest, StorageError
from ..metadata.derived_columns import ComputedColumn
from .dialect import SnaplineSql

_OTHERS = {"TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP_LTZ": "TIMESTAMP", "VARCHAR": "STRING", "CHAR": "STRING"}


def declared_type(column: ComputedColumn) -> DataType | None:
    """The type that a computed column is declared with; None if there is none, or one of another system."""
    try:
        return parse_type(column.data_type) if column.data_type else None
    except StorageError:
        return None


def cast_to_declared(tree: exp.Expr, column: ComputedColumn) -> exp.Expr:
    """A computed column's expression as a value of the type that it is declared with. Without one, or with one that queries
    cannot cast to, it stays as it is.
    """
    declared = declared_type(column)
    if declared is None or declared.is_nested or declared.root == "TIME":
        return tree
    word = "BINARY" if declared.is_bytes else _OTHERS.get(declared.root, declared.root)
    if declared.root == "DECIMAL":
        word = f"DECIMAL({declared.precision}, {declared.scale})"
    return exp.Cast(this=tree, to=exp.DataType.build(word, dialect=SnaplineSql))


def refuse_length(column: ComputedColumn) -> None:
    """Raise InvalidRequest for a computed column whose type has a length, which nobody would check."""
    declared = declared_type(column)
    if declared is not None and (declared.is_text or declared.is_bytes) and declared.length < MAX_LENGTH:
        raise InvalidRequest(
            f"Computed column {column.name!r} is {declared}: the length of a computed value is not checked. Declare it STRING, "
            "or BINARY."
        )
