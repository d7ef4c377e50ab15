"""Clocks that jump, stand still or differ: commits keep their order, and points in time lead to one snapshot."""

import datetime as dt
import os
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from storage import Catalog, CommitId, FixedClock, NotFound, Table

HOUR_MS = 3_600_000


def write(table: Table, number: int, **how: object) -> None:
    table.write(pa.table({"id": [number], "item": ["x"]}), **how)  # type: ignore[arg-type]


def at(time_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)


def found(table: Table, time_ms: int) -> int:
    snapshot = table.snapshot(at(time_ms))
    assert snapshot is not None
    return snapshot.id


def test_a_clock_that_jumps_back_does_not_turn_history_around(orders: Table, clock: FixedClock) -> None:
    start = clock.now_ms()
    write(orders, 1)
    clock.advance_ms(-5 * HOUR_MS)
    write(orders, 2)
    clock.advance_ms(5 * HOUR_MS + 1000)
    write(orders, 3)
    times = [one.time_ms for one in orders.store.snapshots.all()]
    assert times == sorted(times)
    assert (found(orders, start), found(orders, start + 999), found(orders, start + 1000)) == (2, 2, 3)
    with pytest.raises(NotFound, match="no snapshot or tag at or before"):
        orders.snapshot(at(start - 1))


def test_equal_timestamps_lead_to_the_latest_of_them(orders: Table, clock: FixedClock) -> None:
    for number in range(4):
        write(orders, number)
    assert found(orders, clock.now_ms()) == 4
    assert found(orders, clock.now_ms() + 1) == 4


def test_writers_whose_clocks_differ_keep_the_order_of_commits(
    catalog: Catalog, orders: Table, clock: FixedClock
) -> None:
    ahead = Catalog(catalog.warehouse, clock=FixedClock(clock.now_ms() + HOUR_MS)).table("shop.orders")
    behind = Catalog(catalog.warehouse, clock=FixedClock(clock.now_ms() - HOUR_MS)).table("shop.orders")
    for number, table in enumerate([ahead, behind, orders, behind, ahead]):
        write(table, number)
    times = [one.time_ms for one in orders.store.snapshots.all()]
    assert times == sorted(times)
    assert orders.count() == 5


def test_a_repeated_commit_is_found_though_the_clock_was_moved(orders: Table, clock: FixedClock) -> None:
    commit_id = CommitId("job", 3, exact=True, not_before_ms=clock.now_ms())
    write(orders, 1, commit_id=commit_id)
    clock.advance_ms(-HOUR_MS // 2)
    write(orders, 2, commit_id=commit_id)
    assert orders.count() == 1


@pytest.fixture
def berlin() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def test_the_hour_that_comes_twice_is_told_apart(berlin: None, catalog: Catalog, clock: FixedClock) -> None:
    # On 27 October 2024 the clocks of Berlin show 02:30 at 00:30 and at 01:30 UTC.
    first = int(dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC).timestamp() * 1000)
    clock.advance_ms(first - clock.now_ms())
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64()), ("item", pa.string())]))
    write(table, 1)
    clock.advance_ms(HOUR_MS)
    write(table, 2)
    naive = dt.datetime(2024, 10, 27, 2, 30)
    summer, winter = table.snapshot(naive.replace(fold=0)), table.snapshot(naive.replace(fold=1))
    assert summer is not None
    assert winter is not None
    assert (summer.id, winter.id) == (1, 2)
    shown = table.system_table("snapshots").column("commit_time").to_pylist()
    assert shown == [naive, naive]


def test_the_hour_that_does_not_exist_leads_to_what_was_there_before(
    berlin: None, catalog: Catalog, clock: FixedClock
) -> None:
    # On 31 March 2024 the clocks of Berlin go from 02:00 to 03:00, at 01:00 UTC.
    before = int(dt.datetime(2024, 3, 31, 0, 59, tzinfo=dt.UTC).timestamp() * 1000)
    clock.advance_ms(before - clock.now_ms())
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64()), ("item", pa.string())]))
    write(table, 1)
    clock.advance_ms(90 * 60_000)
    write(table, 2)
    snapshot = table.snapshot(dt.datetime(2024, 3, 31, 2, 30))
    assert snapshot is not None
    assert snapshot.id == 1


def test_expiry_by_age_follows_commit_times(orders: Table, clock: FixedClock) -> None:
    for number in range(4):
        write(orders, number)
        clock.advance_ms(HOUR_MS)
    clock.advance_ms(-10 * HOUR_MS)
    # By this clock all snapshots lie in the future: none is old.
    assert orders.expire(retain_last=1, older_than=dt.timedelta(hours=1)).snapshot_ids == ()
    clock.advance_ms(10 * HOUR_MS)
    assert orders.expire(retain_last=1, older_than=dt.timedelta(hours=2)).snapshot_ids == (1, 2)
