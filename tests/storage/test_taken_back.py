"""What aggregate functions make of rows that take values back, as Java 1.4.2 does: ignored ones do not count."""

import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest

Row = tuple[str, object, int]


def held(catalog: Catalog, options: dict[str, str], kind: pa.DataType, commits: list[list[Row]]) -> list[object]:
    """The value of one key: as it is merged by reading, and once a compaction has stored it."""
    schema = pa.schema([("k", pa.int32()), ("v", kind), ("g", pa.int32()), ("op", pa.string())])
    given = {"bucket": 1, "write-only": True, "rowkind.field": "op", "merge-engine": "aggregation", **options}
    table = catalog.create_table("d.t", schema, primary_key=["k"], options=given)
    for rows in commits:
        columns = [[1] * len(rows), *([row[place] for row in rows] for place in (1, 2, 0))]
        table.write(pa.table([pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)], schema))
    read = table.to_arrow()["v"].to_pylist()
    table.compact(full=True)
    assert table.to_arrow()["v"].to_pylist() == read
    return read


@pytest.mark.one_in(2)
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("order", [{}, {"sequence.field": "g"}], ids=str)
@pytest.mark.parametrize(
    ("function", "rows", "expected"),
    [
        ("last_value", [("+I", "a", 1), ("-D", "b", 2)], "a"),
        ("last_value", [("+I", "a", 1), ("+U", None, 2), ("-U", "b", 3)], None),
        ("first_value", [("-D", "b", 1), ("+I", "a", 2)], "a"),
        ("first_value", [("-U", "b", 1), ("+I", None, 2), ("+I", "a", 3)], None),
        ("first_non_null_value", [("-D", "b", 1), ("+I", "a", 2)], "a"),
        ("max", [("+I", "a", 1), ("-D", "b", 2)], "a"),
    ],
)
def test_rows_that_are_ignored_do_not_count(
    catalog: Catalog, function: str, rows: list[Row], expected: object, order: dict[str, str], apart: bool
) -> None:
    options = {"fields.v.aggregate-function": function, "fields.v.ignore-retract": "true", **order}
    commits = [[row] for row in rows] if apart else [rows]
    assert held(catalog, options, pa.string(), commits) == [expected]


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("+I", 5, 0), ("-U", 2, 0), ("+I", 3, 0)], 6),
        ([("+I", -5, 0), ("-U", 2, 0), ("+I", 3, 0)], -6),
        ([("+I", 5, 0), ("+I", 1, 0), ("-D", 3, 0), ("+I", 2, 0)], 2),
        ([("-U", 3, 0), ("+I", 2, 0)], 2),
        ([("+I", None, 0), ("-D", 3, 0), ("+I", 4, 0)], 4),
    ],
)
@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()], ids=str)
def test_a_product_of_whole_numbers_is_divided_row_by_row(
    catalog: Catalog, kind: pa.DataType, rows: list[Row], expected: object, apart: bool
) -> None:
    commits = [[row] for row in rows] if apart else [rows]
    assert held(catalog, {"fields.v.aggregate-function": "product"}, kind, commits) == [expected]


@pytest.mark.parametrize("kind", [pa.int32(), pa.decimal128(5, 2)], ids=str)
def test_nothing_is_divided_by_zero(catalog: Catalog, kind: pa.DataType) -> None:
    with pytest.raises(InvalidRequest, match=r"takes the factor 0 back.*ignore-retract"):
        held(catalog, {"fields.v.aggregate-function": "product"}, kind, [[("+I", 5, 0)], [("-D", 0, 0)]])
