"""A writer that dies at any moment leaves the old table or the new one, and trying again finishes the work once."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "kill_at_each_step.py"
ROOT = SCRIPT.parent.parent.parent
OLD = {"snapshot": 1, "rows": [[1, "old"], [2, "old"]]}
NEW = {
    "write": {"snapshot": 2, "rows": [[1, "old"], [2, "new"], [3, "new"], [4, "new"]]},
    "overwrite": {"snapshot": 2, "rows": [[2, "new"], [3, "new"], [4, "new"]]},
}


@pytest.mark.parametrize("operation", ["write", "overwrite"])
def test_a_writer_killed_before_any_change_leaves_old_or_new_and_the_retry_lands_once(
    operation: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), operation],
        capture_output=True, text=True, timeout=300, check=False, cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    # Data files, manifest, two manifest lists, the snapshot (its temporary file, link, removal) and the hint.
    assert len(steps) >= 10
    assert [step["code"] for step in steps[:-1]] == [-signal.SIGKILL] * (len(steps) - 1)
    assert steps[-1]["code"] == 0
    seen = [step["seen"] for step in steps]
    switch = seen.index(NEW[operation])
    assert seen == [OLD] * switch + [NEW[operation]] * (len(seen) - switch)
    # The kill comes before some change after the snapshot too: what follows the commit may be lost.
    assert 0 < switch < len(seen) - 1
    assert [step["after"] for step in steps] == [NEW[operation]] * len(steps)
