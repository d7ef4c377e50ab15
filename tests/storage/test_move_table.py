"""Renaming on an object store: file by file, closed meanwhile, and done again by whoever comes after one that died."""

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from storage import AlreadyExists, Catalog, CommitConflict, NotFound
from tests.interleavings.memory_files import Files, Killed, MemoryFileIO, Process, ProcessClock, Step
from tests.interleavings.schedules import use_one_thread
from tests.scale import amount

ORDERS, BILLS = "shop.orders", "shop.bills"
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    use_one_thread(monkeypatch.setattr)


def catalog_of(process: Process) -> Catalog:
    return Catalog("/warehouse", file_io=MemoryFileIO(process), clock=ProcessClock(process))


def begin() -> Files:
    """Files of a table with snapshots, a tag, two branches (one of which is main), a consumer and remembered commits."""
    files = Files()
    catalog = catalog_of(Process("setup", files, is_local=False))
    table = catalog.create_table(ORDERS, SCHEMA, primary_key=["id"], options={"bucket": 1})
    for number in range(3):
        table.write(rows(number))
    table.tags.create("first", snapshot_id=1)
    table.branches.create("fix", snapshot_id=2)
    catalog.table(f"{ORDERS}$branch_fix").write(rows(7))
    table.branches.create("next")
    catalog.table(f"{ORDERS}$branch_next").write(rows(8))
    table.branches.replace_main("next")
    table = catalog.table(ORDERS)
    table.consumers.reset("feed", 4)
    table.expire(retain_last=2)
    return files


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": ["x"] * len(ids)})


def content(catalog: Catalog, name: str) -> dict[str, Any]:
    """All that a table shows, but for what closing and opening put on top."""
    table = catalog.table(name)
    assert [str(problem) for problem in table.check(deep=True)] == []
    return {
        "rows": sorted(table.to_arrow()["id"].to_pylist()),
        "tags": [(tag.name, tag.snapshot.id) for tag in table.tags.list()],
        "branches": {
            branch: sorted(catalog.table(f"{name}$branch_{branch}").to_arrow()["id"].to_pylist())
            for branch in table.branches.names()
        },
        "consumers": [(consumer.name, consumer.next_snapshot_id) for consumer in table.consumers.list()],
        "versions": table.store.snapshots.ids()[:2],
    }


def test_a_renamed_table_has_all_that_it_had() -> None:
    files = begin()
    before = content(catalog_of(Process("look", files.copy(), is_local=False)), ORDERS)
    catalog = catalog_of(Process("rename", files, is_local=False))
    old = catalog.table(ORDERS)
    catalog.rename_table(ORDERS, BILLS)
    assert content(catalog, BILLS) == before
    assert catalog.tables() == [BILLS]
    assert not [path for path in files.contents if path.startswith("/warehouse/shop.db/orders/")]
    with pytest.raises((NotFound, CommitConflict)):
        old.write(rows(9))
    catalog.table(BILLS).write(rows(9))
    assert 9 in catalog.table(BILLS).to_arrow()["id"].to_pylist()
    assert [former_name.name for former_name in catalog.former_names(BILLS)] == [ORDERS]


def test_whoever_comes_after_one_that_died_ends_it() -> None:
    files = begin()
    before = content(catalog_of(Process("look", files.copy(), is_local=False)), ORDERS)
    steps = _renamed(files.copy(), None)
    for point in range(0, steps, amount(23, 1, full=5)):
        there = files.copy()
        _renamed(there, point)
        catalog = catalog_of(Process(f"again at {point}", there, is_local=False))
        if catalog.exists(ORDERS):
            catalog.rename_table(ORDERS, BILLS)
        assert content(catalog, BILLS) == before, point
        assert catalog.tables() == [BILLS], point
        catalog.table(BILLS).write(rows(9))
        catalog.create_table(ORDERS, SCHEMA, primary_key=["id"], options={"bucket": 1})
        assert catalog.table(ORDERS).to_arrow().num_rows == 0, point


def test_the_table_is_open_again_where_the_name_is_taken_meanwhile() -> None:
    files = begin()
    before = content(catalog_of(Process("look", files.copy(), is_local=False)), ORDERS)
    steps = _renamed(files.copy(), None)
    met = set()
    for point in range(0, steps, amount(31, 1, full=7)):
        there = files.copy()
        other = catalog_of(Process(f"other at {point}", there, is_local=False))
        outcome = _beside(there, point, lambda other=other: other.create_table(BILLS, SCHEMA))
        met.add(outcome)
        catalog = catalog_of(Process(f"look at {point}", there, is_local=False))
        assert content(catalog, ORDERS if outcome == "taken" else BILLS) == before, point
        catalog.table(ORDERS if outcome == "taken" else BILLS).write(rows(9))
    assert met == {"taken", "renamed"}


def _renamed(files: Files, dies_at: int | None) -> int:
    """Rename, and die before a step; returns how many there were."""
    process = Process(f"rename until {dies_at}", files, is_local=False)

    def die(process: Process, _: Step) -> None:
        if len(process.steps) == dies_at:
            raise Killed

    process.before = die
    with suppress(Killed):
        catalog_of(process).rename_table(ORDERS, BILLS)
    return len(process.steps)


def _beside(files: Files, point: int, act: Any) -> str:
    """Rename; before a step another process does something. What became of the renaming."""
    process = Process(f"rename beside {point}", files, is_local=False)
    outcomes: list[str] = []

    def interrupt(process: Process, _: Step) -> None:
        if len(process.steps) == point and not outcomes:
            outcomes.append("begun")
            try:
                act()
                outcomes.append("created")
            except (CommitConflict, AlreadyExists):
                outcomes.append("refused")

    process.before = interrupt
    try:
        catalog_of(process).rename_table(ORDERS, BILLS)
    except AlreadyExists:
        return "taken"
    assert outcomes[-1:] != ["created"], "two tables have one name"
    return "renamed"
