"""Casts of Spark's SQL in DuckDB's: those that give the same value, or an error where Spark gives one."""

from sqlglot import exp

from storage import InvalidRequest

from . import spark_types as st
from .spark_types import BOOLEAN, DATE, NULL, STRING, TIMESTAMP, TIMESTAMP_NTZ, SparkType

_WHOLE = "[ ]*[+-]?[0-9]+[ ]*"
_REAL = "[ ]*[+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?[ ]*"
_NO_NUMBER = r"\s*(?i:[+-]?inf(inity)?|nan)\s*"
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
# What follows a day is left out of it, as Spark does.
_DATE = " *[0-9]{4}(-[0-9]{1,2}(-[0-9]{1,2}([ T].*)?)?)? *"
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_MOMENT = _DAY + "([ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?)?"


def cast(sql: str, kind: SparkType, to: SparkType, node: exp.Expr, *, implied: bool = False) -> str:
    """An expression of one type as one of another. `implied`: the cast is Spark's own, which takes fewer.

    Raises InvalidRequest for a cast whose result would be another one than Spark's.
    """
    if kind == to:
        return sql
    if kind == NULL:
        return f"CAST(NULL AS {to.duckdb})"
    if to.is_number and kind.is_number:
        return _number(sql, kind, to)
    if kind == STRING:
        return _from_text(sql, to)
    if to == STRING and (kind.is_integer or kind.is_decimal or kind in (BOOLEAN, DATE)):
        if kind.is_decimal:
            return _text_of_decimal(sql, kind)
        return _text_of_date(sql) if kind == DATE else f"CAST({sql} AS VARCHAR)"
    if to.is_time and kind.is_time:
        return f"CAST({sql} AS {to.duckdb})"
    if kind == BOOLEAN and to.is_integer and not implied:
        return f"CAST({sql} AS {to.duckdb})"
    raise InvalidRequest(
        f"A cast from {kind} to {to} is not known to give on DuckDB what Spark gives. Use the engine spark."
    )


def _number(sql: str, kind: SparkType, to: SparkType) -> str:
    if to.is_integer and (kind.is_float or kind.is_decimal):
        # Spark cuts, DuckDB rounds.
        return f"CAST(trunc({sql}) AS {to.duckdb})"
    if to.is_decimal and kind.is_float:
        # A FLOAT by all the digits that it has as a DOUBLE.
        return f"CAST(CAST(CAST({sql} AS DOUBLE) AS VARCHAR) AS {to.duckdb})"
    return f"CAST({sql} AS {to.duckdb})"


def _text_of_decimal(sql: str, kind: SparkType) -> str:
    if kind.scale > 6:
        raise InvalidRequest(f"The text of a {kind} may be written with an exponent in Spark. Use the engine spark.")
    if kind.scale == kind.digits:
        # DuckDB writes no zero before the point of a decimal that has room for none.
        return f"CAST(CAST({sql} AS DECIMAL({kind.digits + 1}, {kind.scale})) AS VARCHAR)"
    return f"CAST({sql} AS VARCHAR)"


def _text_of_date(sql: str) -> str:
    return (
        f"(CASE WHEN year({sql}) BETWEEN 1 AND 9999 OR {sql} IS NULL THEN CAST({sql} AS VARCHAR) "
        f"ELSE CAST(error('The text of a date before 0001 or after 9999 is written otherwise in Spark. Use the engine spark.') "
        "AS VARCHAR) END)"
    )


def _from_text(sql: str, to: SparkType) -> str:
    if to.is_integer:
        return _matching(sql, _WHOLE, to)
    if to.is_float:
        return _matching(sql, f"{_REAL}|{_NO_NUMBER}", to)
    if to.is_decimal:
        return _matching(sql, _REAL, to)
    if to == DATE:
        return _matching(sql, _DATE, to, _date(sql))
    if to in (TIMESTAMP, TIMESTAMP_NTZ):
        return _matching(sql, _MOMENT, to)
    if to == BOOLEAN:
        truths = ", ".join(f"'{word}'" for word in _TRUE)
        return _matching(sql, f" *(?i:{'|'.join((*_TRUE, *_FALSE))}) *", to, f"(lower(trim({sql})) IN ({truths}))")
    if to == st.BINARY:
        return f"encode({sql})"
    if to.word.startswith("time32"):
        raise InvalidRequest(st.NO_TIMES)
    raise InvalidRequest(f"A cast of a text to {to} is not known on DuckDB. Use the engine spark.")


def _date(sql: str) -> str:
    """A year, a month or a day as a day: what is not said is 1."""
    year = f"CAST(regexp_extract({sql}, '^ *([0-9]{{4}})', 1) AS INTEGER)"
    month, day = (
        f"coalesce(try_cast(regexp_extract({sql}, '^ *[0-9]{{4}}{'-[0-9]{1,2}' * before}-([0-9]{{1,2}})', 1) AS INTEGER), 1)"
        for before in (0, 1)
    )
    return f"make_date({year}, {month}, {day})"


def _matching(sql: str, pattern: str, to: SparkType, value: str = "") -> str:
    """The cast of a text of one form; others, which Spark and DuckDB each read in their own ways, are an error. `value`: what
    a text of that form is, if not what DuckDB's cast makes of it.
    """
    wrong = f"error('a text is no {to} that is known here (Spark may read it: use the engine spark): ' || {sql})"
    value = value or f"CAST(trim({sql}) AS {to.duckdb})"
    return (
        f"(CASE WHEN {sql} IS NULL THEN NULL WHEN regexp_full_match({sql}, '{pattern}') THEN "
        f"{value} ELSE CAST({wrong} AS {to.duckdb}) END)"
    )
