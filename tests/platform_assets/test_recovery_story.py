"""The story of docs/recovery.md: every command in it, on all flights, and what it says that they print."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from storage import Catalog

if TYPE_CHECKING:
    from .conftest import Demo

pytestmark = pytest.mark.dagster
ROOT = Path(__file__).parent.parent.parent


def commands() -> list[tuple[str, list[str]]]:
    """The commands of the page, with the lines that it shows of their output."""
    page = (ROOT / "docs" / "recovery.md").read_text()
    steps: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((line.removeprefix("$ "), []))
            else:
                steps[-1][1].append(line)
    return steps


def test_every_command_of_the_story_prints_what_the_story_shows(demo: "Demo") -> None:
    steps = commands()
    assert len(steps) > 12
    # The demo itself has been run already.
    first, shown = steps.pop(0)
    assert first == "snapline demo"
    assert all(line in demo.printed[0] for line in shown)
    program = str(Path(sys.executable).with_name("snapline"))
    for command, lines in steps:
        arguments = shlex.split(command)
        assert arguments[0] == "snapline"
        done = subprocess.run(
            [program, *arguments[1:]],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=ROOT,
            env=os.environ | {"SNAPLINE_HOME": str(demo.after_first)},
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-3000:]}"
        for line in lines:
            assert line in done.stdout, f"{command} does not print {line!r}:\n{done.stdout}"
    catalog = Catalog(str(demo.after_first / "warehouse"))
    original = Catalog(demo.warehouse)
    for name in ("raw.flights", "core.flights", "marts.delay_by_weather"):
        # What it was before the bad day, to the row.
        columns = catalog.table(name).schema.column_names
        sort_keys = [(column, "ascending") for column in columns]
        mended, right = (
            source_catalog.table(name).to_arrow().sort_by(sort_keys) for source_catalog in (catalog, original)
        )
        if name.startswith("marts"):
            assert mended["flights"].to_pylist() == right["flights"].to_pylist()
        else:
            assert mended.equals(right)
        assert catalog.table(name).check() == []
