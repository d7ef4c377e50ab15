"""Numbers that no exact type holds: of more than 38 digits before the point. They are doubles, on every engine.

DuckDB and Spark each refuse some of them in words of their own; conditions in Python take them as they are. As doubles
they compare with columns alike: larger, or smaller, than all whole numbers and decimals.
"""

import math
import re
from decimal import Decimal

from sqlglot import exp

from storage.sql.commands import Call
from storage.sql.dialect import SUFFIX

_MOST_DIGITS = 38
# Most statements have none, and are not searched.
_LOOKS_LARGE = re.compile(rf"\d{{{_MOST_DIGITS + 1}}}|\d\.?[eE]\+?\d\d")
# What stands here is no value of a row.
_ELSEWHERE = (exp.Version, exp.DataType, exp.Limit, exp.Offset, Call)


def with_doubles(tree: exp.Expr, text: str) -> exp.Expr:
    """The statement, which was parsed from a text, with such numbers written as doubles."""
    if _LOOKS_LARGE.search(text):
        for literal in list(tree.find_all(exp.Literal)):
            has_type = literal.parent is not None and SUFFIX in literal.parent.meta
            if has_type or literal.is_string or not _is_large(literal.this):
                continue
            if literal.find_ancestor(*_ELSEWHERE) is None:
                double = float(literal.this)
                written = "Infinity" if math.isinf(double) else repr(double)
                literal.replace(exp.cast(exp.Literal.string(written), exp.DataType.Type.DOUBLE))
    return tree


def _is_large(text: str) -> bool:
    number = Decimal(text)
    return number.is_finite() and number.adjusted() >= _MOST_DIGITS
