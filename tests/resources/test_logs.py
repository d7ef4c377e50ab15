"""Logs as JSON: a line for each event, commits with their fields; what is secret stays so; other forms are refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


def run(tmp_path: Path, *words: str, code: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code + "from resources.cli import main; main()", *words]
    own = {"PYTHONPATH": str(ROOT), "SNAPLINE_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**own, **environment}, check=False)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_each_commit_is_an_event_with_its_fields(tmp_path: Path) -> None:
    statements = "CREATE TABLE raw.a (id INT); INSERT INTO raw.a VALUES (1), (2); DELETE FROM raw.a WHERE id = 5"
    done = run(tmp_path, "sql", "--engine", "duckdb", statements, SNAPLINE_LOGS="json")
    assert done.returncode == 0, done.stderr
    commits = [line for line in lines(done.stderr) if line.get("event") == "commit"]
    assert [(line["table"], line["outcome"], line.get("snapshot"), line.get("rows")) for line in commits] == [
        ("raw.a", "committed", 1, 2)
    ]
    assert commits[0]["kind"] == "APPEND"
    assert commits[0]["bytes"] > 0
    assert 0 < commits[0]["seconds"] < 60
    assert (commits[0]["level"], commits[0]["logger"]) == ("INFO", "storage.write.commit_metrics")
    assert commits[0]["time"].endswith("+00:00")


def test_an_exception_and_a_secret(tmp_path: Path) -> None:
    code = (
        "import logging; from resources import Session; Session(); log = logging.getLogger('lineage.x')\n"
        "try: 1 / 0\nexcept ZeroDivisionError: log.exception('at postgresql://me:hush@host/db')\n"
    )
    done = run(tmp_path, "table", "list", code=code, SNAPLINE_LOGS="json")
    (line,) = lines(done.stderr)
    assert "ZeroDivisionError" in line["exception"]
    assert "******@host/db" in line["message"]
    assert "hush" not in done.stderr


def test_without_it_nothing_is_said_of_commits(tmp_path: Path) -> None:
    done = run(tmp_path, "sql", "--engine", "duckdb", "CREATE TABLE raw.a (id INT); INSERT INTO raw.a VALUES (1)")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("form", ["xml", "JSON"])
def test_another_form_is_refused_in_a_line(tmp_path: Path, form: str) -> None:
    done = run(tmp_path, "table", "list", SNAPLINE_LOGS=form)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"Error: SNAPLINE_LOGS = '{form}' is no form of logs: write json, or leave it out for plain text."
    )
