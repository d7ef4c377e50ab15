"""Expiry, rollback and orphan files: what goes, what stays, and why."""

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pytest

from storage import FixedClock, InvalidRequest, NotFound, Table
from storage.maintain.references import holders_of

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


def test_a_rollback_takes_later_snapshots_and_tags_away(history: Table) -> None:
    history.tags.create("early", snapshot_id=2)
    history.tags.create("late", snapshot_id=4)
    removal = history.rollback_to(2)
    assert removal.snapshot_ids == (3, 4)
    assert history.store.snapshots.ids() == [1, 2]
    assert [tag.name for tag in history.tags.list()] == ["early"]
    assert history.to_arrow()["id"].to_pylist() == [1]
    history.write(pa.table({"id": [9], "item": ["after"]}))
    assert history.snapshot().id == 3  # type: ignore[union-attr]


def test_a_rollback_to_a_tag_brings_an_expired_snapshot_back(history: Table) -> None:
    history.tags.create("old", snapshot_id=1)
    history.expire(retain_last=1)
    history.rollback_to("old")
    assert history.store.snapshots.ids() == [1]
    assert history.to_arrow()["id"].to_pylist() == [0]
    with pytest.raises(NotFound):
        history.rollback_to(4)


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
