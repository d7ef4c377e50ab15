"""Numbers as they are written, in DuckDB's SQL and with the types that Spark gives them."""

import re
from decimal import Decimal

from sqlglot import exp

from storage import InvalidRequest
from storage.sql.dialect import SUFFIX

from . import spark_types as st
from .duckdb_decimals import Typed
from .place import at
from .spark_types import BIGINT, DOUBLE, INT, SparkType


def suffixed(node: exp.Expr, sign: str = "") -> Typed:
    """A literal such as `7L` or `1.5BD`: it has the digits that are written, as one without a suffix has, but for `7Y`."""
    text, suffix = f"{sign}{node.this.this}", node.meta[SUFFIX]
    if suffix == "BD" and "e" in text.lower():
        raise at(node, InvalidRequest(f"{text}BD is not known on DuckDB. Use the engine spark."))
    if suffix in ("D", "F"):
        kind = DOUBLE if suffix == "D" else st.FLOAT
        return Typed(f"CAST('{text}' AS {kind.duckdb})", kind)
    plain = number(text)
    if suffix == "BD":
        kind = plain.type if plain.type.is_decimal else SparkType("decimal", plain.digits, 0)
        return Typed(f"CAST('{text}' AS {kind.duckdb})", kind)
    kind = st.of_tree(node.to)  # type: ignore[attr-defined]
    return Typed(f"CAST('{text}' AS {kind.duckdb})", kind, 0 if suffix == "Y" else plain.digits)


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
