"""Fields of rows, elements and values that are NOT NULL: nulls there are refused, and a row that is null itself is stored."""

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, DataField, InvalidRequest, Table, parse_type

INNER = {"type": "ROW", "fields": [{"id": 10, "name": "y", "type": "STRING NOT NULL"}]}
TYPES: list[Any] = [
    "INT NOT NULL",
    {
        "type": "ROW",
        "fields": [
            {"id": 4, "name": "x", "type": "INT NOT NULL"},
            {"id": 5, "name": "t", "type": "TIMESTAMP(9) NOT NULL"},
            {"id": 6, "name": "d", "type": {**INNER, "type": "ROW NOT NULL"}},
            {"id": 7, "name": "l", "type": {"type": "ARRAY NOT NULL", "element": "BOOLEAN"}},
            {"id": 8, "name": "m", "type": {"type": "MAP NOT NULL", "key": "STRING", "value": "INT"}},
        ],
    },
    {"type": "ARRAY", "element": INNER},
    {"type": "MAP", "key": "STRING", "value": INNER},
    {"type": "ARRAY", "element": "INT NOT NULL"},
    {"type": "MAP", "key": "STRING", "value": "INT NOT NULL"},
]
NAMES = ["id", "r", "rows", "by_name", "whole", "numbers"]
FULL = {
    "r": {"x": 1, "t": 5000, "d": {"y": "z"}, "l": [True, None], "m": [("k", None)]},
    "rows": [{"y": "a"}, None, {"y": ""}],
    "by_name": [("k", {"y": "b"}), ("n", None)],
    "whole": [1, 2],
    "numbers": [("k", 1)],
}


_ORC = pytest.param(
    "orc", marks=pytest.mark.pypaimon_differs("it casts what ORC calls nullable to what is not, and fails")
)


@pytest.fixture(params=["parquet", _ORC, "avro"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    types = [parse_type(kind) for kind in TYPES]
    fields = [DataField(number, name, kind) for number, (name, kind) in enumerate(zip(NAMES, types, strict=True))]
    if request.param == "avro":
        # It has no place for nanoseconds.
        inner = fields[1].type.fields
        coarse = (inner[0], DataField(5, "t", parse_type("TIMESTAMP(6) NOT NULL")), *inner[2:])
        fields[1] = DataField(1, "r", type(fields[1].type)("ROW", fields=coarse))
    return catalog.create_table("d.t", fields, primary_key=["id"], options={"bucket": 1, "file.format": request.param})


def rows_of(table: Table, *rows: dict[str, Any]) -> pa.Table:
    fields = [field.to_arrow() for field in table.schema.fields]
    return pa.table(
        [pa.array([row.get(field.name) for row in rows], field.type) for field in fields],
        names=[field.name for field in fields],
    )


def test_a_row_that_is_null_is_stored_merged_and_compacted(table: Table) -> None:
    table.write(rows_of(table, {"id": 1, **FULL}, {"id": 2}, {"id": 3, **FULL}))
    table.write(rows_of(table, {"id": 3}, {"id": 4, **FULL}, {"id": 5}))
    expected = rows_of(table, {"id": 1, **FULL}, {"id": 2}, {"id": 3}, {"id": 4, **FULL}, {"id": 5})
    assert table.to_arrow().sort_by("id").to_pylist() == expected.to_pylist()
    table.compact()
    assert table.to_arrow().sort_by("id").to_pylist() == expected.to_pylist()
    assert table.check(deep=True) == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"r": {**FULL["r"], "x": None}}, r"r\.x"),
        ({"r": {**FULL["r"], "d": None}}, r"r\.d"),
        ({"r": {**FULL["r"], "d": {"y": None}}}, r"r\.d\.y"),
        ({"r": {**FULL["r"], "l": None}}, r"r\.l"),
        ({"r": {**FULL["r"], "m": None}}, r"r\.m"),
        ({"rows": [{"y": "a"}, {"y": None}]}, r"rows\.element\.y"),
        ({"by_name": [("k", {"y": None})]}, r"by_name\.value\.y"),
        ({"whole": [1, None]}, r"whole\.element"),
        ({"numbers": [("k", None)]}, r"numbers\.value"),
    ],
)
def test_a_null_where_there_must_be_none_is_refused_by_its_place(
    table: Table, change: dict[str, Any], place: str
) -> None:
    with pytest.raises(InvalidRequest, match=f"{place} is NOT NULL, but 1 of"):
        table.write(rows_of(table, {"id": 1, **FULL}, {"id": 2}, {"id": 3, **FULL, **change}))
    assert table.snapshot() is None


@pytest.mark.parametrize(
    ("declared", "fits", "beyond", "message"),
    [
        (
            {"type": "ARRAY", "element": "VARCHAR(4)"},
            ["abcd", None],
            ["a", "abcdef"],
            r"c\.element has type VARCHAR\(4\); value \d has 6 characters",
        ),
        (
            {"type": "ROW", "fields": [{"id": 10, "name": "y", "type": "VARCHAR(4)"}]},
            {"y": "äöüß"},
            {"y": "abcde"},
            r"c\.y has type VARCHAR\(4\); value \d has 5 characters",
        ),
        (
            {"type": "MAP", "key": "VARCHAR(2)", "value": "INT"},
            [("ab", 1)],
            [("abc", 1)],
            r"c\.key has type VARCHAR\(2\)",
        ),
        (
            {"type": "MAP", "key": "INT", "value": {"type": "ARRAY", "element": "VARBINARY(2)"}},
            [(1, [b"ab"])],
            [(1, [b"abc"])],
            r"c\.value\.element has type .*3 bytes",
        ),
        (
            {"type": "ARRAY", "element": "TIMESTAMP(0)"},
            [datetime(2024, 5, 1)],
            [datetime(2024, 5, 1, microsecond=1000)],
            r"c\.element has type TIMESTAMP\(0\).*more digits of a second",
        ),
    ],
)
def test_a_part_that_is_longer_than_its_type_is_refused_by_its_place(
    catalog: Catalog, declared: Any, fits: Any, beyond: Any, message: str
) -> None:
    fields = [DataField(0, "id", parse_type("INT")), DataField(1, "c", parse_type(declared))]
    table = catalog.create_table("d.limited", fields)
    table.write(rows_of(table, {"id": 1, "c": fits}, {"id": 2, "c": None}))
    with pytest.raises(InvalidRequest, match=message):
        table.write(rows_of(table, {"id": 3, "c": fits}, {"id": 4, "c": beyond}))
    assert table.to_arrow()["id"].to_pylist() == [1, 2]
