"""What commits and plans cost as a table grows old and large: 10,000 snapshots, and 100,000 live files.

    python -m tests.benchmarks.history [--snapshots 10000] [--files 100000]

Prints one line for each figure. The files of the large table are entries in manifests alone: no data is read.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import pyarrow as pa
from rich.console import Console
from rich.progress import track

from storage import Catalog, CommitId, Table
from storage.metadata import manifest
from storage.write.table_write import CommitMessage

PARTS = 100
FILES_OF_A_COMMIT = 1_000
AROUND = 50
SCHEMA = pa.schema([("part", pa.int32()), ("id", pa.int64()), ("v", pa.string())])
out = Console()
progress = Console(stderr=True)


def new_table(root: Path) -> Table:
    return Catalog(str(root)).create_table(
        "b.t", SCHEMA, primary_key=["part", "id"], partition_by=["part"], options={"bucket": 1, "write-only": True}
    )


def rows(number: int) -> pa.Table:
    part, key = pa.array([number % PARTS], pa.int32()), pa.array([number], pa.int64())
    return pa.table([part, key, pa.array(["x"])], schema=SCHEMA)


def ms(act: Callable[[], object], times: int = 5) -> float:
    milliseconds = []
    for _ in range(times):
        start = time.perf_counter()
        act()
        milliseconds.append((time.perf_counter() - start) * 1000)
    return median(milliseconds)


def cold_ms(act: Callable[[], object]) -> float:
    def from_nothing() -> object:
        manifest.forget()
        return act()

    return ms(from_nothing)


def measure_snapshots(root: Path, count: int) -> None:
    """One row in each of many commits; the writer stays, as a stream's does."""
    table = new_table(root)
    times = []
    for number in track(range(count), "commits", console=progress, transient=True):
        start = time.perf_counter()
        table.write(rows(number))
        times.append((time.perf_counter() - start) * 1000)
    points = {point: median(times[max(point - AROUND, 0) : point]) for point in (100, count // 10, count)}
    shown = ", ".join(f"#{point:,} {value:.1f} ms" for point, value in points.items())
    out.print(f"commit: {shown} ({points[count] / points[100]:.2f}x)")

    def opened() -> Table:
        return Catalog(str(root)).table("b.t")

    out.print(f"{count:,} snapshots: open and find the latest {ms(lambda: opened().snapshot()):.1f} ms")
    out.print(f"{count:,} snapshots: open and plan, from nothing {cold_ms(lambda: opened().scan().splits):.1f} ms")
    out.print(f"{count:,} snapshots: list them {ms(lambda: opened().system_table('snapshots'), 3):.0f} ms")
    when = opened().store.snapshots.get(count // 2).time_ms
    out.print(
        f"{count:,} snapshots: find the one of a time {ms(lambda: opened().store.snapshots.at_or_before(when)):.1f} ms"
    )


def measure_files(root: Path, count: int) -> None:
    """A table that a few large commits have filled, and one commit more."""
    table = new_table(root)
    with table.new_write() as writer:
        writer.write(pa.concat_tables([rows(number) for number in range(PARTS)]))
        first = writer.prepare_commit()
    by_part = first.added
    figures = []
    for number in track(range(count // FILES_OF_A_COMMIT), "files", console=progress, transient=True):
        added = []
        for index in range(FILES_OF_A_COMMIT):
            entry = by_part[index % PARTS]
            low = (number * FILES_OF_A_COMMIT + index) * 10
            file = replace(
                entry.file,
                name=f"data-{number:06d}-{index:06d}-0.parquet",
                min_sequence_number=low,
                max_sequence_number=low + 9,
            )
            added.append(replace(entry, file=file))
            # A commit looks for its files.
            Path(table.store.data_path(table.store.bucket_directory(entry.place), file)).touch()
        start = time.perf_counter()
        table.new_commit(CommitId("bench", number)).commit([CommitMessage(tuple(added), (), (), ())])
        figures.append((time.perf_counter() - start) * 1000)
    first_ms, last_ms = median(figures[:5]), median(figures[-5:])
    out.print(f"a commit of {FILES_OF_A_COMMIT:,} files: at first {first_ms:.0f} ms, at the end {last_ms:.0f} ms")
    table.write(rows(0))
    out.print(f"{count:,} files: a commit of a writer that stays {ms(lambda: table.write(rows(1))):.1f} ms")

    def opened() -> Table:
        return Catalog(str(root)).table("b.t")

    out.print(f"{count:,} files: the first commit of a process {cold_ms(lambda: opened().write(rows(2))):.0f} ms")
    out.print(f"{count:,} files: open and plan all, from nothing {cold_ms(lambda: opened().scan().entries):.0f} ms")
    out.print(f"{count:,} files: open and plan all, again {ms(lambda: opened().scan().entries):.0f} ms")
    one_part = cold_ms(lambda: opened().scan(where="part = 7").entries)
    out.print(f"{count:,} files: open and plan 1 of {PARTS} partitions, from nothing {one_part:.0f} ms")
    metadata = sum(path.stat().st_size for path in (root / "b.db" / "t" / "manifest").iterdir())
    out.print(f"{count:,} files: {metadata / 1e6:.1f} MB of manifests")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snapshots", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure_snapshots(Path(directory) / "snapshots", given.snapshots)
        measure_files(Path(directory) / "files", given.files)


if __name__ == "__main__":
    main()
