"""A JVM of Spark that ends before it can be talked to: one line with its own cause, and the settings to look at."""

import subprocess
import sys
from pathlib import Path

import pytest

from resources.java_launch import cause

PROGRAM = """
import sys
from pathlib import Path
from resources.settings import Settings
from resources.spark_session import start_spark
home = Path(sys.argv[1])
settings = Settings(home, str(home / "w"), f"jdbc:sqlite:{home}/l.db", spark_config={sys.argv[2]: sys.argv[3]})
try:
    session = start_spark(settings)
    session.sparkContext._jvm.java.lang.System.err.println("said afterwards")
except Exception as error:
    print(type(error).__name__, error)
"""


def started(home: Path, key: str, value: str) -> subprocess.CompletedProcess[str]:
    given = [sys.executable, "-c", PROGRAM, str(home), key, value]
    return subprocess.run(given, capture_output=True, text=True, timeout=180, check=True)


def test_java_that_cannot_start_is_one_line_with_its_cause_and_the_setting(tmp_path: Path) -> None:
    done = started(tmp_path, "spark.driver.memory", "1")
    [line] = done.stdout.splitlines()
    assert line.startswith("InvalidRequest ") and "SNAPLINE_SPARK_CONFIG (spark.driver.memory)" in line
    assert "heap" in line and done.stderr == ""


def test_a_session_that_spark_refuses_names_the_setting(tmp_path: Path) -> None:
    [line] = started(tmp_path, "spark.executor.memory", "10m").stdout.splitlines()
    assert line.startswith("InvalidRequest ") and "SNAPLINE_SPARK_CONFIG (spark.executor.memory)" in line
    assert "471859200" in line


def test_what_java_writes_is_shown_once_it_runs(tmp_path: Path) -> None:
    assert "said afterwards" in started(tmp_path, "spark.ui.enabled", "false").stderr


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", ""),
        (
            "WARNING: Using incubator modules\n\nError: Cores must be positive\nRun with --help",
            "Error: Cores must be positive",
        ),
        (
            'Exception in thread "main" java.lang.ExceptionInInitializerError\n\tat a.b(C.java:1)\n'
            "Caused by: java.lang.RuntimeException: outer\n\tat a.b(C.java:1)\n"
            "Caused by: java.net.UnknownHostException: vm: Name not known\n\t... 4 more",
            "java.net.UnknownHostException: vm: Name not known",
        ),
        (
            'Exception in thread "main" java.lang.IllegalArgumentException: spark.cores.max should be int, but was many\n'
            "\tat org.apache.spark.Main(Main.scala:1)",
            "java.lang.IllegalArgumentException: spark.cores.max should be int, but was many",
        ),
        ("Invalid maximum heap size: -Xmx-1g\nError: Could not create the JVM.", "Invalid maximum heap size: -Xmx-1g"),
    ],
)
def test_the_cause_is_found_in_what_a_jvm_writes(written: str, said: str) -> None:
    assert cause(written.splitlines()) == said
