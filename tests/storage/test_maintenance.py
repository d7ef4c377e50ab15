"""Expiry, rollback and orphan files: what goes, what stays, and why."""

import datetime as dt
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog, FixedClock, InvalidRequest, NotFound, Table
from storage.file_io import FileIO
from storage.maintain.references import holders_of
from storage.metadata import manifest
from storage.read.changes import plan_changes
from storage.read.split_read import ReadRequest

HOUR_MS = 3_600_000


@pytest.fixture
def history(orders: Table, clock: FixedClock) -> Table:
    """Four snapshots, an hour apart."""
    for number in range(4):
        orders.overwrite(pa.table({"id": [number], "item": ["x"]}))
        clock.advance_ms(HOUR_MS)
    return orders


def test_old_snapshots_go_with_the_files_that_they_alone_needed(history: Table, tmp_path: Path) -> None:
    removal = history.expire(retain_last=2)
    assert removal.snapshot_ids == (1, 2)
    assert history.store.snapshots.ids() == [3, 4]
    assert not any(Path(path).exists() for path in removal.files)
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    assert history.store.snapshots.earliest_id() == 3
    assert history.to_arrow(version=3)["id"].to_pylist() == [2]


def test_only_snapshots_of_some_age_go(history: Table) -> None:
    assert history.expire(retain_last=1, older_than=dt.timedelta(hours=3, minutes=30)).snapshot_ids == (1,)
    assert history.expire(retain_last=1, older_than=dt.timedelta(days=1)).snapshot_ids == ()


def test_a_tag_keeps_what_it_names(history: Table) -> None:
    history.tags.create("kept", snapshot_id=1)
    history.expire(retain_last=1)
    assert history.to_arrow(version="kept")["id"].to_pylist() == [0]


def test_a_branch_keeps_what_it_reads(history: Table) -> None:
    import shutil

    root = Path(history.store.paths.root)
    for name in ("schema", "snapshot"):
        shutil.copytree(root / name, root / "branch" / "branch-dev" / name)
    history.expire(retain_last=1)
    assert history.on_branch("dev").to_arrow(version=1)["id"].to_pylist() == [0]
    file = next(path for split in history.on_branch("dev").scan(version=1).splits for path in split.file_paths)
    assert [str(one) for one in holders_of(history.store, [file])] == ["snapshot 1 of branch dev"]


def test_a_dry_run_says_what_would_go_and_removes_nothing(history: Table) -> None:
    would = history.expire(retain_last=1, dry_run=True)
    assert would.snapshot_ids == (1, 2, 3)
    assert all(Path(path).exists() for path in would.files)
    assert history.expire(retain_last=1) == would


def test_the_latest_snapshot_always_stays(history: Table) -> None:
    with pytest.raises(InvalidRequest, match="latest snapshot stays"):
        history.expire(retain_last=0)


def test_a_rollback_is_a_commit_on_top_and_can_be_rolled_back(history: Table) -> None:
    history.tags.create("late", snapshot_id=4)
    before = history.to_arrow()
    snapshot = history.rollback_to(2)
    assert snapshot is not None
    assert (snapshot.id, snapshot.operation) == (5, "ROLLBACK")
    assert history.to_arrow()["id"].to_pylist() == [1]
    # What came in between is still there, by number and by name.
    assert [one.id for one in history.store.snapshots.all()] == [1, 2, 3, 4, 5]
    assert history.to_arrow(version="late").equals(before)
    # Readers of changes follow.
    kinds = history.changes(after=4).select(["rowkind", "id"]).to_pylist()
    assert {row["rowkind"] for row in kinds} <= {"+I", "-D"}
    history.write(pa.table({"id": [9], "item": ["after"]}))
    assert history.snapshot().id == 6  # type: ignore[union-attr]
    history.rollback_to("late")
    assert history.to_arrow().equals(before)
    assert history.rollback_to("late") is None
    assert history.check(deep=True) == []


def test_a_rollback_goes_back_to_a_tag_whose_snapshot_has_expired(history: Table) -> None:
    history.tags.create("old", snapshot_id=1)
    history.expire(retain_last=1)
    history.rollback_to("old")
    assert history.store.snapshots.ids() == [4, 5]
    assert history.to_arrow()["id"].to_pylist() == [0]
    with pytest.raises(NotFound):
        history.rollback_to(2)
    history.expire(retain_last=1)
    history.tags.delete("old")
    assert history.to_arrow()["id"].to_pylist() == [0]
    assert history.check(deep=True) == []


def test_what_a_dead_writer_left_is_found_after_a_safety_age(orders: Table, tmp_path: Path) -> None:
    orders.write(pa.table({"id": [1], "item": ["x"]}))
    writer = orders.new_write()
    writer.write(pa.table({"id": [2], "item": ["y"]}))
    (path,) = writer.prepare_commit().paths
    now = orders.store.clock.now_ms() / 1000
    for file in tmp_path.rglob("*"):
        os.utime(file, (now, now))
    assert orders.remove_orphan_files() == []
    os.utime(path, (now - 90_000, now - 90_000))
    assert [orphan.path for orphan in orders.remove_orphan_files(dry_run=True)] == [path]
    assert Path(path).exists()
    orders.remove_orphan_files()
    assert not Path(path).exists()
    assert orders.count() == 1


def test_commits_let_old_snapshots_go_if_the_options_say_so(catalog: Catalog, clock: FixedClock) -> None:
    options = {"snapshot.num-retained.min": 2, "snapshot.num-retained.max": 5, "snapshot.time-retained": "1 h"}
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), options=options)
    for number in range(7):
        table.write(pa.table({"id": [number]}))
    assert table.store.snapshots.ids() == [3, 4, 5, 6, 7]
    clock.advance_ms(HOUR_MS + 1)
    table.write(pa.table({"id": [9]}))
    # Number 7 was the state of the table until a moment ago.
    assert table.store.snapshots.ids() == [7, 8]
    assert table.expire().snapshot_ids == ()
    assert table.count() == 8


def test_snapshots_stay_if_no_option_lets_them_go(orders: Table, clock: FixedClock) -> None:
    for number in range(12):
        orders.overwrite(pa.table({"id": [number], "item": ["x"]}))
        clock.advance_ms(HOUR_MS)
    assert orders.store.snapshots.ids()[0] == 1
    assert orders.expire(dry_run=True).snapshot_ids == (1, 2)
    with pytest.raises(InvalidRequest, match="retain_last"):
        orders.expire(older_than=dt.timedelta(hours=1))


def test_options_of_retention_that_make_no_sense_are_refused(catalog: Catalog) -> None:
    options = {"snapshot.num-retained.min": 5, "snapshot.num-retained.max": 2}
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), options=options)
    with pytest.raises(InvalidRequest, match=r"snapshot\.num-retained\.max' = 2"):
        table.expire()


def test_changelogs_outlive_their_snapshots(catalog: Catalog, clock: FixedClock) -> None:
    options = {
        "bucket": 1,
        "write-only": True,
        "changelog-producer": "input",
        "changelog.num-retained.min": 3,
        "changelog.time-retained": "0 s",
    }
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    table = catalog.create_table("a.t", schema, primary_key=["id"], options=options)
    for number in range(5):
        table.write(pa.table({"id": [1], "item": [str(number)]}))
        clock.advance_ms(1)
    would = table.expire(retain_last=1, dry_run=True)
    assert table.expire(retain_last=1).snapshot_ids == would.snapshot_ids == (1, 2, 3, 4)
    assert table.store.snapshots.ids() == [5]
    assert table.store.changelogs.ids() == [3, 4]
    request = ReadRequest(table.store, ("id", "item"), None)
    rows = [row for split in plan_changes(request, 2, 5) for batch in split.read() for row in batch.to_pylist()]
    assert [row["item"] for row in rows] == ["2", "3", "4"]
    with pytest.raises(NotFound, match="Snapshot 2 does not exist"):
        list(plan_changes(request, 1, 5))
    table.remove_orphan_files(older_than=dt.timedelta(seconds=-60))
    assert [row["item"] for split in plan_changes(request, 2, 5) for one in split.read() for row in one.to_pylist()] == [
        "2", "3", "4"
    ]  # fmt: skip


def test_expiry_reads_each_manifest_at_most_once(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"manifest.merge-min-count": 5}
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), options=options)
    for number in range(30):
        write = table.write if number % 4 else table.overwrite
        write(pa.table({"id": [number]}))
    table.tags.create("middle", snapshot_id=15)
    table.branches.create("side", snapshot_id=20)
    # As another process would: nothing is in memory yet.
    monkeypatch.setattr(manifest, "_decoded", manifest._DecodedFiles(capacity=0))
    reads: Counter[str] = Counter()
    original = FileIO.read_bytes

    def counted(self: FileIO, path: str) -> bytes:
        reads[path] += "/manifest-" in path and "/manifest-list-" not in path
        return original(self, path)

    monkeypatch.setattr(FileIO, "read_bytes", counted)
    table.expire(retain_last=3)
    assert max(reads.values()) == 1


def test_a_cleaner_is_not_misled_by_a_number_that_another_snapshot_has_got_meanwhile(
    history: Table, tmp_path: Path
) -> None:
    first = history.store.snapshots.get(1)
    lost = history.store.paths.manifest(first.delta_manifest_list)

    class Overtaken(FileIO):
        """The snapshot expires while it is read, and a writer that slept creates its own at that number."""

        def read_bytes(self, path: str) -> bytes:
            if path == lost and super().exists(path):
                history.expire(retain_last=1)
                late = replace(history.store.snapshots.get(4), id=1, commit_user="late")
                super().write_bytes(history.store.paths.snapshot(1), late.to_json().encode())
            return super().read_bytes(path)

    manifest.forget()
    cleaner = Catalog(str(tmp_path / "warehouse"), file_io=Overtaken("file://")).table("shop.orders")
    assert cleaner.remove_orphan_files() == []
    assert history.count() > 0
