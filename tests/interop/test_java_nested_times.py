"""TIME inside of ARRAY, MAP, ROW and MULTISET, in every format that holds it."""

import datetime as dt

import pyarrow as pa
import pytest

from storage import Catalog
from storage.data_types import DataField, DataType, parse_type
from tests.interop.java_paimon import JavaPaimon

TIME = parse_type("TIME(3)")
TYPES = {
    "list": DataType("ARRAY", element=TIME),
    "named": DataType("MAP", key=parse_type("STRING NOT NULL"), element=TIME),
    "row": DataType("ROW", fields=(DataField(10, "at", TIME), DataField(11, "n", parse_type("INT")))),
    "deep": DataType("ARRAY", element=DataType("ROW", fields=(DataField(12, "all", DataType("ARRAY", element=TIME)),))),
}
ROW = {
    "id": 1,
    "list": [dt.time(1, 2, 3, 4000), None],
    "named": [("a", dt.time(0)), ("b", None)],
    "row": {"at": dt.time(23, 59, 59, 999000), "n": 1},
    "deep": [{"all": [dt.time(12)]}, None],
}
EMPTY = {"id": 2} | dict.fromkeys(TYPES)


@pytest.mark.pypaimon_differs("It has no TIME inside of other types.")
@pytest.mark.parametrize("file_format", ["orc", "parquet"])
def test_nested_times_are_written_and_read_by_both(java: JavaPaimon, catalog: Catalog, file_format: str) -> None:
    fields = {"id": parse_type("INT NOT NULL"), **TYPES}
    options = {"file.format": file_format, "bucket": "1"}
    java.create(catalog.warehouse, "d.t", fields, primary_key=["id"], options=options)
    table = catalog.table("d.t")
    rows = pa.Table.from_pylist([ROW, EMPTY], schema=table.schema.to_arrow())
    java.write(catalog.warehouse, "d.t", rows, table.schema.fields)
    assert table.to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
    table.write(rows)
    table.compact()
    assert table.to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
    read = java.read(catalog.warehouse, "d.t").select(rows.column_names).cast(rows.schema)
    assert read.sort_by("id").to_pylist() == rows.to_pylist()
