"""Kill a writer before each of its changes to the file system in turn; print what is seen then, and after a retry.

    python kill_at_each_step.py DIRECTORY write|overwrite

Prints one JSON object for each step. Every part runs in a fork of its own, so that this process never starts a thread.
"""

import json
import os
import signal
import sys
from itertools import count
from pathlib import Path

import pyarrow as pa

from storage import Catalog, CommitId, Table
from tests.crash.forks import forked

CHANGES = ("os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
NEW = {"id": [2, 3, 4], "item": ["new"] * 3}


def table_in(directory: Path) -> Table:
    return Catalog(str(directory)).table("shop.orders")


def prepare(directory: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    table = Catalog(str(directory)).create_table("shop.orders", schema, primary_key=["id"], options={"bucket": 2})
    table.write(pa.table({"id": [1, 2], "item": ["old"] * 2}))


def change(directory: Path, operation: str) -> None:
    table = table_in(directory)
    commit_id = CommitId("job", 1)
    if operation == "write":
        table.write(pa.table(NEW), commit_id=commit_id)
    else:
        table.overwrite(pa.table(NEW), commit_id=commit_id)


def change_until(directory: Path, operation: str, step: int) -> None:
    """Do it, but die before change number `step`."""
    seen = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        writes = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if (event in CHANGES or writes) and str(directory) in str(arguments[0]):
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

    sys.addaudithook(watch)
    change(directory, operation)


def state(directory: Path) -> dict[str, object]:
    table = table_in(directory)
    snapshot = table.snapshot()
    assert snapshot is not None
    return {"snapshot": snapshot.id, "rows": sorted((row["id"], row["item"]) for row in table.to_arrow().to_pylist())}


def main(root: Path, operation: str) -> None:
    for step in count():
        directory = root / f"{operation}-{step}"
        forked(prepare, directory)
        code, _ = forked(change_until, directory, operation, step)
        _, seen = forked(state, directory)
        forked(change, directory, operation)
        _, after = forked(state, directory)
        print(json.dumps({"step": step, "code": code, "seen": seen, "after": after}), flush=True)
        if code == 0:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
