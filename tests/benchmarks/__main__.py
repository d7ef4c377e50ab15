"""Measure this store against plain Parquet and against others of its kind, and write docs/benchmarks.md.

    python -m tests.benchmarks [--rows 5000000] [--rounds 3] [--sides plain,snapline,…] [--print]

Each side runs in a process, and where its dependencies clash in an environment, of its own; the sides alternate within a
round. Every figure is a ratio to one measured in the same run: seconds alone say little on a shared machine. A figure is
the median over rounds; sides other than plain Parquet and this store run in the first round only. Every answer is checked.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parent.parent.parent
SCRIPT = Path(__file__).with_name("measure_side.py")
# Environments by side; `.` is that of this process.
SIDES = {
    "plain": ".",
    "snapline": ".",
    "pypaimon": "pypaimon",
    "pypaimon_rust": "pypaimon",
    "delta": "peers",
    "iceberg": "peers",
    "lance": "peers",
}
NAMES = {
    "plain": "plain Parquet",
    "snapline": "here",
    "pypaimon": "pypaimon 2.1",
    "pypaimon_rust": "pypaimon-rust",
    "delta": "delta-rs",
    "iceberg": "PyIceberg",
    "lance": "Lance",
}
EVERY_ROUND = ("plain", "snapline")
# Title, aim as a ratio to plain Parquet or in seconds or bytes.
FIGURES = {
    "load": ("W1 bulk load", ""),
    "upserts": ("W2 20 upserts", "≤ 1.5× Parquet"),
    "scan": ("W3 full scan, merged", "≤ 1.2× Parquet"),
    "scan_2_columns": ("W3 2 of 8 columns", "≤ 1.8× Parquet"),
    "scan_text": ("W3 full scan, key of two texts", "≤ 2.5× Parquet"),
    "lookup": ("W4 point look-up", "≤ 70 ms"),
    "range": ("W4 1 % key range", ""),
    "compaction": ("W5 full compaction", "≤ 3 s"),
    "scan_after": ("W5 full scan after it", "≤ 1× Parquet"),
    "commits": ("W6 500 commits to 50 partitions", ""),
    "commit_first": ("W6 commit #5 to #25", ""),
    "commit_last": ("W6 commit #480 to #500", "as #5"),
    "metadata_bytes": ("W6 metadata", "≤ 1.2 MB"),
    "plan": ("W6 open and plan", "< 5 ms"),
    "plan_1_part": ("W6 plan 1 of 50 partitions", ""),
    "scan_1_part": ("W6 scan 1 of 50 partitions", ""),
    "append": ("W7 10 appends", ""),
    "append_scan": ("W7 full scan", ""),
    "append_1_part": ("W7 scan 1 of 10 partitions", ""),
    "scan_at_middle": ("W8 scan at the middle snapshot", ""),
    "tag": ("W8 create a tag", ""),
    "branch": ("W8 create a branch", ""),
    "list_snapshots": ("W9 list 500 snapshots", "< 25 ms"),
    "list_files": ("W9 list their files", "< 25 ms"),
}
out = Console(stderr=True)


def measure(side: str, rows: int) -> dict[str, float]:
    """The figures of one side. Raises CalledProcessError if an answer was wrong."""
    environment = SIDES[side]
    python = sys.executable if environment == "." else str(ROOT / ".venv" / environment / "bin" / "python")
    with tempfile.TemporaryDirectory(prefix="snapline-bench-") as directory:
        command = [python, str(SCRIPT), side, directory, str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def figure_text(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    if key.endswith("_bytes"):
        return f"{value / 1e6:.2f} MB"
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def report(figures_by_side: dict[str, dict[str, float]], rows: int, rounds: int) -> str:
    others = [side for side in figures_by_side if side != "snapline"]
    lines = [
        "# Benchmarks",
        "",
        f"Measured on {date.today()} by `make benchmark` ({rounds} rounds of this store and plain Parquet, median; one of the "
        f"others) on {os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}; local disk, warm page "
        "cache.",
        f"W1–W5: {rows:,} rows × 8 columns (bigint key, int, two doubles, timestamp, two strings, date) in random key order, "
        f"4 buckets; 20 upserts of {rows // 100:,} rows, half of them updates. Nothing is compacted before W5 (`write-only`), "
        "so scans merge 21 runs in each bucket. W6, W8, W9: 500 commits of 1,000 rows to 50 partitions. "
        f"W7: {rows:,} rows in 10 appends to 10 partitions. With a key of two texts: {rows // 5:,} rows, 20 upserts of "
        f"{rows // 500:,}.",
        "",
        "The seconds are this store's; all other columns say how many times as long this store takes: below 1× it is faster. "
        "Plain Parquet sorts, hashes, merges and commits nothing and keeps no history; its look-ups read everything. Delta, "
        "Iceberg and Lance append the first load as it is, without looking for repeated keys, and rewrite at each upsert.",
        "",
        f"| workload | here | aim | {' | '.join(NAMES[side] for side in others)} |",
        f"|---|---:|---:|{'---:|' * len(others)}",
    ]
    ours = figures_by_side["snapline"]
    for key, (title, aim) in FIGURES.items():
        ratios = []
        for side in others:
            theirs = figures_by_side[side].get(key)
            ratios.append("–" if not theirs or key not in ours else f"{ours[key] / theirs:.3g}×")
        lines.append(f"| {title} | {figure_text(key, ours.get(key))} | {aim} | {' | '.join(ratios)} |")
    if "write_amplification" in ours:
        lines += [
            "",
            f"With compaction by the writer (the default) the 20 upserts take {ours['upserts_compacting']:.2f} s; load and "
            f"upserts write {ours['write_amplification']:.2f} bytes for each byte of theirs, and the table takes "
            f"{ours['space_amplification']:.2f}× the space that it takes once it is compacted.",
        ]
    lines += [
        "",
        f"A commit after 500 costs {ours['commit_last'] / ours['commit_first']:.2f}× what it costs at first.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", default=",".join(SIDES), help="which sides, separated by commas")
    parser.add_argument("--print", action="store_true", help="print instead of writing docs/benchmarks.md")
    given = parser.parse_args()
    sides = given.sides.split(",")
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(given.rounds):
        for side in sides:
            if number == 0 or side in EVERY_ROUND:
                out.print(f"round {number + 1} of {given.rounds}: {NAMES[side]}")
                runs[side].append(measure(side, given.rows))
    figures_by_side = {
        side: {
            key: statistics.median(run[key] for run in done if key in run)
            for key in dict.fromkeys(key for run in done for key in run)
        }
        for side, done in runs.items()
    }
    text = report(figures_by_side, given.rows, given.rounds)
    if given.print:
        sys.stdout.write(text)
    else:
        page = ROOT / "docs" / "benchmarks.md"
        # What was measured on Spark stays until it is measured again.
        _, heading, rest = page.read_text().partition("\n## A long history\n")
        page.write_text(text + heading + rest)
        out.print("wrote docs/benchmarks.md")


if __name__ == "__main__":
    main()
