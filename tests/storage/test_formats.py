"""Data files in every format, mixed as options say."""

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import AddColumn, Catalog, ChangeType, InvalidRequest, Table, Unsupported

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def files(table: Table) -> dict[int, set[str]]:
    formats: dict[int, set[str]] = {}
    for row in table.system_table("files").to_pylist():
        formats.setdefault(row["level"], set()).add(row["file_format"])
    return formats


def test_levels_have_formats_and_compressions_of_their_own(catalog: Catalog) -> None:
    options = {
        "bucket": 1,
        "file.format.per.level": "0:avro,5:orc",
        "file.compression.per.level": "0:deflate,5:zlib",
        "write-only": True,
    }
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
        ({"file.format.per.level": "0:avro,0:orc"}, "level 0 is there twice"),
        ({"file.compression.per.level": "6:zstd"}, "level 6 is none: they go from 0 to 5"),
        ({"metadata.stats-mode.per.level": "2:none", "num-levels": 2}, "they go from 0 to 1"),
        ({"file.format.per.level": "0:csv"}, "Supported: parquet, orc, avro"),
        ({"file.format": "csv"}, "csv"),
        ({"file.compression": "best"}, "best"),
    ],
)
def test_formats_that_cannot_be_are_refused(catalog: Catalog, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        catalog.create_table("a.t", SCHEMA, options=options).write(pa.table({"id": [1], "v": ["a"]}))


def test_parquet_holds_decimals_and_timestamps_as_java_does(catalog: Catalog) -> None:
    nested = pa.struct([("fine", pa.timestamp("ns")), ("coarse", pa.timestamp("us"))])
    schema = pa.schema(
        [
            ("d9", pa.decimal128(9, 2)),
            ("d18", pa.decimal128(18, 2)),
            ("d19", pa.decimal128(19, 2)),
            ("ms", pa.timestamp("ms")),
            ("us", pa.timestamp("us", "UTC")),
            ("ns", pa.timestamp("ns")),
            ("nested", pa.list_(nested)),
        ]
    )
    last = {"us": (2**63 - 1) // 10**6 - 1, "ms": 253_402_300_799_999}
    row = [
        Decimal("-1.25"),
        Decimal(3),
        Decimal("0.01"),
        last["ms"],
        last["us"],
        2**63 - 1,
        [{"fine": -1, "coarse": -1}],
    ]
    nulls = [None] * len(row)
    columns = [pa.array(values, kind) for values, kind in zip(zip(row, nulls, strict=True), schema.types, strict=True)]
    rows = pa.table(columns, schema=schema)
    table = catalog.create_table("a.t", schema)
    table.write(rows)
    [path] = Path(table.store.paths.root).rglob("*.parquet")
    physical = pq.ParquetFile(path).metadata.schema
    kinds = [physical.column(number).physical_type for number in range(len(physical.names))]
    assert kinds == ["INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "INT64", "INT64", "INT96", "INT96", "INT64"]
    described = [str(physical.column(number).logical_type) for number in (3, 4, 7)]
    assert ["milli" in described[0], "micro" in described[1], "micro" in described[2]] == [True] * 3
    assert ["isAdjustedToUTC=true" in description for description in described] == [False, True, False]
    assert table.to_arrow().equals(rows)
    assert table.count(where="d19 = 0.01") == 1
    assert table.check(deep=True) == []


def test_wide_decimals_have_no_dictionary_in_parquet(catalog: Catalog) -> None:
    schema = pa.schema([("narrow", pa.decimal128(18, 2)), ("wide", pa.decimal128(19, 2))])
    values = [Decimal(number % 3) for number in range(1000)]
    table = catalog.create_table("a.t", schema)
    table.write(pa.table([pa.array(values, kind) for kind in schema.types], schema=schema))
    [path] = Path(table.store.paths.root).rglob("*.parquet")
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert [group.column(number).has_dictionary_page for number in range(2)] == [True, False]


@pytest.mark.parametrize("moment", [dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1)])
def test_orc_refuses_nested_times_that_it_could_not_give_back(catalog: Catalog, moment: dt.datetime) -> None:
    kind = pa.list_(pa.struct([("at", pa.timestamp("ms"))]))
    table = catalog.create_table("a.t", pa.schema([("at", kind)]), options={"file.format": "orc"})
    with pytest.raises(InvalidRequest, match="outside of the years 1678 to 2261"):
        table.write(pa.table({"at": pa.array([[{"at": moment}]], kind)}))
    assert table.snapshot() is None
    assert not list(Path(table.store.paths.root).rglob("*.orc"))


@pytest.mark.pypaimon_differs("it turns all times of ORC into nanoseconds, which have no place for them")
@pytest.mark.parametrize("compression", ["zstd", "zlib", "snappy", "lz4", "none"])
@pytest.mark.parametrize("key", [[], ["at"]], ids=["plain", "keyed"])
def test_orc_gives_back_times_without_end(catalog: Catalog, compression: str, key: list[str]) -> None:
    kinds = {"at": pa.timestamp("us"), "ms": pa.timestamp("ms"), "zoned": pa.timestamp("us", "UTC"), "n": pa.int32()}
    moments = [
        dt.datetime(1, 1, 1),
        dt.datetime(1969, 12, 31),
        dt.datetime(2024, 5, 6, 7, 8, 9, 123456),
        dt.datetime.max,
    ]
    # More than a run of its encodings has.
    moments += [dt.datetime(2000, 1, 1) + number * dt.timedelta(microseconds=1001) for number in range(1500)]
    coarse = [moment.replace(microsecond=moment.microsecond // 1000 * 1000) for moment in moments]
    nulls = [None if number % 3 == 1 else moment for number, moment in enumerate(coarse)]
    rows = pa.table(
        {"at": moments, "ms": nulls, "zoned": moments, "n": range(len(moments))},
        pa.schema([pa.field(name, kind, name not in key) for name, kind in kinds.items()]),
    )
    options = {"file.format": "orc", "file.compression": compression, **({"bucket": 1} if key else {})}
    table = catalog.create_table("a.t", rows.schema, primary_key=key, options=options)
    table.write(rows)
    assert table.to_arrow().sort_by("n").equals(rows)
    assert table.to_arrow(where="at >= '9999-12-31'", columns=["n"])["n"].to_pylist() == [3]
    assert table.check(deep=True) == []
    table.write(rows.slice(2, 2))
    table.compact()
    assert table.count() == len(moments) + (0 if key else 2)


@pytest.mark.pypaimon_differs("it turns all times of ORC into nanoseconds, which have no place for them")
@pytest.mark.java_differs("it has times of nanoseconds in every year")
def test_orc_refuses_what_it_cannot_give_back_without_calling_it_damaged(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table(
        "a.t", pa.schema([("at", pa.timestamp("us")), ("n", pa.int32())]), options={"file.format": "orc"}
    )
    table.write(pa.table({"at": [dt.datetime.max], "n": pa.array([1], pa.int32())}))
    # Others' tables may be altered so.
    monkeypatch.setattr("storage.metadata.schema_change.is_widening", lambda *_: True)
    fine = table.alter(ChangeType("at", pa.timestamp("ns")))
    with pytest.raises(Unsupported, match=r"'at' was of type TIMESTAMP\(6\).*The files are sound"):
        fine.to_arrow()
    assert fine.to_arrow(columns=["n"])["n"].to_pylist() == [1]
