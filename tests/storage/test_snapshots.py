"""The snapshots of a branch, as `table.snapshots` hands them out."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from storage import Catalog, FixedClock, NotFound, Snapshot, Table


def ids(snapshots: Sequence[Snapshot]) -> list[int]:
    return [snapshot.id for snapshot in snapshots]


@pytest.fixture
def changed(orders: Table, clock: FixedClock) -> Table:
    """A table with three snapshots, of which the first has expired."""
    for number in range(3):
        orders.write(pa.table({"id": [number], "item": ["x"]}))
    orders.expire(retain_last=2)
    return orders


def test_snapshots_are_found_by_their_numbers_in_order_and_from_the_newest_on(changed: Table) -> None:
    snapshots = changed.snapshots
    assert (snapshots.earliest_id(), snapshots.latest_id()) == (2, 3)
    assert ids(snapshots.all()) == ids(snapshots.between(0, 9)) == [2, 3]
    assert ids(list(snapshots.backwards())) == [3, 2]
    assert ids(snapshots.between(2, 3)) == [3]
    newest = snapshots.latest()
    assert newest is not None and newest == snapshots.get(3) == snapshots.find(3)
    earlier = snapshots.before(newest)
    assert earlier == snapshots.find(2) and earlier is not None and snapshots.before(earlier) is None
    assert snapshots.find(1) is None
    with pytest.raises(NotFound, match="Existing snapshots: 2 to 3"):
        snapshots.get(1)


def test_what_is_meant_by_default_is_the_version_of_the_handle(changed: Table) -> None:
    ref = changed.at(2).snapshots.ref()
    assert ref is not None and ref.snapshot_id == 2 and ref == changed.ref(2)
    latest = changed.at(2).snapshots.latest()
    assert latest is not None and latest.id == 3


def test_a_table_tells_where_it_lies_which_partitions_it_has_and_what_it_was_called(catalog: Catalog) -> None:
    table = catalog.create_table(
        "shop.days", pa.schema([("day", pa.string()), ("n", pa.int64())]), partition_by=["day"]
    )
    assert table.partitions() == [] and table.snapshots.latest_id() is None and table.snapshots.all() == []
    table.write(pa.table({"day": ["b", "a"], "n": [1, 2]}))
    table.write(pa.table({"day": ["c"], "n": [3]}))
    assert table.partitions() == [{"day": "a"}, {"day": "b"}, {"day": "c"}]
    assert table.partitions(1) == [{"day": "a"}, {"day": "b"}]
    assert table.location.endswith(table.directory)
    table.branches.create("fix")
    assert table.was_branch == table.on_branch("fix").was_branch == ""
    table.branches.replace_main("fix")
    assert catalog.table("shop.days").was_branch == "fix"
