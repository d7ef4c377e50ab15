"""Decimals of Spark's SQL in DuckDB's, which divides them as doubles."""

from dataclasses import dataclass

from . import spark_types as st
from .spark_types import SparkType

_DIGITS_AT_A_TIME = 6
# Parameters of functions within an expression: DuckDB takes `x.n` for a column `n` of a table `x`, or a field of a column, first.
_NUMBERS, _WHOLE = '"__numbers of a quotient"', '"__whole quotient"'
DIVIDED_BY_ZERO = "error('Division by zero. Use NULLIF to get NULL instead.')"


@dataclass(frozen=True)
class Typed:
    """An expression in DuckDB's SQL, and its type in Spark. `digits`: of a literal that is a whole number."""

    sql: str
    type: SparkType
    digits: int = 0


def quotient(left: Typed, right: Typed, result: SparkType | None = None) -> Typed:
    """Decimals divided, exactly: long division of whole numbers, some digits at a time, rounded half up."""
    first, second = decimal_of(left), decimal_of(right)
    if result is None:
        scale = max(6, first.scale + second.digits + 1)
        result = st.decimal(first.digits - first.scale + second.scale + scale, scale)
    shift = second.scale - first.scale + result.scale
    divisor = f"{_NUMBERS}.d" if shift >= 0 else f"({_NUMBERS}.d * {_power(-shift)})"
    whole, rest = f"({_NUMBERS}.n // {divisor})", f"({_NUMBERS}.n % {divisor})"
    while shift > 0:
        step = min(shift, _DIGITS_AT_A_TIME)
        shift -= step
        whole = f"({whole} * {_power(step)} + ({rest} * {_power(step)}) // {divisor})"
        rest = f"(({rest} * {_power(step)}) % {divisor})"
    rounded = f"({whole} + CASE WHEN {rest} >= {divisor} - {rest} THEN 1 ELSE 0 END)"
    unit = _power(result.scale)
    point = (
        f"CAST({_WHOLE} // {unit} AS VARCHAR) || '.' || lpad(CAST({_WHOLE} % {unit} AS VARCHAR), {result.scale}, '0')"
    )
    if not result.scale:
        point = f"CAST({_WHOLE} AS VARCHAR)"
    is_negative = _is_negative(left, right, first, second)
    numbers = f"{{'n': {_unscaled(left, first)}, 'd': {_unscaled(right, second)}, 'm': {is_negative}}}"
    zero = f"CAST({DIVIDED_BY_ZERO} AS {result.duckdb})"
    is_null = f"{_NUMBERS}.n IS NULL OR {_NUMBERS}.d IS NULL"
    digits = f"list_transform([{rounded}], lambda {_WHOLE}: {point})[1]"
    number = f"CAST((CASE WHEN {_NUMBERS}.m THEN '-' ELSE '' END) || {digits} AS {result.duckdb})"
    text = (
        f"list_transform([{numbers}], lambda {_NUMBERS}: CASE WHEN {is_null} THEN NULL WHEN {_NUMBERS}.d = 0 THEN {zero} "
        f"ELSE {number} END)[1]"
    )
    return Typed(text, result)


def _power(digits: int) -> str:
    return f"CAST('1{'0' * digits}' AS HUGEINT)"


def _unscaled(value: Typed, kind: SparkType) -> str:
    """The digits of a decimal without its sign, as a whole number."""
    return f"CAST(replace(replace(CAST({exactly(value, kind)} AS VARCHAR), '.', ''), '-', '') AS HUGEINT)"


def _is_negative(left: Typed, right: Typed, first: SparkType, second: SparkType) -> str:
    return f"(({exactly(left, first)} < 0) <> ({exactly(right, second)} < 0))"


def decimal_of(value: Typed) -> SparkType:
    """The decimal that a number is computed as; a literal has no more digits than are written."""
    if value.digits:
        return SparkType("decimal", value.digits, 0)
    if value.type == st.NULL:
        return SparkType("decimal", 1, 0)
    return st.as_decimal(value.type)


def exactly(value: Typed, kind: SparkType) -> str:
    """A number as a decimal that holds it."""
    return value.sql if value.type == kind else f"CAST({value.sql} AS {kind.duckdb})"
