"""The rule for each operator and function of Spark's SQL that is known to DuckDB: the parts that it reads, and what it gives."""

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from . import spark_types as st
from .duckdb_decimals import Typed
from .duckdb_expressions import COMPARISONS, Expressions, Rule, computed, field_of, literal, unknown, unwrapped
from .duckdb_letters import LOWER_DIFFERS, UPPER_DIFFERS, where_case_is_alike
from .duckdb_literals import number
from .spark_types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, STRING, TIMESTAMP, SparkType


def _call(word: str, result: SparkType, *kinds: SparkType) -> Callable[[Expressions, Any], Typed]:
    """A function of DuckDB that takes and gives what Spark's does."""

    def rule(compiler: Expressions, node: Any) -> Typed:
        given = [
            argument
            for key in ("this", "expression", "substr", "times", "replacement")
            if (argument := node.args.get(key))
        ]
        values = [compiler.to(each, kind) for each, kind in zip(given, kinds, strict=False)]
        return Typed(f"{word}({', '.join(values)})", result)

    return rule


def _part_of_time(word: str) -> Callable[[Expressions, Any], Typed]:
    def rule(compiler: Expressions, node: Any) -> Typed:
        inner = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        value = compiler.of(inner)
        if not value.type.is_time or (word in ("hour", "minute", "second") and value.type == DATE):
            raise unknown(node)
        return Typed(f"CAST({word}({value.sql}) AS INTEGER)", INT)

    return rule


def _extract(compiler: Expressions, node: Any) -> Typed:
    word = node.this.name.lower()
    if word not in ("year", "quarter", "month", "day", "hour", "minute"):
        raise unknown(node)
    value = compiler.of(node.expression)
    if not value.type.is_time or (word in ("hour", "minute") and value.type == DATE):
        raise unknown(node)
    return Typed(f"CAST({word}({value.sql}) AS INTEGER)", INT)


def _struct(compiler: Expressions, node: Any) -> Typed:
    names, values = [], []
    for place, field in enumerate(node.expressions, 1):
        named = isinstance(field, exp.PropertyEQ)
        names.append(field.this.name if named else field.name if isinstance(field, exp.Column) else f"col{place}")
        values.append(compiler.of(field.expression if named else field))
    fields = ", ".join(f"{literal(name)}: {value.sql}" for name, value in zip(names, values, strict=True))
    kind = SparkType("struct", inner=tuple(value.type for value in values), names=tuple(names))
    return Typed(f"CAST({{{fields}}} AS {kind.duckdb})", kind)


def _array(compiler: Expressions, node: Any) -> Typed:
    if not node.expressions:
        raise unknown(node)
    values, kind = compiler.same(node.expressions)
    result = SparkType("array", inner=(kind,))
    return Typed(f"CAST([{', '.join(values)}] AS {result.duckdb})", result)


def _days_added(compiler: Expressions, node: Any) -> Typed:
    unit = node.args.get("unit")
    if unit is None or unit.name.upper() != "DAY":
        raise unknown(node)
    count = node.expression
    sign = "+"
    if isinstance(count, exp.Mul) and isinstance(count.expression, exp.Neg):
        count, sign = count.this, "-"
    days = compiler.of(unwrapped(count))
    if not days.type.is_integer or days.type == BIGINT:
        raise unknown(node)
    return Typed(f"({compiler.to(node.this, DATE)} {sign} CAST({days.sql} AS INTEGER))", DATE)


def _days_between(compiler: Expressions, node: Any) -> Typed:
    # With one it counts whole units of time, as a BIGINT.
    if node.args.get("unit") is not None:
        raise unknown(node)
    return Typed(f"CAST({compiler.to(node.this, DATE)} - {compiler.to(node.expression, DATE)} AS INTEGER)", INT)


def _absolute(compiler: Expressions, node: Any) -> Typed:
    value = compiler.of(node.this)
    if not value.type.is_number:
        raise unknown(node)
    return computed(f"abs({value.sql})", value.type)


def _connected(word: str) -> Callable[[Expressions, Any], Typed]:
    def rule(compiler: Expressions, node: Any) -> Typed:
        parts = [compiler.condition(each, bare_null=True) for each in node.flatten(unnest=False)]
        return Typed(f"({f' {word} '.join(parts)})", BOOLEAN)

    return rule


def _positive(compiler: Expressions, node: Any) -> Typed:
    """+ before a value."""
    if node.name.lower() != "positive" or len(node.expressions) != 1:
        raise unknown(node)
    value = compiler.of(node.expressions[0])
    if not value.type.is_number:
        raise unknown(node)
    return value


def _cut(word: str) -> Callable[[Expressions, Any], Typed]:
    def rule(compiler: Expressions, node: Any) -> Typed:
        if not re.fullmatch(r"\d+", node.expression.sql()):
            raise unknown(node)
        return Typed(f"{word}({compiler.to(node.this, STRING)}, {node.expression.sql()})", STRING)

    return rule


def _in_case(word: str, differs: str) -> Callable[[Expressions, Any], Typed]:
    def rule(compiler: Expressions, node: Any) -> Typed:
        value = compiler.to(node.this, STRING)
        # One letter that becomes two is common.
        changed = f"replace({value}, 'ß', 'SS')" if word == "upper" else value
        return Typed(where_case_is_alike(value, word, differs, f"{word}({changed})"), STRING)

    return rule


def _rounded(compiler: Expressions, node: exp.Expr) -> Typed:
    """`round(x, places)`: `places` is a whole number written out; not below 0, of doubles at most 15."""
    places = node.args.get("decimals")
    value = compiler.of(node.this)
    count = 0
    if places is not None:
        text = places.sql()
        if not re.fullmatch(r"-?\d+", text):
            raise unknown(node)
        count = int(text)
    if value.type.is_integer and count >= 0:
        return Typed(value.sql, value.type)
    if value.type.is_decimal and count >= 0:
        given_kind = value.type
        scale = min(count, given_kind.scale)
        kind = SparkType("decimal", min(38, given_kind.digits - given_kind.scale + 1 + scale), scale)
        return Typed(f"CAST({value.sql} AS {kind.duckdb})", kind)
    if value.type == DOUBLE and 0 <= count <= 15:
        exact = f"CAST(CAST({value.sql} AS VARCHAR) AS DECIMAL(38, {count}))"
        return Typed(f"(CASE WHEN isfinite({value.sql}) THEN CAST({exact} AS DOUBLE) ELSE {value.sql} END)", DOUBLE)
    raise unknown(node)


def _whole(compiler: Expressions, node: exp.Expr) -> Typed:
    """`floor` and `ceil`: bigint, of decimals a decimal without scale."""
    value = compiler.of(node.this)
    word = "floor" if isinstance(node, exp.Floor) else "ceil"
    if value.type.is_integer:
        return Typed(value.sql, BIGINT if value.type != BIGINT else value.type)
    if value.type.is_decimal:
        if not value.type.scale:
            return value
        kind = st.decimal(value.type.digits - value.type.scale + 1, 0)
        return Typed(f"CAST({word}({value.sql}) AS {kind.duckdb})", kind)
    if value.type == DOUBLE:
        return Typed(f"CAST({word}({value.sql}) AS BIGINT)", BIGINT)
    raise unknown(node)


def _joined(compiler: Expressions, node: exp.Expr) -> Typed:
    """`||` and `concat`: null if any part is null; without parts the empty text."""
    nodes = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    values = [compiler.to(node, STRING) for node in nodes]
    return Typed(f"({' || '.join(values)})" if values else "''", STRING)


def _trimmed(compiler: Expressions, node: exp.Expr) -> Typed:
    """`trim`, `ltrim`, `rtrim`: cuts off spaces, or the characters given."""
    word = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get((node.args.get("position") or "").upper(), "trim")
    characters = node.args.get("expression")
    chosen = compiler.to(characters, STRING) if characters is not None else "' '"
    return Typed(f"{word}({compiler.to(node.this, STRING)}, {chosen})", STRING)


def _part_of_text(compiler: Expressions, node: exp.Expr) -> Typed:
    """`substring(text, start, length)`: counted from 1, where 0 means 1; both are whole numbers written out."""
    text, start, length = node.this, node.args["start"], node.args.get("length")
    if any(not re.fullmatch(r"\d+", node.sql()) for node in (start, length) if node is not None):
        raise unknown(node)
    # Spark counts a start of 0 as 1.
    end = f", {length.sql()}" if length is not None else ""
    return Typed(f"substring({compiler.to(text, STRING)}, {max(1, int(start.sql()))}{end})", STRING)


def _replaced(compiler: Expressions, node: exp.Expr) -> Typed:
    """`replace(text, search, replacement)`; without a replacement what is found is left out."""
    values = [compiler.to(each, STRING) for each in (node.this, node.expression)]
    given = node.args.get("replacement")
    values.append("''" if given is None else compiler.to(given, STRING))
    return Typed(f"replace({', '.join(values)})", STRING)


_BOTH = {"this", "expression"}
RULES: dict[type[exp.Expr], Rule] = {
    exp.Column: ({"this", "table", "db", "catalog"}, Expressions.column),
    exp.Subquery: ({"this"}, Expressions.subquery),
    exp.Exists: ({"this"}, Expressions.exists),
    exp.In: ({"this", "expressions", "query"}, Expressions.is_in),
    exp.Between: ({"this", "low", "high"}, Expressions.between),
    exp.Like: ({*_BOTH, "negate"}, Expressions.like),
    exp.ILike: ({*_BOTH, "negate"}, Expressions.like),
    exp.Escape: (_BOTH, Expressions.escaped_like),
    exp.Is: ({*_BOTH, "negate"}, Expressions.truth_test),
    exp.Case: ({"this", "ifs", "default"}, Expressions.case),
    exp.If: ({"this", "true", "false"}, Expressions.choice),
    exp.Coalesce: ({"this", "expressions"}, Expressions.coalesce),
    exp.Nullif: (_BOTH, Expressions.nullif),
    exp.Greatest: ({"this", "expressions", "ignore_nulls"}, Expressions.extreme),
    exp.Least: ({"this", "expressions", "ignore_nulls"}, Expressions.extreme),
    exp.Cast: ({"this", "to"}, Expressions.casted),
    exp.TsOrDsToDate: ({"this"}, Expressions.to_date),
    exp.Add: (_BOTH, Expressions.plus),
    exp.Sub: (_BOTH, Expressions.plus),
    exp.Mul: (_BOTH, Expressions.plus),
    exp.Div: (_BOTH, Expressions.divide),
    exp.IntDiv: (_BOTH, Expressions.whole_quotient),
    exp.Mod: (_BOTH, Expressions.remainder),
    exp.Neg: ({"this"}, Expressions.negated),
    exp.Anonymous: ({"this", "expressions"}, _positive),
    exp.Round: ({"this", "decimals"}, _rounded),
    exp.Floor: ({"this"}, _whole),
    exp.Ceil: ({"this"}, _whole),
    exp.DPipe: ({*_BOTH, "safe"}, _joined),
    exp.Concat: ({"expressions", "safe", "coalesce"}, _joined),
    exp.Trim: ({*_BOTH, "position"}, _trimmed),
    exp.Substring: ({"this", "start", "length"}, _part_of_text),
    exp.Dot: (_BOTH, lambda compiler, node: field_of(compiler.of(node.this), node.expression)),
    exp.Paren: ({"this"}, lambda compiler, node: compiler.of(node.this)),
    exp.Not: (
        {"this"},
        lambda compiler, node: Typed(f"(NOT {compiler.condition(node.this, bare_null=True)})", BOOLEAN),
    ),
    exp.And: (_BOTH, _connected("AND")),
    exp.Or: (_BOTH, _connected("OR")),
    exp.Null: (set(), lambda compiler, node: Typed("NULL", NULL)),
    exp.Boolean: ({"this"}, lambda compiler, node: Typed("TRUE" if node.this else "FALSE", BOOLEAN)),
    exp.Literal: (
        {"this", "is_string"},
        lambda compiler, node: Typed(literal(node.this), STRING) if node.is_string else number(node.this),
    ),
    exp.HexString: ({"this"}, lambda compiler, node: Typed(f"unhex('{node.this}')", st.BINARY)),
    exp.Struct: ({"expressions"}, _struct),
    exp.Array: ({"expressions"}, _array),
    exp.Length: (
        {"this"},
        lambda compiler, node: Typed(f"CAST(length({compiler.to(node.this, STRING)}) AS INTEGER)", INT),
    ),
    exp.StrPosition: (
        {"this", "substr"},
        lambda compiler, node: Typed(
            f"CAST(strpos({compiler.to(node.this, STRING)}, {compiler.to(node.args['substr'], STRING)}) AS INTEGER)",
            INT,
        ),
    ),
    exp.Upper: ({"this"}, _in_case("upper", UPPER_DIFFERS)),
    exp.Lower: ({"this"}, _in_case("lower", LOWER_DIFFERS)),
    exp.Replace: ({*_BOTH, "replacement"}, _replaced),
    exp.StartsWith: (_BOTH, _call("starts_with", BOOLEAN, STRING, STRING)),
    exp.EndsWith: (_BOTH, _call("ends_with", BOOLEAN, STRING, STRING)),
    exp.Contains: (_BOTH, _call("contains", BOOLEAN, STRING, STRING)),
    exp.Left: (_BOTH, _cut("left")),
    exp.Right: (_BOTH, _cut("right")),
    exp.Abs: ({"this"}, _absolute),
    exp.Sqrt: ({"this"}, lambda compiler, node: _root(compiler, node)),
    exp.Year: ({"this"}, _part_of_time("year")),
    exp.Quarter: ({"this"}, _part_of_time("quarter")),
    exp.Month: ({"this"}, _part_of_time("month")),
    exp.Day: ({"this"}, _part_of_time("day")),
    exp.DayOfMonth: ({"this"}, _part_of_time("day")),
    exp.DayOfYear: ({"this"}, _part_of_time("dayofyear")),
    exp.Hour: ({"this"}, _part_of_time("hour")),
    exp.Minute: ({"this"}, _part_of_time("minute")),
    exp.Second: ({"this"}, _part_of_time("second")),
    exp.Extract: (_BOTH, _extract),
    exp.TsOrDsAdd: ({*_BOTH, "unit"}, _days_added),
    exp.DateDiff: ({*_BOTH, "unit"}, _days_between),
    exp.LastDay: ({"this"}, lambda compiler, node: Typed(f"last_day({compiler.to(node.this, DATE)})", DATE)),
    exp.CurrentTimestamp: (set(), lambda compiler, node: Typed("now()", TIMESTAMP)),
    exp.CurrentDate: (set(), lambda compiler, node: Typed("current_date", DATE)),
    **dict.fromkeys(COMPARISONS, (_BOTH, Expressions.comparison)),
}


def _root(compiler: Expressions, node: Any) -> Typed:
    value = compiler.to(node.this, DOUBLE)
    return Typed(f"(CASE WHEN {value} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({value}) END)", DOUBLE)
