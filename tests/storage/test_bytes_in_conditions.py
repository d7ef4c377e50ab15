"""Bytes as constants of conditions."""

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest

VALUES = [b"", b"\xff", b"\x00\xff", b"abc", b"\x0f", None]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("b = X'FF'", [b"\xff"]),
        ("b = x''", [b""]),
        ("b = x'F'", [b"\x0f"]),
        ("b IN (x'00ff', 'abc')", [b"\x00\xff", b"abc"]),
        ("b BETWEEN x'0f' AND x'fe'", [b"abc", b"\x0f"]),
        ("x'61' < b", [b"\xff", b"abc"]),
    ],
)
def test_bytes_are_written_in_hexadecimal_digits(catalog: Catalog, condition: str, expected: list[bytes]) -> None:
    table = catalog.create_table("d.t", pa.schema([("b", pa.binary()), ("n", pa.int32())]))
    table.write(pa.table({"b": VALUES, "n": pa.array(range(6), pa.int32())}))
    assert sorted(table.to_arrow(where=condition)["b"].to_pylist()) == sorted(expected)
    table.delete(condition)
    assert table.count() == len(VALUES) - len(expected)


@pytest.mark.parametrize("column", ["n", "f", "t", "d", "flag"])
def test_bytes_are_compared_with_bytes_alone(catalog: Catalog, column: str) -> None:
    kinds = [("n", pa.int32()), ("f", pa.float64()), ("t", pa.string()), ("d", pa.date32()), ("flag", pa.bool_())]
    table = catalog.create_table("d.t", pa.schema(kinds))
    with pytest.raises(InvalidRequest, match=r"is not a value of type .*: it is bytes"):
        table.to_arrow(where=f"{column} = x'31'")
    with pytest.raises(InvalidRequest, match="is not a column"):
        table.to_arrow(where="x'' = x''")
