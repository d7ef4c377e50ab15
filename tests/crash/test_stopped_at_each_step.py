"""Whoever is stopped at any moment for longer than everything waits, and goes on, takes nothing from others, and does what he was
to do, or says that it is not done, or that he cannot know.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.stop_at_each_step import LINES, NAMES, OPERATIONS, TABLES
from tests.scale import amount

SCRIPT = Path(__file__).parent / "stop_at_each_step.py"
ROOT = SCRIPT.parent.parent.parent
OLD = [[1, "old"], [2, "old"]]
FIXED = [[2, "fixed"], [3, "fixed"]]
# What the tables have then, without the rows of others.
AFTER: dict[str, dict[str, list[Any]]] = {
    "write": {NAMES[0]: [[1, "old"], [2, "new"], [3, "new"], [4, "new"]]},
    "append": {LINES: [[1, "old"], [2, "new"], [2, "old"], [3, "new"], [4, "new"]]},
    "compact": {NAMES[0]: OLD, LINES: OLD},
    "expire": {NAMES[0]: OLD},
    "publish": dict.fromkeys(NAMES, FIXED),
}
BEFORE = {operation: dict.fromkeys(TABLES[operation], OLD) for operation in OPERATIONS}
# The usual run takes some steps, the long run all.
STRIDES = {"write": 5, "append": 5, "compact": 10, "expire": 3, "publish": 9}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_who_is_stopped_before_any_change_and_goes_on_two_days_later_loses_nothing(
    operation: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), operation, str(amount(STRIDES[operation], 1))],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(steps) >= 3 and [step["stopped"] for step in steps] == [True] * (len(steps) - 1) + [False]
    assert steps[-1]["error"] is None
    for step in steps:
        where = f"stopped before change {step['step']}: {step['error']}, {step['others']}"
        assert step["codes"] == [0, 0], where
        end = step["end"]
        assert not end["broken"] and (end["together"] is not None or not end["unfinished"]), (where, end)
        own, of_others = {}, {}
        for table, rows in end["rows"].items():
            own[table] = [row for row in rows if row[1] not in ("others", "next")]
            of_others[table] = [row[0] for row in rows if row[1] == "others"]
            assert [200, "next"] in rows, where
        # What was acknowledged is there once, and what was not is not there, or only once.
        acknowledged = step["others"]["acknowledged"] if step["others"] else {table: [] for table in own}
        assert of_others == acknowledged, (where, end)
        if end["together"] is not None:
            # Who asks for the tables together sees none of it, until somebody says how it ends.
            assert step["error"].startswith("CommitConflict: The publication of branch 'fix' stays open"), where
            assert not [row for rows in end["together"] for row in rows if row[1] == "fixed"], where
            assert all(rows in (OLD, FIXED) for rows in own.values()), (where, end)
            continue
        assert own in ([AFTER[operation]] if step["error"] is None else [BEFORE[operation], AFTER[operation]]), where
        if step["error"] and not step["error"].startswith("CommitOutcomeUnknown"):
            assert own == BEFORE[operation], (where, own)
