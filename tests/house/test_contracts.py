"""The contracts of merge engines and of formats of data files find mistakes, and none where there is none."""

import re
import subprocess
import sys
from pathlib import Path

from tests.house.broken_extensions import ENGINES, FORMATS
from tests.house.measure import ROOT


def test_each_mistake_is_found(tmp_path: Path) -> None:
    command = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--tb=no",
        f"--basetemp={tmp_path}/runs",
    ]
    done = subprocess.run(
        [sys.executable, *command, "tests/house/broken_extensions.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    failed = set(re.findall(r"^FAILED \S+::Test(\w+)::", done.stdout, re.MULTILINE))
    names = {each.__name__ for each in ENGINES} | set(FORMATS)
    assert failed == names - {"Last", "Stream"}, done.stdout[-3000:]
