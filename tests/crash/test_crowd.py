"""Crowds at one table, and at two: what was acknowledged is there once, and a sum over tables is always right."""

import json
import os
import random
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.s3_server import Faults, object_store
from tests.crash.crowd import Stage
from tests.crash.crowd_of_publishers import Publishers
from tests.crash.crowd_of_writers import Crowd
from tests.scale import FULL, amount

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RUNS = amount(1, 10)
SIZE = {"writers": amount(4, 16, full=8), "commits": amount(6, 50, full=15)}
# Where each request takes its time.
SIZE_FAR = SIZE if FULL else {"writers": 3, "commits": 4}
SECONDS = amount(8, 600, full=30)


def act(stage: Stage, script: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / script), json.dumps(asdict(stage))],
        capture_output=True,
        text=True,
        timeout=2 * 3600,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcome: dict[str, Any] = json.loads(done.stdout)
    print(outcome)
    assert not outcome["wrong"], (
        f"SNAPLINE_TEST_SEED={stage.seed}: {len(outcome['wrong'])} wrong: {outcome['wrong'][:5]}"
    )
    assert (outcome["disturbances"] > 0) == (stage.disturbed != "no")
    return outcome


def seed() -> int:
    return int(os.environ.get("SNAPLINE_TEST_SEED") or random.randrange(2**32))


@pytest.mark.parametrize("number", range(RUNS))
@pytest.mark.parametrize("disturbed", ["no", "kill", "stop"])
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "without a key"])
def test_each_acknowledged_commit_is_there_once(tmp_path: Path, keyed: bool, disturbed: str, number: int) -> None:
    crowd = Crowd(str(tmp_path), seed() + number, disturbed, warehouse=f"{tmp_path}/warehouse", keyed=keyed, **SIZE)
    outcome = act(crowd, "crowd_of_writers.py")
    assert outcome["acknowledged"] == crowd.writers * crowd.commits


@pytest.mark.parametrize("number", range(RUNS))
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "without a key"])
def test_the_same_on_an_object_store_that_loses_answers(tmp_path: Path, keyed: bool, number: int) -> None:
    chosen = seed() + number
    faults = Faults(unavailable=0.02, lost_reply=0.02, chosen=random.Random(chosen))
    with object_store(faults) as (endpoint, _, _):
        config = {"retries": {"max_attempts": 6, "mode": "standard"}, "read_timeout": 30, "connect_timeout": 5}
        client = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        options = {"key": "k", "secret": "s", "client_kwargs": client, "config_kwargs": config}
        crowd = Crowd(
            str(tmp_path), chosen, warehouse="s3://bucket/warehouse", storage_options=options, keyed=keyed, **SIZE_FAR
        )
        outcome = act(crowd, "crowd_of_writers.py")
    assert outcome["acknowledged"] == crowd.writers * crowd.commits
    assert faults.seen["unavailable"] and faults.seen["lost"]


@pytest.mark.parametrize("disturbed", ["no", "kill", "stop"])
def test_the_sum_over_two_tables_is_right_in_every_view_and_nobody_is_blocked(tmp_path: Path, disturbed: str) -> None:
    outcome = act(Publishers(str(tmp_path), seed(), disturbed, seconds=SECONDS), "crowd_of_publishers.py")
    assert outcome["published"] > 0
    assert outcome["read"] > 0
