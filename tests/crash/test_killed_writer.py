"""Whoever dies at any moment leaves the old tables or the new ones, and trying again finishes the work once."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.kill_at_each_step import OPERATIONS
from tests.scale import amount

SCRIPT = Path(__file__).parent / "kill_at_each_step.py"
ROOT = SCRIPT.parent.parent.parent
OLD = [[1, "old"], [2, "old"]]
FIXED = [[2, "fixed"], [3, "fixed"]]
MOVED = [[1, "x"], [2, "x"], [5, "y"]]
MERGED = [[4, "x"], [5, "y"]]
AFTER: dict[str, list[Any]] = {
    "write": [[[1, "old"], [2, "new"], [3, "new"], [4, "new"]], OLD],
    "overwrite": [[[2, "new"], [3, "new"], [4, "new"]], OLD],
    "expire": [OLD, OLD],
    "rollback": [[[1, "old"]], OLD],
    "merge": [FIXED, OLD],
    "merge-moved": [MERGED, MOVED],
    "replace": [FIXED, OLD],
    "replace-moved": [MERGED, MOVED],
    "publish": [FIXED, FIXED],
    "publish-moved": [MERGED, MERGED],
}

# Of the longer operations the usual run takes some steps, the long run all.
STRIDES = {"merge-moved": 2, "replace": 2, "replace-moved": 5, "publish": 4, "publish-moved": 9}

# Expiring is a step shorter than the others, since hints are written in place.
FEWEST = {"expire": 5}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_who_is_killed_before_any_change_leaves_old_or_new_and_the_retry_lands_once(
    operation: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), operation, str(amount(STRIDES.get(operation, 1), 1))],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(steps) >= FEWEST.get(operation, 6)
    assert [step["code"] for step in steps[:-1]] == [-signal.SIGKILL] * (len(steps) - 1)
    assert steps[-1]["code"] == 0
    before, after = steps[0]["before"]["rows"], AFTER[operation]
    seen = [step["seen"]["rows"] for step in steps]
    # Once it is the new state it stays that.
    switch = seen.index(after)
    assert seen == [before] * switch + [after] * (len(seen) - switch)
    if operation not in STRIDES:
        # The kill comes before some change after the switch too: what follows it may be lost.
        assert switch < len(seen) - 1
    assert [step["again"] for step in steps] == [0] * len(steps)
    assert [step["after"]["rows"] for step in steps] == [after] * len(steps)
    assert [step["seen"]["broken"] + step["after"]["broken"] for step in steps] == [[]] * len(steps)
