"""Tell the stories of docs/recovery.md and docs/browser.md in the UI, on all flights, and keep their pictures in docs/images:
`make pictures`; with the name of a story, that one alone.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.browser import lineage_story, story
from tests.browser.story import BadDay
from tests.browser.visitor import ROOT, Visitor, visitor
from tests.resources.dagster_server import dagster_server

FLIGHTS = BadDay(
    table="raw.flights",
    snapshot=2,
    correction="UPDATE raw.flights SET time_hour = time_hour + INTERVAL 5 HOURS\nWHERE month >= 11",
    spoilt=("core.flights", "marts.delay_by_weather"),
    partitions="2013-11, 2013-12",
    recovery="fix-raw-flights-2",
)


BAD_DAY = (
    ("demo",),
    ("sql", "--engine", "duckdb", "UPDATE raw.flights SET time_hour = time_hour - INTERVAL 5 HOURS WHERE month >= 11"),
    ("demo", "--job", "refresh", "--partitions", "2013-11", "2013-12"),
)


STORIES: dict[str, tuple[Callable[[Visitor, BadDay], None], str]] = {
    "recovery": (story.repaired, ""),
    "browser": (lineage_story.repaired, "resources.ui.services"),
}


def main(home: Path, name: str) -> None:
    """Take the commands of "The bad day", and then the browser."""
    tell, services = STORIES[name]
    os.environ["SNAPLINE_HOME"] = str(home)
    for arguments in BAD_DAY:
        subprocess.run([str(Path(sys.executable).with_name("snapline")), *arguments], cwd=ROOT, check=True)
    with (
        dagster_server("platform_assets.definitions", home, home / "dagster", services) as server,
        visitor(server.url, ROOT / "docs" / "images") as user,
    ):
        tell(user, FLIGHTS)
        print(user.told())


if __name__ == "__main__":
    for asked in sys.argv[1:] or STORIES:
        with tempfile.TemporaryDirectory() as directory:
            main(Path(directory) / "home", asked)
