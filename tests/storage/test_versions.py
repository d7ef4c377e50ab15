"""Time travel and tags."""

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest

from storage import AlreadyExists, Catalog, FixedClock, InvalidRequest, NotFound, Snapshot, Table
from storage.metadata.snapshot_files import SnapshotFiles


@pytest.fixture
def history(orders: Table, clock: FixedClock) -> Table:
    """Three snapshots, a minute apart; the first is tagged."""
    for number in (1, 2, 3):
        orders.write(pa.table({"id": [1], "item": [f"version {number}"]}))
        if number == 1:
            orders.tags.create("first")
        clock.advance_ms(60_000)
    return orders


def item(table: Table, version: object = None) -> str:
    return table.to_arrow(version=version).to_pylist()[0]["item"]  # type: ignore[arg-type, no-any-return]


def test_a_version_is_a_snapshot_a_tag_or_a_time(history: Table) -> None:
    first = history.store.snapshots.get(1).time_ms
    assert item(history) == "version 3"
    assert item(history, 2) == "version 2"
    assert item(history, "2") == "version 2"
    assert item(history, "first") == "version 1"
    assert item(history, "main.2") == "version 2"
    assert item(history, "main.first") == "version 1"
    for milliseconds, expected in ((0, 1), (59_999, 1), (60_000, 2), (10**9, 3)):
        moment = dt.datetime.fromtimestamp((first + milliseconds) / 1000)
        assert item(history, moment) == f"version {expected}"
        assert item(history, moment.astimezone(dt.UTC)) == f"version {expected}"
    assert item(history.at(2)) == "version 2"


def test_a_version_that_does_not_exist_is_answered_by_those_that_do(history: Table) -> None:
    with pytest.raises(NotFound, match=r"Existing snapshots: 1 to 3\. Tags: first \(1\)"):
        history.to_arrow(version=9)
    with pytest.raises(NotFound, match="Existing tags: first"):
        history.to_arrow(version="frist")
    with pytest.raises(NotFound, match="The earliest, 1,"):
        history.to_arrow(version=dt.datetime(2001, 1, 1))
    with pytest.raises(NotFound, match="none but main"):
        history.on_branch("dev")
    with pytest.raises(InvalidRequest):
        history.to_arrow(version=1.5)  # type: ignore[arg-type]


def test_a_tag_outlives_its_snapshot(history: Table) -> None:
    file_io, paths = history.store.file_io, history.store.paths
    file_io.delete(paths.snapshot(1))
    assert item(history, "first") == "version 1"
    assert item(history, 1) == "version 1"
    first = history.tags.get("first").snapshot.time_ms
    assert item(history, dt.datetime.fromtimestamp((first + 1) / 1000)) == "version 1"


@pytest.mark.parametrize("version", ["time", "watermark-3"])
def test_time_travel_that_meets_an_expired_snapshot_begins_again(
    orders: Table, clock: FixedClock, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    for number in range(8):
        orders.write(pa.table({"id": [1], "item": [str(number)]}))
        clock.advance_ms(1000)
    latest = orders.snapshot()
    assert latest is not None
    marked = replace(latest, id=latest.id + 1, uuid="marked", watermark=3, properties=None, commit_identifier=9)
    assert orders.store.snapshots.create(marked)
    asked = dt.datetime.fromtimestamp(clock.now_ms() / 1000) if version == "time" else version
    real = SnapshotFiles.find
    done: list[int] = []

    def find(self: SnapshotFiles, snapshot_id: int) -> Snapshot | None:
        if not done and 1 < snapshot_id < marked.id:
            done.append(snapshot_id)
            orders.expire(retain_last=1)
        return real(self, snapshot_id)

    monkeypatch.setattr(SnapshotFiles, "find", find)
    assert orders.to_arrow(version=asked).column("item").to_pylist() == ["7"]
    assert done
    with pytest.raises(NotFound, match=f"The earliest, {marked.id}, is from"):
        orders.to_arrow(version=dt.datetime(1980, 1, 1))


def test_an_old_version_cannot_be_written(history: Table) -> None:
    with pytest.raises(InvalidRequest, match="only be read"):
        history.at(1).write(pa.table({"id": [1], "item": ["x"]}))


def test_tags_are_created_listed_moved_and_deleted(history: Table) -> None:
    history.tags.create("second", snapshot_id=2)
    history.tags.create("second", snapshot_id=2)
    assert [(tag.name, tag.snapshot.id) for tag in history.tags.list()] == [("first", 1), ("second", 2)]
    with pytest.raises(AlreadyExists, match="names snapshot 2"):
        history.tags.create("second")
    history.tags.create("second", replace=True)
    assert history.tags.get("second").snapshot.id == 3
    history.tags.delete("second")
    with pytest.raises(NotFound, match="Existing tags: first"):
        history.tags.delete("second")


@pytest.mark.parametrize("name", ["12", "", " ", "a/b", ".."])
def test_names_that_cannot_name_a_tag_are_refused(history: Table, name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot name a tag"):
        history.tags.create(name)


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\u200bb", "a\u202eb", "a\u00a0b", "a\x7f", "a\u2028b"])
def test_names_that_cannot_be_seen_as_they_are_name_no_new_tag(history: Table, name: str) -> None:
    for create in (history.tags.create, lambda new: history.tags.rename("first", new)):
        with pytest.raises(
            InvalidRequest, match="cannot name a tag: it holds line breaks, or characters that cannot be"
        ):
            create(name)
    assert [tag.name for tag in history.tags.list()] == ["first"]
    # Those that earlier versions, or others, have made can be read, renamed and deleted.
    history.tags._store.tags.create(name, history.snapshot())
    assert history.at(name).to_arrow().num_rows == 1
    history.tags.rename(name, "a b")
    history.tags._store.tags.create(name, history.snapshot())
    history.tags.delete(name)
    assert sorted(tag.name for tag in history.tags.list()) == ["a b", "first"]


def test_a_table_without_snapshot_cannot_be_tagged(orders: Table) -> None:
    with pytest.raises(InvalidRequest, match="no snapshot to tag"):
        orders.tags.create("t")


def test_system_tables_tell_the_history(catalog: Catalog, history: Table) -> None:
    snapshots = catalog.read("shop.orders$snapshots")
    assert snapshots["snapshot_id"].to_pylist() == [1, 2, 3]
    assert snapshots["delta_record_count"].to_pylist() == [1, 1, 1]
    assert catalog.read("shop.orders$tags")["tag_name"].to_pylist() == ["first"]
    assert catalog.read("shop.orders$files")["record_count"].to_pylist() == [1, 1, 1]
    assert catalog.read("shop.orders$options").to_pylist() == [{"key": "bucket", "value": "2"}]
    with pytest.raises(InvalidRequest, match=r"\$snapshots, \$schemas"):
        catalog.read("shop.orders$nothing")
