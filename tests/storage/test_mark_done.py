"""Marks of partitions that are done: `_SUCCESS`, as Java Paimon writes it for jobs that wait for a partition."""

import datetime as dt
import json
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, FixedClock, InvalidRequest, Table, Unsupported

SCHEMA = pa.schema([("day", pa.string()), ("what", pa.string())])


def _directory(table: Table) -> Path:
    return Path(table.location.removeprefix("file:"))


def mark_of(table: Table, path: str) -> dict[str, int] | None:
    file = _directory(table) / path / "_SUCCESS"
    return json.loads(file.read_text()) if file.exists() else None


def rows(*days: str) -> pa.Table:
    return pa.table({"day": list(days), "what": ["x"] * len(days)}, SCHEMA)


@pytest.fixture
def marking(catalog: Catalog) -> Table:
    return catalog.create_table(
        "shop.marked", SCHEMA, partition_by=["day"], options={"partition.end-input-to-done": "true"}
    )


def test_a_mark_holds_when_it_was_made_first_and_last(events: Table, clock: FixedClock) -> None:
    first = clock.now_ms()
    assert events.mark_partition_done({"day": "a/b"}) == ["day=a%2Fb"]
    clock.time_ms += 5000
    events.mark_partition_done({"day": "a/b"})
    assert mark_of(events, "day=a%2Fb") == {"creationTime": first, "modificationTime": first + 5000}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"creationTime": "x"}', '{"creationTime": true}'])
def test_a_mark_that_tells_no_time_is_written_anew(events: Table, clock: FixedClock, content: str) -> None:
    directory = _directory(events) / "day=a"
    directory.mkdir(parents=True)
    (directory / "_SUCCESS").write_text(content)
    events.mark_partition_done({"day": "a"})
    assert mark_of(events, "day=a") == {"creationTime": clock.now_ms(), "modificationTime": clock.now_ms()}


@pytest.mark.parametrize("partitions", [(), ({},), ({"week": "a"},), ({"day": "a", "what": "x"},)])
def test_a_partition_is_named_by_all_of_its_columns(events: Table, partitions: tuple[dict[str, str], ...]) -> None:
    with pytest.raises(InvalidRequest, match=r"all partition columns of shop\.events: day"):
        events.mark_partition_done(*partitions)


def test_a_table_without_partitions_has_none_to_mark(orders: Table) -> None:
    with pytest.raises(InvalidRequest, match="it has none"):
        orders.mark_partition_done({"id": 1})


def test_each_commit_to_main_marks_what_it_has_written_to(marking: Table) -> None:
    marking.write(rows("a", "b"))
    assert mark_of(marking, "day=a") and mark_of(marking, "day=b")
    marking.overwrite(rows("c"), partition={"day": "c"})
    assert mark_of(marking, "day=c")
    assert not marking.check()


def test_a_branch_marks_nothing_until_it_is_merged(catalog: Catalog, marking: Table) -> None:
    marking.write(rows("a"))
    marking.branches.create("fix")
    branch = catalog.table("shop.marked$branch_fix")
    branch.write(rows("b"))
    assert mark_of(marking, "day=b") is None
    with pytest.raises(InvalidRequest, match="is a branch"):
        branch.mark_partition_done({"day": "b"})
    marking.branches.fast_forward("fix")
    assert mark_of(marking, "day=b")


def test_a_mark_that_cannot_be_written_is_a_trouble_and_no_failed_commit(marking: Table) -> None:
    (_directory(marking) / "day=a" / "_SUCCESS").mkdir(parents=True)
    marking.write(rows("a"))
    assert marking.to_arrow().num_rows == 1
    assert [trouble.kind for trouble in marking.troubles()] == ["marking of partitions"]
    (_directory(marking) / "day=a" / "_SUCCESS").rmdir()
    marking.write(rows("a"))
    assert not marking.troubles()


def test_cleaning_leaves_what_lies_beside_buckets(events: Table) -> None:
    events.write(rows("a"))
    events.mark_partition_done({"day": "a"})
    partition = _directory(events) / "day=a"
    (partition / "readme.txt").write_text("of others")
    lost = partition / "bucket-0" / "data-lost.parquet"
    lost.write_text("")
    for file in (partition / "_SUCCESS", partition / "readme.txt", lost):
        os.utime(file, (1, 1))
    cleaned = events.remove_orphan_files(older_than=dt.timedelta(), no_writers=True)
    assert [Path(each.path) for each in cleaned] == [lost]


def test_other_ways_of_marking_are_refused_by_name(catalog: Catalog) -> None:
    for key, value in (
        ("partition.mark-done-action", "success-file,mark-event"),
        ("partition.mark-done-action.url", "http://x"),
        ("partition.idle-time-to-done", "1 h"),
    ):
        with pytest.raises((InvalidRequest, Unsupported), match=re.escape(key)):
            catalog.create_table("shop.other", SCHEMA, partition_by=["day"], options={key: value})
