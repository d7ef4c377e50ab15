"""Expressions of Spark's SQL in DuckDB's: each has a rule that says its type and what DuckDB has to compute, or is refused.

DuckDB divides, rounds, casts and adds otherwise than Spark does. So nothing is passed on that has no rule here, and a rule
passes on what it has read alone: a part of an expression that it does not know is refused by name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sqlglot import exp

from storage import InvalidRequest
from storage.sql.dialect import SUFFIX, shown

from . import spark_types as st
from .duckdb_casts import cast
from .duckdb_decimals import DIVIDED_BY_ZERO, Typed, decimal_of, exactly, quotient
from .duckdb_letters import LOWER_DIFFERS, where_case_is_alike
from .duckdb_literals import number, suffixed
from .place import at
from .spark_types import BIGINT, BOOLEAN, DATE, DOUBLE, NULL, STRING, SparkType

BACKSLASH = "\\"
_LOGICAL = (exp.Not, exp.Paren, exp.And, exp.Or)
# Where a condition stands as a whole.
_TAKES_CONDITIONS = (exp.Where, exp.Having, exp.Join, exp.Select, exp.Alias, exp.If, exp.Case, exp.Update)


class Scope(Protocol):
    """Where columns and queries inside of an expression are looked up."""

    def column(self, node: exp.Column) -> Typed:
        """The column that a name means. Raises InvalidRequest, listing the columns, if there is none."""

    def query(self, node: exp.Expr) -> tuple[str, list[SparkType]]:
        """The text of a query inside an expression, which may use the columns of this scope, and the types of its columns."""


class Expressions:
    """Compiles the expressions of one SELECT."""

    def __init__(self, scope: Scope, rules: Mapping[type[exp.Expr], "Rule"]) -> None:
        self._scope = scope
        self._rules = rules

    def of(self, node: exp.Expr) -> Typed:
        """Raises InvalidRequest, with the place, for what has no rule."""
        rule = self._rules.get(type(node))
        if rule is None:
            raise unknown(node)
        parts, act = rule
        for key, value in node.args.items():
            if value and key not in parts:
                raise unknown(node, key)
        return act(self, node)

    def all(self, nodes: Sequence[exp.Expr]) -> list[Typed]:
        """Several expressions, compiled in their order."""
        return [self.of(node) for node in nodes]

    def to(self, node: exp.Expr, kind: SparkType) -> str:
        """An expression as a value of a type, as Spark casts what is given where that type is wanted."""
        return implied(self.of(node), kind, node)

    def condition(self, node: exp.Expr, *, bare_null: bool = False) -> str:
        """An expression that is true, false or null. `bare_null`: the word NULL alone is one, too."""
        compiled = self.of(node)
        if compiled.type != BOOLEAN and not (bare_null and compiled.type == NULL):
            raise at(node, InvalidRequest(f"{shown(node)} is {compiled.type}, where a condition is needed."))
        return implied(compiled, BOOLEAN, node)

    def same(self, nodes: Sequence[exp.Expr]) -> tuple[list[str], SparkType]:
        """Expressions as values of the one type that Spark finds for them."""
        compiled = self.all(nodes)
        kind = _one_type(compiled, nodes[0])
        return [implied(each, kind, nodes[0]) for each in compiled], kind

    def window(self, name: str) -> exp.Expr | None:
        """The window that a WINDOW clause gives a name."""
        return None

    # --- rules that need the scope

    def column(self, node: exp.Expr) -> Typed:
        """A column, looked up in the scope."""
        return self._scope.column(node)  # type: ignore[arg-type]

    def subquery(self, node: exp.Expr) -> Typed:
        """A query that stands for a value. Raises InvalidRequest if it has more than one column."""
        text, types = self._scope.query(node.this)
        if len(types) != 1:
            raise at(node, InvalidRequest(f"A query that stands for a value gives one column, not {len(types)}."))
        return Typed(f"({text})", types[0])

    def exists(self, node: exp.Expr) -> Typed:
        """`EXISTS (query)`."""
        return Typed(f"EXISTS ({self._scope.query(node.this)[0]})", BOOLEAN)

    def is_in(self, node: exp.Expr) -> Typed:
        """`x IN (values)`, compared in a common type; `x IN (query)`, of one column of the same type, or both whole numbers."""
        query = node.args.get("query")
        if query is not None:
            text, types = self._scope.query(query.this if isinstance(query, exp.Subquery) else query)
            value = self.of(node.this)
            if len(types) != 1 or not _compare_alike(value.type, types[0]):
                raise unknown(node, "query")
            # Spark answers by a join, which knows no null: no match is false, and no certain match is true of NOT IN.
            otherwise = "TRUE" if _is_negated(node) else "FALSE"
            return Typed(f"COALESCE({value.sql} IN ({text}), {otherwise})", BOOLEAN)
        if isinstance(node.this, exp.Tuple):
            raise unknown(node.this)
        (first, *rest), _ = self._compared([node.this, *node.expressions], node)
        return Typed(f"({first} IN ({', '.join(rest)}))", BOOLEAN)

    def _compared(self, nodes: Sequence[exp.Expr], node: exp.Expr) -> tuple[list[str], SparkType]:
        """Expressions that are compared with each other, under one type."""
        compiled = self.all(nodes)
        kinds = {field.type for field in compiled if field.type not in (NULL, STRING)}
        texts = [field for field in compiled if field.type == STRING]
        if texts and kinds:
            # Spark reads the text as what it is compared with.
            kind = st.common(sorted(kinds, key=str))
            if kind is None or kind.is_decimal:
                raise unknown(node)
            kind = BIGINT if kind.is_integer else DOUBLE if kind.is_float else kind
        else:
            kind = _one_type(compiled, node)
        if kind.word in ("map", "array", "struct", "variant"):
            raise unknown(node)
        return [implied(each, kind, node) for each in compiled], kind

    def comparison(self, node: exp.Expr) -> Typed:
        """`=`, `<` and the like: both sides are cast to the type in which Spark compares them."""
        (left, right), _ = self._compared([node.left, node.right], node)  # type: ignore[attr-defined]
        return Typed(f"({left} {COMPARISONS[type(node)]} {right})", BOOLEAN)

    def between(self, node: exp.Expr) -> Typed:
        """`x BETWEEN low AND high`: each bound is compared in the common type that it has with the value."""
        (value, low), _ = self._compared([node.this, node.args["low"]], node)
        (again, high), _ = self._compared([node.this, node.args["high"]], node)
        return Typed(f"({value} >= {low} AND {again} <= {high})", BOOLEAN)

    def like(self, node: exp.Expr) -> Typed:
        """`LIKE` and `ILIKE`, also with ANY and ALL; the escape character is the backslash."""
        patterns, value = node.expression, self.to(node.this, STRING)
        if isinstance(patterns, exp.Any | exp.All):
            given = unwrapped(patterns.this)
            listed = given.expressions if isinstance(given, exp.Tuple) else [given]
            word = " OR " if isinstance(patterns, exp.Any) else " AND "
            # NOT LIKE ANY is not the contrary of LIKE ANY: it asks each pattern.
            sign = "NOT " if node.args.get("negate") else ""
            return Typed(
                f"({word.join(f'({sign}{self._likeness(node, value, each, BACKSLASH)})' for each in listed)})", BOOLEAN
            )
        text = self._likeness(node, value, patterns, BACKSLASH)
        return Typed(f"(NOT {text})" if node.args.get("negate") else text, BOOLEAN)

    def escaped_like(self, node: exp.Expr) -> Typed:
        """`LIKE … ESCAPE 'c'`. Raises InvalidRequest for an escape that is not one character."""
        inner, escape = node.this, node.expression
        if not isinstance(inner, exp.Like | exp.ILike) or isinstance(inner.expression, exp.Any | exp.All):
            raise unknown(node)
        if not (isinstance(escape, exp.Literal) and escape.is_string and len(escape.this) == 1):
            raise at(node, InvalidRequest("ESCAPE takes one character, as in ESCAPE '!'."))
        text = self._likeness(inner, self.to(inner.this, STRING), inner.expression, escape.this)
        return Typed(f"(NOT {text})" if inner.args.get("negate") else text, BOOLEAN)

    def _likeness(self, node: exp.Expr, value: str, pattern: exp.Expr, escape: str) -> str:
        """Whether a text is like one pattern, in which Spark lets the escape character stand before few others."""
        sign = re.escape(escape)
        valid = f"(?:[^{sign}]|{sign}[%_{sign}])*"
        if isinstance(pattern, exp.Literal) and pattern.is_string:
            if not re.fullmatch(valid, pattern.this, re.DOTALL):
                message = (
                    f"The pattern {pattern.this!r} has a {escape} before none of %, _ and {escape}: write it twice."
                )
                if escape == BACKSLASH:
                    message = (
                        f"The pattern {pattern.this!r} has a backslash that stands before none of %, _ and \\: "
                        "write \\\\ for one."
                    )
                raise at(node, InvalidRequest(message))
            if isinstance(node, exp.ILike) and not pattern.this.isascii():
                raise unknown(node)
            text = literal(pattern.this)
        elif isinstance(node, exp.ILike):
            raise unknown(node)
        else:
            given = self.to(pattern, STRING)
            wrong = (
                "CAST(error('a pattern has an escape character that stands before none of %, _ and itself') AS VARCHAR)"
            )
            text = (
                f"(CASE WHEN {given} IS NULL OR regexp_full_match({given}, {literal(valid)}, 's') THEN {given} "
                f"ELSE {wrong} END)"
            )
        if isinstance(node, exp.ILike):
            value = where_case_is_alike(value, "ilike", LOWER_DIFFERS, value)
        word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
        return f"({value} {word} {text} ESCAPE {literal(escape)})"

    def truth_test(self, node: exp.Expr) -> Typed:
        """`IS NULL`, `IS TRUE`, `IS FALSE`, and with NOT."""
        predicate = node.expression
        if isinstance(predicate, exp.Null):
            text = f"({self.of(node.this).sql} IS NULL)"
        elif isinstance(predicate, exp.Boolean):
            text = f"({self.condition(node.this)} IS {'TRUE' if predicate.this else 'FALSE'})"
        else:
            raise unknown(node)
        return Typed(f"(NOT {text})" if node.args.get("negate") else text, BOOLEAN)

    # --- values

    def case(self, node: exp.Expr) -> Typed:
        """`CASE`, with and without a value after it; all results have the type that Spark finds for them."""
        branches = [argument.args["true"] for argument in node.args["ifs"]]
        default = node.args.get("default")
        values, kind = self.same([*branches, *([default] if default is not None else [])])
        texts = []
        for branch, value in zip(node.args["ifs"], values, strict=False):
            if node.this is None:
                condition = self.condition(branch.this)
            else:
                (left, right), _ = self._compared([node.this, branch.this], node)
                condition = f"{left} = {right}"
            texts.append(f"WHEN {condition} THEN {value}")
        otherwise = f" ELSE {values[-1]}" if default is not None else ""
        return Typed(f"(CASE {' '.join(texts)}{otherwise} END)", kind)

    def choice(self, node: exp.Expr) -> Typed:
        """`IF(condition, a, b)`; without `b` it is null."""
        otherwise = node.args.get("false")
        values, kind = self.same([node.args["true"], otherwise if otherwise is not None else exp.Null()])
        return Typed(f"(CASE WHEN {self.condition(node.this)} THEN {values[0]} ELSE {values[1]} END)", kind)

    def coalesce(self, node: exp.Expr) -> Typed:
        """The first value that is not null, in the common type of all."""
        values, kind = self.same([node.this, *node.expressions])
        return Typed(f"COALESCE({', '.join(values)})", kind)

    def nullif(self, node: exp.Expr) -> Typed:
        """Null where two values are equal, else the first, in its own type."""
        value = self.of(node.this)
        (left, right), _ = self._compared([node.this, node.expression], node)
        return Typed(f"(CASE WHEN {left} = {right} THEN NULL ELSE {value.sql} END)", value.type)

    def extreme(self, node: exp.Expr) -> Typed:
        """`greatest` and `least`; refused for floating-point numbers, among which the engines order NaN differently."""
        values, kind = self.same([node.this, *node.expressions])
        if kind.inner or kind.is_float or not kind.has_order:
            # NaN is not the largest number there.
            raise unknown(node)
        return Typed(f"{'greatest' if isinstance(node, exp.Greatest) else 'least'}({', '.join(values)})", kind)

    def casted(self, node: exp.Expr) -> Typed:
        """`CAST(x AS type)` as Spark casts. Raises InvalidRequest for a pair of types that has no such cast."""
        if isinstance(node.this, exp.Literal) and not node.this.is_string and node.to.this == exp.DataType.Type.DOUBLE:  # type: ignore[attr-defined]
            return Typed(f"CAST('{node.this.this}' AS DOUBLE)", DOUBLE)
        if SUFFIX in node.meta:
            return suffixed(node)
        value, kind = self.of(node.this), st.of_tree(node.to)  # type: ignore[attr-defined]
        try:
            return Typed(cast(value.sql, value.type, kind, node.this), kind)
        except InvalidRequest as error:
            raise at(node, error) from None

    def to_date(self, node: exp.Expr) -> Typed:
        """`to_date(x)`: a cast to DATE."""
        value = self.of(node.this)
        return Typed(cast(value.sql, value.type, DATE, node.this), DATE)

    # --- arithmetic

    def plus(self, node: exp.Expr) -> Typed:
        """`+`, `-`, `*`: with Spark's types of decimal results; dates and timestamps are moved by an INTERVAL."""
        sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]  # type: ignore[index]
        interval = node.expression
        if isinstance(interval, exp.Interval) and sign != "*":
            return self._moved(node, interval, sign)
        left, right = self.of(node.this), self.of(node.expression)
        if left.type == DATE and right.type.is_integer and sign != "*":
            raise unknown(node)
        kind = self._numeric(node, left, right)
        if not kind.is_decimal:
            return computed(f"({implied(left, kind, node)} {sign} {implied(right, kind, node)})", kind)
        first, second = decimal_of(left), decimal_of(right)
        if sign == "*":
            exact = (first.digits + second.digits + 1, first.scale + second.scale)
        else:
            scale = max(first.scale, second.scale)
            exact = (max(first.digits - first.scale, second.digits - second.scale) + scale + 1, scale)
        if exact[1] > 38:
            raise at(
                node, InvalidRequest(f"{shown(node)}: more digits than DuckDB's decimals have. Use the engine spark.")
            )
        result = st.decimal(*exact)
        if exact[0] > _FEW_DIGITS:
            # Two of few digits are computed in a whole number of 64 bits, which may be too small.
            first = SparkType("decimal", max(first.digits, _FEW_DIGITS + 1), first.scale)
        operands = f"{exactly(left, first)} {sign} {exactly(right, second)}"
        return Typed(f"CAST(({operands}) AS {result.duckdb})", result)

    def _numeric(self, node: exp.Expr, left: Typed, right: Typed) -> SparkType:
        """The type that two numbers are computed in."""
        kind = st.common([left.type, right.type])
        if kind == NULL or kind is None or not kind.is_number:
            if kind is None and left.type.is_number and right.type.is_number:
                return SparkType("decimal", 38, 0)
            raise unknown(node)
        return kind

    def _moved(self, node: exp.Expr, interval: exp.Interval, sign: str) -> Typed:
        value = self.of(node.this)
        unit = interval.args.get("unit")
        count = interval.this
        word = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
        if (
            not value.type.is_time
            or word not in _UNITS
            or not isinstance(count, exp.Literal)
            or not re.fullmatch(r"-?\d+", count.this.strip())
        ):
            raise unknown(node)
        kind = value.type
        if kind == DATE and word not in ("DAY", "WEEK", "MONTH", "YEAR"):
            raise unknown(node)
        moved = f"({value.sql} {sign} INTERVAL ({count.this.strip()}) {word})"
        return Typed(f"CAST({moved} AS DATE)" if kind == DATE else moved, kind)

    def divide(self, node: exp.Expr) -> Typed:
        """`/`: a double, or of decimals a decimal. Division by zero is an error, as in Spark."""
        left, right = self.of(node.this), self.of(node.expression)
        kind = self._numeric(node, left, right)
        if not kind.is_decimal:
            divisor = implied(right, DOUBLE, node)
            dividend = implied(left, DOUBLE, node)
            return Typed(
                f"({dividend} / CASE WHEN {divisor} = 0 THEN CAST({DIVIDED_BY_ZERO} AS DOUBLE) ELSE {divisor} END)",
                DOUBLE,
            )
        return quotient(left, right)

    def whole_quotient(self, node: exp.Expr) -> Typed:
        """`DIV` of whole numbers: a bigint. Division by zero is an error."""
        left, right = self.of(node.this), self.of(node.expression)
        if not (left.type.is_integer and right.type.is_integer):
            raise unknown(node)
        return Typed(f"({implied(left, BIGINT, node)} // {_not_zero(implied(right, BIGINT, node), 'BIGINT')})", BIGINT)

    def remainder(self, node: exp.Expr) -> Typed:
        """`%` of whole numbers, in their common type. Division by zero is an error."""
        left, right = self.of(unwrapped(node.this)), self.of(unwrapped(node.expression))
        kind = self._numeric(node, left, right)
        if not kind.is_integer:
            raise unknown(node)
        return Typed(f"({implied(left, kind, node)} % {_not_zero(implied(right, kind, node), kind.duckdb)})", kind)

    def negated(self, node: exp.Expr) -> Typed:
        """The number with the other sign, in its own type."""
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number(f"-{node.this.this}")
        if SUFFIX in node.this.meta:
            return suffixed(node.this, "-")
        value = self.of(node.this)
        if not value.type.is_number or value.type.digits > _ROUNDED_BEYOND:
            raise unknown(node)
        return computed(f"(- {value.sql})", value.type)


def computed(sql: str, kind: SparkType) -> Typed:
    """A number that is computed. One of integers may overflow, which is an error: the optimizer, which takes additions apart and
    leaves out what cannot be null, does not look into a function.
    """
    return Typed(f"greatest({sql})" if kind.is_integer else sql, kind)


def field_of(value: Typed, name: exp.Expr) -> Typed:
    """A field of a struct."""
    pairs = zip(value.type.names, value.type.inner, strict=False)
    fields = [(field, kind) for field, kind in pairs if field.lower() == name.name.lower()]
    if len(fields) > 1:
        raise at(
            name, InvalidRequest(f"{value.type} has {len(fields)} fields {name.name!r}. Give them different names.")
        )
    for field, kind in fields:
        return Typed(f"struct_extract({value.sql}, {literal(field)})", kind)
    raise at(
        name,
        InvalidRequest(
            f"There is no field {name.name!r} in {value.type}. Fields: {', '.join(value.type.names) or 'none'}."
        ),
    )


def _is_negated(node: exp.Expr) -> bool:
    """Whether NOT stands before a condition, once Spark has moved each to the conditions that it is about. Raises InvalidRequest
    where the condition is a part of something else than AND, OR and NOT.
    """
    negated, parent = False, node.parent
    while isinstance(parent, _LOGICAL):
        negated ^= isinstance(parent, exp.Not)
        parent = parent.parent
    if parent is not None and not isinstance(parent, _TAKES_CONDITIONS):
        raise unknown(node, "query")
    return negated


def unknown(node: exp.Expr, key: str | None = None) -> Exception:
    """The error about an expression, or a part of it, that has no rule."""
    # A part is shown by itself, if it can be: names in the whole are no longer those that were typed.
    said = node.args.get(key) if key else None
    which = shown(said if isinstance(said, exp.Expr) else node)
    part = f" ({key.strip('_').upper()})" if key else ""
    return at(
        node,
        InvalidRequest(
            f"{which}{part} is not known to mean on DuckDB what it means in Spark's SQL. Use the engine spark."
        ),
    )


def literal(text: str) -> str:
    """A text as DuckDB takes it."""
    if "\0" in text:
        parts = [f"'{part}'" for part in text.replace("'", "''").split("\0")]
        return f"({' || chr(0) || '.join(parts)})"
    return "'" + text.replace("'", "''") + "'"


def implied(value: Typed, kind: SparkType, node: exp.Expr) -> str:
    """A value as one of a type that Spark casts it to by itself."""
    if value.type == kind:
        return value.sql
    try:
        return cast(value.sql, value.type, kind, node, implied=True)
    except InvalidRequest as error:
        raise at(node, error) from None


def _not_zero(divisor: str, kind: str) -> str:
    return f"CASE WHEN {divisor} = 0 THEN CAST({DIVIDED_BY_ZERO} AS {kind}) ELSE {divisor} END"


def unwrapped(node: exp.Expr) -> exp.Expr:
    """The expression without the parentheses around it."""
    return node.this if isinstance(node, exp.Paren) else node


def _one_type(values: Sequence[Typed], node: exp.Expr) -> SparkType:
    kind = st.common([value.type for value in values])
    if kind is None:
        types = ", ".join(dict.fromkeys(str(value.type) for value in values))
        raise at(
            node,
            InvalidRequest(
                f"{shown(node)}: values of the types {types} meet. Cast them to one, or use the engine spark."
            ),
        )
    return kind


def _compare_alike(left: SparkType, right: SparkType) -> bool:
    return (left == right and left.has_order) or (left.is_integer and right.is_integer)


# A product or sum of more digits than these is no whole number of 64 bits.
_FEW_DIGITS = 18
# Spark rounds a decimal of more digits when it changes its sign.
_ROUNDED_BEYOND = 34
_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
Rule = tuple[set[str], Callable[[Expressions, Any], Typed]]
