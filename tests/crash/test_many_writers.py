"""Processes that commit to one table at the same time."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from storage import Catalog

PROCESSES, COMMITS, ROWS = 8, 25, 10
SCRIPT = """
import sys
import pyarrow as pa
from storage import Catalog
warehouse, number, commits, rows = sys.argv[1], *map(int, sys.argv[2:])
table = Catalog(warehouse).table("shop.orders")
for commit in range(commits):
    first = (number * commits + commit) * rows
    table.write(pa.table({"id": range(first, first + rows), "item": [f"{number}"] * rows}))
"""


def run_at_once(warehouse: Path, scripts: list[tuple[str, tuple[int, ...]]]) -> None:
    """Run scripts, each in a process of its own, all at the same time; none may fail."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(warehouse), *map(str, arguments)],
            cwd=Path(__file__).parent.parent.parent,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for script, arguments in scripts
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()[-2000:]


@pytest.mark.parametrize("write_only", [True, False])
def test_eight_processes_of_25_commits_make_200_snapshots_and_lose_no_row(tmp_path: Path, write_only: bool) -> None:
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    options = {"bucket": 2, "write-only": write_only}
    table = Catalog(str(tmp_path)).create_table("shop.orders", schema, primary_key=["id"], options=options)
    run_at_once(tmp_path, [(SCRIPT, (number, COMMITS, ROWS)) for number in range(PROCESSES)])
    snapshots = list(table.store.snapshots.all())
    assert [snapshot.id for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    assert [snapshot.commit_kind for snapshot in snapshots].count("APPEND") == PROCESSES * COMMITS
    # Writers that compact leave snapshots of their own.
    assert (len(snapshots) == PROCESSES * COMMITS) == write_only
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(PROCESSES * COMMITS * ROWS))
    assert snapshots[-1].total_record_count == PROCESSES * COMMITS * ROWS


COMPACTOR = """
import sys, time
from storage import Catalog, CommitConflict
table, until = Catalog(sys.argv[1]).table("shop.orders"), int(sys.argv[2])
conflicts = 0
while True:
    count = table.snapshot().total_record_count if table.snapshot() else 0
    try:
        table.compact(full=True)
    except CommitConflict:
        conflicts += 1
    if count >= until:
        break
print(conflicts)
"""


def test_writers_and_compactors_at_once_lose_nothing_and_commit_nothing_twice(tmp_path: Path) -> None:
    writers, compactors, commits = 8, 2, 12
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    table = Catalog(str(tmp_path)).create_table("shop.orders", schema, primary_key=["id"], options={"bucket": 2})
    scripts = [(SCRIPT, (number, commits, ROWS)) for number in range(writers)]
    scripts += [(COMPACTOR, (writers * commits * ROWS,))] * compactors
    run_at_once(tmp_path, scripts)
    snapshots = list(table.store.snapshots.all())
    assert [snapshot.id for snapshot in snapshots] == list(range(1, len(snapshots) + 1))
    assert [snapshot.commit_kind for snapshot in snapshots].count("APPEND") == writers * commits
    assert [snapshot.commit_kind for snapshot in snapshots].count("COMPACT") > 0
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(writers * commits * ROWS))
    assert table.check(deep=True) == []
