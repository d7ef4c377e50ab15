"""Measure this store against plain Parquet and pypaimon, in one run, and write docs/benchmarks.md.

    python -m tests.benchmarks [--rows 5000000] [--rounds 3] [--without-pypaimon] [--print]

Every figure is a ratio to a reference measured in the same run, minutes apart: seconds alone say little on a shared
machine. Within a round the sides alternate; a figure is the median over rounds.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console

from . import workload
from .plain_side import PlainSide, filter_files, read_files
from .snapline_side import SnaplineSide

ROOT = Path(__file__).parent.parent.parent
UPSERTS, UPSERT_SHARE = 20, 100
COMMITS, COMMIT_ROWS = 500, 1000
TITLES = {
    "load": "bulk load",
    "upserts": "20 upserts",
    "upserts_compacting": "20 upserts, the writer compacts",
    "scan": "full scan, merged",
    "scan_2_columns": "scan of 2 of 8 columns",
    "lookup": "point lookup",
    "range": "1 % key range",
    "compaction": "full compaction",
    "scan_after": "full scan after it",
    "commit_first": "commit of 1000 rows, #5 to #25",
    "commit_last": "commit of 1000 rows, #480 to #500",
    "plan": "open and plan after 500 commits",
}
AIMS = {"load": 3.0, "upserts": 2.0, "scan": 1.6, "scan_2_columns": 2.5}
ALL = workload.COLUMNS.names
out = Console(stderr=True)


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = act()
    return time.perf_counter() - start, result


def median_of(act: Callable[[int], Any], times: int) -> float:
    return statistics.median(timed(lambda number=number: act(number))[0] for number in range(times))


def measure_round(directory: Path, base_count: int) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of one round: ours and plain Parquet's."""
    ours: dict[str, float] = {}
    plain: dict[str, float] = {}
    upsert_count = base_count // UPSERT_SHARE
    base = workload.base(base_count)
    changes = [workload.upsert(number, base_count, upsert_count) for number in range(UPSERTS)]
    side, reference = SnaplineSide(directory / "ours"), PlainSide(directory / "plain")
    plain["load"], _ = timed(lambda: reference.write(base))
    ours["load"], _ = timed(lambda: side.write(base))
    plain["upserts"] = ours["upserts"] = 0.0
    for rows in changes:
        plain["upserts"] += timed(lambda rows=rows: reference.write(rows))[0]
        ours["upserts"] += timed(lambda rows=rows: side.write(rows))[0]
    files = side.files()
    for key, columns in (("scan", ALL), ("scan_2_columns", ["id", "price"])):
        # The first pass fills the page cache for both.
        plain_seconds, our_seconds = [], []
        for _ in range(3):
            plain_seconds.append(timed(lambda columns=columns: read_files(files, columns))[0])
            seconds, rows = timed(lambda columns=columns: side.scan(columns))
            our_seconds.append(seconds)
            assert rows.num_rows == base_count + UPSERTS * (upsert_count - upsert_count // 2)
        plain[key], ours[key] = min(plain_seconds), min(our_seconds)
    ours["lookup"] = median_of(lambda number: side.lookup(number * 1000 + 7), 20)
    plain["lookup"] = timed(lambda: filter_files(files, ALL, 7, 8))[0]
    low, width = base_count // 2, base_count // 100
    ours["range"] = median_of(lambda _: side.key_range(low, low + width), 3)
    plain["range"] = timed(lambda: filter_files(files, ALL, low, low + width))[0]
    ours["compaction"], _ = timed(side.compact)
    plain["compaction"], _ = timed(lambda: reference.write(read_files(files, ALL)))
    files = side.files()
    plain["scan_after"] = min(timed(lambda: read_files(files, ALL))[0] for _ in range(3))
    ours["scan_after"] = min(timed(side.scan)[0] for _ in range(3))
    measure_small_commits(directory, ours, plain)
    compacting = SnaplineSide(directory / "compacting", write_only=False)
    compacting.write(base)
    ours["upserts_compacting"] = sum(timed(lambda rows=rows: compacting.write(rows))[0] for rows in changes)
    plain["upserts_compacting"] = plain["upserts"]
    ours["write_amplification"], ours["space_amplification"] = compacting.amplification()
    return ours, plain


def measure_small_commits(directory: Path, ours: dict[str, float], plain: dict[str, float]) -> None:
    side, reference = SnaplineSide(directory / "small", "small"), PlainSide(directory / "plain-small")
    our_seconds, plain_seconds = [], []
    for number in range(COMMITS):
        rows = workload.small_commit(number, COMMIT_ROWS)
        plain_seconds.append(timed(lambda rows=rows: reference.write(rows))[0])
        our_seconds.append(timed(lambda rows=rows: side.write(rows))[0])
    for key, part in (("commit_first", slice(5, 25)), ("commit_last", slice(-20, None))):
        ours[key], plain[key] = statistics.median(our_seconds[part]), statistics.median(plain_seconds[part])
    ours["plan"] = median_of(lambda _: side.plan(), 5)


def measure_pypaimon(directory: Path, base_count: int) -> dict[str, float]:
    python = ROOT / ".venv" / "pypaimon" / "bin" / "python"
    script = Path(__file__).with_name("pypaimon_side.py")
    numbers = (base_count, UPSERTS, base_count // UPSERT_SHARE, COMMITS, COMMIT_ROWS)
    done = subprocess.run(
        [str(python), str(script), str(directory), *map(str, numbers)], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def seconds_text(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def ratio_text(ours: float, other: float | None) -> str:
    return "–" if other is None else f"{ours / other:.3g}×"


def report(ours: dict[str, float], plain: dict[str, float], theirs: dict[str, float], base: int, rounds: int) -> str:
    lines = [
        "# Benchmarks",
        "",
        f"Measured on {date.today()} by `make benchmark` ({rounds} rounds, median) on {os.cpu_count()} cores, "
        f"{platform.machine()}, Python {platform.python_version()}; local disk, warm page cache.",
        f"{base:,} rows × 8 columns (bigint key, int, two doubles, timestamp, two strings, date) in random key order, "
        f"primary key, {workload.BUCKETS} buckets; then {UPSERTS} upserts of {base // UPSERT_SHARE:,} rows, half of them "
        "updates. Nothing is compacted before the line that says so: scans merge all runs.",
        "",
        "Read the ratios: the machine is shared, and a second there is not a second elsewhere. Below 1× is faster than "
        "the reference. The plain Parquet reference writes the same rows with the same compression, and reads the very "
        "files of the table; it sorts, hashes, merges and commits nothing.",
        "",
        "| workload | here | plain Parquet | ratio | aim | pypaimon 2.1 | ratio |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for key, title in TITLES.items():
        aim = f"≤ {AIMS[key]}×" if key in AIMS else ""
        lines.append(
            f"| {title} | {seconds_text(ours[key])} | {seconds_text(plain.get(key))} "
            f"| {ratio_text(ours[key], plain.get(key))} | {aim} | {seconds_text(theirs.get(key))} "
            f"| {ratio_text(ours[key], theirs.get(key))} |"
        )
    growth = ours["commit_last"] / ours["commit_first"]
    lines += [
        "",
        f"A commit after 500 commits costs {growth:.2f}× what it costs at the beginning.",
        "",
        f"With compaction by the writer, load and upserts write {ours['write_amplification']:.2f} bytes for each byte of "
        f"theirs, and the table takes {ours['space_amplification']:.2f}× the space that it takes once it is compacted.",
        "",
        "Lookups and ranges open the table anew each time; plain Parquet has no index and no statistics to go by here, so "
        "it reads everything.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-pypaimon", action="store_true")
    parser.add_argument("--print", action="store_true", help="print instead of writing docs/benchmarks.md")
    given = parser.parse_args()
    found = []
    for number in range(given.rounds):
        with tempfile.TemporaryDirectory(prefix="snapline-bench-") as directory:
            out.print(f"round {number + 1} of {given.rounds}")
            found.append(measure_round(Path(directory), given.rows))
            out.print({key: round(found[-1][0][key] / one, 2) for key, one in found[-1][1].items()})
    theirs: dict[str, float] = {}
    if not given.without_pypaimon:
        with tempfile.TemporaryDirectory(prefix="snapline-bench-") as directory:
            out.print("pypaimon, one round")
            theirs = measure_pypaimon(Path(directory), given.rows)
    ours = {key: statistics.median(one[0][key] for one in found) for key in found[0][0]}
    plain = {key: statistics.median(one[1][key] for one in found) for key in found[0][1]}
    text = report(ours, plain, theirs, given.rows, given.rounds)
    if given.print:
        sys.stdout.write(text)
    else:
        (ROOT / "docs" / "benchmarks.md").write_text(text)
        out.print("wrote docs/benchmarks.md")


if __name__ == "__main__":
    main()
