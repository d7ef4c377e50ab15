"""A writer that is killed at random moments loses nothing that it was told is done, and does nothing twice."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from tests.scale import amount

SCRIPT = Path(__file__).parent / "kill_at_random.py"
ROOT = SCRIPT.parent.parent.parent
KILLS = amount(50, 2000)


def test_what_the_journal_says_is_in_the_table(tmp_path: Path) -> None:
    seed = int(os.environ.get("SNAPLINE_TEST_SEED") or random.randrange(2**32))
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), str(KILLS), str(seed)],
        capture_output=True,
        text=True,
        timeout=4 * 3600,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, f"SNAPLINE_TEST_SEED={seed}: {done.stderr[-2000:]}"
    kills = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(kills) == KILLS
    wrong = [kill for kill in kills if not kill["sound"] or kill["broken"] or kill.get("twice")]
    assert not wrong, f"SNAPLINE_TEST_SEED={seed}: {wrong[:3]}"
    # Some kills hit before the change was visible, and some in the middle of something.
    assert any(kill["begun"] for kill in kills)
