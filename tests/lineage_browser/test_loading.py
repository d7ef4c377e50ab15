"""A server whose first pages are recoveries: several threads need Dagster and Spark at once, which take seconds to import."""

import os
import subprocess
import sys
from pathlib import Path

_FIRST_PAGES = """
from concurrent.futures import ThreadPoolExecutor

from starlette.testclient import TestClient

from resources.browser.server import hosted_app

client = TestClient(hosted_app(), base_url="http://127.0.0.1", raise_server_exceptions=False)
paths = ["/recoveries/bad", "/recoveries/nope", "/recoveries", "/recoveries/bad", "/tables", "/recoveries/bad"]
with ThreadPoolExecutor(len(paths)) as threads:
    for path, answer in zip(paths, threads.map(client.get, paths)):
        print(path, answer.status_code, "cannot be loaded" in answer.text)
"""


def test_first_pages_at_once_find_the_definitions(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SNAPLINE_")},
        "SNAPLINE_HOME": str(home),
        "SNAPLINE_WAREHOUSE": str(tmp_path / "warehouse"),
    }
    prepared = (
        "from resources import Session\n"
        "from resources.recovery import Recovery, plan_recovery\n"
        "session = Session()\n"
        "session.sql('CREATE TABLE raw.a (id BIGINT); INSERT INTO raw.a VALUES (1); INSERT INTO raw.a VALUES (2)', 'duckdb')\n"
        "Recovery.start(session, 'bad', plan_recovery(session, session.ref('raw.a@2')))\n"
    )
    for script in (prepared, _FIRST_PAGES):
        ended = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=300, check=False
        )
        assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.split("\n")
    assert [line.split()[:2] for line in lines if line.startswith("/recoveries/bad")] == [
        ["/recoveries/bad", "200"]
    ] * 3
    assert "/recoveries/nope 404 False" in lines
    assert " 500 " not in ended.stdout and "True" not in ended.stdout, ended.stdout
    assert "cannot be loaded" not in ended.stderr, ended.stderr
