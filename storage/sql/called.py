"""Calls of functions: those that sqlglot knows become trees of their own kind, if these say what was typed.

Others keep name and arguments, and Spark says what they mean: sqlglot drops arguments, gives patterns and units other letters,
and puts functions in the place of others that are not the same in Spark.
"""

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

# Functions of which sqlglot makes others where WITHIN GROUP follows, or which it gives arguments of its own.
AS_TYPED = frozenset(
    {
        "PERCENTILE_CONT",
        "PERCENTILE_DISC",
        "LISTAGG",
        "STRING_AGG",
        "PARSE_JSON",
        "TO_CHAR",
        "REGEXP_LIKE",
        "LEVENSHTEIN",
    }
)
# Those whose own parsers are no better than the one for all functions.
PLAIN = frozenset(
    {
        "LISTAGG",
        "STRING_AGG",
        "PERCENTILE",
        "PERCENTILE_APPROX",
        "APPROX_PERCENTILE",
        "MAX_BY",
        "MIN_BY",
        "ARG_MAX",
        "ARG_MIN",
        "ARGMAX",
        "ARGMIN",
        "INITCAP",
        "REGR_AVGX",
        "REGR_AVGY",
        "REGR_SXX",
        "REGR_SXY",
        "REGR_SYY",
        # Spark has none of these: what is made of them elsewhere is nobody's business.
        "CONVERT",
        "GAP_FILL",
        "JSON_OBJECT",
        "JSON_OBJECTAGG",
        "JSON_TABLE",
        "MATCH",
        "NORMALIZE",
        "OPENJSON",
        "SAFE_CAST",
        "TRY_CONVERT",
        "WEIGHT_STRING",
        "XMLELEMENT",
        "XMLTABLE",
    }
)
# Written in other words that mean the same in Spark.
_SAME = frozenset(
    {
        "BOOLEAN",
        "CEIL",
        "CEILING",
        "CHARACTER_LENGTH",
        "CHAR_LENGTH",
        "CURDATE",
        "CURRENT_CATALOG",
        "CURRENT_DATE",
        "DATE",
        "DATE_ADD",
        "DATE_SUB",
        "DOUBLE",
        "ELEMENT_AT",
        "FLOAT",
        "FLOOR",
        "FROM_UTC_TIMESTAMP",
        "IF",
        "IFNULL",
        "ILIKE",
        "INSTR",
        "INT",
        "LAST_DAY",
        "LCASE",
        "LEN",
        "LIKE",
        "LOCATE",
        "LOG",
        "LTRIM",
        "MOD",
        "NOW",
        "NVL",
        "POSITION",
        "POW",
        "RAND",
        "RANDOM",
        "RTRIM",
        "SHIFTLEFT",
        "SHIFTRIGHT",
        "SIGNUM",
        "SPACE",
        "STRING",
        "STRUCT",
        "SUBSTR",
        "TIMESTAMP",
        "TO_TIMESTAMP",
        "TO_UTC_TIMESTAMP",
        "TRIM",
        "TRY_ELEMENT_AT",
        "UCASE",
        "VAR_SAMP",
    }
)
_DAY_DIFFERENCES = frozenset({"DATEDIFF", "DATE_DIFF"})
# The first of three arguments is a word that is no column.
_WITH_UNIT = frozenset({*_DAY_DIFFERENCES, "DATEADD", "DATE_ADD", "TIMESTAMPADD", "TIMESTAMPDIFF"})
# So many arguments may be given; sqlglot leaves out the last where it is what Spark takes by default, or reckons with it.
_BY_DEFAULT = {"DATE_SUB": 2, "REGEXP_EXTRACT": 3}
# Their units are words in whatever case.
_BY_UNIT = frozenset({"DATE_TRUNC", "TRUNC"})


def as_typed(node: exp.Expr, name: str, arguments: Sequence[Any], dialect: Any) -> exp.Expr:
    """A call's tree, or name and arguments alone if the tree says something else."""
    upper = name.upper()
    if upper in _DAY_DIFFERENCES and len(arguments) == 2:
        # Without a unit: it is of another type than with DAY.
        return exp.DateDiff(this=arguments[0], expression=arguments[1])
    if upper == "NAMED_STRUCT" and arguments and len(arguments) % 2 == 0:
        return node
    if (upper in _BY_DEFAULT and len(arguments) <= _BY_DEFAULT[upper]) or (upper in _WITH_UNIT and len(arguments) == 3):
        # A unit in quotes is other systems'.
        if upper in _WITH_UNIT and isinstance(arguments[0], exp.Literal):
            return exp.Anonymous(this=name, expressions=list(arguments))
        return node
    if upper in _SAME and _holds(node, arguments):
        return node
    try:
        printed = node.sql(dialect, unsupported_level=ErrorLevel.IGNORE)
        typed = f"({', '.join(argument.sql(dialect, unsupported_level=ErrorLevel.IGNORE) for argument in arguments)})"
    except (SqlglotError, AttributeError, TypeError, ValueError):
        return node
    if upper in _BY_UNIT:
        printed, typed = printed.upper(), typed.upper()
    if printed[: len(name)].upper() == upper and printed[len(name) :] == typed:
        return node
    return exp.Anonymous(this=name, expressions=list(arguments))


def _holds(node: exp.Expr, arguments: Sequence[Any]) -> bool:
    """Whether all arguments of a call are parts of its tree."""
    held = {id(each) for each in node.walk()}
    return all(id(argument) in held for argument in arguments)
