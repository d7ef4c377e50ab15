"""What Java's formats and directory names have no other way for: written as Java does, or refused before a table holds it."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, InvalidRequest, SetOptions
from storage.data_types import DataField, DataType, parse_type
from tests.interop.java_paimon import JavaPaimon

_YEAR_1_MS = -62_135_596_800_000
PARTITIONS: list[tuple[str, str, list[int]]] = [
    ("TIME(0)", "false", [0, 3_661_000]),
    ("TIME(2)", "false", [0, 120, 10]),
    ("TIME(3)", "false", [0, 1, 10, 120, 86_399_999, 3_600_000]),
    ("TIMESTAMP(3)", "false", [_YEAR_1_MS + 5, -40_000_000_000_000, 0, 120]),
    ("TIMESTAMP(3)", "true", [_YEAR_1_MS, _YEAR_1_MS + 5, -40_000_000_000_000, 0, 120]),
    ("TIMESTAMP(6)", "true", [_YEAR_1_MS * 1000, _YEAR_1_MS * 1000 + 17, 1]),
    ("DATE", "false", [-719_162, 0]),
]


@pytest.mark.parametrize(("kind", "legacy", "values"), PARTITIONS, ids=str)
def test_directories_of_partitions_are_java_s(
    java: JavaPaimon, catalog: Catalog, kind: str, legacy: str, values: list[int]
) -> None:
    warehouse, data_type = catalog.warehouse, parse_type(kind)
    fields = [DataField(0, "id", DataType("INT")), DataField(1, "p", data_type)]
    for name in ("d.ours", "d.java"):
        java.create(
            warehouse, name, {"id": "INT", "p": kind}, partition_by=["p"], options={"partition.legacy-name": legacy}
        )
    rows = pa.table(
        [pa.array(range(len(values)), pa.int32()), pa.array(values, data_type.to_arrow())], names=["id", "p"]
    )
    ours, theirs = catalog.table("d.ours"), catalog.table("d.java")
    ours.write(rows)
    java.write(warehouse, "d.java", rows, fields)
    assert _partitions(ours.store.paths.root) == _partitions(theirs.store.paths.root)
    expected = sorted(zip(range(len(values)), values, strict=True))
    for name in ("d.ours", "d.java"):
        for content in (java.read(warehouse, name), catalog.table(name).to_arrow()):
            numbers = content["p"].cast(pa.int32() if kind.startswith(("TIME(", "DATE")) else pa.int64())
            assert sorted(zip(content["id"].to_pylist(), numbers.to_pylist(), strict=True)) == expected


def _partitions(root: str) -> list[str]:
    return sorted(path.name for path in Path(root).iterdir() if path.name.startswith("p="))


# Microseconds that Java reads as they are written here.
@pytest.mark.parametrize("micros", [-1_500_000, -2_000_000, -500_000, -315_359_999_877_000, 1, 457])
def test_java_reads_times_before_1970_in_orc(java: JavaPaimon, catalog: Catalog, micros: int) -> None:
    table = catalog.create_table(
        "o.t", pa.schema([("id", pa.int32()), ("at", pa.timestamp("us"))]), options={"file.format": "orc"}
    )
    table.write(pa.table({"id": pa.array([1], pa.int32()), "at": pa.array([micros], pa.timestamp("us"))}))
    assert java.read(catalog.warehouse, "o.t")["at"].cast(pa.int64()).to_pylist() == [micros]


@pytest.mark.parametrize("micros", [-1, -1_500_001, -315_359_999_876_999])
def test_times_before_1970_that_java_could_not_read_in_orc_are_refused(catalog: Catalog, micros: int) -> None:
    for unit, factor in (("us", 1), ("ns", 1000)):
        kind = pa.list_(pa.timestamp(unit))
        table = catalog.create_table(f"o.{unit}", pa.schema([("at", kind)]), options={"file.format": "orc"})
        with pytest.raises(InvalidRequest, match=r"'at' has the timestamp 19.*before 1970"):
            table.write(pa.table({"at": pa.array([[0], [1, micros * factor]], kind)}))
        assert table.snapshot() is None


def test_compressions_and_names_that_java_has_not_in_avro_are_refused(java: JavaPaimon, catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int32())])
    rows = pa.table({"id": pa.array([1], pa.int32())})
    for name in ("zstd", "snappy", "deflate", "null"):
        table = catalog.create_table(f"c.{name}", schema, options={"file.format": "avro", "file.compression": name})
        table.write(rows)
        java.write(catalog.warehouse, f"c.{name}", rows, table.schema.fields)
        assert table.to_arrow().num_rows == java.read(catalog.warehouse, f"c.{name}").num_rows == 2
    for name in ("lz4", "none", "gzip", "zlib"):
        with pytest.raises(InvalidRequest, match=f"'{name}' is not supported for avro. Supported: zstd"):
            catalog.create_table("c.t", schema, options={"file.format": "avro", "file.compression": name})
        java.create(
            catalog.warehouse, f"j.{name}", {"id": "INT"}, options={"file.format": "avro", "file.compression": name}
        )
        with pytest.raises(RuntimeError, match="AvroRuntimeException"):
            java.write(catalog.warehouse, f"j.{name}", rows, table.schema.fields)
    for name in ("a-b", "a b", "1a", "a.b", "$a"):
        with pytest.raises(InvalidRequest, match="Rename the column"):
            catalog.create_table("c.t", pa.schema([(name, pa.int32())]), options={"file.format": "avro"})
    catalog.create_table("c.letters", pa.schema([("ä_1", pa.int32())]), options={"file.format": "avro"})


def test_what_avro_has_no_place_for_is_refused_when_columns_and_options_change(catalog: Catalog) -> None:
    schema = pa.schema([("a-b", pa.int32())])
    table = catalog.create_table("c.t", schema)
    with pytest.raises(InvalidRequest, match="'a-b': a name in Avro"):
        table.alter(SetOptions({"file.format.per.level": "0:avro"}))
    table = catalog.create_table("c.u", pa.schema([("a", pa.int32())]), options={"file.format": "avro"})
    for name, kind in (("x-y", "INT"), ("at", "TIME(6)"), ("m", "INT MULTISET"), ("l", "DATE MULTISET ARRAY")):
        with pytest.raises(InvalidRequest, match="Avro"):
            table.alter(AddColumn(name, parse_type(kind)))
    table.alter(AddColumn("m", parse_type("STRING MULTISET")))


def test_what_ignores_retractions_is_no_column_of_rows_that_deletes_remove(java: JavaPaimon, catalog: Catalog) -> None:
    schema = pa.schema([("id", pa.int32()), ("n", pa.int32())])
    options: dict[str, Any] = {
        "bucket": "1",
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.n.ignore-retract": "true",
    }
    removes = {"aggregation.remove-record-on-delete": "true"}
    with pytest.raises(InvalidRequest, match="exclude each other"):
        catalog.create_table("a.t", schema, primary_key=["id"], options=options | removes)
    table = catalog.create_table("a.t", schema, primary_key=["id"], options=options)
    with pytest.raises(InvalidRequest, match="exclude each other"):
        table.alter(SetOptions(removes))


def test_lookups_beside_full_compactions_are_refused(catalog: Catalog) -> None:
    options = {"bucket": 1, "force-lookup": True, "changelog-producer": "full-compaction"}
    with pytest.raises(InvalidRequest, match="exclude each other"):
        catalog.create_table("c.t", pa.schema([("id", pa.int32())]), primary_key=["id"], options=options)


def test_files_in_directories_of_former_names_are_no_orphans(catalog: Catalog) -> None:
    """Earlier builds wrote 00:00:00.000 where Java writes 00:00:00.0: the directory is moved, and till then kept."""
    schema = pa.schema([("id", pa.int32()), ("p", pa.time32("ms"))])
    table = catalog.create_table("c.t", schema, partition_by=["p"], options={"partition.legacy-name": "false"})
    table.write(pa.table({"id": [1, 2], "p": [dt.time(0, 0), dt.time(1, 2, 3, 4000)]}, schema=schema))
    directory = Path(catalog.warehouse) / "c.db" / "t"
    new, old = directory / "p=00%3A00%3A00.0", directory / "p=00%3A00%3A00.000"
    new.rename(old)
    assert any("is missing" in str(problem) for problem in table.check())
    assert table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True) == []
    old.rename(new)
    assert table.check(deep=True) == []
    assert table.to_arrow()["id"].to_pylist() == [1, 2]
