"""NaN is larger than all numbers, and equal to itself, as in Spark: whoever reads, by whatever statistics."""

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from resources import Session
from storage import Table

NAN = math.nan
VALUES = [1.0, -0.0, 0.0, NAN, 1e300, -math.inf, math.inf, None, 5.0]
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
LITERALS = {"0": 0.0, "3": 3.0, "1e300": 1e300}


def rank(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def expected(operator: str, literal: float, *, negated: bool = False) -> list[int]:
    return [
        number
        for number, value in enumerate(VALUES)
        if value is not None and COMPARE[operator](rank(value), rank(literal)) is not negated  # type: ignore[arg-type]
    ]


@pytest.fixture(params=["float", "double"])
def table(session: Session, request: pytest.FixtureRequest) -> Table:
    kind = pa.float32() if request.param == "float" else pa.float64()
    schema = pa.schema([("id", pa.int64()), ("f", kind)])
    made = session.catalog.create_table("default.n", schema)
    values = [
        None if value is None else (3e38 if kind == pa.float32() and value == 1e300 else value) for value in VALUES
    ]
    for part in (slice(0, 4), slice(4, 9)):
        made.write(pa.table({"id": list(range(9))[part], "f": pa.array(values[part], kind)}, schema))
    return made


def test_conditions_in_python(table: Table) -> None:
    for operator in COMPARE:
        for text in ("0", "3"):
            for negated in (False, True):
                where = f"NOT f {operator} {text}" if negated else f"f {operator} {text}"
                ids = sorted(table.to_arrow(where=where)["id"].to_pylist())
                assert ids == expected(operator, LITERALS[text], negated=negated), where


@pytest.mark.spark
def test_conditions_in_sql(table: Table, sql: Callable[[str], Any]) -> None:
    def ids(where: str) -> list[int]:
        return [row[0] for row in sql(f"SELECT id FROM n WHERE {where} ORDER BY id")]

    for operator in COMPARE:
        for text in ("0", "3"):
            assert ids(f"f {operator} {text}D") == expected(operator, LITERALS[text]), (operator, text)
            assert ids(f"NOT f {operator} {text}D") == expected(operator, LITERALS[text], negated=True)
        assert ids(f"f {operator} CAST('NaN' AS DOUBLE)") == expected(operator, NAN), operator
    assert ids("f IN (1D, CAST('NaN' AS DOUBLE))") == [0, 3]
    gone = ids("NOT f <= 3D")
    sql("DELETE FROM n WHERE NOT f <= 3D")
    assert [row[0] for row in sql("SELECT id FROM n ORDER BY id")] == [
        row_id for row_id in range(9) if row_id not in gone
    ]
