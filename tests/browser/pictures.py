"""Tell the story of docs/recovery.md in the UI, on all flights, and keep its pictures in docs/images: `make pictures`."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser.story import BadDay, repaired
from tests.browser.visitor import ROOT, visitor
from tests.resources.dagster_server import dagster_server

FLIGHTS = BadDay(
    table="raw.flights", snapshot=2,
    correction="UPDATE raw.flights SET time_hour = time_hour + INTERVAL 5 HOURS\nWHERE month >= 11",
    spoilt=("core.flights", "marts.delay_by_weather"), partitions="2013-11, 2013-12", recovery="fix-raw-flights-2",
)  # fmt: skip


BAD_DAY = (
    ("demo",),
    ("sql", "--engine", "duckdb", "UPDATE raw.flights SET time_hour = time_hour - INTERVAL 5 HOURS WHERE month >= 11"),
    ("demo", "--job", "refresh", "--partitions", "2013-11", "2013-12"),
)


def main(home: Path) -> None:
    """Take the commands of "The bad day", and then the browser."""
    os.environ["SNAPLINE_HOME"] = str(home)
    for arguments in BAD_DAY:
        subprocess.run([str(Path(sys.executable).with_name("snapline")), *arguments], cwd=ROOT, check=True)
    with (
        dagster_server("platform_assets.definitions", home, home / "dagster") as server,
        visitor(server.url, ROOT / "docs" / "images") as user,
    ):
        repaired(user, FLIGHTS)
        print(user.told())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(Path(directory) / "home")
