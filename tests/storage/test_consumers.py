"""Consumers: one reader at a time, whose progress nobody overwrites unseen."""

from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, CommitConflict, NotFound, Table
from storage.consumers import Consumption


def write(table: Table, count: int) -> Table:
    for number in range(count):
        table.write(pa.table({"id": [number], "item": ["x"]}))
    return table


def next_of(table: Table, name: str = "feed") -> int:
    return table.consumers.get(name).next_snapshot_id


@pytest.fixture
def feed(orders: Table) -> Table:
    """Four snapshots, of which a consumer has read the first."""
    write(orders, 4).consumers.reset("feed", 2)
    return orders


def test_a_reader_goes_on_where_the_consumer_stands(feed: Table) -> None:
    reader = Consumption(feed.store, "feed")
    assert reader.position() == 1
    reader.record(1)
    reader.record(3)
    assert next_of(feed) == 4
    assert Consumption(feed.store, "feed").position() == 3
    assert Consumption(feed.store, "nobody").position() is None


@pytest.mark.one_in(3)
@pytest.mark.parametrize("key", [[], ["id"]])
@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
@pytest.mark.parametrize("change", ["overwrite", "truncate", "rollback", "delete", "merge", "write"])
def test_what_a_consumer_has_not_read_can_be_read_whatever_expires(
    catalog: Catalog, key: list[str], producer: str, change: str
) -> None:
    options = {"changelog-producer": producer, "bucket": "1"} if key else {}
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    table = write(catalog.create_table("shop.t", schema, primary_key=key, options=options), 2)
    position = table.snapshots.latest_id() or 0
    Consumption(table.store, "feed").record(position)
    rows_read = table.as_told(position).to_arrow()
    if change == "overwrite":
        table.overwrite(pa.table({"id": [7], "item": ["y"]}))
    elif change == "truncate":
        table.truncate()
    elif change == "rollback":
        table.rollback_to(1)
    elif change == "delete":
        table.delete("id = 1")
    elif change == "merge":
        table.branches.create("b")
        table.on_branch("b").overwrite(pa.table({"id": [8], "item": ["z"]}))
        table.branches.merge("b")
    else:
        write(table, 1)
    table.expire(retain_last=1)
    table.expire(retain_last=1)
    reader = Consumption(table.store, "feed")
    assert reader.position() == position
    changes = table.changes(after=position)
    rows = {(row["id"], row["item"]) for row in rows_read.to_pylist()}
    for row in changes.to_pylist():
        (rows.add if row["rowkind"] in ("+I", "+U") else rows.discard)((row["id"], row["item"]))
    latest = table.snapshots.latest_id() or 0
    assert rows == {(row["id"], row["item"]) for row in table.as_told().to_arrow().to_pylist()}
    reader.record(latest)
    table.expire(retain_last=1)
    assert len(list(table.snapshots.all())) == 1


def test_a_reader_does_not_begin_below_an_overwrite_whose_rows_are_about_to_expire(orders: Table) -> None:
    write(orders, 2)
    orders.overwrite(pa.table({"id": [7], "item": ["y"]}))
    reader = Consumption(orders.store, "late")
    # An expiry has looked which consumers there are, and has deleted nothing yet.
    orders.store.consumers.announce_expiry(3)
    with pytest.raises(NotFound, match="which has expired"):
        reader.record(2)
    assert orders.consumers.list() == []
    Consumption(orders.store, "late").record(3)


def test_of_two_readers_the_one_that_began_last_has_the_consumer(feed: Table) -> None:
    first, second = Consumption(feed.store, "feed"), Consumption(feed.store, "feed")
    assert (first.position(), second.position()) == (1, 1)
    first.record(1)
    with pytest.raises(CommitConflict, match="One reader at a time has a consumer: stop the other one"):
        second.record(1)
    # It begins again, and from then on the other one is refused.
    again = Consumption(feed.store, "feed")
    assert again.position() == 1
    again.record(1)
    with pytest.raises(CommitConflict, match="up to 4 were read is not recorded"):
        first.record(4)
    again.record(3)
    assert next_of(feed) == 4


def test_a_reader_that_goes_on_from_its_checkpoint_takes_the_consumer_over(feed: Table) -> None:
    before = Consumption(feed.store, "feed")
    before.record(1)
    before.record(3)
    after = Consumption(feed.store, "feed")
    after.record(2)
    assert next_of(feed) == 3
    with pytest.raises(CommitConflict):
        before.record(4)
    assert next_of(feed) == 3


@pytest.mark.parametrize("others", ["reset", "delete"])
def test_a_reader_notices_that_its_consumer_was_reset_or_deleted(feed: Table, others: str) -> None:
    reader = Consumption(feed.store, "feed")
    reader.record(1)
    # To where it stands: the content is another one all the same.
    feed.consumers.reset("feed", 2) if others == "reset" else feed.consumers.delete("feed")
    with pytest.raises(CommitConflict, match="reset or deleted"):
        reader.record(3)
    assert [consumer.next_snapshot_id for consumer in feed.consumers.list()] == ([2] if others == "reset" else [])


def test_who_begins_at_a_snapshot_that_has_expired_leaves_no_consumer(orders: Table) -> None:
    write(orders, 4).expire(retain_last=2)
    with pytest.raises(NotFound, match=r"Snapshot 2 does not exist. Existing snapshots: 3 to 4"):
        Consumption(orders.store, "late").record(1)
    assert orders.consumers.list() == []
    orders.consumers.reset("feed", 3)
    with pytest.raises(NotFound):
        Consumption(orders.store, "feed").record(1)
    assert next_of(orders) == 3


def test_a_reader_of_a_table_that_was_made_anew_does_nothing_to_it(catalog: Catalog, feed: Table) -> None:
    known, unknown = Consumption(feed.store, "feed"), Consumption(feed.store, "late")
    known.record(1)
    assert unknown.position() is None
    catalog.drop_table("shop.orders")
    anew = catalog.create_table("shop.orders", feed.schema.to_arrow(), primary_key=["id"], options={"bucket": 1})
    write(anew, 2).consumers.reset("feed", 2)
    for reader in (known, unknown, Consumption(feed.store, "feed")):
        with pytest.raises(NotFound, match="not the table any more"):
            reader.record(1)
    assert [(consumer.name, consumer.next_snapshot_id) for consumer in anew.consumers.list()] == [("feed", 2)]


@pytest.mark.parametrize("garbage", [b"", b"\xff\xfe", b"{}", b'{"nextSnapshot": "2"}'])
def test_a_damaged_consumer_is_reset_or_deleted(feed: Table, garbage: bytes) -> None:
    path = Path(feed.store.paths.consumer("feed"))
    path.write_bytes(garbage)
    feed.consumers.reset("feed", 3)
    assert next_of(feed) == 3
    path.write_bytes(garbage)
    feed.consumers.delete("feed")
    assert feed.consumers.list() == []
