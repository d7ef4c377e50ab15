"""Fields inside of structs, lists and maps that rows have and the table has not are refused, as whole columns are."""

from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, Table

INNER = pa.struct([("x", pa.int64())])
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "st": INNER,
        "l": pa.list_(INNER),
        "m": pa.map_(pa.string(), INNER),
        "d": pa.struct([("in", INNER)]),
    }
)


@pytest.fixture(params=[["id"], []], ids=["keyed", "appended"])
def table(request: pytest.FixtureRequest, catalog: Catalog) -> Table:
    options = {"bucket": 1} if request.param else {}
    return catalog.create_table("shop.nested", SCHEMA, primary_key=request.param, options=options)


@pytest.mark.parametrize(
    ("rows", "field"),
    [
        ({"st": [{"x": 1, "y": "q"}]}, "st.y"),
        ({"st": [{"y": "q"}]}, "st.y"),
        ({"l": [[{"x": 1, "b": 2}]]}, "l.element.b"),
        ({"d": [{"in": {"x": 1, "z": 2}}]}, "d.in.z"),
    ],
)
def test_a_field_that_the_table_has_not_is_refused(table: Table, rows: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"it has no field '{field}'"):
        table.write(pa.table({"id": [1], **rows}))
    assert table.snapshot() is None


def test_a_field_inside_of_a_map_is_refused(table: Table) -> None:
    more = pa.map_(pa.string(), pa.struct([("x", pa.int64()), ("y", pa.int64())]))
    with pytest.raises(InvalidRequest, match=r"it has no field 'm\.value\.y'"):
        table.write(pa.table({"id": [1], "m": pa.array([[("k", {"x": 1, "y": 2})]], more)}))


def test_texts_inside_of_structs_become_no_numbers(table: Table) -> None:
    for rows in ({"st": [{"x": "5"}]}, {"l": [[{"x": "5"}]]}):
        with pytest.raises(InvalidRequest, match="Cast the rows first"):
            table.write(pa.table({"id": [1], **rows}))


def test_fields_that_rows_leave_out_are_null(table: Table) -> None:
    wide = pa.struct([("x", pa.int32())])
    table.write(pa.table({"id": [1, 2], "st": pa.array([{"x": 1}, None], wide), "d": [{"in": None}, None]}))
    assert table.to_arrow(columns=["id", "st", "d"]).sort_by("id").to_pylist() == [
        {"id": 1, "st": {"x": 1}, "d": {"in": None}},
        {"id": 2, "st": None, "d": None},
    ]
