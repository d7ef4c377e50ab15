"""The word DEFAULT in INSERT, UPDATE and MERGE, and the constant that it stands for."""

from sqlglot import exp

from storage import DataField, default_of

_CASTS = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP_NTZ", "TIME": "TIME"}


def is_default(node: exp.Expr) -> bool:
    """Whether the word stands there, and no column that is named in quotes or with its table."""
    if isinstance(node, exp.Column):
        name = node.this
        return isinstance(name, exp.Identifier) and not name.args.get("quoted") and node.sql().upper() == "DEFAULT"
    return isinstance(node, exp.Var) and node.name.upper() == "DEFAULT"


def default_tree(field: DataField) -> exp.Expr:
    """The default of a column as a constant; NULL if it has none. Raises Unsupported for one that cannot be read."""
    scalar = default_of(field)
    if scalar is None:
        return exp.Null()
    value = scalar.as_py()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if field.type.is_text:
        return exp.Literal.string(value)
    if field.type.root in _CASTS:
        return exp.cast(
            exp.Literal.string(str(value)), exp.DataType.build(_CASTS[field.type.root], dialect="databricks")
        )
    number = exp.Literal.number(format(abs(value), "f") if field.type.root == "DECIMAL" else repr(abs(value)))
    return exp.Neg(this=number) if value < 0 else number
