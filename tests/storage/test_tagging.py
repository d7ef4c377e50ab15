"""Tags that come and go by themselves, and partitions that do."""

import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AlreadyExists, Catalog, FixedClock, InvalidRequest, NotFound, StorageError, Table
from storage.maintain.tagging import last_period
from storage.metadata.table_store import TableStore
from storage.options import TableOptions
from storage.tags import Tags
from tests.crash.failing_files import MODES, FailingFileIO

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def make(catalog: Catalog, **options: Any) -> Table:
    named = {key.replace("_", "."): value for key, value in options.items()}
    return catalog.create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 1, "write-only": True, **named})


def write(table: Table, number: int) -> None:
    table.write(pa.table({"id": [number], "v": ["x"]}))


def set_time(clock: FixedClock, text: str) -> None:
    clock.time_ms = int(dt.datetime.fromisoformat(text).timestamp() * 1000)


def tags(table: Table) -> dict[str, int]:
    return {tag.name: tag.snapshot.id for tag in table.tags.list()}


@pytest.mark.parametrize(
    ("options", "now", "name", "end"),
    [
        ({"tag.automatic-creation": "process-time"}, "2024-05-15 00:00", "2024-05-14", "2024-05-15 00:00"),
        ({"tag.automatic-creation": "process-time"}, "2024-05-15 23:59", "2024-05-14", "2024-05-15 00:00"),
        (
            {"tag.automatic-creation": "process-time", "tag.creation-delay": "10 min"},
            "2024-05-15 00:09",
            "2024-05-13",
            "2024-05-14 00:10",
        ),
        (
            {"tag.automatic-creation": "process-time", "tag.creation-period": "hourly"},
            "2024-05-15 07:30",
            "2024-05-15 06",
            "2024-05-15 07:00",
        ),
        (
            {"tag.automatic-creation": "process-time", "tag.creation-period": "two-hours"},
            "2024-05-15 07:30",
            "2024-05-15 04",
            "2024-05-15 06:00",
        ),
        (
            {"tag.automatic-creation": "process-time", "tag.period-formatter": "without_dashes"},
            "2024-05-15 07:30",
            "20240514.",
            "2024-05-15 00:00",
        ),
        (
            {"tag.create-interval": "1 d", "tag.create-time": "03:30"},
            "2024-05-15 03:29",
            "2024-05-14",
            "2024-05-14 03:30",
        ),
        (
            {"tag.create-interval": "1 d", "tag.create-time": "03:30"},
            "2024-05-15 03:30",
            "2024-05-15",
            "2024-05-15 03:30",
        ),
        ({"tag.create-interval": "7 d"}, "2024-05-15 12:00", "2024-05-12", "2024-05-12 00:00"),
    ],
)
def test_periods(options: dict[str, str], now: str, name: str, end: str) -> None:
    period = last_period(TableOptions.read(options), dt.datetime.fromisoformat(now))
    assert period is not None
    assert (period.name, period.end) == (name, dt.datetime.fromisoformat(end))


def test_tables_make_no_tags_unless_they_are_asked_to(catalog: Catalog) -> None:
    table = make(catalog)
    write(table, 1)
    assert table.tags.create_due() is None
    assert tags(table) == {}


def test_a_commit_tags_the_day_that_is_over(catalog: Catalog, clock: FixedClock) -> None:
    set_time(clock, "2024-05-14 22:00")
    table = make(catalog, **{"tag.automatic-creation": "process-time"})
    write(table, 1)
    write(table, 2)
    assert tags(table) == {}
    set_time(clock, "2024-05-15 00:30")
    write(table, 3)
    write(table, 4)
    # The day ended with the second snapshot; what came after midnight is not in it.
    assert tags(table) == {"2024-05-14": 2}


def test_a_schedule_tags_as_a_commit_would(catalog: Catalog, clock: FixedClock) -> None:
    set_time(clock, "2024-05-14 22:00")
    table = make(catalog, **{"tag.create-interval": "1 d", "tag.create-time": "06:00"})
    write(table, 1)
    set_time(clock, "2024-05-15 05:59")
    assert table.tags.create_due() is None
    set_time(clock, "2024-05-15 06:00")
    tag = table.tags.create_due()
    assert tag is not None
    assert (tag.name, tag.snapshot.id) == ("2024-05-15", 1)
    assert table.tags.create_due() is None


def test_only_so_many_tags_of_periods_are_kept(catalog: Catalog, clock: FixedClock) -> None:
    set_time(clock, "2024-05-01 12:00")
    table = make(catalog, **{"tag.automatic-creation": "process-time", "tag.num-retained-max": 2})
    table.tags.create("mine") if table.snapshot() else write(table, 0)
    table.tags.create("mine")
    for number in range(1, 6):
        clock.advance_ms(DAY_MS)
        write(table, number)
    assert set(tags(table)) == {"mine", "2024-05-04", "2024-05-05"}


@pytest.mark.parametrize(
    "options",
    [
        {"tag.automatic-creation": "sometimes"},
        {"tag.automatic-creation": "process-time", "tag.creation-period": "weekly"},
        {"tag.create-interval": "1 h"},
        {"tag.create-interval": "1 d", "tag.create-time": "3 am"},
        {"tag.automatic-creation": "process-time", "tag.period-formatter": "nice"},
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="'tag"):
        last_period(TableOptions.read(options), dt.datetime(2024, 5, 15))


def test_a_tag_expires_after_its_retention(catalog: Catalog, clock: FixedClock) -> None:
    table = make(catalog)
    write(table, 1)
    table.tags.create("short", time_retained=dt.timedelta(hours=2))
    table.tags.create("long", time_retained=dt.timedelta(days=2))
    table.tags.create("kept")
    shown = {row["tag_name"]: row for row in table.system_table("tags").to_pylist()}
    assert shown["short"]["time_retained"] == "PT2H"
    assert shown["short"]["create_time"] == dt.datetime.fromtimestamp(clock.now_ms() / 1000)
    assert shown["kept"]["time_retained"] is None
    clock.advance_ms(2 * HOUR_MS)
    assert table.tags.expire() == []
    clock.advance_ms(1)
    assert table.tags.expire() == ["short"]
    clock.advance_ms(3 * DAY_MS)
    assert table.tags.expire() == ["long"]
    assert set(tags(table)) == {"kept"}


def test_a_table_has_a_default_retention(catalog: Catalog, clock: FixedClock) -> None:
    table = make(catalog, **{"tag.default-time-retained": "1 h"})
    write(table, 1)
    table.tags.create("x")
    clock.advance_ms(HOUR_MS + 1)
    assert table.tags.expire() == ["x"]
    with pytest.raises(InvalidRequest, match="for some time"):
        table.tags.create("y", time_retained=dt.timedelta(0))


def test_a_tag_is_renamed(catalog: Catalog) -> None:
    table = make(catalog)
    write(table, 1)
    table.tags.create("a", time_retained=dt.timedelta(hours=2))
    table.tags.create("b")
    table.tags.rename("a", "c")
    assert set(tags(table)) == {"b", "c"}
    assert table.tags.get("c").time_retained_seconds == 7200
    with pytest.raises(AlreadyExists, match="'b'"):
        table.tags.rename("c", "b")
    with pytest.raises(NotFound, match="Existing tags: b, c"):
        table.tags.rename("a", "d")
    with pytest.raises(InvalidRequest, match="numeric"):
        table.tags.rename("b", "2024")


@pytest.mark.parametrize("mode", MODES)
def test_a_tag_has_one_name_wherever_its_renaming_fails(catalog: Catalog, mode: str) -> None:
    table = make(catalog)
    write(table, 1)
    store, is_done, names = table.store, False, list[str]()
    while not is_done:
        table.tags.create("a", time_retained=dt.timedelta(hours=2))
        file_io = FailingFileIO(mode=mode)
        failing = TableStore(file_io, store.paths.root, store.identifier, store.schema, store.clock)
        file_io.fails_at = len(file_io.calls) + len(names)
        with suppress(StorageError, OSError):
            Tags(failing).rename("a", "b")
        is_done = len(file_io.calls) <= file_io.fails_at
        (name,) = tags(table)
        assert table.tags.get(name).time_retained_seconds == 7200
        assert table.check() == []
        names.append(name)
        table.tags.delete(name)
    assert len(names) > 7
    assert names[0] == "a"
    assert names[-1] == "b"


def test_deleting_a_tag_deletes_exactly_what_nobody_needs(catalog: Catalog) -> None:
    table = make(catalog)
    for number in range(4):
        table.overwrite(pa.table({"id": [number], "v": ["x"]}))
        table.tags.create(f"t{number}")
    table.tags.create("also-t1", snapshot_id=2)
    table.branches.create("fix", tag="t2")
    table.expire(retain_last=1)
    assert table.tags.delete("t1") == []
    gone = table.tags.delete("also-t1")
    assert any("bucket-0/data-" in path for path in gone)
    # The branch still needs the files of this one.
    assert not [path for path in table.tags.delete("t2") if "bucket-0" in path]
    assert table.to_arrow(version="t0")["id"].to_pylist() == [0]
    assert table.on_branch("fix").to_arrow()["id"].to_pylist() == [2]
    assert table.tags.delete("t3") == []
    assert table.check(deep=True) == []
    assert table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True) == []


def test_a_watermark_leads_to_the_first_snapshot_that_reached_it(catalog: Catalog) -> None:
    table = make(catalog)
    for number, mark in enumerate([None, 100, 100, 300]):
        writer = table.new_write()
        writer.write(pa.table({"id": [number], "v": ["x"]}))
        table.new_commit().commit([writer.prepare_commit()], watermark=mark)
    assert [table.snapshot(f"watermark-{mark}").id for mark in (0, 100, 101, 300)] == [2, 2, 4, 4]  # type: ignore[union-attr]
    assert table.to_arrow(version="watermark-100").num_rows == 2
    with pytest.raises(NotFound, match="The latest watermark is 300"):
        table.snapshot("watermark-301")


PARTITIONS: list[tuple[dict[str, str], list[str], Callable[[int], tuple[Any, ...]]]] = [
    ({}, ["day"], lambda day: (f"2024-05-{day:02d}",)),
    ({"partition.timestamp-formatter": "yyyyMMdd"}, ["day"], lambda day: (f"202405{day:02d}",)),
    (
        {"partition.timestamp-pattern": "$day $hour:00", "partition.timestamp-formatter": "yyyy-MM-dd HH:mm"},
        ["day", "hour"],
        lambda day: (f"2024-05-{day:02d}", "12"),
    ),
]


@pytest.mark.parametrize(("options", "keys", "values"), PARTITIONS)
def test_old_partitions_expire(
    catalog: Catalog,
    clock: FixedClock,
    options: dict[str, str],
    keys: list[str],
    values: Callable[[int], tuple[Any, ...]],
) -> None:
    schema = pa.schema([*((key, pa.string()) for key in keys), ("n", pa.int64())])
    table = catalog.create_table(
        "a.p", schema, partition_by=keys, options={"partition.expiration-time": "3 d", **options}
    )
    rows = [(*values(day), day) for day in range(1, 8)] + [(*("other" for _ in keys), 0)]
    table.write(pa.table(dict(zip(schema.names, map(list, zip(*rows, strict=True)), strict=True))))
    table.tags.create("before")
    set_time(clock, "2024-05-06 18:00")
    assert [partition["day"] for partition in table.expire_partitions(dry_run=True)] == [
        values(1)[0],
        values(2)[0],
        values(3)[0],
    ]
    assert table.count() == 8
    table.expire_partitions()
    assert sorted(table.to_arrow()["n"].to_pylist()) == [0, 4, 5, 6, 7]
    assert table.expire_partitions() == []
    assert table.count(version="before") == 8
    snapshot = table.snapshot()
    assert snapshot is not None
    assert snapshot.operation == "DROP PARTITION"


def test_partitions_expire_by_their_last_write(catalog: Catalog, clock: FixedClock) -> None:
    options = {"partition.expiration-time": "1 d", "partition.expiration-strategy": "update-time"}
    schema = pa.schema([("day", pa.date32()), ("n", pa.int64())])
    table = catalog.create_table("a.p", schema, partition_by=["day"], options=options)
    table.write(pa.table({"day": pa.array([1, 2], pa.int32()).cast(pa.date32()), "n": [1, 2]}))
    clock.advance_ms(20 * HOUR_MS)
    table.write(pa.table({"day": pa.array([2], pa.int32()).cast(pa.date32()), "n": [3]}))
    clock.advance_ms(5 * HOUR_MS)
    table.expire_partitions()
    assert sorted(table.to_arrow()["n"].to_pylist()) == [2, 3]


def test_partitions_do_not_expire_where_nothing_says_when(catalog: Catalog) -> None:
    with pytest.raises(InvalidRequest, match=r"partition\.expiration-time"):
        make(catalog).expire_partitions()


def test_a_partition_is_dropped(events: Table) -> None:
    events.write(pa.table({"day": ["x", "y"], "what": ["a", "b"]}))
    assert events.drop_partition({"day": "x"}) is not None
    assert events.to_arrow()["what"].to_pylist() == ["b"]
    assert events.drop_partition({"day": "x"}) is None
    with pytest.raises(InvalidRequest, match="Partition columns: day"):
        events.drop_partition({"what": "b"})
    with pytest.raises(InvalidRequest, match="Give the partitions"):
        events.drop_partition({})


def test_marks_of_tags_that_java_makes_are_no_tags(catalog: Catalog, orders: Table) -> None:
    """`tag.create-success-file`: a directory among the tags."""
    for number in range(3):
        orders.write(pa.table({"id": [number], "item": ["x"]}))
    orders.tags.create("kept", snapshot_id=2)
    marks = Path(orders.store.paths.tag_directory) / "tag-success-file"
    marks.mkdir()
    (marks / "kept_SUCCESS").write_text('{"creationTime": 1, "modificationTime": 1}')
    assert tags(orders) == {"kept": 2}
    assert orders.check() == []
    assert catalog.table("shop.orders").system_table("tags").num_rows == 1
    orders.compact(full=True)
    assert orders.expire(retain_last=1)
    orders.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert (marks / "kept_SUCCESS").exists()
