"""Conditions with literals that a column cannot hold as they are, and over files whose writers treat NaN in their own way."""

import datetime as dt
import json
import math
import struct
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from storage import Catalog, InvalidRequest, Table
from storage.data_types import parse_type
from storage.format import binary_row
from storage.format.column_stats import SerializedStats, deserialize, serialize
from storage.metadata import first_schema
from storage.read.predicate import Comparison, IsIn
from storage.values import from_literal

MOMENT = 1_700_000_000_123_456_789
TEXT = "2023-11-14 22:13:20"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "warehouse"))


def holding(catalog: Catalog, kind: pa.DataType, values: list[object], **options: object) -> Table:
    table = catalog.create_table("d.t", pa.schema([("id", pa.int64()), ("v", kind)]), **options)
    table.write(pa.table({"id": range(len(values)), "v": pa.array(values, kind)}))
    return table


def matching_ids(table: Table, where: str) -> list[int]:
    return sorted(table.to_arrow(where=where).column("id").to_pylist())


@pytest.mark.parametrize("mode", ["none", "counts", "truncate(16)", "full"])
def test_a_single_is_found_by_the_number_that_was_written(catalog: Catalog, mode: str) -> None:
    table = holding(catalog, pa.float32(), [0.1, 0.2], options={"metadata.stats-mode": mode})
    for where, ids in (
        ("v = 0.1", [0]),
        ("v IN (0.1)", [0]),
        ("v < 0.1", []),
        ("v <= 0.1", [0]),
        ("v > 0.1", [1]),
        ("v >= 0.2", [1]),
        ("v != 0.1", [1]),
        ("v NOT IN (0.2)", [0]),
        ("v < 1e300", [0, 1]),
        ("v > -1e300", [0, 1]),
        ("v = 1e300", []),
    ):
        assert matching_ids(table, where) == ids, where


@pytest.mark.pypaimon_differs("It looks for the partition of NaN under Python's name of it.")
def test_partitions_of_a_single_are_named_by_the_number_that_was_written(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Others make such tables, and such a directory.
    monkeypatch.setattr(first_schema, "_refuse_unsure_directories", lambda _: None)
    schema = pa.schema([("id", pa.int64()), ("v", pa.float32())])
    table = catalog.create_table("d.t", schema, partition_by=["v"])
    (Path(table.store.paths.root) / "v=0.1").mkdir()
    table.write(pa.table({"id": [0, 1, 2], "v": [0.1, math.nan, 7.0]}, schema))
    for where, ids in (
        ("v = 0.1", [0]),
        ("v > 2", [1, 2]),
        ("v >= 7", [1, 2]),
        ("v < 7", [0]),
        ("v != 7", [0, 1]),
        ("v <= 7", [0, 2]),
    ):
        assert matching_ids(table, where) == ids, where


def test_zeros_of_both_signs_are_one_number(catalog: Catalog) -> None:
    table = holding(catalog, pa.float64(), [0.0, -0.0, None, 7.0, math.nan])
    for where, ids in (
        ("v = 0.0", [0, 1]),
        ("v IN (0.0, 7.0)", [0, 1, 3]),
        ("v IN (-0.0)", [0, 1]),
        ("v NOT IN (0.0)", [3, 4]),
        ("v != 0", [3, 4]),
    ):
        assert matching_ids(table, where) == ids, where


def test_zeros_of_both_signs_are_found_in_the_buckets_of_both(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("v", pa.float64(), nullable=False), ("id", pa.int64())])
    table = catalog.create_table("d.k", schema, primary_key=["v"], options={"bucket": 7})
    table.write(pa.table({"v": [0.0, 1.0], "id": [0, 2]}, schema=schema))
    table.write(pa.table({"v": [-0.0], "id": [1]}, schema=schema))
    everything = table.to_arrow().column("v").to_pylist()
    zeros = len([value for value in everything if value == 0])
    for where in ("v = 0.0", "v IN (0.0)", "v = -0.0", "v <= 0.0"):
        assert table.to_arrow(where=where).num_rows == zeros, where


@pytest.mark.parametrize(
    ("kind", "value", "finer"),
    [
        (pa.timestamp("ms"), dt.datetime(2023, 11, 14, 22, 13, 20, 123000), f"{TEXT}.123456"),
        (pa.timestamp("s"), dt.datetime(2023, 11, 14, 22, 13, 20), f"{TEXT}.5"),
        (pa.timestamp("us"), dt.datetime(2023, 11, 14, 22, 13, 20, 123456), f"{TEXT}.1234567"),
        (pa.timestamp("ms"), dt.datetime(1960, 1, 1, 0, 0, 0, 123000), "1960-01-01 00:00:00.1235"),
        (pa.time32("ms"), dt.time(0, 0, 1, 123000), "00:00:01.1235"),
    ],
)
def test_a_moment_between_two_values_equals_none_and_is_above_the_lower(
    catalog: Catalog, kind: pa.DataType, value: object, finer: str
) -> None:
    table = holding(catalog, kind, [value])
    for operator, ids in (("=", []), ("!=", [0]), ("<", [0]), ("<=", [0]), (">", []), (">=", [])):
        assert matching_ids(table, f"v {operator} '{finer}'") == ids, operator
    assert matching_ids(table, f"v IN ('{finer}')") == []
    assert matching_ids(table, f"v NOT IN ('{finer}')") == [0]


def test_nanoseconds_are_compared_to_the_last_digit(catalog: Catalog) -> None:
    table = holding(catalog, pa.timestamp("ns"), [MOMENT, MOMENT - 789])
    for where, ids in (
        (f"v = '{TEXT}.123456789'", [0]),
        (f"v = TIMESTAMP '{TEXT}.123456789'", [0]),
        (f"v > '{TEXT}.123456'", [0]),
        (f"v < '{TEXT}.123456789'", [1]),
        (f"v = '{TEXT}.123456'", [1]),
        (f"v <= '{TEXT}.1234567890'", [0, 1]),
        (f"v > '{TEXT}.1234567885'", [0]),
    ):
        assert matching_ids(table, where) == ids, where


def test_a_date_is_not_compared_with_a_time_of_day(catalog: Catalog) -> None:
    with pytest.raises(InvalidRequest, match="time of day"):
        from_literal(dt.datetime(2022, 1, 8, 12), parse_type("DATE"))
    assert from_literal(dt.datetime(2022, 1, 8), parse_type("DATE")) == from_literal("2022-01-08", parse_type("DATE"))


def test_the_default_of_a_single_keeps_its_text(catalog: Catalog) -> None:
    assert from_literal(0.1, parse_type("FLOAT")) == np.float32(0.1)
    assert from_literal(Decimal("1e300"), parse_type("FLOAT")) == 1e300
    assert struct.pack("f", from_literal("nan", parse_type("FLOAT")))


# Bounds as others write them: Java's are NaN as soon as a value is, those of pypaimon and of Java's ORC leave NaN out.
@pytest.mark.parametrize("bounds", [(math.nan, math.nan), (-1.5, math.nan), (-1.5, 1.5)])
@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_a_file_that_may_hold_nan_is_read_for_all_that_it_may_hold(bounds: tuple[float, float], kind: str) -> None:
    data_type = parse_type(kind)
    rows = pa.record_batch({"v": pa.array([math.nan, 1.5, -1.5], data_type.to_arrow())})
    low, high = (binary_row.encode([data_type], [end]) for end in bounds)
    [stats] = deserialize(SerializedStats(low, high, (0,)), [data_type])
    for literal in (-2.0, -1.5, 0.0, 1.5, 2.0, math.nan, math.inf, -math.inf):
        conditions = [Comparison("v", operator, literal, data_type) for operator in ("=", "!=", "<", "<=", ">", ">=")]
        for condition in [
            *conditions,
            IsIn("v", (literal,), type=data_type),
            IsIn("v", (literal,), True, type=data_type),
        ]:
            if condition.filter(rows).num_rows:
                assert condition.may_match({"v": stats}, 3), condition
    # What cannot be there is not read.
    if not math.isnan(bounds[0]) and not math.isnan(bounds[1]):
        assert not Comparison("v", "=", 2.0, data_type).may_match({"v": stats}, 3)
        assert not Comparison("v", "<", -2.0, data_type).may_match({"v": stats}, 3)
    assert json.dumps(serialize([data_type], [stats]).null_counts) == "[0]"


def test_a_time_of_pandas_keeps_its_nanoseconds() -> None:
    pandas = pytest.importorskip("pandas")
    moment = pandas.Timestamp(1_999_999_999)
    assert from_literal(moment, parse_type("TIMESTAMP(9)")) == 1_999_999_999
    assert from_literal(moment.tz_localize("UTC"), parse_type("TIMESTAMP_LTZ(9)")) == 1_999_999_999


@pytest.mark.pypaimon_differs("Python has no dates of these years.")
@pytest.mark.java_differs("Its rows are compared as Python's dates.")
def test_years_before_the_first_and_after_9999_have_a_text(catalog: Catalog) -> None:
    microseconds = [-62_150_000_000_000_000, 253_402_300_800_000_000, 0]
    rows = pa.table({"at": pa.array(microseconds, pa.timestamp("us")), "id": [1, 2, 3]})
    table = catalog.create_table("db.t", rows.schema, partition_by=["at"])
    table.write(rows)
    assert sorted(table.system_table("partitions")["partition"].to_pylist()) == [
        "at=+10000-01-01 00:00:00.000000",
        "at=0000-07-18 07:06:40.000000",
        "at=1970-01-01 00:00:00.000000",
    ]
    plain = catalog.create_table("db.plain", rows.schema)
    plain.write(rows)
    assert plain.system_table("files").num_rows == 1
    for read in (table, plain):
        assert sorted(read.to_arrow()["at"].cast(pa.int64()).to_pylist()) == sorted(microseconds)
