"""Statements in the SQL of the engines, where texts and patterns mean what they mean in the platform's SQL."""

import re
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, UnsupportedError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.transforms import eliminate_qualify

from storage import InvalidRequest
from storage.sql.dialect import SUFFIX

from .place import at
from .spark_types import NO_TIMES

NATIVE = ("reflect", "java_method", "try_reflect", "identifier")
_HINTS = (
    "BROADCAST",
    "BROADCASTJOIN",
    "MAPJOIN",
    "MERGE",
    "SHUFFLE_MERGE",
    "MERGEJOIN",
    "SHUFFLE_HASH",
    "SHUFFLE_REPLICATE_NL",
    "COALESCE",
    "REPARTITION",
    "REPARTITION_BY_RANGE",
    "REBALANCE",
)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VALID_PATTERN = re.compile(r"(?:[^\\]|\\[%_\\])*", re.DOTALL)


class DuckDbSql(DuckDB):
    """DuckDB's SQL, for constants."""


# Spark has none of them, or the generator writes another in their place.
_NO_TYPES = tuple(
    getattr(exp.DataType.Type, name)
    for name in ("TIME", "TIMETZ", "TIME_NS", "UUID", "JSON", "JSONB", "XML", "INET", "MONEY")
    if hasattr(exp.DataType.Type, name)
)


class _SparkGenerator(SparkGenerator):
    # Spark has WITH inside of queries, where names may stand for others than around them.
    TRANSFORMS: ClassVar[dict[type[exp.Expr], Any]] = {
        **SparkGenerator.TRANSFORMS,
        exp.JSONExtract: lambda self, node: _part_of_variant(self, node),
    }
    TABLESAMPLE_SEED_KEYWORD = "REPEATABLE"
    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()

    def datatype_sql(self, expression: exp.DataType) -> str:
        if expression.this in _NO_TYPES:
            raise at(
                expression,
                InvalidRequest(
                    NO_TIMES
                    if expression.this == exp.DataType.Type.TIME
                    else f"Type {expression.this.value} is none of the types in queries: use a text, or a TIMESTAMP."
                ),
            )
        return super().datatype_sql(expression)

    def literal_sql(self, expression: exp.Literal) -> str:
        return super().literal_sql(expression).replace("${", "\\u0024{")

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        if SUFFIX in expression.meta:
            return f"{expression.this.this}{expression.meta[SUFFIX]}"
        if expression.to.this in _NO_TYPES:
            self.datatype_sql(expression.to)
        return super().cast_sql(expression, safe_prefix)

    def like_sql(self, expression: exp.Like) -> str:
        _may_escape(expression)
        return super().like_sql(expression)

    def ilike_sql(self, expression: exp.ILike) -> str:
        _may_escape(expression)
        return super().ilike_sql(expression)

    def datediff_sql(self, expression: exp.DateDiff) -> str:
        unit = expression.args.get("unit")
        return self.func(
            "DATEDIFF", *([unit, expression.expression, expression.this] if unit else expression.iter_expressions())
        )

    def generate(self, expression: exp.Expr, copy: bool = True) -> str:
        _refuse_native(expression)
        text = super().generate(expression, copy)
        if "${" in text:
            raise InvalidRequest(
                "Spark replaces ${…} wherever it stands: no name may contain it. Use the engine duckdb."
            )
        return text


def _part_of_variant(generator: SparkGenerator, node: exp.JSONExtract) -> str:
    """`v:a.b[0]` as it was written."""
    if not node.args.get("variant_extract"):
        return generator.func("GET_JSON_OBJECT", node.this, node.expression)
    steps = node.expression.expressions
    return f"{generator.sql(node, 'this')}:{''.join(_written(step, place) for place, step in enumerate(steps))}"


def _written(part: exp.Expr, place: int) -> str:
    """A step of a path into a VARIANT; the first is the root."""
    if isinstance(part, exp.JSONPathRoot):
        return ""
    if isinstance(part, exp.JSONPathKey) and isinstance(part.this, str):
        if _PLAIN_KEY.fullmatch(part.this):
            return part.this if place == 1 else f".{part.this}"
        return f"[{exp.Literal.string(part.this).sql(dialect=Spark)}]"
    if isinstance(part, exp.JSONPathSubscript) and isinstance(part.this, int):
        return f"[{part.this}]"
    raise InvalidRequest("A part of a VARIANT is named by keys and numbers: v:a.b[0].")


class SparkSql(Spark):
    """Spark's SQL. `${…}` is text: Spark would put the value of a variable in its place, or nothing."""

    Generator = _SparkGenerator


def _refuse_native(tree: exp.Expr) -> None:
    """Raise InvalidRequest for what makes Spark call Java, run a program, or look for a function or a file by a text."""
    if tree.find(exp.QueryTransform):
        raise InvalidRequest(
            "SELECT TRANSFORM … USING is not allowed in SQL: it runs a program. Compute its rows in an asset."
        )
    for node in tree.find_all(exp.Anonymous, exp.DynamicIdentifier):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else "identifier"
        if name in NATIVE:
            raise InvalidRequest(
                f"{name}() is not allowed in SQL: it runs code outside of the query, or names what a statement does not "
                "show. Write what it would give as an expression, or compute it in an asset."
            )


def _check_joined(hint: exp.Hint, joined: exp.JoinHint) -> None:
    """Raise InvalidRequest for a table in a hint that the query does not read: Spark would ignore it."""
    query = hint.parent
    tables = () if query is None else query.find_all(exp.Table, exp.Subquery, exp.CTE)
    known = sorted({each.alias_or_name.lower() for each in tables if each.find_ancestor(exp.Hint) is None} - {""})
    for named in joined.expressions:
        if named.name.lower() not in known:
            raise at(
                joined,
                InvalidRequest(
                    f"Hint {joined.name}: the query reads no table {named.name!r}. Tables: {', '.join(known)}."
                ),
            )


def spark_text(tree: exp.Expr) -> str:
    """A statement in Spark's SQL. Raises InvalidRequest for what cannot be said in it, and for hints that it does not know."""
    for hint in tree.find_all(exp.Hint):
        for expression in hint.expressions:
            if isinstance(expression, exp.JoinHint):
                _check_joined(hint, expression)
                continue
            if not isinstance(expression, exp.Expr):
                # Of what sqlglot cannot read it keeps the text.
                raise at(hint, InvalidRequest(f"Hint {str(expression)!r} is not known. Hints: {', '.join(_HINTS)}."))
            name = expression.name if isinstance(expression, exp.Anonymous | exp.Var | exp.Column) else expression.key
            if name.upper() not in _HINTS:
                raise at(expression, InvalidRequest(f"Hint {name!r} is not known. Hints: {', '.join(_HINTS)}."))
    try:
        tree = _without_qualify(tree)
        return tree.sql(dialect=SparkSql, unsupported_level=ErrorLevel.RAISE)
    except (UnsupportedError, ValueError) as error:
        raise at(tree, InvalidRequest(f"This cannot be said in Spark's SQL: {str(error).splitlines()[0]}")) from None


def _without_qualify(tree: exp.Expr) -> exp.Expr:
    """A statement in which QUALIFY beside a * is a condition on a query, whose help columns no * stands for."""
    selects = [node for node in tree.find_all(exp.Select) if node.args.get("qualify") and node.is_star]
    if not selects:
        return tree
    tree = tree.copy()
    for select in [node for node in tree.find_all(exp.Select) if node.args.get("qualify") and node.is_star]:
        known = {node.alias for node in select.selects}
        outer = eliminate_qualify(select.copy())
        inner = outer.args["from_"].this.this
        helping = [
            exp.to_identifier(select.alias) for select in inner.selects if select.alias and select.alias not in known
        ]
        outer.set("expressions", [exp.Star(except_=helping) if helping else exp.Star()])
        if select is tree:
            return _without_qualify(outer)
        select.replace(outer)
    return tree


def _may_escape(like: exp.Like | exp.ILike) -> bool:
    """Whether a pattern may have backslashes that escape. Raises InvalidRequest for one that Spark refuses at run time."""
    pattern = like.expression
    if isinstance(like.parent, exp.Escape) or isinstance(pattern, exp.Any | exp.All):
        return False
    if isinstance(pattern, exp.Literal):
        if not _VALID_PATTERN.fullmatch(pattern.this):
            raise InvalidRequest(
                f"The pattern {pattern.this!r} has a backslash that stands before none of %, _ and \\: write \\\\ for one."
            )
        return "\\" in pattern.this
    return True
