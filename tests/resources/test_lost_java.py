"""A JVM that ends in the middle of a program's life: the next step of it starts another one."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# The JVM dies in the first try of a step whose run is in this process.
PROGRAM = """
import os
import signal
import dagster as dg
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from resources import SparkResource, TablesResource, table_asset

tries = []

@table_asset("raw.a", mode="append", code_version="1", retry_policy=dg.RetryPolicy(max_retries=1))
def a(spark: SparkSession) -> DataFrame:
    tries.append(SparkContext._gateway.proc.pid)
    if len(tries) == 1:
        os.kill(tries[0], signal.SIGKILL)
    return spark.range(3)

with dg.DagsterInstance.ephemeral() as instance:
    result = dg.materialize(
        [a], instance=instance, resources={"tables": TablesResource(spark=SparkResource())}, raise_on_error=False
    )
assert result.success
assert len(set(tries)) == 2
from resources import Session
print(sorted(Session().table("raw.a").to_arrow()["id"].to_pylist()))
"""


@pytest.mark.spark
def test_a_step_that_is_tried_again_gets_a_session_that_answers(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(ROOT),
            "SNAPLINE_HOME": str(tmp_path / "home"),
            "HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().splitlines()[-1] == "[0, 1, 2]"
