"""Processes that commit to one table at the same time."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa

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


def test_eight_processes_of_25_commits_make_200_snapshots_and_lose_no_row(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("item", pa.string())])
    table = Catalog(str(tmp_path)).create_table("shop.orders", schema, primary_key=["id"], options={"bucket": 2})
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path), *map(str, (number, COMMITS, ROWS))],
            cwd=Path(__file__).parent.parent.parent,
            stderr=subprocess.PIPE,
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors.decode()[-2000:]
    assert table.store.snapshots.ids() == list(range(1, PROCESSES * COMMITS + 1))
    assert sorted(table.to_arrow()["id"].to_pylist()) == list(range(PROCESSES * COMMITS * ROWS))
    assert table.snapshot().total_record_count == PROCESSES * COMMITS * ROWS  # type: ignore[union-attr]
