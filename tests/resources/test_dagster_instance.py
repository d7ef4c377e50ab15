"""Dagster's databases are made once, whoever comes first to a new home."""

import os
import subprocess
import sys
from pathlib import Path

FIRST_USE = """
import sys
import dagster as dg
from resources.assets.dagster_instance import dagster_instance
from resources.settings import Settings

print("ready", flush=True)
sys.stdin.readline()
with dagster_instance(Settings.from_environment()) as instance:
    print(instance.get_runs_count())
"""


def test_those_who_use_a_new_home_first_at_the_same_moment_all_can(tmp_path: Path) -> None:
    environment = {**os.environ, "SNAPLINE_HOME": str(tmp_path / "home"), "DAGSTER_HOME": ""}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", FIRST_USE],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    results = [process.communicate(timeout=120) for process in processes]
    assert [printed for printed, _ in results] == ["0\n"] * len(processes), [error[-500:] for _, error in results]
