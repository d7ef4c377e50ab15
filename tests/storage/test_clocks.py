"""Clocks that jump, stand still or differ: commits keep their order, and points in time lead to one snapshot."""

import datetime as dt
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from storage import BATCH_COMMIT_IDENTIFIER, Catalog, CommitId, FixedClock, InvalidRequest, NotFound, SetOptions, Table
from storage.metadata.time_order import CLOCK_PROPERTY, TIME_DISORDER_PROPERTY, rising_since
from storage.write.commit_time import commit_time
from storage.write.find_commit import search_bound

HOUR_MS = 3_600_000


def write(table: Table, number: int, **options: object) -> None:
    table.write(pa.table({"id": [number], "item": ["x"]}), **options)  # type: ignore[arg-type]


def at(time_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)


def version_at(table: Table, time_ms: int) -> int:
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
    assert (version_at(orders, start), version_at(orders, start + 999), version_at(orders, start + 1000)) == (2, 2, 3)
    with pytest.raises(NotFound, match="no snapshot or tag at or before"):
        orders.snapshot(at(start - 5 * HOUR_MS - 1))
    assert orders.check() == []


def test_equal_timestamps_lead_to_the_latest_of_them(orders: Table, clock: FixedClock) -> None:
    for number in range(4):
        write(orders, number)
    assert version_at(orders, clock.now_ms()) == 4
    assert version_at(orders, clock.now_ms() + 1) == 4


def test_writers_whose_clocks_differ_keep_the_order_of_commits(
    catalog: Catalog, orders: Table, clock: FixedClock
) -> None:
    ahead = Catalog(catalog.warehouse, clock=FixedClock(clock.now_ms() + HOUR_MS // 3)).table("shop.orders")
    behind = Catalog(catalog.warehouse, clock=FixedClock(clock.now_ms() - HOUR_MS // 3)).table("shop.orders")
    for number, table in enumerate([ahead, behind, orders, behind, ahead]):
        write(table, number)
    times = [snapshot.time_ms for snapshot in orders.store.snapshots.all()]
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


# --- clocks that jump

YEARS_MS = 10 * 365 * 24 * HOUR_MS


def a_writer_of_2036(orders: Table, clock: FixedClock) -> None:
    """Snapshots 1 and 2 of now, 3 of ten years ahead, 4 and 5 of now again; an hour between."""
    for number in range(1, 6):
        jump_ms = YEARS_MS if number == 3 else 0
        clock.advance_ms(jump_ms)
        write(orders, number)
        clock.advance_ms(HOUR_MS - jump_ms)


def test_one_commit_of_a_clock_years_ahead_does_not_pin_the_history(orders: Table, clock: FixedClock) -> None:
    start = clock.now_ms()
    a_writer_of_2036(orders, clock)
    assert [version_at(orders, start + hours * HOUR_MS) for hours in range(6)] == [1, 2, 2, 4, 5, 5]
    assert version_at(orders, start + YEARS_MS + 3 * HOUR_MS) == 5
    with pytest.raises(NotFound, match="no snapshot or tag at or before"):
        orders.snapshot(at(start - 1))
    times = [snapshot.time_ms for snapshot in orders.store.snapshots.all()]
    assert times == [start, start + HOUR_MS, start + YEARS_MS + 2 * HOUR_MS, start + 3 * HOUR_MS, start + 4 * HOUR_MS]
    assert [rising_since(snapshot) for snapshot in orders.store.snapshots.all()] == [None, None, None, 4, 4]
    assert orders.check() == []


def test_points_in_time_lead_to_snapshots_through_several_jumps(catalog: Catalog, clock: FixedClock) -> None:
    orders = catalog.create_table("a.t", pa.schema([("id", pa.int64()), ("item", pa.string())]))
    start = clock.now_ms()
    for number, hours in enumerate([0, 100, 10, 11, 50, 20, 21]):
        clock.advance_ms(start + hours * HOUR_MS - clock.now_ms())
        write(orders, number)
    # Segments: 1 2 | 3 4 5 | 6 7
    assert [version_at(orders, start + hours * HOUR_MS) for hours in (0, 9, 10, 15, 19, 20, 99)] == [
        1,
        1,
        3,
        4,
        4,
        6,
        7,
    ]
    orders.expire(retain_last=3)
    # Of the second segment the last is left, which is later.
    assert [version_at(orders, start + hours * HOUR_MS) for hours in (50, 20)] == [7, 6]
    with pytest.raises(NotFound, match="no snapshot or tag at or before"):
        orders.snapshot(at(start + 19 * HOUR_MS))


def test_a_time_that_was_taken_from_the_predecessor_is_said(
    orders: Table, clock: FixedClock, caplog: pytest.LogCaptureFixture
) -> None:
    write(orders, 1)
    clock.advance_ms(-60_000)
    with caplog.at_level("INFO"):
        write(orders, 2)
    snapshot = orders.snapshot()
    assert snapshot is not None
    assert snapshot.time_ms == clock.now_ms() + 60_000
    assert (snapshot.properties or {})[CLOCK_PROPERTY] == "60000"
    assert "60000 ms behind" in caplog.text


@pytest.mark.parametrize(
    ("latest", "bound", "time_ms", "properties"),
    [
        (None, None, 0, {}),
        (-1, None, 0, {}),
        (HOUR_MS - 1, None, HOUR_MS - 1, {CLOCK_PROPERTY: str(HOUR_MS - 1)}),
        (HOUR_MS, None, 0, {TIME_DISORDER_PROPERTY: "8"}),
        (-1, 5 * HOUR_MS, 5 * HOUR_MS, {CLOCK_PROPERTY: str(5 * HOUR_MS)}),
        (4 * HOUR_MS, 5 * HOUR_MS, 5 * HOUR_MS, {CLOCK_PROPERTY: str(5 * HOUR_MS)}),
        (-1, 24 * HOUR_MS, 0, {}),
        (-1, -5, 0, {}),
    ],
)
def test_the_time_of_a_commit(
    latest: int | None, bound: int | None, time_ms: int, properties: dict[str, str], orders: Table, clock: FixedClock
) -> None:
    now_ms = clock.now_ms()
    write(orders, 1)
    first = orders.snapshot()
    assert first is not None
    before = None if latest is None else replace(first, id=7, time_ms=now_ms + latest)
    made = commit_time(now_ms, before, None if bound is None else now_ms + bound)
    assert (made.time_ms - now_ms, made.properties) == (time_ms, properties)


def test_a_commit_is_found_though_the_clock_went_back_hours_since_its_run_began(
    orders: Table, clock: FixedClock
) -> None:
    commit_id = CommitId("job", 3, exact=True, not_before_ms=clock.now_ms())
    clock.advance_ms(-2 * HOUR_MS)
    write(orders, 1, commit_id=commit_id)
    write(orders, 2, commit_id=commit_id)
    clock.advance_ms(2 * HOUR_MS)
    write(orders, 3, commit_id=commit_id)
    assert orders.count() == 1


def test_a_commit_is_found_behind_others_of_a_clock_that_went_back(orders: Table, clock: FixedClock) -> None:
    commit_id = CommitId("job", 3, exact=True, not_before_ms=clock.now_ms())
    write(orders, 1, commit_id=commit_id)
    clock.advance_ms(-3 * HOUR_MS)
    write(orders, 2)
    clock.advance_ms(3 * HOUR_MS)
    # The newest snapshot is hours older than the bound, the commit before it is not.
    write(orders, 3, commit_id=commit_id)
    assert sorted(orders.to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_bound_of_another_clock_bounds_nothing() -> None:
    assert search_bound(CommitId("job", 3, True, 10 * HOUR_MS), 9 * HOUR_MS) == 9 * HOUR_MS
    assert search_bound(CommitId("job", 3, True, 10 * HOUR_MS), 9 * HOUR_MS - 1) is None
    assert search_bound(CommitId("job", 3, True), 0) is None


def test_a_snapshot_of_a_clock_ahead_keeps_nothing_for_years(orders: Table, clock: FixedClock) -> None:
    a_writer_of_2036(orders, clock)
    clock.advance_ms(HOUR_MS)
    # By now the snapshots are 6, 5, (4), 3 and 2 hours old.
    assert orders.expire(retain_last=1, older_than=dt.timedelta(hours=2, minutes=30)).snapshot_ids == (1, 2, 3, 4)


def test_a_snapshot_of_a_clock_far_back_lets_nothing_go_early(orders: Table, clock: FixedClock) -> None:
    clock.advance_ms(YEARS_MS)
    orders.alter(SetOptions({"snapshot.time-retained": "2 h", "snapshot.num-retained.min": 1}))
    orders = Table(orders.store.at_schema(orders.store.schemas.get(1)), "snapline")
    for number in range(1, 5):
        jump_ms = -YEARS_MS if number == 2 else 0
        clock.advance_ms(jump_ms)
        write(orders, number)
        clock.advance_ms(HOUR_MS // 3 - jump_ms)
    assert orders.store.snapshots.ids() == [1, 2, 3, 4]


def test_a_tag_that_a_clock_far_back_made_does_not_go_early(orders: Table, clock: FixedClock) -> None:
    write(orders, 1)
    clock.advance_ms(-YEARS_MS)
    orders.tags.create("kept", time_retained=dt.timedelta(days=7))
    clock.advance_ms(YEARS_MS)
    assert orders.tags.expire() == []
    clock.advance_ms(8 * 24 * HOUR_MS)
    assert orders.tags.expire() == ["kept"]


def test_tags_of_periods_that_a_clock_ahead_made_displace_no_others(catalog: Catalog, clock: FixedClock) -> None:
    options = {"tag.automatic-creation": "process-time", "tag.creation-period": "daily", "tag.num-retained-max": 3}
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64()), ("item", pa.string())]), options=options)
    days = 24 * HOUR_MS
    for number in range(4):
        write(table, number)
        clock.advance_ms(days)
    before = table.store.tags.names()
    assert len(before) == 3
    clock.advance_ms(YEARS_MS)
    write(table, 4)
    clock.advance_ms(-YEARS_MS)
    ahead = set(table.store.tags.names()) - set(before)
    assert len(ahead) == 1
    for number in range(3):
        write(table, number)
        clock.advance_ms(days)
    # Which goes first itself.
    assert len(table.store.tags.names()) == 3 and not ahead & set(table.store.tags.names())


def hourly_tags(tmp_path: Path) -> tuple[Table, FixedClock, int]:
    """A table with a tag for each hour, on which the hour before the one that begins about now has a commit; its clock, which is
    two minutes into this hour, and the beginning of this hour.
    """
    hour = (time.time_ns() // 1_000_000 + HOUR_MS // 6) // HOUR_MS * HOUR_MS
    clock = FixedClock(hour - HOUR_MS)
    options = {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly"}
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    table = Catalog(str(tmp_path), clock=clock).create_table("a.t", schema, options=options)
    write(table, 0)
    clock.advance_ms(HOUR_MS + 120_000)
    write(table, 1)
    return table, clock, hour


def tag_of_hour(begin_ms: int) -> str:
    return dt.datetime.fromtimestamp(begin_ms / 1000).strftime("%Y-%m-%d %H")


def test_a_clock_ahead_does_not_take_the_name_of_a_later_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, clock, hour = hourly_tags(tmp_path)
    ahead = Catalog(str(tmp_path), clock=FixedClock(clock.now_ms() + 4 * HOUR_MS)).table("a.t")
    write(ahead, 2)
    assert ahead.tags.create_due() is None
    assert [tag.name for tag in table.tags.list()] == [tag_of_hour(hour - HOUR_MS)]
    # The file system's clock goes along.
    monkeypatch.setattr("storage.maintain.tagging.now_of_ages", lambda store: clock.now_ms())
    for number in range(3, 8):
        write(table, number)
        clock.advance_ms(HOUR_MS)
    # The hour that the clock ahead believed to be over.
    later = tag_of_hour(hour + 3 * HOUR_MS)
    assert table.to_arrow(version=later)["id"].to_pylist() == [0, 1, 2, 3, 4, 5, 6]
    assert table.check() == []


def test_a_tag_that_a_clock_ahead_made_for_a_period_is_named_for_good(tmp_path: Path) -> None:
    """As older versions, and other programs, make them."""
    table, clock, hour = hourly_tags(tmp_path)
    ahead = Catalog(str(tmp_path), clock=FixedClock(clock.now_ms() + 4 * HOUR_MS)).table("a.t")
    write(ahead, 2)
    name = tag_of_hour(hour + 3 * HOUR_MS)
    ahead.tags.create(name, snapshot_id=2)
    for number in range(3, 8):
        write(table, number)
        # Its files get their times from the same clock.
        seconds = clock.now_ms() / 1000
        os.utime(table.store.paths.snapshot(number + 1), (seconds, seconds))
        clock.advance_ms(HOUR_MS)
    [line] = table.check()
    assert f"tag {name}: a clock that was ahead has made it before its period was over" in str(line)
    assert f"create-tag a.t --name '{name}' --snapshot 7 --replace" in str(line)
    table.tags.create(name, snapshot_id=7, replace=True)
    assert table.check() == []
    assert table.to_arrow(version=name)["id"].to_pylist() == [0, 1, 2, 3, 4, 5, 6]


def test_a_tag_that_a_clock_ahead_made_is_named_and_goes_by_its_age(orders: Table, clock: FixedClock) -> None:
    write(orders, 1)
    clock.advance_ms(YEARS_MS)
    orders.tags.create("kept", time_retained=dt.timedelta(days=7))
    clock.advance_ms(HOUR_MS - YEARS_MS)
    write(orders, 2)
    [line] = orders.check()
    assert "tag kept: a clock that was ahead has made it" in str(line)
    clock.advance_ms(6 * 24 * HOUR_MS)
    assert orders.tags.expire() == []
    clock.advance_ms(2 * 24 * HOUR_MS)
    assert orders.tags.expire() == ["kept"]
    assert orders.check() == []


def test_a_consumer_does_not_go_because_a_clock_is_ahead(catalog: Catalog, clock: FixedClock) -> None:
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    table = catalog.create_table("a.t", schema, options={"consumer.expiration-time": "1 d"})
    for number in range(3):
        write(table, number)
    table.consumers.reset("reader", 2)
    clock.advance_ms(10 * YEARS_MS)
    assert table.expire(retain_last=1).snapshot_ids == (1,)
    # It has not moved for two days before the newest snapshot came.
    path = table.store.paths.consumer("reader")
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(path, (long_ago, long_ago))
    assert table.expire(retain_last=1).snapshot_ids == (2,)


def test_a_clock_beyond_the_calendar_is_refused(orders: Table, clock: FixedClock) -> None:
    write(orders, 1)
    for years in (10_000, -2_100):
        clock.advance_ms(years * 366 * 24 * HOUR_MS)
        with pytest.raises(InvalidRequest, match="beyond the year 9999"):
            write(orders, 2)
        clock.advance_ms(-years * 366 * 24 * HOUR_MS)
    write(orders, 3)
    assert orders.to_arrow()["id"].to_pylist() == [1, 3]


def test_a_clock_a_year_ahead_lets_nothing_go_early(tmp_path: Path) -> None:
    """The clock that gives files their times is another one where a warehouse is shared: it is asked."""
    now_ms = time.time_ns() // 1_000_000
    right = Catalog(str(tmp_path), clock=FixedClock(now_ms))
    schema = pa.schema([("id", pa.int64()), ("seen", pa.timestamp("ms")), ("day", pa.string())])
    options = {
        "snapshot.time-retained": "7 d",
        "snapshot.num-retained.min": 1,
        "partition.expiration-time": "30 d",
        "record-level.expire-time": "30 d",
        "record-level.time-field": "seen",
        "write-only": True,
    }
    table = right.create_table("a.t", schema, primary_key=["id", "day"], partition_by=["day"], options=options)
    today = dt.datetime.fromtimestamp(now_ms / 1000)
    for number in range(3):
        rows = {"id": [number], "seen": [today], "day": [str(today.date())]}
        table.write(pa.table(rows, schema))
    table.tags.create("kept", time_retained=dt.timedelta(days=30))
    ahead = Catalog(str(tmp_path), clock=FixedClock(now_ms + 365 * 24 * HOUR_MS)).table("a.t")
    # That it writes first does not make its clock believed.
    ahead.write(pa.table({"id": [3], "seen": [today], "day": [str(today.date())]}, schema))
    os.utime(ahead.store.paths.snapshot(4), (now_ms / 1000, now_ms / 1000))
    assert (ahead.expire().snapshot_ids, ahead.tags.expire(), ahead.expire_partitions()) == ((), [], [])
    ahead.compact(full=True)
    assert [each.id for each in table.snapshots.all()][:3] == [1, 2, 3]
    assert [tag.name for tag in table.tags.list()] == ["kept"]
    assert table.count() == 4
    assert not [each for each in os.listdir(ahead.store.paths.schema_directory) if each.startswith(".now")]


def test_the_number_of_a_commit_id_of_a_moment_fits_in_64_bits_in_every_year() -> None:
    numbers = set()
    for year in (1970, 2024, 2248, 2249, 2600, 9998):
        time_ms = int(dt.datetime(year, 12, 31, tzinfo=dt.UTC).timestamp() * 1000)
        for chance in (0, 1, 2**20 - 1, 2**32 - 2):
            numbers.add(CommitId.of_moment("job", time_ms, chance).identifier)
    assert len(numbers) == 6 * 4 and min(numbers) > 0 and max(numbers) < BATCH_COMMIT_IDENTIFIER
    # Which is that of batch jobs, and tells none from another.
    assert CommitId.of_moment("job", 2**43 - 1, -1).identifier == BATCH_COMMIT_IDENTIFIER - 1
    assert CommitId.of_moment("job", 1_700_000_000_000, 5).identifier == (1_700_000_000_000 << 20) + 5


@pytest.mark.parametrize(("expirer_h", "writer_h"), [(2, 48), (2, 2 * 365 * 24), (20, 48), (72, 120)])
def test_clocks_that_are_behind_take_nothing_that_is_new(catalog: Catalog, expirer_h: int, writer_h: int) -> None:
    """The file system's clock is right; beyond a day it is asked."""
    now_ms = int(time.time() * 1000)

    def by_clock(behind_h: int) -> Table:
        return Catalog(catalog.warehouse, clock=FixedClock(now_ms - behind_h * HOUR_MS)).table("a.t")

    options = {"snapshot.time-retained": "6 h", "snapshot.num-retained.min": 1}
    catalog.create_table("a.t", pa.schema([("id", pa.int64())]), options=options)
    right = by_clock(0)
    for number in range(5):
        right.write(pa.table({"id": [number]}))
    right.tags.create("kept", time_retained=dt.timedelta(hours=6))
    by_clock(writer_h).write(pa.table({"id": [9]}))
    expirer = by_clock(expirer_h)
    assert expirer.tags.expire() == []
    assert expirer.expire().snapshot_ids == ()
    assert [snapshot.id for snapshot in right.snapshots.all()] == [1, 2, 3, 4, 5, 6]
