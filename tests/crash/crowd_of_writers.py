"""Many writers at one table, beside everything that tidies it up; every acknowledged commit must be there once.

    python crowd_of_writers.py ARGUMENTS

ARGUMENTS is a JSON object of `Crowd`. Writers note each commit that is acknowledged, in a file of their own; one that was
killed goes on with the commit id that it had. Prints one JSON object: how many commits were acknowledged, how many
processes were disturbed, and all that is wrong.
"""

import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage import Catalog, CommitConflict, CommitId, StorageError, StoreUnavailable, Table
from storage.errors import CommitOutcomeUnknown
from tests.crash.crowd import PAUSE_S, Part, Stage, is_overtaken, unless_in_the_way


@dataclass(frozen=True)
class Crowd(Stage):
    """Who is there."""

    warehouse: str = ""
    keyed: bool = True
    writers: int = 4
    commits: int = 8
    compactors: int = 2
    branchers: int = 0
    storage_options: dict[str, Any] = field(default_factory=dict)

    def catalog(self) -> Catalog:
        return Catalog(self.warehouse, storage_options=self.storage_options)

    def table(self) -> Table:
        return self.catalog().table("shop.orders")

    def note(self, writer: int) -> Path:
        return Path(self.directory) / f"acknowledged-{writer}"

    def acknowledged(self, writer: int) -> int:
        """One byte of the note stands for a commit."""
        path = self.note(writer)
        return path.stat().st_size if path.exists() else 0

    def prepare(self) -> None:
        options = {
            "bucket": 2 if self.keyed else -1,
            "snapshot.num-retained.min": 2,
            "snapshot.num-retained.max": 12,
            "num-sorted-run.compaction-trigger": 3,
            "commit.max-retries": 1000,
        }
        if not self.storage_options:
            # Tries are short there, and many of them meet.
            options |= {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "50 ms"}
        schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
        key = ["id"] if self.keyed else []
        self.catalog().create_table("shop.orders", schema, primary_key=key, options=options)

    def write(self, number: int) -> None:
        """Commit until all are acknowledged."""
        while (done := self.acknowledged(number)) < self.commits and not self.is_over:
            rows = pa.table({"id": [number * self.commits + done], "item": [f"{number}"]})
            try:
                self.table().write(rows, commit_id=CommitId(f"writer-{number}", done))
            except (CommitConflict, CommitOutcomeUnknown, StoreUnavailable):
                continue
            with self.note(number).open("ab") as file:
                file.write(b".")

    def compact(self, number: int) -> None:
        chance = random.Random(number)
        while not self.is_over:
            unless_in_the_way(lambda: self.table().compact(full=chance.random() < 0.5))

    def expire(self) -> None:
        while not self.is_over:
            unless_in_the_way(lambda: self.table().expire(retain_last=2))

    def clean(self) -> None:
        while not self.is_over:
            unless_in_the_way(lambda: self.table().remove_orphan_files())

    def branch(self, number: int) -> None:
        """Work on a branch that goes again: main has nothing of it."""

        def work() -> None:
            branches = self.table().branches
            if name not in branches.names():
                branches.create(name)
            self.table().on_branch(name).write(pa.table({"id": [-1 - number], "item": ["aside"]}))
            branches.delete(name)

        name = f"aside-{number}"
        while not self.is_over:
            unless_in_the_way(work)

    def read(self) -> None:
        """See that no acknowledged commit is ever missing, and none there twice."""
        while not self.is_over:
            known = {
                number * self.commits + at for number in range(self.writers) for at in range(self.acknowledged(number))
            }
            try:
                counts = Counter(self.table().to_arrow()["id"].to_pylist())
            except StorageError as error:
                if not is_overtaken(error):
                    raise
                continue
            lost, twice = known - counts.keys(), [commit for commit, count in counts.items() if count > 1]
            if lost or twice:
                raise AssertionError(f"a reader misses {sorted(lost)} and sees {twice} twice")
            time.sleep(PAUSE_S)

    def verdict(self) -> list[str]:
        """What is wrong once all have gone."""
        table = self.table()
        # Who has died while deleting it left that to others.
        for name in table.branches.names():
            table.branches.delete(name)
        counts = Counter(table.to_arrow()["id"].to_pylist())
        expected = range(self.writers * self.commits)
        wrong = [f"commit {commit} is there {counts[commit]} times" for commit in expected if counts[commit] != 1]
        wrong += [f"nobody wrote {commit}" for commit in counts.keys() - set(expected)]
        ids = [snapshot.id for snapshot in table.store.snapshots.all()]
        if ids != list(range(ids[0], ids[0] + len(ids))):
            wrong.append(f"snapshots {ids} do not follow each other")
        wrong += [str(problem) for problem in table.check(deep=True)]
        table.compact(full=True)
        table.expire(retain_last=1)
        table.remove_orphan_files(older_than=timedelta(0), no_writers=True)
        if Counter(table.to_arrow()["id"].to_pylist()) != Counter(expected):
            wrong.append("other rows once everything was compacted, expired and cleaned")
        return wrong + [str(problem) for problem in table.check(deep=True)]

    def act(self) -> dict[str, Any]:
        parts = [Part(f"writer {index}", partial(self.write, index), leading=True) for index in range(self.writers)]
        parts += [Part(f"compactor {index}", partial(self.compact, index)) for index in range(self.compactors)]
        parts += [Part(f"brancher {index}", partial(self.branch, index)) for index in range(self.branchers)]
        parts += [Part("expirer", self.expire), Part("cleaner", self.clean), Part("reader", self.read)]
        outcome = self.run(self.prepare, parts, self.verdict)
        return outcome | {"acknowledged": sum(self.acknowledged(number) for number in range(self.writers))}


if __name__ == "__main__":
    print(json.dumps(Crowd(**json.loads(sys.argv[1])).act()))
