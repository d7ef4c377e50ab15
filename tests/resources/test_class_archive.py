"""Spark's JVM maps its classes from an archive, where there is one that fits, and its Python processes take what is installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resources.class_archive import archive_of, java_options
from resources.java import java_home

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import sys
from pathlib import Path
from resources import Settings, class_archive, spark_session
if len(sys.argv) > 1:
    class_archive.archive_of = lambda java: Path(sys.argv[1])
spark = spark_session.start_spark(Settings.from_environment())
java = spark._jvm.java.lang.ProcessHandle.current().pid()
import pyspark
workers = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
assert workers == [pyspark.__file__], workers
print(spark.range(10).count(), sum(".jsa" in line and "snapline" in line for line in open(f"/proc/{java}/maps")))
"""


def shown(home: Path, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={key: value for key, value in os.environ.items() if key != "SPARK_CONF_DIR"} | {"SNAPLINE_HOME": str(home)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.spark
def test_the_archive_of_the_set_up_is_mapped(tmp_path: Path) -> None:
    assert archive_of(java_home(tmp_path)).exists(), "make it: python -m resources.archive_classes"
    [line] = shown(tmp_path)
    count, mapped = line.split()
    assert (count, int(mapped) > 0) == ("10", True)


@pytest.mark.spark
def test_an_archive_that_does_not_fit_is_left_alone_in_silence(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.jsa"
    garbage.write_bytes(b"no classes are in this" * 1000)
    assert shown(tmp_path / "home", str(garbage)) == ["10 0"]


def test_a_path_that_cannot_stand_among_options_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = java_home(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "with a space"))
    archive_of(java).parent.mkdir(parents=True, exist_ok=True)
    archive_of(java).touch()
    assert "SharedArchiveFile" not in java_options(java)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "without"))
    assert "SharedArchiveFile" not in java_options(java)
    archive_of(java).parent.mkdir(parents=True, exist_ok=True)
    archive_of(java).touch()
    assert f"-XX:SharedArchiveFile={archive_of(java)}" in java_options(java)


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    for name, text in (("a", "17.0.1"), ("b", "21.0.2")):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "java").write_text(text)
    assert archive_of(tmp_path / "a") != archive_of(tmp_path / "b")
