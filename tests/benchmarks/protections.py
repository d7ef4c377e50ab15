"""What the protocols against other processes cost: this version and another one by turns, in one run.

    git worktree add /tmp/before COMMIT
    python -m tests.benchmarks.protections --against /tmp/before [--rounds 5]

Prints a table of this version, the other one, and the ratio of both; requests are counted by the tests' object store.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parent.parent.parent
# Runs in either version: what it calls has not changed since the first one that is compared with.
SCRIPT = """
import json, os, sys, time
import pyarrow as pa
from storage import Catalog
directory, endpoint = sys.argv[1:]
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])

def rows(number):
    return pa.table({"id": [number % 50], "v": ["x"]}, SCHEMA)

def timed(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began

table = Catalog(directory).create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 1, "write-only": True})
commits = [timed(lambda: table.write(rows(number))) for number in range(500)]
found = {"commit": sum(commits[400:]) / 100}

def files(number):
    for one in range(5):
        with open(f"{directory}/limit-{number}-{one}", "wb") as file:
            file.write(b"x" * 1500)
    os.link(f"{directory}/limit-{number}-0", f"{directory}/linked-{number}")
    os.unlink(f"{directory}/limit-{number}-0")

found["limit"] = sum(timed(lambda: files(number)) for number in range(100)) / 100
found["tag"] = sum(timed(lambda: table.tags.create(f"t{number}", snapshot_id=number)) for number in range(401, 451)) / 50
found["branch"] = sum(timed(lambda: table.branches.create(f"b{number}", snapshot_id=460)) for number in range(20)) / 20
found["expire"] = timed(lambda: table.expire(retain_last=100))
options = {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": endpoint, "region_name": "us-east-1"}}
far = Catalog("s3://bucket/w", storage_options=options)
table = far.create_table("a.t", SCHEMA, primary_key=["id"], options={"bucket": 1, "write-only": True})
for number in range(5):
    table.write(rows(number))
print(json.dumps(found), flush=True)
sys.stdin.readline()
for number in range(10):
    table.write(rows(number))
print("done", flush=True)
sys.stdin.readline()
table.expire(retain_last=5)
print("done", flush=True)
"""
FIGURES = {
    "commit": "commit #401 to #500, ms",
    "limit": "its files alone: five created, one linked and unlinked, ms",
    "tag": "create a tag, ms",
    "branch": "create a branch, ms",
    "expire": "expire 400 of 500 snapshots, ms",
    "requests": "requests of a commit on an object store",
    "expiry requests": "requests of an expiry of 10 snapshots there",
}
out = Console()


def measure(version: Path) -> dict[str, float]:
    """The figures of the version in a directory: seconds, and requests."""
    # The object store is this version's, whichever is measured.
    from tests.contracts.s3_server import object_store

    with tempfile.TemporaryDirectory(prefix="snapline-bench-") as directory, object_store() as (endpoint, _, faults):
        environment = {**os.environ, "PYTHONPATH": str(version)}
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, directory, endpoint],
            cwd=version,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            figures: dict[str, float] = json.loads(process.stdout.readline())
            for key, count in (("requests", 10), ("expiry requests", 1)):
                before = faults.requests
                process.stdin.write("go on\n")
                process.stdin.flush()
                assert process.stdout.readline() == "done\n"
                figures[key] = (faults.requests - before) / count
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, help="a checkout of the version to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {"here": [], "before": []}
    for _ in range(given.rounds):
        runs["before"].append(measure(given.against.resolve()))
        runs["here"].append(measure(ROOT))
    out.print("| | here | before | ratio |\n|---|---:|---:|---:|", highlight=False)
    for key, title in FIGURES.items():
        here, before = (statistics.median(run[key] for run in runs[side]) for side in ("here", "before"))
        scale = 1 if "requests" in key else 1000
        out.print(f"| {title} | {here * scale:.2f} | {before * scale:.2f} | {here / before:.2f}× |", highlight=False)


if __name__ == "__main__":
    main()
