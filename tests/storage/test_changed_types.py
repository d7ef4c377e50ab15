"""Conditions on columns whose type was changed, on files of the old type and of the new one, and texts of CHAR in ORC."""

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from storage import Catalog, ChangeType, Table
from storage.data_types import DataField, DataType, parse_type
from storage.engines.duckdb_views import add_scan
from storage.read.evolution import evolve

FORMATS = ["parquet", "orc", "avro"]


@pytest.fixture(params=FORMATS)
def file_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def changed(catalog: Catalog, options: Mapping[str, Any], *, key: str | None, new: str) -> Table:
    """Rows 9 and 10 as INT, then 7 and 30 as the new type."""
    schema = pa.schema([("id", pa.int32()), ("a", pa.int32())])
    table = catalog.create_table("d.t", schema, primary_key=[key] if key else [], options=options)
    table.write(pa.table({"id": [1, 2], "a": [9, 10]}, schema))
    table = table.alter(ChangeType("a", new))
    later = pa.array([7, 30]).cast(table.schema.field("a").type.to_arrow())
    table.write(pa.table({"id": pa.array([3, 4], pa.int32()), "a": later}))
    return table


@pytest.mark.parametrize("key", [None, "id"])
def test_bounds_of_the_old_type_leave_out_no_row_of_the_new_one(
    catalog: Catalog, file_format: str, key: str | None
) -> None:
    options = {"file.format": file_format, "metadata.stats-mode": "full", **({"bucket": 1} if key else {})}
    table = changed(catalog, options, key=key, new="STRING")
    texts = {1: "9", 2: "10", 3: "7", 4: "30"}
    for where, kept in (
        # As numbers, 9 and 10 are below 5; as texts, 10 and 30 are.
        ("a < '5'", ["10", "30"]),
        ("a = '10'", ["10"]),
        ("a >= '9'", ["9"]),
        ("a <> '9'", ["10", "7", "30"]),
        ("a IS NULL", []),
    ):
        ids = sorted(number for number, text in texts.items() if text in kept)
        assert sorted(table.to_arrow(where=where)["id"].to_pylist()) == ids, where
        assert table.count(where=where) == len(ids)


@pytest.mark.parametrize("new", ["BIGINT", "STRING", "DECIMAL(14, 2)"])
def test_rows_stay_where_the_bucket_of_their_old_type_is(catalog: Catalog, new: str) -> None:
    schema = pa.schema([("id", pa.int32()), ("a", pa.int32())])
    table = catalog.create_table("d.t", schema, options={"bucket": 8, "bucket-key": "a"})
    numbers = list(range(-20, 20))
    table.write(pa.table({"id": numbers, "a": numbers}, schema))
    table = table.alter(ChangeType("a", new))
    shown = "'{}'" if new == "STRING" else "{}"
    for number in numbers:
        assert table.to_arrow(where=f"a = {shown.format(number)}")["id"].to_pylist() == [number]
    # Rows of the new type are looked for in their bucket alone.
    later = pa.array([100, 101], pa.int32()).cast(table.schema.field("a").type.to_arrow())
    table.write(pa.table({"id": pa.array([100, 101], pa.int32()), "a": later}))
    assert table.to_arrow(where=f"a = {shown.format(101)}")["id"].to_pylist() == [101]


def test_engines_do_not_read_files_of_an_older_type_themselves(catalog: Catalog) -> None:
    table = changed(catalog, {}, key=None, new="STRING")
    splits = table.scan().splits
    assert not any(split.can_be_read_natively for split in splits)
    connection = duckdb.connect()
    add_scan(connection, "d", "t", table.scan())
    assert connection.sql("SELECT id FROM d.t WHERE a < '5' ORDER BY id").fetchall() == [(2,), (4,)]


ITEM = {"type": "ROW", "fields": [{"id": 3, "name": "n", "type": "INT"}]}
WIDER = {"type": "ROW", "fields": [{"id": 3, "name": "n", "type": "STRING"}, {"id": 4, "name": "more", "type": "INT"}]}


@pytest.mark.parametrize(
    ("old", "new", "values", "expected"),
    [
        (
            {"type": "ARRAY", "element": ITEM},
            {"type": "ARRAY", "element": WIDER},
            [[{"n": 1}, None], None, [], [{"n": None}], None, [{"n": 5}]],
            [[{"n": "1", "more": None}, None], None, [], [{"n": None, "more": None}], None, [{"n": "5", "more": None}]],
        ),
        (
            {"type": "MAP", "key": "STRING", "value": "INT"},
            {"type": "MAP", "key": "STRING", "value": "STRING"},
            [[("a", 1)], None, [], [("b", None), ("c", 3)], None],
            [[("a", "1")], None, [], [("b", None), ("c", "3")], None],
        ),
        (
            {"type": "ARRAY", "element": "BIGINT"},
            {"type": "ARRAY", "element": "TINYINT"},
            [[300, 1], None, [None]],
            [[44, 1], None, [None]],
        ),
    ],
)
def test_pieces_of_nested_columns_are_brought_up_to_date(
    old: Any, new: Any, values: list[Any], expected: list[Any]
) -> None:
    was, becomes = parse_type(old), parse_type(new)
    column = pa.array(values, was.to_arrow())
    for start in range(len(values)):
        for length in range(len(values) - start + 1):
            piece = evolve(column.slice(start, length), was, becomes, "c")
            piece.validate(full=True)
            assert piece.type == becomes.to_arrow()
            assert piece.to_pylist() == expected[start : start + length]


CHAR = DataType("CHAR", length=4)
CHARS = DataType("ARRAY", element=CHAR)


@pytest.mark.pypaimon_differs("it keeps them")
@pytest.mark.parametrize("key", [None, "id"])
def test_blanks_at_the_end_of_a_char_are_not_read_from_orc(catalog: Catalog, file_format: str, key: str | None) -> None:
    options = {"file.format": file_format, "metadata.stats-mode": "full", **({"bucket": 1} if key else {})}
    fields = [DataField(0, "id", DataType("INT")), DataField(1, "c", CHAR), DataField(2, "l", CHARS)]
    schema = pa.schema([field.to_arrow() for field in fields])
    table = catalog.create_table("d.t", fields, primary_key=[key] if key else [], options=options)
    table.write(pa.table({"id": [1, 2, 3], "c": ["ab  ", None, " c"], "l": [["a ", None], None, []]}, schema))
    trimmed = file_format == "orc"
    rows = table.to_arrow().sort_by("id")
    assert rows["c"].to_pylist() == ["ab" if trimmed else "ab  ", None, " c"]
    assert rows["l"].to_pylist() == [["a" if trimmed else "a ", None], None, []]
    # The bounds of the file are those of the texts with blanks.
    assert table.to_arrow(where="c = 'ab'", columns=["id"])["id"].to_pylist() == ([1] if trimmed else [])
    assert table.to_arrow(where="c >= 'ab '", columns=["id"])["id"].to_pylist() == ([] if trimmed else [1])
    table = table.alter(ChangeType("c", "STRING"))
    assert table.to_arrow(where="c = 'ab'", columns=["id"])["id"].to_pylist() == ([1] if trimmed else [])


@pytest.mark.java_differs("it cuts blanks at the end of keys, by which files are sorted, too")
def test_a_char_in_a_key_of_orc_keeps_its_blanks(catalog: Catalog) -> None:
    fields = [DataField(0, "c", CHAR), DataField(1, "n", DataType("INT"))]
    table = catalog.create_table("d.t", fields, primary_key=["c"], options={"file.format": "orc", "bucket": 1})
    table.write(pa.table({"c": ["ab  "], "n": pa.array([1], pa.int32())}))
    assert table.to_arrow(where="c = 'ab  '")["n"].to_pylist() == [1]
