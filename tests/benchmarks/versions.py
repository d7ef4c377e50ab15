"""What tags, branches and expiry cost on a table of many files, against one of few.

    python -m tests.benchmarks.versions [--files 10000] [--snapshots 1000]

Prints one line for each figure.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pyarrow as pa
from rich.console import Console

from storage import Catalog, Table
from storage.file_io import FileIO
from storage.metadata import manifest

FEW = 10
ROUNDS = 15
out = Console()


def table_of(directory: Path, files: int) -> Table:
    """A table with a file in each of so many partitions, and an upsert on top."""
    schema = pa.schema([("part", pa.int32()), ("id", pa.int64()), ("v", pa.string())])
    table = Catalog(str(directory)).create_table(
        "b.t", schema, primary_key=["part", "id"], partition_by=["part"], options={"bucket": 1, "write-only": True}
    )
    numbers = pa.array(range(files), pa.int32())
    table.write(pa.table({"part": numbers, "id": numbers.cast(pa.int64()), "v": ["x"] * files}))
    table.write(pa.table({"part": pa.array([0], pa.int32()), "id": [0], "v": ["y"]}))
    return table


def timed_ms(act: Callable[[int], object]) -> float:
    act(-1)
    times = []
    for number in range(ROUNDS):
        start = time.perf_counter()
        act(number)
        times.append((time.perf_counter() - start) * 1000)
    return median(times)


def measure_versions(root: Path, files: int) -> None:
    figures: dict[str, list[float]] = {}
    for count in (FEW, files):
        table = table_of(root / str(count), count)
        for name, act in {
            "create a tag": lambda number, table=table: table.tags.create(f"t{number}"),
            "create a branch": lambda number, table=table: table.branches.create(f"b{number}"),
            "create a branch from a tag": lambda number, table=table: table.branches.create(f"c{number}", tag="t-1"),
        }.items():
            figures.setdefault(name, []).append(timed_ms(act))
    for name, (few, many) in figures.items():
        out.print(f"{name}: {few:.2f} ms with {FEW} files, {many:.2f} ms with {files} ({many / few:.2f}x)")


def measure_expiry(root: Path, snapshots: int) -> None:
    """Expire all but the last of many snapshots, of which each fifth replaced what was there."""
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    table = Catalog(str(root / "expiry")).create_table("b.t", schema, partition_by=["v"])
    for number in range(snapshots + 1):
        rows = pa.table({"id": [number], "v": [f"p{number % 50}"]})
        if number % 5:
            table.write(rows)
        else:
            table.overwrite(rows)
    # As another process would: nothing is in memory yet.
    manifest._decoded = manifest.DecodedFiles(capacity=0)
    reads: dict[str, int] = {}
    original = FileIO.read_bytes

    def counted(self: FileIO, path: str) -> bytes:
        reads[path] = reads.get(path, 0) + 1
        return original(self, path)

    FileIO.read_bytes = counted  # type: ignore[method-assign]
    start = time.perf_counter()
    removal = Catalog(str(root / "expiry")).table("b.t").expire(retain_last=1)
    seconds = time.perf_counter() - start
    FileIO.read_bytes = original  # type: ignore[method-assign]
    manifests = {path: count for path, count in reads.items() if "/manifest-" in path and "-list-" not in path}
    out.print(
        f"expire {len(removal.snapshot_ids)} snapshots: {seconds:.2f} s, {len(removal.files)} files went; "
        f"{len(manifests)} manifests read, each at most {max(manifests.values(), default=0)} times"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--snapshots", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure_versions(Path(directory), given.files)
        measure_expiry(Path(directory), given.snapshots)


if __name__ == "__main__":
    main()
