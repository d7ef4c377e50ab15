"""A Spark driver that is killed in the middle of a write, and a worker of a task: each commit lands whole, and once."""

import datetime as dt
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash.spark_victim import ROWS, USER, table_in
from tests.scale import amount

pytestmark = pytest.mark.spark
SCRIPT = Path(__file__).parent / "spark_victim.py"
ROOT = SCRIPT.parent.parent.parent
DRIVERS = amount(2, 50)
WORKERS = amount(3, 20)


def processes_of(session: int) -> Iterator[int]:
    """The Python workers of Spark in a session of processes."""
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            # The daemon that starts them would be missed by all later tasks alike: a fork of it serves one.
            if int(fields[3]) == session and b"pyspark.daemon" in (process / "cmdline").read_bytes():
                parent = Path("/proc") / fields[1] / "cmdline"
                if b"pyspark.daemon" in parent.read_bytes():
                    yield int(process.name)


def test_a_driver_and_workers_are_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("SNAPLINE_TEST_SEED") or random.randrange(2**32))
    print(f"SNAPLINE_TEST_SEED={seed}")
    chosen = random.Random(seed)
    done, killed, failed = 0, 0, 0
    for _ in range(DRIVERS):
        with subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        ) as victim:
            assert victim.stdout is not None
            hits = 0
            for line in victim.stdout:
                what, number = line.split()[:2]
                failed += what == "failed"
                done = max(done, int(number)) if what == "done" else done
                if what != "begun" or not done:
                    continue
                # The first commit of a driver takes longer: then it is left alone.
                time.sleep(chosen.uniform(0, 0.7))
                if hits < WORKERS:
                    workers = list(processes_of(victim.pid))
                    if workers:
                        os.kill(chosen.choice(workers), signal.SIGKILL)
                        killed += 1
                    hits += 1
                else:
                    break
            os.killpg(victim.pid, signal.SIGKILL)
            # What it said before it died counts.
            for line in victim.stdout:
                if line.startswith("done"):
                    done = max(done, int(line.split()[1]))
        table = table_in(tmp_path)
        rows = table.to_arrow()
        assert rows.num_rows == ROWS
        values = set(rows["v"].to_pylist())
        assert values in ({done}, {done + 1}), (done, values)
        assert table.check() == []
    print(f"{killed} workers were killed, {failed} tries failed")
    assert killed
    commits = Counter(
        snapshot.commit_identifier for snapshot in table.store.snapshots.all() if snapshot.commit_user == USER
    )
    assert commits == Counter(dict.fromkeys(range(1, max(values) + 1), 1))
    table.remove_orphan_files(older_than=dt.timedelta(0), no_writers=True)
    assert table.check(deep=True) == []
    assert table.to_arrow().equals(rows)
