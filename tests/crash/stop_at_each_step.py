"""Stop whoever changes tables before each of its changes to the file system in turn, by SIGSTOP, for two days; let others write,
compact, expire and clean meanwhile; let it go on, and print what has become of it all.

    python stop_at_each_step.py DIRECTORY OPERATION STRIDE

The two days pass at once: the clock of who is stopped was two days behind until then, and the files that are there get
that much older. Prints one JSON object for each step. Every part runs in a fork of its own, so that this
process never starts a thread.
"""

import datetime as dt
import json
import mmap
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage import Catalog, Clock, CommitConflict, CommitId, StorageError, Table, Unfinished, lock
from tests.crash.forks import forked, started
from tests.crash.kill_at_each_step import CHANGES, NAMES, NEW, prepare, rows

PAUSE_MS = 2 * 86_400_000
LINES = "shop.lines"
TABLES = {"write": NAMES[:1], "append": [LINES], "compact": [NAMES[0], LINES], "expire": NAMES[:1], "publish": NAMES}
# How many milliseconds clocks are behind: shared by all forks.
BEHIND = mmap.mmap(-1, 8)


class LateClock(Clock):
    """The clock of this machine, a while ago."""

    def now_ms(self) -> int:
        return super().now_ms() - int.from_bytes(BEHIND[:8], "big")


def behind(duration_ms: int) -> None:
    BEHIND[:8] = duration_ms.to_bytes(8, "big")


def opened(directory: Path) -> Catalog:
    return Catalog(str(directory), clock=LateClock())


def prepared(directory: Path) -> None:
    """Those of `kill_at_each_step`, and a table without a key."""
    prepare(directory)
    lines = Catalog(str(directory)).create_table(LINES, rows("old", 1).schema)
    for number in (1, 2):
        lines.write(rows("old", number))


OPERATIONS: dict[str, Callable[[Catalog], object]] = {
    "write": lambda catalog: catalog.table(NAMES[0]).write(pa.table(NEW), commit_id=CommitId("job", 1)),
    "append": lambda catalog: catalog.table(LINES).write(pa.table(NEW), commit_id=CommitId("job", 1)),
    "compact": lambda catalog: [catalog.table(name).compact(full=True) for name in TABLES["compact"]],
    "expire": lambda catalog: catalog.table(NAMES[0]).expire(retain_last=1),
    "publish": lambda catalog: catalog.branch_set("fix", NAMES).publish(),
}


def change_slowly(directory: Path, operation: str, step: int) -> str | None:
    """Do it, but sleep before change number `step`; what it raised."""
    seen = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        writes = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if (event in CHANGES or writes) and str(directory) in str(arguments[0]):
            seen += 1
            if seen == step + 1:
                os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(watch)
    try:
        OPERATIONS[operation](opened(directory))
    except StorageError as error:
        return f"{type(error).__name__}: {error}"
    return None


def grow_older(directory: Path) -> None:
    """Let two days pass."""
    long_ago = time.time() - PAUSE_MS / 1000
    for parent, _, files in os.walk(directory):
        for name in files:
            os.utime(f"{parent}/{name}", (long_ago, long_ago), follow_symlinks=False)
    behind(0)


def of_others(directory: Path, names: list[str]) -> dict[str, Any]:
    """What others do at each table: the rows that were acknowledged, and what was refused."""
    # Who is stopped may hold one.
    lock._MOST_SECONDS = 1
    catalog = opened(directory)
    acknowledged: dict[str, list[int]] = {name: [] for name in names}
    refused = []
    for name in names:
        acts: dict[str, Callable[[Table], object]] = {
            "100": lambda table: table.write(rows("others", 100)),
            "compact": lambda table: table.compact(full=True),
            "101": lambda table: table.write(rows("others", 101)),
            "expire": lambda table: table.expire(retain_last=1),
            "clean": lambda table: table.remove_orphan_files(older_than=dt.timedelta(days=1)),
        }
        for what, act in acts.items():
            try:
                act(catalog.table(name))
            except StorageError as error:
                refused.append(f"{name}, {what}: {type(error).__name__}: {error}")
                continue
            if what.isdecimal():
                acknowledged[name].append(int(what))
    return {"acknowledged": acknowledged, "refused": refused}


def at_the_end(directory: Path, names: list[str]) -> dict[str, Any]:
    """What readers see once what is open has been finished and one row more was written, and what is wrong with the tables."""
    catalog = opened(directory)
    with suppress(CommitConflict):
        catalog.recover()
    with suppress(CommitConflict):
        # Others have written to a main that did not have the branch yet.
        catalog.recover(undo=True)
    # Others have written to both mains, before and after the publication's commits: whoever ends it says whose work is lost.
    together = None
    if catalog.publications():
        view = catalog.consistent(names)
        together = [sorted((row["id"], row["item"]) for row in table.to_arrow().to_pylist()) for table in view.values()]
    unfinished = [
        str(problem) for name in names for problem in catalog.table(name).check() if isinstance(problem, Unfinished)
    ]
    for name in names:
        catalog.table(name).write(rows("next", 200))
    tables = {name: catalog.table(name) for name in names}
    seen = {
        name: sorted((row["id"], row["item"]) for row in table.to_arrow().to_pylist()) for name, table in tables.items()
    }
    broken = [
        str(problem)
        for table in tables.values()
        for problem in table.check(deep=True)
        if not isinstance(problem, Unfinished)
    ]
    return {"rows": seen, "broken": broken, "unfinished": unfinished, "together": together}


def stopped_at(directory: Path, operation: str, step: int) -> dict[str, Any]:
    behind(PAUSE_MS)
    child, answer = started(change_slowly, directory, operation, step)
    _, status = os.waitpid(child, os.WUNTRACED)
    stopped, others = os.WIFSTOPPED(status), None
    grow_older(directory)
    if stopped:
        _, others = forked(of_others, directory, TABLES[operation])
        os.kill(child, signal.SIGCONT)
        _, status = os.waitpid(child, 0)
    with answer:
        said = answer.read()
    code, end = forked(at_the_end, directory, TABLES[operation])
    return {
        "step": step,
        "stopped": stopped,
        "codes": [os.waitstatus_to_exitcode(status), code],
        "others": others,
        "error": json.loads(said) if said else None,
        "end": end,
    }


def main(root: Path, operation: str, stride: int) -> None:
    template = root / "template"
    forked(prepared, template)
    for step in count(step=stride):
        directory = root / f"{operation}-{step}"
        shutil.copytree(template, directory)
        report = stopped_at(directory, operation, step)
        shutil.rmtree(directory)
        print(json.dumps(report), flush=True)
        if not report["stopped"]:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
