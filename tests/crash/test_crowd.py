"""A crowd of writers beside compactors, expiries and a cleaner: each acknowledged commit is there once."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.s3_server import Faults, object_store
from tests.crash.crowd import Crowd, arguments
from tests.scale import amount

SCRIPT = Path(__file__).parent / "crowd.py"
ROOT = SCRIPT.parent.parent.parent
RUNS = amount(1, 10)
SIZE = {"writers": amount(4, 16, full=8), "commits": amount(8, 50, full=25)}


def run(crowd: Crowd) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), arguments(crowd)],
        capture_output=True, text=True, timeout=2 * 3600, check=False, cwd=ROOT, env={"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    assert not told["wrong"], f"SNAPLINE_TEST_SEED={crowd.seed}: {len(told['wrong'])} wrong: {told['wrong'][:5]}"
    assert told["acknowledged"] == crowd.writers * crowd.commits
    return told


def seed() -> int:
    return int(os.environ.get("SNAPLINE_TEST_SEED") or random.randrange(2**32))


@pytest.mark.parametrize("number", range(RUNS))
@pytest.mark.parametrize("disturbed", ["no", "kill", "stop"])
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "without a key"])
def test_each_acknowledged_commit_is_there_once(tmp_path: Path, keyed: bool, disturbed: str, number: int) -> None:
    warehouse = str(tmp_path / "warehouse")
    told = run(Crowd(str(tmp_path), warehouse, seed() + number, keyed, disturbed=disturbed, **SIZE))
    assert (told["disturbances"] > 0) == (disturbed != "no")


@pytest.mark.parametrize("number", range(RUNS))
@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "without a key"])
def test_the_same_on_an_object_store_that_loses_answers(tmp_path: Path, keyed: bool, number: int) -> None:
    chosen = seed() + number
    faults = Faults(unavailable=0.02, lost_reply=0.02, chosen=random.Random(chosen))
    with object_store(faults) as (endpoint, _, _):
        config = {"retries": {"max_attempts": 6, "mode": "standard"}, "read_timeout": 30, "connect_timeout": 5}
        client = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        options = {"key": "k", "secret": "s", "client_kwargs": client, "config_kwargs": config}
        run(Crowd(str(tmp_path), "s3://bucket/warehouse", chosen, keyed, storage_options=options, **SIZE))
    assert faults.seen["unavailable"] and faults.seen["lost"]
