"""Aggregates and window functions of Spark's SQL in DuckDB's, with Spark's types."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from storage import InvalidRequest
from storage.sql.dialect import SnaplineSql

from .duckdb_decimals import Typed, quotient
from .duckdb_expressions import Expressions, Rule, implied, unknown
from .duckdb_functions import RULES
from .duckdb_keys import without_order
from .place import at
from .spark_types import BIGINT, BOOLEAN, DOUBLE, INT, SparkType

# What follows a call: a filter, a window.
Behind = str


def _argument(compiler: Expressions, node: exp.Expr) -> tuple[str, Typed]:
    """`DISTINCT ` or nothing, and the one argument of an aggregate."""
    given = node.this
    if isinstance(given, exp.Distinct):
        if given.args.get("on") or len(given.expressions) != 1:
            raise unknown(node)
        value = compiler.of(given.expressions[0])
        _refuse_without_order([value], node)
        return "DISTINCT ", value
    return "", compiler.of(given)


def _refuse_without_order(values: Sequence[Typed], node: exp.Expr) -> None:
    """Spark counts maps by what is in them, DuckDB by the order of their entries too."""
    if not all(value.type.has_order for value in values):
        raise unknown(node)


def _count(compiler: Expressions, node: Any, behind: Behind) -> Typed:
    given = node.this
    if node.expressions:
        raise unknown(node)
    if isinstance(given, exp.Star):
        if any(given.args.values()):
            raise unknown(node)
        return Typed(f"count(*){behind}", BIGINT)
    if isinstance(given, exp.Distinct) and len(given.expressions) > 1:
        typed = compiler.all(given.expressions)
        _refuse_without_order(typed, node)
        values = [value.sql for value in typed]
        null = " OR ".join(f"{value} IS NULL" for value in values)
        # A row with a null in it does not count.
        return Typed(f"count(DISTINCT CASE WHEN {null} THEN NULL ELSE row({', '.join(values)}) END){behind}", BIGINT)
    distinct, value = _argument(compiler, node)
    return Typed(f"count({distinct}{value.sql}){behind}", BIGINT)


def _sum(compiler: Expressions, node: Any, behind: Behind) -> Typed:
    distinct, value = _argument(compiler, node)
    kind = value.type
    if kind.is_integer:
        return Typed(f"CAST(sum({distinct}{value.sql}){behind} AS BIGINT)", BIGINT)
    if kind.is_decimal:
        result = SparkType("decimal", min(38, kind.digits + 10), kind.scale)
        return Typed(f"CAST(sum({distinct}{value.sql}){behind} AS {result.duckdb})", result)
    if kind.is_float:
        return Typed(f"sum({distinct}{implied(value, DOUBLE, node)}){behind}", DOUBLE)
    raise unknown(node)


def _average(compiler: Expressions, node: Any, behind: Behind) -> Typed:
    distinct, value = _argument(compiler, node)
    kind = value.type
    if kind.is_decimal:
        total = SparkType("decimal", min(38, kind.digits + 10), kind.scale)
        added = Typed(f"CAST(sum({distinct}{value.sql}){behind} AS {total.duckdb})", total)
        count = Typed(f"nullif(count({distinct}{value.sql}){behind}, 0)", BIGINT)
        scale = min(38, kind.scale + 4)
        return quotient(added, count, SparkType("decimal", min(38, kind.digits + 4), scale))
    if kind.is_integer or kind.is_float:
        return Typed(f"avg({distinct}{implied(value, DOUBLE, node)}){behind}", DOUBLE)
    raise unknown(node)


def _extreme(compiler: Expressions, node: Any, behind: Behind) -> Typed:
    if node.expressions:
        raise unknown(node)
    distinct, value = _argument(compiler, node)
    if value.type.inner or not value.type.has_order:
        raise unknown(node)
    return Typed(f"{node.key}({distinct}{value.sql}){behind}", value.type)


def _spread(word: str) -> Callable[[Expressions, Any, Behind], Typed]:
    def rule(compiler: Expressions, node: Any, behind: Behind) -> Typed:
        distinct, value = _argument(compiler, node)
        if not value.type.is_number:
            raise unknown(node)
        return Typed(f"{word}({distinct}{implied(value, DOUBLE, node)}){behind}", DOUBLE)

    return rule


def _logical(word: str, result: SparkType) -> Callable[[Expressions, Any, Behind], Typed]:
    def rule(compiler: Expressions, node: Any, behind: Behind) -> Typed:
        return Typed(f"{word}({compiler.condition(node.this)}){behind}", result)

    return rule


def _count_if(compiler: Expressions, node: Any, behind: Behind) -> Typed:
    return Typed(f"count(CASE WHEN {compiler.condition(node.this)} THEN 1 END){behind}", BIGINT)


def _number(word: str) -> Callable[[Expressions, Any, Behind], Typed]:
    return lambda compiler, node, behind: Typed(f"CAST({word}(){behind} AS INTEGER)", INT)


def _share(word: str) -> Callable[[Expressions, Any, Behind], Typed]:
    return lambda compiler, node, behind: Typed(f"{word}(){behind}", DOUBLE)


def _tile(compiler: Expressions, node: Any, behind: Behind) -> Typed:
    if not isinstance(node.this, exp.Literal) or not node.this.is_int:
        raise unknown(node)
    return Typed(f"CAST(ntile({node.this.this}){behind} AS INTEGER)", INT)


def _neighbour(compiler: Expressions, node: Any, behind: Behind) -> Typed:
    offset, default = node.args.get("offset"), node.args.get("default")
    if offset is not None and not (isinstance(offset, exp.Literal) and offset.is_int):
        raise unknown(node)
    value = compiler.of(node.this)
    texts = [value.sql]
    if offset is not None or default is not None:
        texts.append(offset.this if offset is not None else "1")
    if default is not None:
        texts.append(compiler.to(default, value.type))
    return Typed(f"{node.key}({', '.join(texts)}){behind}", value.type)


def _edge(word: str) -> Callable[[Expressions, Any, Behind], Typed]:
    def rule(compiler: Expressions, node: Any, behind: Behind) -> Typed:
        value = compiler.of(node.this)
        return Typed(f"{word}({value.sql}){behind}", value.type)

    return rule


Aggregate = tuple[set[str], Callable[[Expressions, Any, Behind], Typed]]
_AGGREGATES: dict[type[exp.Expr], Aggregate] = {
    exp.Count: ({"this", "expressions", "big_int"}, _count),
    exp.Sum: ({"this"}, _sum),
    exp.Avg: ({"this"}, _average),
    exp.Min: ({"this", "expressions"}, _extreme),
    exp.Max: ({"this", "expressions"}, _extreme),
    exp.Stddev: ({"this"}, _spread("stddev_samp")),
    exp.StddevSamp: ({"this"}, _spread("stddev_samp")),
    exp.StddevPop: ({"this"}, _spread("stddev_pop")),
    exp.Variance: ({"this"}, _spread("var_samp")),
    exp.VariancePop: ({"this"}, _spread("var_pop")),
    exp.CountIf: ({"this"}, _count_if),
    exp.LogicalAnd: ({"this"}, _logical("bool_and", BOOLEAN)),
    exp.LogicalOr: ({"this"}, _logical("bool_or", BOOLEAN)),
}
WINDOW_FUNCTIONS: dict[type[exp.Expr], Aggregate] = {
    exp.RowNumber: (set(), _number("row_number")),
    exp.Rank: (set(), _number("rank")),
    exp.DenseRank: (set(), _number("dense_rank")),
    exp.PercentRank: (set(), _share("percent_rank")),
    exp.CumeDist: (set(), _share("cume_dist")),
    exp.Ntile: ({"this"}, _tile),
    exp.Lag: ({"this", "offset", "default"}, _neighbour),
    exp.Lead: ({"this", "offset", "default"}, _neighbour),
    exp.FirstValue: ({"this"}, _edge("first_value")),
    exp.LastValue: ({"this"}, _edge("last_value")),
}


def _plain(compiler: Expressions, node: Any) -> Typed:
    return _AGGREGATES[type(node)][1](compiler, node, "")


def _checked(node: exp.Expr, windowed: bool) -> Aggregate:
    aggregate = _AGGREGATES.get(type(node)) or (WINDOW_FUNCTIONS.get(type(node)) if windowed else None)
    if aggregate is None:
        raise unknown(node)
    for key, value in node.args.items():
        if value and key not in aggregate[0]:
            raise unknown(node, key)
    return aggregate


def _filtered(compiler: Expressions, node: Any) -> Typed:
    return _checked(node.this, False)[1](compiler, node.this, _filter(compiler, node))


def _filter(compiler: Expressions, node: exp.Expr) -> Behind:
    return f" FILTER (WHERE {compiler.condition(node.expression.this)})"


def _windowed(compiler: Expressions, node: Any) -> Typed:
    function, behind = node.this, ""
    if isinstance(function, exp.Filter):
        behind, function = _filter(compiler, function), function.this
    if isinstance(function.args.get("this"), exp.Distinct):
        raise at(node, InvalidRequest("DISTINCT is not for a function with OVER."))
    act = _checked(function, True)[1]
    return act(compiler, function, f"{behind} OVER ({window(compiler, node)})")


def window(compiler: Expressions, node: exp.Expr) -> str:
    """What stands in the parentheses after OVER."""
    alias = node.args.get("alias")
    if alias is not None:
        named = compiler.window(alias.name)
        if named is None or node.args.get("partition_by") or node.args.get("order"):
            raise unknown(node)
        return window(compiler, named)
    parts = []
    if node.args.get("partition_by"):
        parts.append("PARTITION BY " + ", ".join(_part(compiler, each) for each in node.args["partition_by"]))
    order = node.args.get("order")
    if order is not None:
        parts.append("ORDER BY " + ", ".join(ordered(compiler, expression) for expression in order.expressions))
    if node.args.get("spec") is not None:
        parts.append(_frame(node.args["spec"]))
    return " ".join(parts)


def _part(compiler: Expressions, node: exp.Expr) -> str:
    value = compiler.of(node)
    if not value.type.has_order:
        raise without_order(value.type, node, "PARTITION BY")
    return value.sql


def ordered(compiler: Expressions, node: exp.Expr, chosen: Typed | None = None) -> str:
    """One entry of ORDER BY; nulls where Spark puts them. `chosen`: what is ordered by, if it is known already. Refused for
    arrays, maps and structs: nulls inside of them have another place there.
    """
    by = compiler.of(node.this) if chosen is None else chosen
    if node.args.get("with_fill") or by.type.inner or not by.type.has_order:
        raise unknown(node)
    direction = "DESC" if node.args.get("desc") else "ASC"
    nulls = "FIRST" if node.args.get("nulls_first") else "LAST"
    return f"{by.sql} {direction} NULLS {nulls}"


def _frame(spec: exp.Expr) -> str:
    kind = spec.args.get("kind")
    if kind not in ("ROWS", "RANGE") or spec.args.get("exclude"):
        raise unknown(spec)
    sides = []
    for name in ("start", "end"):
        value, side = spec.args.get(name), spec.args.get(f"{name}_side") or ""
        if value is None:
            text = "CURRENT ROW"
        elif isinstance(value, str):
            text = f"{value} {side}".strip()
        elif kind == "ROWS" and isinstance(value, exp.Literal) and value.is_int:
            text = f"{value.this} {side}"
        else:
            raise unknown(spec)
        sides.append(text)
    return f"{kind} BETWEEN {sides[0]} AND {sides[1]}"


QUERY_RULES: dict[type[exp.Expr], Rule] = {
    **RULES,
    **{each: (parts, _plain) for each, (parts, _) in _AGGREGATES.items()},
    exp.Filter: ({"this", "expression"}, _filtered),
    exp.Window: ({"this", "partition_by", "order", "spec", "over", "alias"}, _windowed),
}

# Those that are written otherwise, and what the parser makes of others.
_NO_CALLS = (exp.Anonymous, exp.And, exp.Or, exp.Exists, exp.TsOrDsAdd)


def function_names() -> list[str]:
    """The functions that have a rule, with up to four arguments, by the names that are typed."""
    return sorted(name.lower() for name in SnaplineSql.Parser.FUNCTIONS if any(_has_rule(name, n) for n in range(5)))


def _has_rule(name: str, count: int) -> bool:
    try:
        kind = type(SnaplineSql().parse_into(exp.Condition, f"{name}({', '.join('abcd'[:count])})")[0])
    except (SqlglotError, LookupError, ValueError, TypeError, AttributeError):
        return False
    return (kind in QUERY_RULES or kind in WINDOW_FUNCTIONS) and kind not in _NO_CALLS
