"""Conditions written as SQL text, such as `day < '2024-01-01' AND id IN (1, 2)`, turned into predicates by sqlglot."""

from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..errors import InvalidRequest
from ..read.predicate import And, Comparison, IsIn, IsNull, Or, Predicate, StartsWith

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_HELP = (
    "A condition compares columns with constants: =, !=, <, <=, >, >=, IN, BETWEEN, LIKE 'prefix%', IS NULL, "
    "combined by AND, OR and NOT."
)


def parse_predicate(text: str) -> Predicate:
    """The predicate that a SQL condition stands for. Raises InvalidRequest that shows the part it cannot use."""
    try:
        tree = sqlglot.parse_one(text, into=exp.Condition, dialect="spark")
    except SqlglotError as error:
        raise InvalidRequest(f"{text!r} is not a condition: {str(error).splitlines()[0]} {_HELP}") from None
    return predicate_of(tree)


def predicate_of(node: Any) -> Predicate:
    """The predicate that a condition in sqlglot's tree stands for. Raises InvalidRequest if there is none."""
    if isinstance(node, exp.Paren):
        return predicate_of(node.this)
    if isinstance(node, exp.And):
        return And((predicate_of(node.left), predicate_of(node.right)))
    if isinstance(node, exp.Or):
        return Or((predicate_of(node.left), predicate_of(node.right)))
    if isinstance(node, exp.Not):
        return predicate_of(node.this).negated()
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return IsNull(_column(node.this))
    if isinstance(node, exp.Between):
        column = _column(node.this)
        low, high = literal_of(node.args["low"]), literal_of(node.args["high"])
        return And((Comparison(column, ">=", low), Comparison(column, "<=", high)))
    if isinstance(node, exp.In) and node.expressions:
        return IsIn(_column(node.this), tuple(literal_of(one) for one in node.expressions))
    if isinstance(node, exp.Like):
        return _like(node)
    if isinstance(node, exp.Column):
        return Comparison(_column(node), "=", True)
    operator = _OPERATORS.get(type(node))
    if operator is None:
        raise InvalidRequest(f"{node.sql()!r} cannot be used as a condition. {_HELP}")
    left, right = node.left, node.right
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        left, right, operator = right, left, _SWAPPED.get(operator, operator)
    return Comparison(_column(left), operator, literal_of(right))


def _like(node: exp.Like) -> Predicate:
    pattern = literal_of(node.expression)
    if not isinstance(pattern, str) or not pattern.endswith("%") or set(pattern[:-1]) & {"%", "_", "\\"}:
        raise InvalidRequest(f"{node.sql()!r}: only patterns of the form 'prefix%' are supported.")
    return StartsWith(_column(node.this), pattern[:-1])


def _column(node: Any) -> str:
    if not isinstance(node, exp.Column):
        raise InvalidRequest(f"{node.sql()!r} is not a column. {_HELP}")
    return str(node.name)


def literal_of(node: Any) -> Any:
    """The value of a constant in sqlglot's tree; numbers as text. Raises InvalidRequest for anything else."""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg):
        return f"-{literal_of(node.this)}"
    if isinstance(node, exp.Literal):
        return str(node.this)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return str(node.this.this)
    raise InvalidRequest(f"{node.sql()!r} is not a constant. {_HELP}")
