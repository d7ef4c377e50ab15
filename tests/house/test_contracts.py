"""The contracts of merge engines and of formats of data files find mistakes, and none where there is none."""

import re
from pathlib import Path

from tests.house.broken_extensions import ENGINES, FORMATS
from tests.house.measure import ROOT
from tests.house.own_pytest import run_pytest


def test_each_mistake_is_found(tmp_path: Path) -> None:
    done = run_pytest("--tb=no", f"--basetemp={tmp_path}/runs", "tests/house/broken_extensions.py", cwd=ROOT)
    failed = set(re.findall(r"^FAILED \S+::Test(\w+)::", done.stdout, re.MULTILINE))
    names = {each.__name__ for each in ENGINES} | set(FORMATS)
    assert failed == names - {"Last", "Stream"}, done.stdout[-3000:]
