"""Bars of long work on a terminal, on standard error, and beside a statement that runs."""

import subprocess
import sys
from pathlib import Path

from resources.cli.progress import RUNNING, beside
from storage import progress_of_each

ROOT = Path(__file__).parent.parent.parent


def test_long_work_shows_a_bar_on_a_terminal_alone(tmp_path: Path) -> None:
    statements = (
        "CREATE TABLE raw.a (id BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '3', 'write-only' = 'true'); "
        + ("INSERT INTO raw.a VALUES (1), (2), (3), (4), (5), (6), (7), (8); " * 2)
    )
    own = {"PYTHONPATH": str(ROOT), "SNAPLINE_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}

    def run(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", "from resources.cli import main; main()", *words]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env={**own, **environment}, check=True, timeout=300
        )

    run("sql", "--engine", "duckdb", statements)
    plain = run("check", "raw.a", "--deep")
    assert plain.stderr == ""
    # What rich takes for a terminal.
    shown = run("table", "compact", "raw.a", FORCE_COLOR="1", COLUMNS="120")
    assert "raw.a" in shown.stderr
    assert "buckets compacted" in shown.stderr
    assert "is compacted" in shown.stdout
    assert "buckets compacted" not in shown.stdout


def test_a_statement_says_how_far_it_has_come_beside_the_word_that_it_runs() -> None:
    class Said:
        def __init__(self) -> None:
            self.texts: list[str] = []

        def update(self, text: str) -> None:
            self.texts.append(text)

    said = Said()
    with beside(said):  # type: ignore[arg-type]
        assert list(progress_of_each("ab", "raw.a", "buckets compacted")) == ["a", "b"]
    assert said.texts == [*(f"{RUNNING} raw.a: {done} of 2 buckets compacted" for done in range(3)), RUNNING]
    with beside(None):
        assert list(progress_of_each("ab", "raw.a", "buckets compacted")) == ["a", "b"]
    assert len(said.texts) == 4
