"""Clocks that go back, and local times of which an hour is missing or there twice, change no rows and let nothing go early."""

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, FixedClock, Table

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int32())])
HOUR_MS = 3_600_000
# 02:30 for the first time, a quarter of an hour before it is 02:15 for the second one.
END_OF_SUMMER_MS = 1_761_438_600_000
# 01:59; a minute later it is 03:00.
BEGIN_OF_SUMMER_MS = 1_743_296_340_000


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def rows(value: int, kind: str = "+I") -> pa.Table:
    return pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([value], pa.int32()), "kind": [kind]})


def postponed(tmp_path: Path, clock: FixedClock) -> Table:
    catalog = Catalog(str(tmp_path), clock=clock)
    return catalog.create_table("d.t", SCHEMA, primary_key=["k"], options={"bucket": -2})


def write(table: Table, value: int, kind: str = "+I") -> None:
    assert table.write(rows(value, kind), row_kind_column="kind") is not None


def values(table: Table) -> list[int]:
    table.compact()
    return list(table.to_arrow()["v"].to_pylist())


@pytest.mark.usefixtures("in_berlin")
@pytest.mark.parametrize(
    ("start_ms", "forward_ms"), [(END_OF_SUMMER_MS, HOUR_MS * 3 // 4), (END_OF_SUMMER_MS, -HOUR_MS)]
)
def test_postponed_rows_are_settled_in_the_order_of_their_snapshots(
    tmp_path: Path, start_ms: int, forward_ms: int
) -> None:
    clock = FixedClock(start_ms)
    table = postponed(tmp_path, clock)
    write(table, 1)
    clock.advance_ms(forward_ms)
    write(table, 2)
    assert values(table) == [2]
    clock.advance_ms(-2 * HOUR_MS)
    write(table, 2, "-D")
    assert values(table) == []


def test_postponed_rows_of_two_writers_are_settled_in_the_order_of_their_commits(tmp_path: Path) -> None:
    clock = FixedClock()
    table = postponed(tmp_path, clock)
    first = table.new_write()
    first.write(rows(111).drop_columns("kind"))
    prepared = first.prepare_commit()
    clock.advance_ms(1000)
    write(table, 222)
    table.new_commit().commit([prepared])
    for _ in range(12):
        # Manifests are merged meanwhile.
        table.write(pa.table({"k": [2], "v": [0]}, schema=SCHEMA))
    assert sorted(values(table)) == [0, 111]


@pytest.mark.usefixtures("in_berlin")
def test_nothing_expires_an_hour_early_when_summer_time_begins(tmp_path: Path) -> None:
    clock = FixedClock(BEGIN_OF_SUMMER_MS)
    options = {"partition.expiration-time": "1 h", "partition.expiration-strategy": "update-time"}
    table = Catalog(str(tmp_path), clock=clock).create_table("d.t", SCHEMA, partition_by=["k"], options=options)
    table.write(rows(1).drop_columns("kind"))
    table.tags.create("short", time_retained=dt.timedelta(minutes=30))
    clock.advance_ms(90_000)
    assert table.expire_partitions() == [] and table.tags.expire() == []
    clock.advance_ms(29 * 60_000)
    assert table.tags.expire() == ["short"]
    clock.advance_ms(31 * 60_000)
    assert table.expire_partitions() == [{"k": 1}]


def test_a_partition_that_somebody_in_another_zone_writes_does_not_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"partition.expiration-time": "1 h", "partition.expiration-strategy": "update-time"}
    clock = FixedClock()
    table = Catalog(str(tmp_path), clock=clock).create_table("d.t", SCHEMA, partition_by=["k"], options=options)
    try:
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        table.write(rows(1).drop_columns("kind"))
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        clock.advance_ms(60_000)
        assert table.expire_partitions() == []
    finally:
        monkeypatch.undo()
        time.tzset()
