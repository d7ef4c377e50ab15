"""Expressions of Spark's SQL in DuckDB's: each has a rule that says its type and what DuckDB has to compute, or is refused.

DuckDB divides, rounds, casts and adds otherwise than Spark does. So nothing is passed on that has no rule here, and a rule
passes on what it has read alone: a part of an expression that it does not know is refused by name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

from sqlglot import exp

from storage import InvalidRequest
from storage.sql.dialect import shown

from . import spark_types as st
from .duckdb_casts import cast
from .place import at
from .spark_types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, STRING, TIMESTAMP, SparkType

_DIGITS_AT_A_TIME = 6
_DIVIDED_BY_ZERO = "error('Division by zero. Use NULLIF to get NULL instead.')"
_VALID_PATTERN = re.compile(r"(?:[^\\]|\\[%_\\])*", re.DOTALL)


@dataclass(frozen=True)
class Typed:
    """An expression in DuckDB's SQL, and its type in Spark. `digits`: of a literal that is a whole number."""

    sql: str
    type: SparkType
    digits: int = 0


class Scope(Protocol):
    """Where columns and queries inside of an expression are looked up."""

    def column(self, node: exp.Column) -> Typed: ...

    def query(self, node: exp.Expr) -> tuple[str, list[SparkType]]: ...


class Expressions:
    """Compiles the expressions of one SELECT."""

    def __init__(self, scope: Scope, rules: Mapping[type[exp.Expr], "Rule"] | None = None) -> None:
        self._scope = scope
        self._rules = RULES if rules is None else rules

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
        return [self.of(one) for one in nodes]

    def to(self, node: exp.Expr, kind: SparkType) -> str:
        """An expression as a value of a type, as Spark casts what is given where that type is wanted."""
        return implied(self.of(node), kind, node)

    def condition(self, node: exp.Expr, *, bare_null: bool = False) -> str:
        """An expression that is true, false or null. `bare_null`: the word NULL alone is one, too."""
        found = self.of(node)
        if found.type != BOOLEAN and not (bare_null and found.type == NULL):
            raise at(node, InvalidRequest(f"{shown(node)} is {found.type}, where a condition is needed."))
        return implied(found, BOOLEAN, node)

    def same(self, nodes: Sequence[exp.Expr]) -> tuple[list[str], SparkType]:
        """Expressions as values of the one type that Spark finds for them."""
        found = self.all(nodes)
        kind = _one_type(found, nodes[0])
        return [implied(one, kind, nodes[0]) for one in found], kind

    # --- rules that need the scope

    def column(self, node: exp.Expr) -> Typed:
        return self._scope.column(node)  # type: ignore[arg-type]

    def subquery(self, node: exp.Expr) -> Typed:
        text, types = self._scope.query(node.this)
        if len(types) != 1:
            raise at(node, InvalidRequest(f"A query that stands for a value gives one column, not {len(types)}."))
        return Typed(f"({text})", types[0])

    def exists(self, node: exp.Expr) -> Typed:
        return Typed(f"EXISTS ({self._scope.query(node.this)[0]})", BOOLEAN)

    def is_in(self, node: exp.Expr) -> Typed:
        query = node.args.get("query")
        if query is not None:
            text, types = self._scope.query(query.this if isinstance(query, exp.Subquery) else query)
            value = self.of(node.this)
            if len(types) != 1 or not _compare_alike(value.type, types[0]):
                raise unknown(node, "query")
            # Spark answers by a join, which knows no null: no match is false, and no certain match is true of NOT IN.
            otherwise = "TRUE" if isinstance(node.parent, exp.Not) else "FALSE"
            return Typed(f"COALESCE({value.sql} IN ({text}), {otherwise})", BOOLEAN)
        if isinstance(node.this, exp.Tuple):
            raise unknown(node.this)
        (first, *rest), _ = self._compared([node.this, *node.expressions], node)
        return Typed(f"({first} IN ({', '.join(rest)}))", BOOLEAN)

    def _compared(self, nodes: Sequence[exp.Expr], node: exp.Expr) -> tuple[list[str], SparkType]:
        """Expressions that are compared with each other, under one type."""
        found = self.all(nodes)
        kinds = {one.type for one in found if one.type not in (NULL, STRING)}
        texts = [one for one in found if one.type == STRING]
        if texts and kinds:
            # Spark reads the text as what it is compared with.
            kind = st.common(sorted(kinds, key=str))
            if kind is None or kind.is_decimal:
                raise unknown(node)
            kind = BIGINT if kind.is_integer else DOUBLE if kind.is_float else kind
        else:
            kind = _one_type(found, node)
        if kind.word in ("map", "array", "struct"):
            raise unknown(node)
        return [implied(one, kind, node) for one in found], kind

    def comparison(self, node: exp.Expr) -> Typed:
        (left, right), _ = self._compared([node.left, node.right], node)  # type: ignore[attr-defined]
        return Typed(f"({left} {_COMPARISONS[type(node)]} {right})", BOOLEAN)

    def between(self, node: exp.Expr) -> Typed:
        (value, low), _ = self._compared([node.this, node.args["low"]], node)
        (again, high), _ = self._compared([node.this, node.args["high"]], node)
        return Typed(f"({value} >= {low} AND {again} <= {high})", BOOLEAN)

    def like(self, node: exp.Expr) -> Typed:
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string):
            raise at(node, InvalidRequest(f"{shown(node)}: on DuckDB a pattern is a literal. Use the engine spark."))
        if not _VALID_PATTERN.fullmatch(pattern.this):
            raise at(
                node,
                InvalidRequest(
                    f"The pattern {pattern.this!r} has a backslash that stands before none of %, _ and \\: write \\\\ for one."
                ),
            )
        word = "ILIKE" if isinstance(node, exp.ILike) else "LIKE"
        if word == "ILIKE" and not pattern.this.isascii():
            raise unknown(node)
        text = f"({self.to(node.this, STRING)} {word} {literal(pattern.this)} ESCAPE '\\')"
        return Typed(f"(NOT {text})" if node.args.get("negate") else text, BOOLEAN)

    def is_what(self, node: exp.Expr) -> Typed:
        what = node.expression
        if isinstance(what, exp.Null):
            text = f"({self.of(node.this).sql} IS NULL)"
        elif isinstance(what, exp.Boolean):
            text = f"({self.condition(node.this)} IS {'TRUE' if what.this else 'FALSE'})"
        else:
            raise unknown(node)
        return Typed(f"(NOT {text})" if node.args.get("negate") else text, BOOLEAN)

    # --- values

    def case(self, node: exp.Expr) -> Typed:
        branches = [one.args["true"] for one in node.args["ifs"]]
        default = node.args.get("default")
        values, kind = self.same([*branches, *([default] if default is not None else [])])
        texts = []
        for one, value in zip(node.args["ifs"], values, strict=False):
            if node.this is None:
                condition = self.condition(one.this)
            else:
                (left, right), _ = self._compared([node.this, one.this], node)
                condition = f"{left} = {right}"
            texts.append(f"WHEN {condition} THEN {value}")
        otherwise = f" ELSE {values[-1]}" if default is not None else ""
        return Typed(f"(CASE {' '.join(texts)}{otherwise} END)", kind)

    def choice(self, node: exp.Expr) -> Typed:
        otherwise = node.args.get("false")
        values, kind = self.same([node.args["true"], otherwise if otherwise is not None else exp.Null()])
        return Typed(f"(CASE WHEN {self.condition(node.this)} THEN {values[0]} ELSE {values[1]} END)", kind)

    def coalesce(self, node: exp.Expr) -> Typed:
        values, kind = self.same([node.this, *node.expressions])
        return Typed(f"COALESCE({', '.join(values)})", kind)

    def nullif(self, node: exp.Expr) -> Typed:
        value = self.of(node.this)
        (left, right), _ = self._compared([node.this, node.expression], node)
        return Typed(f"(CASE WHEN {left} = {right} THEN NULL ELSE {value.sql} END)", value.type)

    def extreme(self, node: exp.Expr) -> Typed:
        values, kind = self.same([node.this, *node.expressions])
        if kind.inner or kind.is_float:
            # NaN is not the largest number there.
            raise unknown(node)
        return Typed(f"{'greatest' if isinstance(node, exp.Greatest) else 'least'}({', '.join(values)})", kind)

    def casted(self, node: exp.Expr) -> Typed:
        if isinstance(node.this, exp.Literal) and not node.this.is_string and node.to.this == exp.DataType.Type.DOUBLE:  # type: ignore[attr-defined]
            return Typed(f"CAST('{node.this.this}' AS DOUBLE)", DOUBLE)
        value, kind = self.of(node.this), st.of_tree(node.to)  # type: ignore[attr-defined]
        try:
            return Typed(cast(value.sql, value.type, kind, node.this), kind)
        except InvalidRequest as error:
            raise at(node, error) from None

    def to_date(self, node: exp.Expr) -> Typed:
        value = self.of(node.this)
        return Typed(cast(value.sql, value.type, DATE, node.this), DATE)

    # --- arithmetic

    def plus(self, node: exp.Expr) -> Typed:
        sign = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}[type(node)]  # type: ignore[index]
        interval = node.expression
        if isinstance(interval, exp.Interval) and sign != "*":
            return self._moved(node, interval, sign)
        left, right = self.of(node.this), self.of(node.expression)
        if left.type == DATE and right.type.is_integer and sign != "*":
            raise unknown(node)
        kind = self._numeric(node, left, right)
        if not kind.is_decimal:
            return Typed(f"({implied(left, kind, node)} {sign} {implied(right, kind, node)})", kind)
        first, second = _decimal_of(left), _decimal_of(right)
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
        operands = f"{_exactly(left, first)} {sign} {_exactly(right, second)}"
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
        left, right = self.of(node.this), self.of(node.expression)
        kind = self._numeric(node, left, right)
        if not kind.is_decimal:
            divisor = implied(right, DOUBLE, node)
            dividend = implied(left, DOUBLE, node)
            return Typed(
                f"({dividend} / CASE WHEN {divisor} = 0 THEN CAST({_DIVIDED_BY_ZERO} AS DOUBLE) ELSE {divisor} END)",
                DOUBLE,
            )
        return quotient(left, right)

    def whole_quotient(self, node: exp.Expr) -> Typed:
        left, right = self.of(node.this), self.of(node.expression)
        if not (left.type.is_integer and right.type.is_integer):
            raise unknown(node)
        return Typed(f"({implied(left, BIGINT, node)} // {_not_zero(implied(right, BIGINT, node), 'BIGINT')})", BIGINT)

    def remainder(self, node: exp.Expr) -> Typed:
        left, right = self.of(_unwrapped(node.this)), self.of(_unwrapped(node.expression))
        kind = self._numeric(node, left, right)
        if not kind.is_integer:
            raise unknown(node)
        return Typed(f"({implied(left, kind, node)} % {_not_zero(implied(right, kind, node), kind.duckdb)})", kind)

    def negated(self, node: exp.Expr) -> Typed:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number(f"-{node.this.this}")
        value = self.of(node.this)
        if not value.type.is_number:
            raise unknown(node)
        return Typed(f"(- {value.sql})", value.type)

    def rounded(self, node: exp.Expr) -> Typed:
        places = node.args.get("decimals")
        value = self.of(node.this)
        count = 0
        if places is not None:
            text = places.sql()
            if not re.fullmatch(r"-?\d+", text):
                raise unknown(node)
            count = int(text)
        if value.type.is_integer and count >= 0:
            return Typed(value.sql, value.type)
        if value.type.is_decimal and count >= 0:
            one = value.type
            scale = min(count, one.scale)
            kind = SparkType("decimal", min(38, one.digits - one.scale + 1 + scale), scale)
            return Typed(f"CAST({value.sql} AS {kind.duckdb})", kind)
        if value.type == DOUBLE and 0 <= count <= 15:
            exact = f"CAST(CAST({value.sql} AS VARCHAR) AS DECIMAL(38, {count}))"
            return Typed(f"(CASE WHEN isfinite({value.sql}) THEN CAST({exact} AS DOUBLE) ELSE {value.sql} END)", DOUBLE)
        raise unknown(node)

    def whole(self, node: exp.Expr) -> Typed:
        value = self.of(node.this)
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

    def joined(self, node: exp.Expr) -> Typed:
        nodes = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
        values = [self.to(one, STRING) for one in nodes]
        return Typed(f"({' || '.join(values)})" if values else "''", STRING)

    def trimmed(self, node: exp.Expr) -> Typed:
        word = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get((node.args.get("position") or "").upper(), "trim")
        characters = node.args.get("expression")
        chosen = self.to(characters, STRING) if characters is not None else "' '"
        return Typed(f"{word}({self.to(node.this, STRING)}, {chosen})", STRING)

    def part_of_text(self, node: exp.Expr) -> Typed:
        text, start, length = node.this, node.args["start"], node.args.get("length")
        if any(not re.fullmatch(r"\d+", one.sql()) for one in (start, length) if one is not None):
            raise unknown(node)
        # Spark counts a start of 0 as 1.
        end = f", {length.sql()}" if length is not None else ""
        return Typed(f"substring({self.to(text, STRING)}, {max(1, int(start.sql()))}{end})", STRING)


def field_of(value: Typed, name: exp.Expr) -> Typed:
    """A field of a struct."""
    for field, kind in zip(value.type.names, value.type.inner, strict=False):
        if field.lower() == name.name.lower():
            return Typed(f"struct_extract({value.sql}, {literal(field)})", kind)
    raise at(
        name,
        InvalidRequest(
            f"There is no field {name.name!r} in {value.type}. Fields: {', '.join(value.type.names) or 'none'}."
        ),
    )


def unknown(node: exp.Expr, key: str | None = None) -> Exception:
    """The error about an expression, or a part of it, that has no rule."""
    part = f" ({key.strip('_').upper()})" if key else ""
    return at(
        node,
        InvalidRequest(
            f"{shown(node)}{part} is not known to mean on DuckDB what it means in Spark's SQL. Use the engine spark."
        ),
    )


def literal(text: str) -> str:
    """A text as DuckDB takes it."""
    if "\0" in text:
        parts = [f"'{part}'" for part in text.replace("'", "''").split("\0")]
        return f"({' || chr(0) || '.join(parts)})"
    return "'" + text.replace("'", "''") + "'"


def number(text: str) -> Typed:
    """A literal number: an INT, a BIGINT, or a decimal, as Spark reads it."""
    value = Decimal(text)
    if re.fullmatch(r"-?\d+", text):
        digits = len(text.lstrip("-").lstrip("0")) or 1
        for kind, bits in ((INT, 31), (BIGINT, 63)):
            if -(2**bits) <= int(text) < 2**bits:
                return Typed(f"CAST({text} AS {kind.duckdb})", kind, digits)
        return Typed(f"CAST('{text}' AS DECIMAL({digits}, 0))", SparkType("decimal", digits, 0))
    if "e" in text.lower():
        return Typed(f"CAST('{text}' AS DOUBLE)", DOUBLE)
    scale = max(0, -int(value.as_tuple().exponent))
    digits = max(len(value.as_tuple().digits), scale)
    if digits > 38:
        raise InvalidRequest(f"{text}: a decimal has at most 38 digits.")
    return Typed(f"CAST('{text}' AS DECIMAL({digits}, {scale}))", SparkType("decimal", digits, scale))


def implied(value: Typed, kind: SparkType, node: exp.Expr) -> str:
    """A value as one of a type that Spark casts it to by itself."""
    if value.type == kind:
        return value.sql
    try:
        return cast(value.sql, value.type, kind, node, implied=True)
    except InvalidRequest as error:
        raise at(node, error) from None


def quotient(left: Typed, right: Typed, result: SparkType | None = None) -> Typed:
    """Decimals divided, exactly: long division of whole numbers, some digits at a time, rounded half up."""
    first, second = _decimal_of(left), _decimal_of(right)
    if result is None:
        scale = max(6, first.scale + second.digits + 1)
        result = st.decimal(first.digits - first.scale + second.scale + scale, scale)
    shift = second.scale - first.scale + result.scale
    divisor = "x.d" if shift >= 0 else f"(x.d * {_power(-shift)})"
    whole, rest = f"(x.n // {divisor})", f"(x.n % {divisor})"
    while shift > 0:
        step = min(shift, _DIGITS_AT_A_TIME)
        shift -= step
        whole = f"({whole} * {_power(step)} + ({rest} * {_power(step)}) // {divisor})"
        rest = f"(({rest} * {_power(step)}) % {divisor})"
    rounded = f"({whole} + CASE WHEN {rest} >= {divisor} - {rest} THEN 1 ELSE 0 END)"
    unit = _power(result.scale)
    point = f"CAST(y // {unit} AS VARCHAR) || '.' || lpad(CAST(y % {unit} AS VARCHAR), {result.scale}, '0')"
    if not result.scale:
        point = "CAST(y AS VARCHAR)"
    is_negative = _is_negative(left, right, first, second)
    numbers = f"{{'n': {_unscaled(left, first)}, 'd': {_unscaled(right, second)}, 'm': {is_negative}}}"
    zero = f"CAST({_DIVIDED_BY_ZERO} AS {result.duckdb})"
    text = (
        f"list_transform([{numbers}], lambda x: CASE WHEN x.n IS NULL OR x.d IS NULL THEN NULL WHEN x.d = 0 THEN {zero} ELSE "
        f"CAST((CASE WHEN x.m THEN '-' ELSE '' END) || list_transform([{rounded}], lambda y: {point})[1] AS {result.duckdb}) "
        "END)[1]"
    )
    return Typed(text, result)


def _power(digits: int) -> str:
    return f"CAST('1{'0' * digits}' AS HUGEINT)"


def _unscaled(value: Typed, kind: SparkType) -> str:
    """The digits of a decimal without its sign, as a whole number."""
    return f"CAST(replace(replace(CAST({_exactly(value, kind)} AS VARCHAR), '.', ''), '-', '') AS HUGEINT)"


def _is_negative(left: Typed, right: Typed, first: SparkType, second: SparkType) -> str:
    return f"(({_exactly(left, first)} < 0) <> ({_exactly(right, second)} < 0))"


def _decimal_of(value: Typed) -> SparkType:
    if value.digits:
        return SparkType("decimal", value.digits, 0)
    return st.as_decimal(value.type)


def _exactly(value: Typed, kind: SparkType) -> str:
    return value.sql if value.type == kind else f"CAST({value.sql} AS {kind.duckdb})"


def _not_zero(divisor: str, kind: str) -> str:
    return f"CASE WHEN {divisor} = 0 THEN CAST({_DIVIDED_BY_ZERO} AS {kind}) ELSE {divisor} END"


def _unwrapped(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Paren) else node


def _one_type(found: Sequence[Typed], node: exp.Expr) -> SparkType:
    kind = st.common([one.type for one in found])
    if kind is None:
        types = ", ".join(dict.fromkeys(str(one.type) for one in found))
        raise at(
            node,
            InvalidRequest(
                f"{shown(node)}: values of the types {types} meet. Cast them to one, or use the engine spark."
            ),
        )
    return kind


def _compare_alike(left: SparkType, right: SparkType) -> bool:
    return left == right or (left.is_integer and right.is_integer)


_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM", exp.NullSafeNEQ: "IS DISTINCT FROM",
}  # fmt: skip
Rule = tuple[set[str], Callable[[Expressions, Any], Typed]]


def _call(word: str, result: SparkType, *kinds: SparkType) -> Callable[[Expressions, Any], Typed]:
    """A function of DuckDB that takes and gives what Spark's does."""

    def rule(compiler: Expressions, node: Any) -> Typed:
        given = [one for key in ("this", "expression", "substr", "times", "replacement") if (one := node.args.get(key))]
        values = [compiler.to(one, kind) for one, kind in zip(given, kinds, strict=False)]
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
    for number, one in enumerate(node.expressions, 1):
        named = isinstance(one, exp.PropertyEQ)
        names.append(one.this.name if named else one.name if isinstance(one, exp.Column) else f"col{number}")
        values.append(compiler.of(one.expression if named else one))
    fields = ", ".join(f"{literal(name)}: {value.sql}" for name, value in zip(names, values, strict=True))
    kind = SparkType("struct", inner=tuple(one.type for one in values), names=tuple(names))
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
    days = compiler.of(_unwrapped(count))
    if not days.type.is_integer or days.type == BIGINT:
        raise unknown(node)
    return Typed(f"({compiler.to(node.this, DATE)} {sign} CAST({days.sql} AS INTEGER))", DATE)


def _days_between(compiler: Expressions, node: Any) -> Typed:
    unit = node.args.get("unit")
    if unit is not None and unit.name.upper() != "DAY":
        raise unknown(node)
    return Typed(f"CAST({compiler.to(node.this, DATE)} - {compiler.to(node.expression, DATE)} AS INTEGER)", INT)


def _real(word: str) -> Callable[[Expressions, Any], Typed]:
    """A function of a double whose result Spark computes by the same rules."""
    return lambda compiler, node: Typed(f"{word}({compiler.to(node.this, DOUBLE)})", DOUBLE)


def _absolute(compiler: Expressions, node: Any) -> Typed:
    value = compiler.of(node.this)
    if not value.type.is_number:
        raise unknown(node)
    return Typed(f"abs({value.sql})", value.type)


def _connected(word: str) -> Callable[[Expressions, Any], Typed]:
    def rule(compiler: Expressions, node: Any) -> Typed:
        parts = [compiler.condition(one, bare_null=True) for one in node.flatten(unnest=False)]
        return Typed(f"({f' {word} '.join(parts)})", BOOLEAN)

    return rule


def _cut(word: str) -> Callable[[Expressions, Any], Typed]:
    def rule(compiler: Expressions, node: Any) -> Typed:
        if not re.fullmatch(r"\d+", node.expression.sql()):
            raise unknown(node)
        return Typed(f"{word}({compiler.to(node.this, STRING)}, {node.expression.sql()})", STRING)

    return rule


_BOTH = {"this", "expression"}
RULES: dict[type[exp.Expr], Rule] = {
    exp.Column: ({"this", "table", "db", "catalog"}, Expressions.column),
    exp.Subquery: ({"this"}, Expressions.subquery),
    exp.Exists: ({"this"}, Expressions.exists),
    exp.In: ({"this", "expressions", "query"}, Expressions.is_in),
    exp.Between: ({"this", "low", "high"}, Expressions.between),
    exp.Like: ({*_BOTH, "negate"}, Expressions.like),
    exp.ILike: ({*_BOTH, "negate"}, Expressions.like),
    exp.Is: ({*_BOTH, "negate"}, Expressions.is_what),
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
    exp.Round: ({"this", "decimals"}, Expressions.rounded),
    exp.Floor: ({"this"}, Expressions.whole),
    exp.Ceil: ({"this"}, Expressions.whole),
    exp.DPipe: ({*_BOTH, "safe"}, Expressions.joined),
    exp.Concat: ({"expressions", "safe", "coalesce"}, Expressions.joined),
    exp.Trim: ({*_BOTH, "position"}, Expressions.trimmed),
    exp.Substring: ({"this", "start", "length"}, Expressions.part_of_text),
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
    exp.Replace: ({*_BOTH, "replacement"}, _call("replace", STRING, STRING, STRING, STRING)),
    exp.StartsWith: (_BOTH, _call("starts_with", BOOLEAN, STRING, STRING)),
    exp.EndsWith: (_BOTH, _call("ends_with", BOOLEAN, STRING, STRING)),
    exp.Contains: (_BOTH, _call("contains", BOOLEAN, STRING, STRING)),
    exp.Left: (_BOTH, _cut("left")),
    exp.Right: (_BOTH, _cut("right")),
    exp.Abs: ({"this"}, _absolute),
    exp.Sqrt: ({"this"}, lambda compiler, node: _root(compiler, node)),
    exp.Exp: ({"this"}, _real("exp")),
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
    **dict.fromkeys(_COMPARISONS, (_BOTH, Expressions.comparison)),
}


def _root(compiler: Expressions, node: Any) -> Typed:
    value = compiler.to(node.this, DOUBLE)
    return Typed(f"(CASE WHEN {value} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({value}) END)", DOUBLE)
