"""Sums and products of decimals: as exact as Python's, rounded as Java does, refused where they do not fit."""

import random
from decimal import ROUND_HALF_UP, Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, Table
from storage.lsm.decimal_product import decimal_product


def table_of(catalog: Catalog, function: str, kind: pa.DataType, **options: str) -> Table:
    return catalog.create_table(
        "shop.t",
        pa.schema([("k", pa.int64()), ("q", pa.int64()), ("v", kind)]),
        primary_key=["k"],
        options={"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": function, **options},
    )


def write(table: Table, value: str, kind: str = "+I", q: int = 1) -> None:
    schema = table.schema.to_arrow().append(pa.field("kind", pa.string()))
    row = pa.table({"k": [1], "q": [q], "v": [Decimal(value)], "kind": [kind]}, schema=schema)
    table.write(row, row_kind_column="kind")


@pytest.mark.java_differs("What does not fit is NULL there.")
@pytest.mark.pypaimon_differs("It does not look whether a result fits.")
@pytest.mark.parametrize(
    ("function", "kind", "values"),
    [
        ("sum", pa.decimal128(38, 0), ("9" * 38, "9" * 38)),
        ("sum", pa.decimal128(38, 2), ("9" * 36 + ".99", "0.01")),
        ("sum", pa.decimal128(18, 0), ("9" * 18, "1")),
        ("product", pa.decimal128(10, 2), ("9999.00", "9999999.00")),
        ("product", pa.decimal128(38, 0), ("9" * 20, "9" * 20)),
        ("product", pa.decimal128(4, 2), ("99.99", "2.00")),
    ],
)
def test_what_does_not_fit_is_refused(
    function: str, kind: pa.DataType, values: tuple[str, str], catalog: Catalog
) -> None:
    table = table_of(catalog, function, kind)
    for value in values:
        write(table, value)
    with pytest.raises(InvalidRequest, match="does not fit its type"):
        table.to_arrow()
    with pytest.raises(InvalidRequest, match="does not fit its type"):
        table.compact()
    assert any("does not fit its type" in str(line) for line in table.check(deep=True))


@pytest.mark.pypaimon_differs("It does not multiply.")
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("2.25", "+I"), ("2.00", "-D")], "1.13"),
        ([("3.38", "+I"), ("1.25", "-D")], "2.70"),
        ([("0.01", "+I"), ("8.00", "-D")], "0.00"),
        ([("1.25", "+I"), ("0.50", "+I")], "0.63"),
        ([("1.50", "+I"), ("1.50", "+I"), ("1.50", "+I"), ("-2.00", "-D")], "-1.69"),
    ],
)
def test_products_are_rounded_each_time(rows: list[tuple[str, str]], expected: str, catalog: Catalog) -> None:
    table = table_of(catalog, "product", pa.decimal128(10, 2))
    for value, kind in rows:
        write(table, value, kind)
    assert table.to_arrow()["v"].to_pylist() == [Decimal(expected)]


def test_sums_of_many_digits_are_exact(catalog: Catalog) -> None:
    table = table_of(catalog, "sum", pa.decimal128(38, 0))
    for value, kind in (("9" * 38, "+I"), ("9" * 38, "-D"), ("1", "+I"), ("9" * 37, "+I")):
        write(table, value, kind)
    assert table.to_arrow()["v"].to_pylist() == [Decimal(10**37)]


@pytest.mark.pypaimon_differs("It takes nothing back.")
@pytest.mark.parametrize("ignores", [False, True])
def test_a_sequence_field_that_ignores_retractions_keeps_its_value(ignores: bool, catalog: Catalog) -> None:
    options = {"sequence.field": "q", **({"fields.q.ignore-retract": "true"} if ignores else {})}
    table = table_of(catalog, "sum", pa.decimal128(10, 0), **options)
    write(table, "5", q=1)
    write(table, "2", "-D", q=2)
    for _ in range(2):
        assert table.to_arrow().to_pylist() == [{"k": 1, "q": 1 if ignores else None, "v": Decimal(3)}]
        assert table.to_arrow(where="q = 1").num_rows == int(ignores)
        table.compact()


def test_products_are_those_of_exact_arithmetic() -> None:
    dice, fitting = random.Random(5), 0
    with localcontext(prec=400):
        for _ in range(300):
            precision = dice.randint(1, 38)
            scale = dice.randint(0, precision)
            kind, step = pa.decimal128(precision, scale), Decimal(1).scaleb(-scale)
            rows: list[tuple[str, Decimal]] = []
            starts, expected, fits = [], [], True
            for _ in range(dice.randint(1, 4)):
                starts.append(len(rows))
                product: Decimal | None = None
                for _ in range(dice.randint(1, 5)):
                    value = Decimal(
                        dice.randint(-(10 ** dice.randint(0, precision)) + 1, 10 ** dice.randint(0, precision) - 1)
                    )
                    value, act = value.scaleb(-scale), dice.choice("**/ ")
                    if act == "/" and (product is None or value == 0):
                        act = " "
                    rows.append((act, value))
                    if act == "*":
                        product = value if product is None else (product * value).quantize(step, ROUND_HALF_UP)
                    elif act == "/":
                        product = (product / value).quantize(step, ROUND_HALF_UP)  # type: ignore[operator]
                    fits &= product is None or abs(product) < Decimal(10) ** (precision - scale)
                expected.append(product)
            factors, divisors = (
                pa.array([value if act == wanted else None for act, value in rows], kind) for wanted in "*/"
            )
            if fits:
                fitting += 1
                assert decimal_product(factors, divisors, np.array(starts)).to_pylist() == expected
            else:
                with pytest.raises(pa.ArrowInvalid, match="more than"):
                    decimal_product(factors, divisors, np.array(starts))
    assert fitting > 100
