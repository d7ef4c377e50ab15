"""Data files in every format, mixed as options say."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, InvalidRequest, Table

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def files(table: Table) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for row in table.system_table("files").to_pylist():
        found.setdefault(row["level"], set()).add(row["file_format"])
    return found


def test_levels_have_formats_and_compressions_of_their_own(catalog: Catalog) -> None:
    options = {
        "bucket": 1, "file.format.per.level": "0:avro,5:orc", "file.compression.per.level": "0:gzip,5:zlib",
        "write-only": True,
    }  # fmt: skip
    table = catalog.create_table("a.t", SCHEMA, primary_key=["id"], options=options)
    for number in range(3):
        table.write(pa.table({"id": [number, number + 1], "v": ["a", None]}))
    assert files(table) == {0: {"avro"}}
    before = table.to_arrow().sort_by("id")
    table.compact()
    assert files(table) == {5: {"orc"}}
    assert table.to_arrow().sort_by("id") == before


@pytest.mark.parametrize("seed", range(3))
def test_a_table_of_mixed_formats_reads_as_one(catalog: Catalog, seed: int) -> None:
    chosen = random.Random(seed)
    options = {"bucket": 1, "file.format": "avro", "file.format.per.level": "4:orc,5:parquet"}
    table = catalog.create_table("a.t", SCHEMA, primary_key=["id"], options=options)
    expected: dict[int, Any] = {}
    for step in range(20):
        rows = {chosen.randrange(40): chosen.choice(["a", "b", None]) for _ in range(8)}
        table.write(pa.table({"id": list(rows), "v": pa.array(list(rows.values()), pa.string())}))
        expected |= rows
        if step == 10:
            table = table.alter(AddColumn("more", pa.int32()))
    assert {row["id"]: row["v"] for row in table.to_arrow().to_pylist()} == expected


def test_what_a_format_cannot_hold_is_refused(catalog: Catalog) -> None:
    table = catalog.create_table("a.t", pa.schema([("at", pa.timestamp("ns"))]), options={"file.format": "avro"})
    with pytest.raises(InvalidRequest, match=r"TIMESTAMP\(9\)"):
        table.write(pa.table({"at": pa.array([1], pa.timestamp("ns"))}))
    assert not list(Path(table.store.paths.root).rglob("*.avro"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file.format.per.level": "avro"}, "Write level:value"),
        ({"file.format.per.level": "0:csv"}, "Supported: parquet, orc, avro"),
        ({"file.format": "csv"}, "csv"),
        ({"file.compression": "best"}, "best"),
    ],
)
def test_formats_that_cannot_be_are_refused(catalog: Catalog, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        catalog.create_table("a.t", SCHEMA, options=options).write(pa.table({"id": [1], "v": ["a"]}))
