"""Many branches and tags at random, against dictionaries: every version that can be seen reads what it read when it was
made, merges and replacements do what their verdict says, and after orphan cleaning exactly the needed files are left."""

import datetime as dt
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from storage import AddColumn, Catalog, StorageError, Table
from storage.maintain.references import needed_files
from tests.histories import random_of, try_histories
from tests.scale import amount, seeds

PARTITIONS = "wxyz"
METADATA = ("schema", "snapshot", "tag", "changelog", "consumer")
COLUMNS = ["day", "id", "n"]
Rows = list[Any]


class Branched:
    """A table, and what each snapshot and tag of each branch held when it was made."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.catalog = Catalog(str(directory))
        schema = pa.schema([("day", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
        options = {"bucket": 1, "num-sorted-run.compaction-trigger": 4, "manifest.merge-min-count": 4}
        key = {"primary_key": ["day", "id"], "options": options} if seed % 2 else {}
        self.catalog.create_table("m.t", schema, partition_by=["day"], **key)
        self.snapshots: dict[str, dict[int, Rows]] = {"main": {}}
        self.tags: dict[str, dict[str, tuple[int, Rows]]] = {"main": {}}
        self.step = 0
        self.done: dict[str, int] = {}

    def table(self, branch: str = "main") -> Table:
        return self.catalog.table("m.t" if branch == "main" else f"m.t$branch_{branch}")

    def read(self, branch: str, version: Any = None) -> Rows:
        rows = self.table(branch).to_arrow(columns=COLUMNS, version=version)
        return sorted((tuple(row.values()) for row in rows.to_pylist()), key=str)

    def note(self) -> None:
        """Remember what is new, forget what is gone, and hold what stays against what it held before."""
        assert set(self.snapshots) == {"main", *self.table().branches.names()}
        for branch in self.snapshots:
            known = self.snapshots[branch]
            ids = self.table(branch).store.snapshots.ids()
            self.snapshots[branch] = {
                snapshot_id: known[snapshot_id] if snapshot_id in known else self.read(branch, snapshot_id)
                for snapshot_id in ids
            }

    def any_branch(self) -> str:
        return self.random.choice(list(self.snapshots))

    def other_branch(self) -> str | None:
        others = [name for name in self.snapshots if name != "main"]
        return self.random.choice(others) if others else None

    # --- acts

    def write(self) -> None:
        day = self.random.choice(PARTITIONS)
        ids = [self.random.randrange(30) for _ in range(self.random.randrange(1, 8))]
        rows = pa.table({"day": [day] * len(ids), "id": ids, "n": [self.step] * len(ids)})
        self.table(self.any_branch()).write(rows)

    def overwrite(self) -> None:
        day = self.random.choice(PARTITIONS)
        self.table(self.any_branch()).overwrite(pa.table({"id": [1], "n": [self.step]}), partition={"day": day})

    def compact(self) -> None:
        self.table(self.any_branch()).compact(full=self.random.random() < 0.5)

    def evolve(self) -> None:
        table = self.table(self.any_branch())
        if len(table.schema.fields) < 5:
            table.alter(AddColumn(f"c{self.step}", pa.int64()))

    def tag(self) -> None:
        branch = self.any_branch()
        if self.snapshots[branch]:
            chosen = self.random.choice(list(self.snapshots[branch]))
            self.table(branch).tags.create(f"t{self.step}", snapshot_id=chosen)
            self.tags[branch][f"t{self.step}"] = (chosen, self.snapshots[branch][chosen])

    def delete_tag(self) -> None:
        branch = self.any_branch()
        if self.tags[branch]:
            name = self.random.choice(list(self.tags[branch]))
            self.table(branch).tags.delete(name)
            del self.tags[branch][name]

    def create(self) -> None:
        if len(self.snapshots) > 4:
            return
        source = self.any_branch()
        name = f"b{self.step}"
        if self.tags[source] and self.random.random() < 0.5:
            tag = self.random.choice(list(self.tags[source]))
            self.table(source).branches.create(name, tag=tag)
            self.tags[name] = {tag: self.tags[source][tag]}
        else:
            self.table(source).branches.create(name)
            self.tags[name] = {}
        self.snapshots[name] = {}

    def drop(self) -> None:
        name = self.other_branch()
        if name:
            self.table().branches.delete(name)
            del self.snapshots[name], self.tags[name]

    def expire(self) -> None:
        branch = self.any_branch()
        keep = self.random.randrange(1, 5)
        would = self.table(branch).expire(retain_last=keep, dry_run=True)
        assert self.table(branch).expire(retain_last=keep) == would

    def rollback(self) -> None:
        branch = self.any_branch()
        if not self.snapshots[branch] or self.random.random() < 0.6:
            return
        name = self.random.choice([*self.snapshots[branch], *self.tags[branch]])
        rows = self.snapshots[branch][name] if isinstance(name, int) else self.tags[branch][name][1]
        self.table(branch).rollback_to(name)
        # On top of all that was: what is taken back can still be seen.
        assert self.read(branch) == rows

    def merge(self) -> None:
        self.take_over(lambda branches, name, insist: branches.merge(name, discard_main=insist), replaces=False)

    def replace(self) -> None:
        self.take_over(lambda branches, name, insist: branches.replace_main(name, discard_main=insist), replaces=True)

    def take_over(self, act: Any, *, replaces: bool) -> None:
        name = self.other_branch()
        if name is None:
            return
        insist = self.random.random() < 0.4
        before = {branch: self.read(branch) for branch in ("main", name)}
        common = self.table().branches.verdict(name).common
        tags = dict(self.tags["main"])
        try:
            verdict = act(self.table().branches, name, insist)
        except StorageError as error:
            self.refused(error, before, name)
            return
        self.count(f"{'replace' if replaces else 'merge'} {verdict.kind}")
        expected = (
            before[name] if verdict.kind != "disjoint" else self.combined(before["main"], before[name], name, common)
        )
        if replaces:
            # Names that the branch has stand; those of main come to it.
            kept = (
                tags
                if verdict.kind != "diverged"
                else {tag: held for tag, held in tags.items() if held[0] <= (common or 0)}
            )
            self.tags["main"] = {**kept, **self.tags.pop(name)}
            self.snapshots["main"] = {**self.snapshots.pop(name)}
        else:
            self.tags["main"] = {**self.tags[name], **tags}
        seen = self.read("main")
        if expected is not None:
            assert seen == expected

    def refused(self, error: StorageError, before: dict[str, Rows], name: str) -> None:
        self.count("refused")
        assert {branch: self.read(branch) for branch in before} == before, error

    def combined(self, main: Rows, branch: Rows, name: str, common: int | None) -> Rows | None:
        """What both sides together hold: of each partition the rows of the side that changed it."""
        if not self.table().schema.primary_keys or common not in self.snapshots["main"]:
            return None
        base = self.snapshots["main"][common]
        combined_rows = []
        for day in PARTITIONS:
            was, ours, theirs = ([row for row in rows if row[0] == day] for rows in (base, main, branch))
            combined_rows += theirs if ours == was else ours
        return sorted(combined_rows, key=str)

    def clean(self) -> None:
        table = self.table()
        table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
        root = Path(table.store.paths.root)
        on_disk = {str(path) for path in root.rglob("*") if path.is_file()}
        metadata = {
            file_path
            for file_path in on_disk
            if Path(file_path).parent.name in METADATA
            or Path(file_path).name in ("MAIN-BRANCH", "ORIGIN")
            or Path(file_path).name.startswith(".closed-")
        }
        assert on_disk - metadata == needed_files(table.store).keys()

    def count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    def check(self) -> None:
        for branch, snapshots in self.snapshots.items():
            assert {tag.name for tag in self.table(branch).tags.list()} == set(self.tags[branch]), branch
            named = ((name, held[1]) for name, held in self.tags[branch].items())
            for version, rows in [*snapshots.items(), *named]:
                assert self.read(branch, version) == rows, (branch, version)
        assert self.table().check() == []


def run(seed: int, steps: Sequence[int], directory: Path) -> None:
    model = Branched(directory, seed)
    acts = [
        model.write,
        model.write,
        model.write,
        model.write,
        model.overwrite,
        model.compact,
        model.evolve,
        model.tag,
        model.delete_tag,
        model.create,
        model.create,
        model.drop,
        model.expire,
        model.rollback,
        model.merge,
        model.merge,
        model.replace,
        model.clean,
    ]
    for step in steps:
        model.step, model.random = step, random_of(seed, step)
        act = model.random.choice(acts)
        print(step, act.__name__)
        act()
        model.note()
        if step % 4 == 0:
            model.check()
    model.check()
    model.clean()
    print(model.done)


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_many_branches_and_tags(tmp_path: Path, seed: int) -> None:
    try_histories(run, [seed], amount(60, 400), tmp_path)
