"""The point in time that a constant expression after TIMESTAMP AS OF means."""

import datetime as dt
from decimal import Decimal

import duckdb
from sqlglot import exp

from storage import InvalidRequest, moment_of
from storage.engines.duckdb_connection import sealed_duckdb

from .engine_dialects import DuckDbSql

_COLUMNS = (exp.Column, exp.Query, exp.Star)


def moment(node: exp.Expr) -> dt.datetime:
    """A date and time from text, seconds since 1970 from a number, as Spark has it, or whatever a constant expression says.

    Raises InvalidRequest for what is none of these.
    """
    if isinstance(node, exp.Literal):
        if node.is_string:
            if node.this.strip().isdigit():
                raise InvalidRequest(
                    f"'{node.this}' is no date and time. Seconds since 1970 are a number: TIMESTAMP AS OF {node.this}."
                )
            return moment_of(node.this)
        return _from_seconds(Decimal(node.this))
    if node.find(*_COLUMNS) is not None:
        raise InvalidRequest(
            "TIMESTAMP AS OF takes a constant: a text, seconds since 1970, or current_timestamp() and its like."
        )
    return _computed(node)


def _from_seconds(seconds: Decimal) -> dt.datetime:
    try:
        return dt.datetime.fromtimestamp(float(seconds))
    except (ValueError, OverflowError, OSError):
        raise InvalidRequest(
            f"{seconds} seconds since 1970 are no date and time. TIMESTAMP AS OF takes seconds; "
            "'scan.timestamp-millis' in a hint takes milliseconds."
        ) from None


def _computed(node: exp.Expr) -> dt.datetime:
    text = exp.select(exp.cast(node.copy(), exp.DataType.Type.TIMESTAMPTZ)).sql(DuckDbSql)
    try:
        with sealed_duckdb(lambda _: None, threads=1, settings=("SET TimeZone = 'UTC'",)) as connection:
            [(value,)] = connection.sql(f"SELECT epoch_us(moment) FROM ({text}) AS t(moment)").fetchall()
    except duckdb.Error as error:
        raise InvalidRequest(f"TIMESTAMP AS OF {node.sql()}: {str(error).splitlines()[0]}") from None
    if value is None:
        raise InvalidRequest(f"TIMESTAMP AS OF {node.sql()} is null.")
    return _from_seconds(Decimal(value) / 1_000_000)
