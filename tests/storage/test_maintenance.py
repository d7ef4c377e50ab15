"""Expiry, rollback and orphan files: what goes, what stays, and why."""

import datetime as dt
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from storage import Catalog, FixedClock, InvalidRequest, NotFound, SetOptions, Table, TableOptions
from storage.engines.duckdb_merge import merge_rows
from storage.engines.merge_clauses import MergeClause
from storage.file_io import FileIO
from storage.maintain.expire import expire_snapshots, retention_of
from storage.maintain.hold import held
from storage.maintain.references import holders_of
from storage.metadata import manifest
from storage.read.changes import plan_changes
from storage.read.split_read import ReadRequest

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


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


def test_a_snapshot_may_be_given_by_a_whole_number_of_another_library(history: Table) -> None:
    number: Any = np.int64(1)
    assert history.why_kept(number) == history.why_kept(1) != []
    assert history.to_arrow(version=number) == history.to_arrow(version=1)


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
    assert [str(holder) for holder in holders_of(history.store, [file])] == ["snapshot 1 of branch dev"]


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
    assert [existing.id for existing in history.store.snapshots.all()] == [1, 2, 3, 4, 5]
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


def test_what_a_dead_writer_left_is_found_after_a_safety_age(orders: Table, clock: FixedClock, tmp_path: Path) -> None:
    orders.write(pa.table({"id": [1], "item": ["x"]}))
    writer = orders.new_write()
    writer.write(pa.table({"id": [2], "item": ["y"]}))
    (path,) = writer.prepare_commit().paths
    # Whatever this machine's clock says: the file system's tells ages.
    clock.advance_ms(10_000 * DAY_MS)
    assert orders.remove_orphan_files() == []
    past = time.time() - 90_000
    for file in tmp_path.rglob("*"):
        os.utime(file, (past, past))
    clock.advance_ms(-20_000 * DAY_MS)
    assert [orphan.path for orphan in orders.remove_orphan_files(dry_run=True)] == [path]
    assert Path(path).exists()
    orders.remove_orphan_files()
    assert not Path(path).exists()
    assert orders.count() == 1
    assert not list(tmp_path.rglob("*.tmp"))


def test_what_writers_may_need_is_cleaned_only_if_there_are_none(orders: Table) -> None:
    writer = orders.new_write()
    writer.write(pa.table({"id": [1], "item": ["x"]}))
    message = writer.prepare_commit()
    with pytest.raises(InvalidRequest, match="younger than 60 minutes"):
        orders.remove_orphan_files(older_than=dt.timedelta(minutes=59))
    with pytest.raises(InvalidRequest, match="an age is not negative"):
        orders.remove_orphan_files(older_than=dt.timedelta(seconds=-1), no_writers=True)
    assert orders.remove_orphan_files(older_than=dt.timedelta(hours=1)) == []
    orders.commit_messages([message])
    assert orders.count() == 1
    writer = orders.new_write()
    writer.write(pa.table({"id": [2], "item": ["y"]}))
    paths = writer.prepare_commit().paths
    assert [orphan.path for orphan in orders.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)] == list(
        paths
    )


def test_a_writer_is_safe_from_a_cleaner_whose_clock_is_ahead(
    catalog: Catalog, orders: Table, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.write(pa.table({"id": [1], "item": ["x"]}))
    create = FileIO.create_exclusively
    ahead = Catalog(catalog.warehouse, clock=FixedClock(int(time.time() * 1000) + 3 * DAY_MS))
    cleaned = []

    def sleeping(self: FileIO, path: str, data: bytes, **named: bool) -> bool:
        if path.endswith("snapshot-2") and not cleaned:
            cleaned.append(ahead.table("shop.orders").remove_orphan_files())
        return create(self, path, data, **named)

    monkeypatch.setattr(FileIO, "create_exclusively", sleeping)
    orders.write(pa.table({"id": [2], "item": ["y"]}))
    assert cleaned == [[]]
    assert orders.to_arrow()["id"].to_pylist() == [1, 2]


def test_a_hold_in_use_outlasts_a_cleaner_whose_clock_is_ahead(catalog: Catalog, orders: Table) -> None:
    for number in range(2):
        orders.write(pa.table({"id": [1], "item": [str(number)]}))
    ahead = Catalog(catalog.warehouse, clock=FixedClock(int(time.time() * 1000) + 3 * DAY_MS)).table("shop.orders")
    with held(orders.store, orders.store.snapshots.get(1), lambda _: True):
        (hold,) = orders.store.tags.names()
        ahead.remove_orphan_files()
        ahead.tags.expire()
        assert orders.store.tags.names() == [hold]
        past = time.time() - 90_000
        os.utime(orders.store.paths.tag(hold), (past, past))
        ahead.remove_orphan_files()
        assert orders.store.tags.names() == []


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


def test_options_of_retention_that_make_no_sense_are_refused(catalog: Catalog, orders: Table) -> None:
    options = {"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "2"}
    with pytest.raises(InvalidRequest, match=r"snapshot\.num-retained\.max' = 2"):
        catalog.create_table("a.t", pa.schema([("id", pa.int64())]), options=options)
    # Another writer of the format may have set them.
    with pytest.raises(InvalidRequest, match=r"snapshot\.num-retained\.max' = 2"):
        expire_snapshots(orders.store, retention_of(TableOptions.read(options)))


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
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert [
        row["item"] for split in plan_changes(request, 2, 5) for changes in split.read() for row in changes.to_pylist()
    ] == ["2", "3", "4"]


def test_expiry_reads_each_manifest_at_most_once(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"manifest.merge-min-count": 5}
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), options=options)
    for number in range(30):
        write = table.write if number % 4 else table.overwrite
        write(pa.table({"id": [number]}))
    table.tags.create("middle", snapshot_id=15)
    table.branches.create("side", snapshot_id=20)
    # As another process would: nothing is in memory yet.
    monkeypatch.setattr(manifest, "_decoded", manifest.DecodedFiles(capacity=0))
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


def _merge_into(table: Table, number: int) -> None:
    source = pa.table({"day": ["m"], "id": [1], "v": [number]})
    clauses = [MergeClause("matched", "update", None, {"v": "source.v"})]
    merge_rows(table, source, ["day", "id"], clauses)


def _take_away(table: Table, number: int) -> None:
    rows = pa.table({"day": ["m"] * 2, "id": [9] * 2, "v": [number] * 2, "op": ["+I", "-D"]})
    table.write(rows.slice(0, 1).drop_columns("op"))
    table.write(rows.slice(1), row_kind_column="op")


def _write_and_roll_back(table: Table, number: int) -> None:
    before = table.store.snapshots.latest_id() or 0
    table.write(pa.table({"day": ["m"], "id": [30 + number], "v": [number]}))
    assert table.rollback_to(before) is not None


def _write_and_compact(table: Table, number: int) -> None:
    table.write(pa.table({"day": ["m"], "id": [1], "v": [number]}))
    table.compact()


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    "act",
    [
        lambda table, number: table.update("id = 1", {"v": number}),
        lambda table, number: table.delete(f"id = {10 + number}"),
        _merge_into,
        lambda table, number: table.drop_partition({"day": f"2023-01-{number + 1:02}"}),
        lambda table, number: table.overwrite(pa.table({"id": [1], "v": [number]}), partition={"day": "m"}),
        _take_away,
        lambda table, number: table.truncate() and table.write(pa.table({"day": ["m"], "id": [1], "v": [number]})),
        _write_and_roll_back,
        _write_and_compact,
    ],
    ids=["update", "delete", "merge", "drop partition", "overwrite", "take away", "truncate", "rollback", "compaction"],
)
def test_every_commit_lets_old_snapshots_go(catalog: Catalog, act: Callable[[Table, int], object], keyed: bool) -> None:
    options = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 2, **({"bucket": 1} if keyed else {})}
    schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
    key = ["day", "id"] if keyed else []
    table = catalog.create_table("a.t", schema, primary_key=key, partition_by=["day"], options=options)
    days = ["m", *["m"] * 6, *(f"2023-01-{number + 1:02}" for number in range(6))]
    table.write(pa.table({"day": days, "id": [1, *range(10, 16), *range(20, 26)], "v": [0] * 13}))
    for number in range(6):
        before = table.store.snapshots.latest_id() or 0
        act(table, number)
        ids = table.store.snapshots.ids()
        assert ids[-1] > before
        assert len(ids) <= 2
    assert table.troubles() == []


def test_rescaling_and_expiring_partitions_let_old_snapshots_go(catalog: Catalog) -> None:
    options = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 1, "bucket": 1}
    schema = pa.schema([("day", pa.string()), ("id", pa.int64())])
    options |= {"partition.expiration-time": "30 d", "write-only": "true"}
    table = catalog.create_table("a.t", schema, primary_key=["day", "id"], partition_by=["day"], options=options)
    for day in ("2023-01-01", "2023-11-14"):
        table.write(pa.table({"day": [day], "id": [1]}))
    table = table.alter(SetOptions({"write-only": "false"}))
    assert table.expire_partitions()
    assert len(table.store.snapshots.ids()) == 1
    table = table.alter(SetOptions({"write-only": "true"}))
    table.write(pa.table({"day": ["2023-11-14"], "id": [2]}))
    table = table.alter(SetOptions({"write-only": "false"}))
    table.rescale(2)
    assert len(table.store.snapshots.ids()) == 1
    assert table.count() == 2
