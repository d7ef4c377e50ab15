"""A writer that created its snapshot at a number that had expired, and died: what it left is no history for anybody."""

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, FixedClock, NotFound, Table
from storage.consumers import Consumption
from storage.metadata.snapshot import Snapshot
from storage.read.contributors import contributors

HOUR_MS = 3_600_000


@pytest.fixture(params=[1, 2], ids=["right below", "below a gap"])
def stale(request: pytest.FixtureRequest, catalog: Catalog, clock: FixedClock) -> tuple[Table, int]:
    """A table of snapshots 4 and 5, and the number of a stale one with another row, an hour before."""
    log = catalog.create_table("a.log", pa.schema([("id", pa.int64())]))
    contents = []
    for number in range(1, 6):
        clock.advance_ms(HOUR_MS)
        log.write(pa.table({"id": [number]}))
        contents.append(Path(log.store.paths.snapshot(number)).read_text())
    number = 4 - request.param
    log.expire(retain_last=2)
    dead = Snapshot.from_json(contents[number - 1], f"snapshot-{number}")
    value: dict[str, Any] = json.loads(dead.to_json())
    value["uuid"] = "of a dead writer"
    del value["snapline.crc32"]
    Path(log.store.paths.snapshot(number)).write_text(json.dumps(value))
    return log, number


def moment(table: Table, snapshot_id: int) -> dt.datetime:
    snapshot = table.store.snapshots.find(snapshot_id)
    assert snapshot is not None
    return dt.datetime.fromtimestamp(snapshot.time_ms / 1000, dt.UTC)


@pytest.mark.parametrize(
    "act",
    [
        lambda log, number: log.at(number).count(),
        lambda log, number: log.at(moment(log, number)).count(),
        lambda log, number: log.at(f"main.{number}").count(),
        lambda log, number: log.rollback_to(number),
        lambda log, number: log.tags.create("a", snapshot_id=number),
        lambda log, number: log.branches.create("a", snapshot_id=number),
        lambda log, number: log.changes(after=number - 1),
        lambda log, number: log.consumers.reset("a", number),
        lambda log, number: log.why_kept(number),
        lambda log, number: Consumption(log.store, "a").record(number - 1),
    ],
)
def test_nobody_gets_at_it(stale: tuple[Table, int], act: Callable[[Table, int], Any]) -> None:
    log, number = stale
    with pytest.raises(NotFound):
        act(log, number)
    assert sorted(log.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]


def test_the_history_begins_above_it(stale: tuple[Table, int]) -> None:
    log, number = stale
    snapshots = log.store.snapshots
    assert snapshots.ids() == [4, 5]
    for hint in (number, None, 4):
        path = Path(log.store.paths.snapshot_directory) / "EARLIEST"
        path.unlink(missing_ok=True)
        if hint is not None:
            path.write_text(str(hint))
        assert snapshots.earliest_id() == 4
    assert [snapshot.id for snapshot in snapshots.backwards()] == [5, 4]
    assert log.check(deep=True) == []
    newest = snapshots.latest()
    assert newest is not None
    assert [snapshot.id for snapshot in contributors(log.store, newest, {})] == [5, 4]
    assert log.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert snapshots.listed_ids() == [4, 5]


def test_a_history_whose_lowest_is_damaged_is_still_listed(stale: tuple[Table, int]) -> None:
    log, number = stale
    Path(log.store.paths.snapshot(number)).write_text("{")
    assert log.store.snapshots.ids() == ([3, 4, 5] if number == 3 else [4, 5])


@pytest.mark.parametrize("end", ["write", "rollback"])
def test_what_a_dead_writer_of_a_dropped_table_left_on_top_is_taken_away(end: str) -> None:
    catalog = Catalog(f"memory://foreign-{end}")
    schema = pa.schema([("id", pa.int64())])
    table, other = (catalog.create_table(f"a.{name}", schema) for name in ("log", "other"))
    for number in range(3):
        other.write(pa.table({"id": [number]}))
        if number < 2:
            table.write(pa.table({"id": [number]}))
    left = other.store.snapshots.get(3)
    assert table.store.file_io.create_exclusively(table.store.paths.snapshot(3), left.to_json().encode())
    with pytest.raises(NotFound):
        table.to_arrow()
    if end == "write":
        table.write(pa.table({"id": [2]}))
    else:
        table.rollback_to(2)
    assert table.to_arrow()["id"].to_pylist() == [0, 1, 2][: 3 if end == "write" else 2]
    assert table.check(deep=True) == []
    table.write(pa.table({"id": [3]}))
    assert table.store.snapshots.ids()[:3] == [1, 2, 3]
