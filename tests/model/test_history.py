"""Writes, compactions, tags, expiry and rollback at random: every version that can be seen reads what it read when it was
made, and after orphan cleaning exactly the files that are needed lie on disk."""

import datetime as dt
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import Catalog, NotFound, Table
from storage.maintain.references import needed_files
from tests.histories import random_of, try_histories
from tests.scale import amount, seeds


class History:
    """A table and what each of its versions held."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
        options = {"bucket": 2, "num-sorted-run.compaction-trigger": 3, "manifest.merge-min-count": 4}
        self.table: Table = Catalog(str(directory)).create_table(
            "m.t", schema, primary_key=["day", "id"], partition_by=["day"], options=options
        )
        self.root = Path(self.table.store.paths.root)
        self.snapshots: dict[int, Any] = {}
        self.tags: dict[str, tuple[int, Any]] = {}
        self.step = 0

    def rows(self, version: Any = None) -> list[Any]:
        return sorted((tuple(row.values()) for row in self.table.to_arrow(version=version).to_pylist()), key=str)

    def note(self) -> None:
        for snapshot_id in self.table.store.snapshots.ids():
            if snapshot_id not in self.snapshots:
                self.snapshots[snapshot_id] = self.rows(snapshot_id)

    def write(self) -> None:
        ids = [self.random.randrange(40) for _ in range(self.random.randrange(1, 20))]
        days = [self.random.choice("xyz") for _ in ids]
        self.table.write(pa.table({"day": days, "id": ids, "n": [self.step] * len(ids)}))

    def overwrite(self) -> None:
        self.table.overwrite(pa.table({"id": [1], "n": [self.step]}), partition={"day": self.random.choice("xyz")})

    def delete(self) -> None:
        self.table.delete(f"id > {self.random.randrange(40)}")

    def compact(self) -> None:
        self.table.compact(full=self.random.random() < 0.5)

    def tag(self) -> None:
        if self.snapshots:
            chosen = self.random.choice(list(self.snapshots))
            self.table.tags.create(f"t{self.step}", snapshot_id=chosen)
            self.tags[f"t{self.step}"] = (chosen, self.snapshots[chosen])

    def delete_tag(self) -> None:
        if self.tags:
            name = self.random.choice(list(self.tags))
            self.table.tags.delete(name)
            del self.tags[name]

    def expire(self) -> None:
        keep = self.random.randrange(1, 6)
        would = self.table.expire(retain_last=keep, dry_run=True)
        removal = self.table.expire(retain_last=keep)
        assert would == removal
        for snapshot_id in removal.snapshot_ids:
            del self.snapshots[snapshot_id]

    def rollback(self) -> None:
        if not self.snapshots or self.random.random() < 0.5:
            return
        name = self.random.choice([*self.snapshots, *self.tags])
        rows = self.snapshots[name] if isinstance(name, int) else self.tags[name][1]
        self.table.rollback_to(name)
        # On top of all that was: what is taken back can still be seen.
        assert self.rows() == rows

    def clean(self) -> None:
        self.table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
        on_disk = {str(path) for path in self.root.rglob("*") if path.is_file()}
        metadata = {path for path in on_disk if Path(path).parent.name in ("schema", "snapshot", "tag")}
        assert on_disk - metadata == needed_files(self.table.store).keys()

    def check(self) -> None:
        assert self.table.store.snapshots.ids() == sorted(self.snapshots)
        assert {tag.name for tag in self.table.tags.list()} == set(self.tags)
        for version, rows in [*self.snapshots.items(), *((name, held[1]) for name, held in self.tags.items())]:
            assert self.rows(version) == rows, version
        on_disk = {str(path) for path in self.root.rglob("*")}
        assert needed_files(self.table.store).keys() <= on_disk


def run(seed: int, steps: Sequence[int], directory: Path) -> None:
    history = History(directory, seed)
    acts = [
        history.write,
        history.write,
        history.write,
        history.overwrite,
        history.delete,
        history.compact,
        history.tag,
        history.tag,
        history.delete_tag,
        history.expire,
        history.rollback,
        history.clean,
    ]
    for step in steps:
        history.step, history.random = step, random_of(seed, step)
        history.random.choice(acts)()
        history.note()
        if step % 3 == 0:
            history.check()
    history.check()
    history.clean()


@pytest.mark.parametrize("seed", seeds(6, 500))
def test_what_can_be_seen_can_be_read_and_nothing_else_is_kept(tmp_path: Path, seed: int) -> None:
    try_histories(run, [seed], amount(45, 400), tmp_path)


def test_a_version_that_has_expired_is_said_to_be_gone(tmp_path: Path) -> None:
    history = History(tmp_path, 1)
    for step in range(5):
        history.step = step
        history.write()
    history.table.expire(retain_last=1)
    with pytest.raises(NotFound, match="does not exist"):
        history.rows(1)
    with pytest.raises(NotFound):
        history.table.rollback_to(1)
