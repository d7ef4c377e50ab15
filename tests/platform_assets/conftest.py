"""The demo, materialized twice by its command."""

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
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    home = tmp_path_factory.mktemp("demo")
    copy = tmp_path_factory.mktemp("copy") / "home"
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [str(Path(sys.executable).with_name("snapline")), "demo"],
            capture_output=True, text=True, timeout=400, check=False, cwd=ROOT,
            env=os.environ | {"SNAPLINE_HOME": str(home)},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        printed.append(done.stdout)
        if len(printed) == 1:
            shutil.copytree(home, copy)
    return Demo(home, printed, copy)
