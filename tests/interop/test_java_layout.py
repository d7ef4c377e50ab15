"""Statistics modes and files without key columns: what is written here is Java's, and read by it with filters."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import Catalog, InvalidRequest, RenameColumn, SetOptions, Table, Unsupported
from tests.interop.java_paimon import JavaPaimon, since_1_3

FIELDS = {"id": "INT NOT NULL", "a": "STRING", "b": "INT", "c": "STRING"}
SCHEMA = pa.schema([pa.field("id", pa.int32(), False), ("a", pa.string()), ("b", pa.int32()), ("c", pa.string())])
OPTIONS = [
    {"metadata.stats-mode": "full", "fields.a.stats-mode": "none"},
    {"metadata.stats-mode": "none", "fields.b.stats-mode": "counts", "fields.c.stats-mode": "truncate(2)"},
    {"metadata.stats-keep-first-n-columns": "2"},
    {"metadata.stats-keep-first-n-columns": "0", "fields.c.stats-mode": "full"},
    {"metadata.stats-mode.per.level": "0:none,5:full"},
    {"metadata.stats-mode": "counts"},
]


def rows_of(first: int) -> pa.Table:
    names = ["a value longer than sixteen characters", None, "b"]
    columns = {"id": range(first, first + 3), "a": names, "b": [1, None, 3], "c": ["xyz", "x", None]}
    return pa.table(columns, SCHEMA)


def described(table: Table) -> list[tuple[object, ...]]:
    entries = sorted((each.file for each in table.scan().entries), key=lambda each: (each.level, each.min_key))
    return [(each.level, each.value_stats, each.value_stats_columns, each.key_stats) for each in entries]


@since_1_3
@pytest.mark.parametrize("key", [[], ["id"]], ids=str)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_statistics_are_those_that_java_writes(
    java: JavaPaimon, catalog: Catalog, key: list[str], options: dict[str, str]
) -> None:
    given = {**options, **({"bucket": "1", "write-only": "true"} if key else {})}
    for name in ("d.ours", "d.java"):
        java.create(catalog.warehouse, name, FIELDS, primary_key=key, options=given)
    ours, theirs = catalog.table("d.ours"), catalog.table("d.java")
    for first in (0, 10):
        ours.write(rows_of(first))
        java.write(catalog.warehouse, "d.java", rows_of(first), theirs.schema.fields)
    assert described(ours) == described(theirs)
    if key:
        ours.compact(full=True)
        java.ask(catalog.warehouse, "d.java", "compact", full=True)
        assert [each[:3] for each in described(ours)] == [each[:3] for each in described(theirs)]
    for where, text in ((["=", "b", 3], "b = 3"), (["is null", "a"], "a IS NULL"), (["=", "c", "xyz"], "c = 'xyz'")):
        counts = [java.read(catalog.warehouse, name, where=where).num_rows for name in ("d.ours", "d.java")]
        assert counts == [2, 2] == [table.count(where=text) for table in (ours, theirs)]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_thin_files_are_read_and_merged_by_both(java: JavaPaimon, catalog: Catalog, file_format: str) -> None:
    options = {"bucket": "1", "data-file.thin-mode": "true", "file.format": file_format}
    java.create(catalog.warehouse, "d.t", FIELDS, primary_key=["id"], options=options)
    table = catalog.table("d.t")
    table.write(rows_of(0))
    java.write(catalog.warehouse, "d.t", rows_of(2), table.schema.fields)
    table.write(rows_of(4))
    if file_format == "parquet":
        for entry in table.scan().entries:
            path = table.store.data_path(table.store.bucket_directory(entry.place), entry.file)
            names = pq.ParquetFile(path).schema_arrow.names
            assert names == ["_SEQUENCE_NUMBER", "_VALUE_KIND", "id", "a", "b", "c"]
    for act in (lambda: java.ask(catalog.warehouse, "d.t", "compact", full=True), lambda: table.compact(full=True)):
        act()
        read = java.read(catalog.warehouse, "d.t", where=["=", "id", 5])
        assert read.num_rows == 1 == table.count(where="id = 5")
        assert java.read(catalog.warehouse, "d.t").num_rows == 7 == table.count()
        table.write(rows_of(3))
    table = table.alter(RenameColumn("a", "title"), SetOptions({"data-file.thin-mode": "false"}))
    table.write(rows_of(6).rename_columns(["id", "title", "b", "c"]))
    assert java.read(catalog.warehouse, "d.t").num_rows == 9 == table.count()
    table.compact(full=True)
    assert table.check(deep=True) == []


def test_statistics_modes_that_there_are_not(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    for options in (
        {"fields.name.stats-mode": "some"},
        {"fields.nobody.stats-mode": "full"},
        {"metadata.stats-mode.per.level": "0:truncate(0)"},
        {"metadata.stats-keep-first-n-columns": "-2"},
    ):
        with pytest.raises(InvalidRequest, match=next(iter(options))):
            catalog.create_table("shop.t", schema, options=options)
    table = catalog.create_table("shop.t", schema, options={"fields.name.stats-mode": "none"})
    table = table.alter(RenameColumn("name", "title"))
    assert table.schema.options["fields.title.stats-mode"] == "none"


ENGINES = [
    {"merge-engine": "deduplicate"},
    {"merge-engine": "partial-update"},
    {"merge-engine": "partial-update", "fields.n.sequence-group": "v", "fields.g.sequence-group": "x"},
    {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "last_value",
        "fields.x.aggregate-function": "first_value",
    },
    {"merge-engine": "deduplicate", "changelog-producer": "lookup"},
]


@since_1_3
@pytest.mark.pypaimon_differs("it takes sequence fields for ascending ones")
@pytest.mark.parametrize("options", ENGINES, ids=str)
def test_the_lowest_value_of_a_descending_sequence_field_is_the_last(
    java: JavaPaimon, catalog: Catalog, options: dict[str, str]
) -> None:
    rng = random.Random(str(options))
    fields = {"id": "INT NOT NULL", "s": "INT", "t": "STRING", "n": "INT", "g": "BIGINT", "v": "STRING", "x": "INT"}
    grouped = "fields.n.sequence-group" in options
    given = {**options, "bucket": "1", "sequence.field": "s,t", "sequence.field.sort-order": "descending"}
    java.create(catalog.warehouse, "d.t", fields, primary_key=["id"], options=given)
    table = catalog.table("d.t")
    assert grouped == ("sequence-group" in str(table.schema.options))
    for step in range(8):
        rows = pa.table(
            {
                "id": [rng.randrange(6) for _ in range(12)],
                "s": [rng.choice([None, -(2**31), 1, 2, 3, 2**31 - 1]) for _ in range(12)],
                "t": [rng.choice([None, "a", "b"]) for _ in range(12)],
                "n": [rng.choice([None, 1, 2, 3]) for _ in range(12)],
                "g": [rng.choice([None, 1, 2]) for _ in range(12)],
                "v": [f"{step}-{place}" for place in range(12)],
                "x": [rng.choice([None, step]) for _ in range(12)],
            },
            table.schema.to_arrow(),
        )
        if step % 2:
            java.write(catalog.warehouse, "d.t", rows, table.schema.fields)
        else:
            table.write(rows)
        if step == 5:
            table.compact(full=True)
        ours, theirs = (
            sorted(each.to_pylist(), key=repr) for each in (table.to_arrow(), java.read(catalog.warehouse, "d.t"))
        )
        assert ours == theirs, step


def test_an_update_that_would_not_be_shown_is_refused_by_the_order(catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", pa.int64())])
    options = {"bucket": "1", "sequence.field": "s", "sequence.field.sort-order": "descending"}
    table = catalog.create_table("shop.t", schema, primary_key=["id"], options=options)
    table.write(pa.table({"id": [1], "s": [5]}, schema))
    with pytest.raises(Unsupported, match="higher value, or NULL"):
        table.update("id = 1", {"s": 6})
    table.update("id = 1", {"s": 4})
    assert table.to_arrow().to_pylist() == [{"id": 1, "s": 4}]
    with pytest.raises(InvalidRequest, match="cannot change any more"):
        table.alter(SetOptions({"sequence.field.sort-order": "ascending"}))
