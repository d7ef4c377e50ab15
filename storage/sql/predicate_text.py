"""Conditions written as SQL text, such as `day < '2024-01-01' AND id IN (1, 2)`, turned into predicates by sqlglot."""

import re
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import TokenType

from ..errors import InvalidRequest
from ..read.predicate import And, Comparison, IsIn, IsNull, Or, Predicate, StartsWith
from .dialect import SnaplineSql

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
# What is used of a node; what else stands there is refused.
_USED: dict[type[exp.Expression], set[str]] = {
    exp.Is: {"this", "expression", "negate"},
    exp.Like: {"this", "expression", "negate"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions"},
    exp.Column: {"this"},
    **{operator: {"this", "expression"} for operator in _OPERATORS},
}
_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
# The parser calls itself for each of them.
MOST_NESTED = 16
_MOST_CHARACTERS = 1_000_000
# In a pattern a backslash makes the next of these an ordinary character.
_PREFIX_PATTERN = re.compile(r"(?:[^%_\\]|\\[%_\\])*%")
_ESCAPED = re.compile(r"\\([%_\\])")
# DATE '2024-05-01' and its like: the value is read from the text by the type of the column.
_PLAIN_CASTS = {*exp.DataType.TEMPORAL_TYPES, *exp.DataType.TEXT_TYPES, *exp.DataType.NUMERIC_TYPES}
_HELP = (
    "A condition compares columns with constants: =, !=, <, <=, >, >=, IN, BETWEEN, LIKE 'prefix%', IS NULL, "
    "combined by AND, OR and NOT."
)


def parse_predicate(text: str) -> Predicate:
    """The predicate that a SQL condition stands for. Raises InvalidRequest that shows the part it cannot use."""
    if len(text) > _MOST_CHARACTERS:
        raise InvalidRequest(
            f"The condition has {len(text)} characters, at most {_MOST_CHARACTERS} are read. Read in several parts."
        )
    try:
        if text.count("(") > MOST_NESTED or text.upper().count("NOT") > MOST_NESTED:
            _refuse_nested(text)
        trees = SnaplineSql().parse_into(exp.Condition, text)
        if len(trees) != 1:
            raise InvalidRequest(f"Give one condition, not {len(trees)} that a semicolon separates.")
        return predicate_of(trees[0])
    except SqlglotError as error:
        shown = text if len(text) <= 200 else f"{text[:200]}…"
        raise InvalidRequest(f"{shown!r} is not a condition: {_said(error)} {_HELP}") from None
    except RecursionError:
        raise _too_deep() from None


def is_condition(text: str) -> bool:
    """Whether a text is a condition that `parse_predicate` takes."""
    try:
        parse_predicate(text)
    except InvalidRequest:
        return False
    return True


def _said(error: SqlglotError) -> str:
    errors = error.errors if isinstance(error, ParseError) else []
    return errors[0].get("description") or str(error).splitlines()[0] if errors else str(error).splitlines()[0]


def _refuse_nested(text: str) -> None:
    depth = in_a_row = 0
    for token in sqlglot.tokenize(text, dialect=SnaplineSql):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if token.token_type != TokenType.L_PAREN:
            in_a_row = in_a_row + 1 if token.token_type == TokenType.NOT else 0
        if depth + in_a_row > MOST_NESTED:
            raise _too_deep()


def _too_deep() -> InvalidRequest:
    return InvalidRequest(
        f"The condition is nested too deeply: parentheses and NOT stand in each other at most {MOST_NESTED} deep."
    )


def predicate_of(node: Any) -> Predicate:
    """The predicate that a condition in sqlglot's tree stands for. Raises InvalidRequest if there is none."""
    negated = False
    while isinstance(node, exp.Paren | exp.Not):
        negated ^= isinstance(node, exp.Not)
        node = node.this
    if node is None:
        raise InvalidRequest(f"There is no condition. {_HELP}")
    if any(value for key, value in node.args.items() if key not in _USED.get(type(node), node.args)):
        raise InvalidRequest(f"{node.sql(SnaplineSql)!r} cannot be used as a condition. {_HELP}")
    negated ^= bool(node.args.get("negate"))
    predicate = _predicate_of(node)
    return predicate.negated() if negated else predicate


def _predicate_of(node: Any) -> Predicate:
    # Of what is written in a row, thousands are no depth.
    if isinstance(node, exp.And):
        return And(tuple(predicate_of(each) for each in node.flatten(unnest=False)))
    if isinstance(node, exp.Or):
        return Or(tuple(predicate_of(each) for each in node.flatten(unnest=False)))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return IsNull(_column(node.this))
    if isinstance(node, exp.Between):
        column = _column(node.this)
        low, high = _constant(node.args["low"]), _constant(node.args["high"])
        return And((Comparison(column, ">=", low), Comparison(column, "<=", high)))
    if isinstance(node, exp.In) and node.expressions:
        return IsIn(_column(node.this), tuple(_constant(expression) for expression in node.expressions))
    if isinstance(node, exp.Like):
        return _like(node)
    if isinstance(node, exp.Column):
        return Comparison(_column(node), "=", True)
    operator = _OPERATORS.get(type(node))
    if operator is None:
        raise InvalidRequest(f"{node.sql(SnaplineSql)!r} cannot be used as a condition. {_HELP}")
    left, right = node.left, node.right
    if isinstance(right, exp.Column) and not isinstance(left, exp.Column):
        left, right, operator = right, left, _SWAPPED.get(operator, operator)
    return Comparison(_column(left), operator, _constant(right))


def _like(node: exp.Like) -> Predicate:
    pattern = literal_of(node.expression)
    if not isinstance(pattern, str) or not _PREFIX_PATTERN.fullmatch(pattern):
        raise InvalidRequest(f"{node.sql(SnaplineSql)!r}: only patterns of the form 'prefix%' are supported.")
    return StartsWith(_column(node.this), _ESCAPED.sub(r"\1", pattern[:-1]))


def _constant(node: Any) -> Any:
    """The value of a constant as `literal_of` gives it, and bytes: x'ff'; of an odd number of digits the first is half a byte."""
    if isinstance(node, exp.HexString):
        digits = str(node.this)
        return bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2))
    return literal_of(node)


def _column(node: Any) -> str:
    if not isinstance(node, exp.Column) or node.table:
        raise InvalidRequest(f"{node.sql(SnaplineSql)!r} is not a column. {_HELP}")
    return str(node.name)


def literal_of(node: Any) -> Any:
    """The value of a constant in sqlglot's tree; numbers as text. Raises InvalidRequest for anything else."""
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return f"-{node.this.this}"
    if isinstance(node, exp.Literal):
        return str(node.this)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.to.this in _PLAIN_CASTS:
        return str(node.this.this)
    raise InvalidRequest(f"{node.sql(SnaplineSql)!r} is not a constant. {_HELP}")
