"""By which values rows are told apart on DuckDB as Spark tells them apart.

Not by maps, in which DuckDB sees the order of the entries; Spark groups by them, and compares them nowhere else.
"""

from sqlglot import exp

from storage import InvalidRequest
from storage.sql.dialect import shown

from .duckdb_decimals import Typed
from .duckdb_expressions import unknown
from .duckdb_relations import Compiled
from .place import at
from .spark_types import SparkType


def group_key(value: Typed, node: exp.Expr, clause: str) -> None:
    """Raise InvalidRequest for a value by which DuckDB makes other groups than Spark, or shows another value of each."""
    if _holds(value.type, "variant"):
        raise without_order(value.type, node, clause)
    if not value.type.has_order or value.type.holds_floats:
        # -0.0 inside of an array or a struct is shown as 0.0 there.
        raise unknown(node)


def compared_rows(rows: Compiled, node: exp.Expr, clause: str) -> None:
    """Raise InvalidRequest, naming the column, for rows that are compared with each other and hold what is not compared."""
    for name, kind in zip(rows.names, rows.types, strict=True):
        if not kind.has_order:
            raise without_order(kind, node, clause, f"column {name!r}")
        if kind.holds_floats:
            raise at(
                node,
                InvalidRequest(
                    f"{clause}: column {name!r} is {kind}, of which Spark and DuckDB show -0.0 otherwise. Use the engine spark."
                ),
            )


def without_order(kind: SparkType, node: exp.Expr, clause: str, subject: str = "") -> Exception:
    """The error about a map or a variant where Spark too compares none."""
    return at(
        node,
        InvalidRequest(
            f"{clause}: {subject or shown(node)} is {kind}, and maps and variants are not compared, in Spark's SQL neither. "
            "Leave it out, or take a part of it."
        ),
    )


def _holds(kind: SparkType, word: str) -> bool:
    return kind.word == word or any(_holds(inner, word) for inner in kind.inner)
