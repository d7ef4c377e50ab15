"""Requests of a commit and of a plan on an object store, of this store, delta-rs and PyIceberg: counted in the log of one server.

    python -m tests.benchmarks.requests [--peers .venv/peers/bin/python]

The server is versitygw (`make versitygw`). Each side appends 1,000 rows of three columns to a table without a key ten times, each
time on the table that it has open; then it plans a scan of the open table, of one that another process has committed to, and of
one that it opens anew, and reads it whole. This store also commits to a table with a key. Prints a table of medians.
"""

import argparse
import collections
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from tests.contracts.versitygw import KEY, REGION, SECRET, Versitygw, why_missing

ROOT = Path(__file__).parent.parent.parent
COMMITS = 10
# Every side defines `make`, `commit`, `plan`, `open_plan`, `read`; what is sent to it names one of them.
COMMON = """
import sys
import pyarrow as pa
endpoint, key, secret, region, directory = sys.argv[1:]
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("x", pa.float64())])
given = 0

def rows():
    global given
    given += 1000
    ids = range(given - 1000, given)
    return pa.table({"id": ids, "v": [str(i) for i in ids], "x": [i / 2 for i in ids]}, SCHEMA)
"""
LOOP = """
print("ready", flush=True)
for line in sys.stdin:
    print(globals()[line.strip()](), flush=True)
"""
SNAPLINE = """
from storage import Catalog
options = {"key": key, "secret": secret, "endpoint_url": endpoint, "client_kwargs": {"region_name": region}}

def table():
    return Catalog("s3://bucket/here", storage_options=options).table(NAME)

def make():
    global opened
    Catalog("s3://bucket/here", storage_options=options).create_table(NAME, SCHEMA, primary_key=PK, options=OPTIONS)
    opened = table()

def commit():
    opened.write(rows())

def commit_as_another():
    table().write(rows())

def plan():
    return len(opened.scan().splits)

def open_plan():
    return len(table().scan().splits)

def read():
    return table().to_arrow().num_rows
"""
DELTA = """
from deltalake import DeltaTable, write_deltalake
URI = "s3://bucket/delta/t"
options = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": region, "AWS_ENDPOINT_URL": endpoint,
           "AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}

def make():
    global opened
    DeltaTable.create(URI, SCHEMA, storage_options=options)
    opened = DeltaTable(URI, storage_options=options)

def commit():
    write_deltalake(opened, rows(), mode="append")

def commit_as_another():
    write_deltalake(URI, rows(), mode="append", storage_options=options)

def plan():
    opened.update_incremental()
    return len(opened.file_uris())

def open_plan():
    return len(DeltaTable(URI, storage_options=options).file_uris())

def read():
    return DeltaTable(URI, storage_options=options).to_pyarrow_table().num_rows
"""
ICEBERG = """
from pyiceberg.catalog.sql import SqlCatalog
settings = {"s3.endpoint": endpoint, "s3.access-key-id": key, "s3.secret-access-key": secret, "s3.region": region}

def catalog():
    return SqlCatalog("c", uri=f"sqlite:///{directory}/catalog.db", warehouse="s3://bucket/iceberg", **settings)

def make():
    global opened
    catalog().create_namespace("a")
    opened = catalog().create_table("a.t", SCHEMA)

def commit():
    opened.append(rows())

def commit_as_another():
    catalog().load_table("a.t").append(rows())

def plan():
    opened.refresh()
    return len(list(opened.scan().plan_files()))

def open_plan():
    return len(list(catalog().load_table("a.t").scan().plan_files()))

def read():
    return catalog().load_table("a.t").scan().to_arrow().num_rows
"""


def _snapline(name: str, key: list[str], bucket: int) -> str:
    options = {"bucket": bucket, "write-only": True}
    return f"NAME, PK, OPTIONS = {name!r}, {key!r}, {options!r}\n{SNAPLINE}"


SIDES = {
    "here": _snapline("a.log", [], -1),
    "here, with a key": _snapline("a.t", ["id"], 1),
    "delta-rs": DELTA,
    "PyIceberg": ICEBERG,
}
FIGURES = {
    "commit": "commit by an open table",
    "commit after another's": "commit after another process has committed",
    "plan": "plan a scan of an open table",
    "plan after another's": "the same after another process has committed",
    "open and plan": f"open a table of {COMMITS + 2} commits and plan a scan",
    "open and read": "open it and read it whole",
}
out = Console(width=200)


class Server:
    """versitygw with a log of requests."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "requests"
        # Of connections that stay open it refuses some uploads in parts of Arrow's client.
        self.gateway = Versitygw(directory / "buckets", access_log=self._log, keep_alive=False)
        self._seen = 0

    def requests(self) -> dict[str, int]:
        """How many there were since this was asked last, by operation."""
        lines = [line.split() for line in self._log.read_text().splitlines() if " s3_" in line]
        new, self._seen = lines[self._seen :], len(lines)
        names = (next(word for word in line if word.startswith("s3_")) for line in new)
        return dict(collections.Counter(name.removeprefix("s3_") for name in names))


class Side:
    """A process that does what it is told."""

    def __init__(self, python: str, script: str, server: Server, directory: Path) -> None:
        endpoint = server.gateway.endpoint
        arguments = [endpoint, KEY, SECRET, REGION, str(directory)]
        self._server = server
        self._process = subprocess.Popen(
            [python, "-c", COMMON + script + LOOP, *arguments],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("A side has died: see what it said above.")
        return line.strip()

    def ask(self, what: str) -> tuple[str, dict[str, int]]:
        """What it answered, and the requests that it took."""
        assert self._process.stdin is not None
        self._server.requests()
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return self._answer(), self._server.requests()

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


def measure(python: str, script: str) -> dict[str, dict[str, float]]:
    """Requests by figure and operation, medians where it was done several times. Raises AssertionError for a wrong answer."""
    with tempfile.TemporaryDirectory(prefix="snapline-bench-") as name:
        directory = Path(name)
        server = Server(directory)
        server.gateway.start()
        side = Side(python, script, server, directory)
        try:
            return _figures(side)
        finally:
            side.close()
            server.gateway.kill()


def _figures(side: Side) -> dict[str, dict[str, float]]:
    side.ask("make")
    commits = [side.ask("commit")[1] for _ in range(COMMITS)]
    operations = sorted({operation for commit in commits for operation in commit})
    counts: dict[str, dict[str, float]] = {
        "commit": {
            operation: statistics.median(commit.get(operation, 0) for commit in commits[2:]) for operation in operations
        }
    }
    side.ask("plan")
    counts["plan"] = dict(side.ask("plan")[1])
    side.ask("commit_as_another")
    counts["plan after another's"] = dict(side.ask("plan")[1])
    side.ask("commit_as_another")
    counts["commit after another's"] = dict(side.ask("commit")[1])
    counts["open and plan"] = dict(side.ask("open_plan")[1])
    answer, counts["open and read"] = side.ask("read")
    assert answer == str(1000 * (COMMITS + 3)), answer
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peers", default=str(ROOT / ".venv" / "peers" / "bin" / "python"), help="Python of the others"
    )
    parser.add_argument("--json", action="store_true", help="print what each figure consists of")
    given = parser.parse_args()
    if missing := why_missing():
        parser.error(missing)
    sides = {
        side: measure(sys.executable if side.startswith("here") else given.peers, script)
        for side, script in SIDES.items()
    }
    if given.json:
        print(json.dumps(sides, indent=2))
        return
    out.print(f"| | {' | '.join(SIDES)} |\n|---|{'---:|' * len(SIDES)}", highlight=False)
    for figure, title in FIGURES.items():
        cells = [f"{sum(sides[side][figure].values()):g}" for side in SIDES]
        out.print(f"| {title} | {' | '.join(cells)} |", highlight=False)


if __name__ == "__main__":
    main()
