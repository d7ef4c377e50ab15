"""Kill whoever changes tables before each of its changes to the file system in turn; print what is seen then, and after a
retry.

    python kill_at_each_step.py DIRECTORY OPERATION STRIDE

STRIDE 1 takes each change, 2 each other one, and so on.

Prints one JSON object for each step. Every part runs in a fork of its own, so that this process never starts a thread.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa

from storage import Catalog, CommitId, Table, Unfinished
from tests.crash.forks import forked

CHANGES = ("os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
NAMES = ["shop.orders", "shop.totals"]
NEW = {"id": [2, 3, 4], "item": ["new"] * 3}


def rows(item: str, *ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "item": [item] * len(ids)})


def prepare(directory: Path) -> None:
    """Two tables with two snapshots each, and a branch that has two more: one of the first table alone, one of both."""
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    catalog = Catalog(str(directory))
    for name in NAMES:
        table = catalog.create_table(name, schema, primary_key=["id"], options={"bucket": 2})
        table.write(rows("old", 1))
        table.write(rows("old", 1, 2))
        table.branches.create("fix")
        table.on_branch("fix").write(rows("fixed", 1))
        table.on_branch("fix").overwrite(rows("fixed", 2, 3))


def prepare_moved(directory: Path) -> None:
    """As `prepare`, but the mains have moved since the branch began, elsewhere."""
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    catalog = Catalog(str(directory))
    for name in NAMES:
        table = catalog.create_table(
            name, schema, primary_key=["id", "item"], partition_by=["item"], options={"bucket": 1}
        )
        table.write(rows("x", 1, 2))
        table.branches.create("fix")
        table.on_branch("fix").write(rows("x", 3))
        table.on_branch("fix").overwrite(rows("x", 4))
        table.write(rows("y", 5))


Act = Callable[[Catalog, Table], object]
OPERATIONS: dict[str, tuple[Callable[[Path], None], Act]] = {
    "write": (prepare, lambda catalog, table: table.write(pa.table(NEW), commit_id=CommitId("job", 1))),
    "overwrite": (prepare, lambda catalog, table: table.overwrite(pa.table(NEW), commit_id=CommitId("job", 1))),
    "expire": (prepare, lambda catalog, table: table.expire(retain_last=1)),
    "rollback": (prepare, lambda catalog, table: table.rollback_to(1)),
    "merge": (prepare, lambda catalog, table: table.branches.merge("fix")),
    "merge-moved": (prepare_moved, lambda catalog, table: table.branches.merge("fix")),
    "replace": (prepare, lambda catalog, table: table.branches.replace_main("fix")),
    "replace-moved": (prepare_moved, lambda catalog, table: table.branches.replace_main("fix")),
    "publish": (prepare, lambda catalog, table: catalog.recover() or catalog.branch_set("fix", NAMES).publish()),
    "publish-moved": (
        prepare_moved,
        lambda catalog, table: catalog.recover() or catalog.branch_set("fix", NAMES).publish(),
    ),
}


def change(directory: Path, operation: str) -> None:
    catalog = Catalog(str(directory))
    OPERATIONS[operation][1](catalog, catalog.table("shop.orders"))


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
    """What readers see who ask for the tables together, and what is wrong with the tables."""
    catalog = Catalog(str(directory))
    view = catalog.consistent(NAMES)
    seen = [sorted((row["id"], row["item"]) for row in table.to_arrow().to_pylist()) for table in view.values()]
    return {
        "rows": seen,
        "broken": [
            str(problem)
            for name in NAMES
            for problem in catalog.table(name).check()
            if not isinstance(problem, Unfinished)
        ],
    }


def main(root: Path, operation: str, stride: int) -> None:
    template = root / "template"
    forked(OPERATIONS[operation][0], template)
    _, before = forked(state, template)
    for step in count(step=stride):
        directory = root / f"{operation}-{step}"
        shutil.copytree(template, directory)
        code, _ = forked(change_until, directory, operation, step)
        _, seen = forked(state, directory)
        again, _ = forked(change, directory, operation)
        _, after = forked(state, directory)
        shutil.rmtree(directory)
        report = {"step": step, "code": code, "before": before, "seen": seen, "again": again, "after": after}
        print(json.dumps(report), flush=True)
        if code == 0:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
