"""Kill a writer at random moments, again and again, and compare the table with the journal that it kept.

    python kill_at_random.py DIRECTORY KILLS SEED

The writer notes what it is about to do, does it, and notes that it is done; each note reaches the disk first. After a
kill the table must hold what is noted as done, or that and the one change that was begun; the next writer does that one
again under the same commit identifier. Prints one JSON object a kill. Every part runs in a fork of its own.
"""

import json
import os
import random
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage import Catalog, CommitConflict, CommitId, Table, Unfinished
from tests.crash.forks import forked, started

KEYS = 60


def table_in(directory: Path) -> Table:
    return Catalog(str(directory / "warehouse")).table("shop.orders")


def prepare(directory: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    options = {"bucket": 2, "num-sorted-run.compaction-trigger": 3, "changelog-producer": "lookup"}
    Catalog(str(directory / "warehouse")).create_table("shop.orders", schema, primary_key=["id"], options=options)


class Journal:
    """Changes begun and done, in order."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "journal"
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        self.notes = [json.loads(line) for line in lines if line.endswith("}")]

    def note(self, **what: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(what) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def replayed(self) -> tuple[dict[int, int], dict[str, Any] | None]:
        """The rows after all changes that are done, and the change that was begun last, if it is not."""
        rows: dict[int, int] = {}
        begun: dict[str, Any] | None = None
        for note in self.notes:
            if "done" in note:
                assert begun is not None
                rows, begun = applied(rows, begun), None
            else:
                begun = note
        return rows, begun


def applied(rows: dict[int, int], change: dict[str, Any]) -> dict[int, int]:
    new = {int(key): value for key, value in change["rows"].items()}
    if change["kind"] == "overwrite":
        return new
    if change["kind"] == "delete":
        return {key: value for key, value in rows.items() if key not in new}
    return rows | new if change["kind"] == "write" else rows


def do(table: Table, change: dict[str, Any]) -> None:
    rows = pa.table({"id": [int(key) for key in change["rows"]], "v": list(change["rows"].values())})
    commit_id = CommitId("worker", change["number"])
    match change["kind"]:
        case "write":
            table.write(rows, commit_id=commit_id)
        case "delete":
            table.write(
                rows.append_column("op", pa.array(["-D"] * rows.num_rows)), row_kind_column="op", commit_id=commit_id
            )
        case "overwrite":
            table.overwrite(rows, commit_id=commit_id)
        case "compact":
            table.compact(full=change["number"] % 2 == 0)
        case "expire":
            table.expire(retain_last=3)
        case "tag":
            table.tags.create("now", replace=True)


def work(directory: Path, seed: int) -> None:
    """Change the table until somebody kills this process."""
    chosen = random.Random(seed)
    journal = Journal(directory)
    table = table_in(directory)
    _, begun = journal.replayed()
    number = max((note.get("number", 0) for note in journal.notes), default=0)
    while True:
        if begun is None:
            number += 1
            kind = chosen.choices(["write", "delete", "overwrite", "compact", "expire", "tag"], [8, 3, 1, 2, 2, 1])[0]
            keys = chosen.sample(range(KEYS), chosen.randint(1, 20))
            begun = {"number": number, "kind": kind, "rows": {str(key): number for key in keys}}
            journal.note(**begun)
        try:
            do(table, begun)
        except CommitConflict:
            continue
        journal.note(done=begun["number"])
        begun = None


def verdict(directory: Path, at_the_end: bool) -> dict[str, Any]:
    rows, begun = Journal(directory).replayed()
    table = table_in(directory)
    seen = {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}
    is_old, is_new = seen == rows, begun is not None and seen == applied(rows, begun)
    broken = [str(problem) for problem in table.check(deep=at_the_end) if not isinstance(problem, Unfinished)]
    if at_the_end:
        table.remove_orphan_files(older_than=timedelta(0), no_writers=True)
        broken += [str(problem) for problem in table.check(deep=True)]
    snapshots = list(table.store.snapshots.all())
    own = [snapshot.commit_identifier for snapshot in snapshots if snapshot.commit_user == "worker"]
    return {
        "sound": is_old or is_new,
        "old": is_old,
        "begun": begun and begun["kind"],
        "broken": broken,
        "twice": len(own) - len(set(own)),
    }


def main(directory: Path, kills: int, seed: int) -> None:
    chosen = random.Random(seed)
    forked(prepare, directory)
    for number in range(kills):
        child, stream = started(work, directory, chosen.randrange(2**32))
        time.sleep(chosen.uniform(0.02, 0.25))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        stream.close()
        _, report = forked(verdict, directory, number == kills - 1)
        report = report or {"sound": False, "broken": ["the check itself failed"]}
        print(json.dumps({"kill": number, **report}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
