"""File indexes of both writers: the same bytes, the same files left alone, the same rows."""

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, Table
from storage.data_types import DataField
from storage.format.file_index.container import read_container
from tests import scale
from tests.indexed_tables import KINDS, TYPES, Shape, condition, ids
from tests.interop.java_paimon import VERSION, JavaPaimon

SEEDS = scale.seeds(6, 1000, full=60)
pytestmark = pytest.mark.skipif(
    VERSION != "1.4.2", reason="older versions know fewer indexes, or other versions of them"
)


def indexes_of(table: Table) -> list[dict[tuple[str, str], bytes]]:
    """The bytes of each index of each file."""
    matching = []
    for entry in sorted(table.scan().entries, key=lambda each: each.file.min_sequence_number):
        file, directory = entry.file, table.store.bucket_directory(entry.place)
        data = file.embedded_index or table.store.file_io.read_bytes(f"{directory}/{file.extra_files[0]}")
        sections = read_container(data, file.name)
        matching.append(
            {
                (name, kind): data[each.start : each.start + each.length]
                for name, by_kind in sections.items()
                for kind, each in by_kind.items()
            }
        )
    return matching


def test_the_bytes_are_java_s(java: JavaPaimon, catalog: Catalog) -> None:
    names = sorted({kind for kinds in TYPES.values() for kind in kinds})
    shape = Shape(random.Random(5), plain=False)
    shape.columns = {"id": "INT", **{f"c{place}": kind for place, kind in enumerate(names)}}
    options = {"file-index.in-manifest-threshold": "0 b"}
    for kind in KINDS:
        columns = [name for name, each in shape.columns.items() if each in TYPES[kind]]
        options[f"file-index.{kind}.columns"] = ",".join(columns)
        if kind == "bloom-filter":
            options |= {f"file-index.{kind}.{name}.items": "300" for name in columns}
    for name in ("d.ours", "d.java"):
        java.create(catalog.warehouse, name, shape.columns, options=options)
    rows = shape.rows(400, 0)
    ours, theirs = catalog.table("d.ours"), catalog.table("d.java")
    ours.write(rows)
    java.write(catalog.warehouse, "d.java", rows, theirs.schema.fields)
    (own,), (other,) = indexes_of(ours), indexes_of(theirs)
    nothing = {name for name in shape.columns if rows.column(name).null_count == len(rows)}
    assert {key for key in other if key not in own} == {(name, "range-bitmap") for name in nothing} & other.keys()
    assert len(own) > 50 and own.keys() <= other.keys()
    # Java lists bitmaps in the order of its hashes.
    assert [key for key, data in own.items() if data != other[key] and key[1] != "bitmap"] == []
    assert {key: len(data) for key, data in own.items()} == {key: len(other[key]) for key in own}


@pytest.mark.pypaimon_differs("it reads TIMESTAMP(9) of Parquet as microseconds")
@pytest.mark.parametrize("seeds", scale.blocks(SEEDS, 3), ids=str)
def test_each_side_finds_the_same_rows_by_the_indexes_of_the_other(
    java: JavaPaimon, tmp_path: Path, seeds: list[int]
) -> None:
    def run(seed: int, directory: Path) -> None:
        _compare(java, seed, directory)

    scale.try_seeds(run, seeds, tmp_path)


def _compare(java: JavaPaimon, seed: int, directory: Path) -> None:
    rng = random.Random(seed)
    shape = Shape(rng, plain=True)
    # Java's writer fails on texts that are longer than a block.
    options = {key: value for key, value in shape.options.items() if not key.endswith("index-block-size")}
    warehouse, key = str(directory), ["id"] if rng.random() < 0.3 else []
    catalog = Catalog(warehouse)
    java.create(
        warehouse, "d.t", shape.columns, primary_key=key, options={**options, **({"bucket": "1"} if key else {})}
    )
    fields = [DataField(place, name, each) for place, (name, each) in enumerate(shape.types.items())]
    written = []
    for place in range(4):
        written.append(shape.rows(rng.choice([1, 40, 200]), place * 1000))
        if place % 2:
            java.write(warehouse, "d.t", written[-1], fields)
        else:
            catalog.table("d.t").write(written[-1])
    rows, table = pa.concat_tables(written), catalog.table("d.t")
    (batch,) = table.to_arrow().combine_chunks().to_batches()
    for _ in range(25):
        predicate, where = condition(shape, rows)
        expected = ids(pa.Table.from_batches([predicate.bind(table.schema).filter(batch)]))
        assert ids(table.to_arrow(where=predicate)) == expected, f"read here: {where}"
        assert ids(java.read(warehouse, "d.t", where=where)) == expected, f"read by Java: {where}"


@pytest.mark.parametrize("threshold", ["0 b", "1 mb"])
@pytest.mark.parametrize("kind", KINDS)
def test_java_leaves_our_files_alone_and_we_leave_its(
    java: JavaPaimon, catalog: Catalog, kind: str, threshold: str
) -> None:
    warehouse = catalog.warehouse
    options = {f"file-index.{kind}.columns": "v", "file-index.in-manifest-threshold": threshold}
    if kind == "bloom-filter":
        options |= {"file-index.bloom-filter.v.items": "50", "file-index.bloom-filter.v.fpp": "0.001"}
    for name in ("d.ours", "d.java"):
        java.create(warehouse, name, {"id": "INT", "v": "INT"}, options=options)
        table = catalog.table(name)
        for place in range(3):
            rows = pa.table({"id": range(3), "v": [0, 50 + place, 100]}, schema=table.schema.to_arrow())
            if name == "d.ours":
                table.write(rows)
            else:
                java.write(warehouse, name, rows, table.schema.fields)
        scan = table.scan(where="v = 51")
        assert sum(len(each.files) for split in scan.splits for each in split.sections) == 1
        planned = java.ask(warehouse, name, "plan", where=["=", "v", 51])
        # Indexes beside a file are looked at where it is read; bitmaps tell rows apart, not only files.
        assert planned["left"] == (3 if kind == "bloom-filter" else 1)
        assert planned["files"] == (1 if threshold == "1 mb" else 3)
        assert java.ask(warehouse, name, "plan", where=["=", "v", 70])["left"] == 0


def test_java_finds_the_nulls_of_a_column_without_values(java: JavaPaimon, catalog: Catalog) -> None:
    """With an index that Java writes of it, it finds two of them."""
    options = {f"file-index.{kind}.columns": "v" for kind in KINDS}
    for name in ("d.ours", "d.java"):
        java.create(catalog.warehouse, name, {"id": "INT", "v": "INT"}, options=options)
    table = catalog.table("d.ours")
    rows = pa.table({"id": range(5), "v": [None] * 5}, schema=table.schema.to_arrow())
    table.write(rows)
    java.write(catalog.warehouse, "d.java", rows, table.schema.fields)
    where = ["is null", "v"]
    assert java.read(catalog.warehouse, "d.ours", where=where).num_rows == 5
    assert catalog.table("d.java").to_arrow(where="v IS NULL").num_rows == 5
    assert java.read(catalog.warehouse, "d.java", where=where).num_rows == 2


@pytest.mark.pypaimon_differs("It reads these times otherwise.")
@pytest.mark.parametrize("kind", ["bitmap", "range-bitmap", "bloom-filter"])
@pytest.mark.parametrize("time", ["TIMESTAMP(3)", "TIMESTAMP(6)"])
def test_what_is_read_of_the_last_second_before_1970_is_found_beside_indexes_that_say_otherwise(
    java: JavaPaimon, catalog: Catalog, kind: str, time: str
) -> None:
    options = {"file.format": "orc", f"file-index.{kind}.columns": "at"}
    for name in ("d.ours", "d.java"):
        java.create(catalog.warehouse, name, {"id": "INT", "at": time}, options=options)
        table = catalog.table(name)
        moments = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)] * 2
        rows = pa.table({"id": [1, 2], "at": moments}, schema=table.schema.to_arrow())
        if name == "d.ours":
            table.write(rows)
        else:
            java.write(catalog.warehouse, name, rows, table.schema.fields)
        shown = table.to_arrow()["at"].to_pylist()[0]
        for condition_, count in ((f"at = TIMESTAMP '{shown}'", 2), (f"at > TIMESTAMP '{shown}'", 0)):
            assert table.count(where=condition_) == count, (name, condition_)


def test_java_compacts_expires_and_cleans_what_was_written_here(java: JavaPaimon, catalog: Catalog) -> None:
    warehouse = catalog.warehouse
    options = {"bucket": "1", "file-index.bitmap.columns": "v", "file-index.in-manifest-threshold": "0 b"}
    java.create(warehouse, "d.t", {"id": "INT NOT NULL", "v": "INT"}, primary_key=["id"], options=options)
    table = catalog.table("d.t")
    for place in range(3):
        table.write(
            pa.table({"id": [0, place], "v": [place, place]}, schema=table.schema.to_arrow()).slice(0 if place else 1)
        )
    java.ask(warehouse, "d.t", "compact", full=True)
    java.ask(warehouse, "d.t", "expire", retain=1)
    java.ask(warehouse, "d.t", "clean orphans", before_ms=2**62)
    table = catalog.table("d.t")
    (left,) = Path(table.store.paths.root).rglob("*.index")
    assert left.with_suffix("").exists() and table.check(deep=True) == []
    assert table.to_arrow(where="v = 2")["id"].to_pylist() == [0, 2]
    assert table.scan(where="v = 7").splits == []
