"""The demo, materialized twice by its command."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Demo:
    """Where the demo's state lies, a copy of it after the first run, and what the command printed each time."""

    home: Path
    printed: list[str]
    after_first: Path

    @property
    def warehouse(self) -> str:
        return str(self.home / "warehouse")


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Demo:
    """One for all processes of a test run: the first that needs it makes it, the others wait."""
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "demo-of-all"
    shared.mkdir(exist_ok=True)
    made = Demo(shared / "home", [], shared / "after-first")
    printed = shared / "printed.json"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not printed.exists():
            printed.write_text(json.dumps(_run_twice(made)))
    return Demo(made.home, json.loads(printed.read_text()), made.after_first)


def _run_twice(demo: Demo) -> list[str]:
    """Run it, copy its state, and run it again; returns what it printed each time."""
    shutil.rmtree(demo.home, ignore_errors=True)
    printed = []
    for number in range(2):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("snapline")), "demo"],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
            cwd=ROOT,
            env=os.environ | {"SNAPLINE_HOME": str(demo.home)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed.append(done.stdout)
        if number == 0:
            shutil.copytree(demo.home, demo.after_first, dirs_exist_ok=True)
    return printed
