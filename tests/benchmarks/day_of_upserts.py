"""A day of upserts: a table that is upserted again and again, and read at intervals, on Spark and in Python without it.

    python -m tests.benchmarks.day_of_upserts [--rows 2000000] [--upserts 200] [--each 14000] [--rounds 5] [--engine spark|python]

Compaction is by its documented default. Beside it, measured in the same run, in turns with it: the same rows in plain Parquet
files, read by the same engine, which is the limit of what decoding allows. Prints how long commits take (p50 and p99), how long
a scan takes at the beginning and at the end, as ratios to each other and to plain Parquet, how many bytes are written for each
byte that is given, and the largest resident set. Answers are checked against a dictionary of the keys.
"""

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track

from resources import Settings
from storage import Catalog, Table

out = Console()
SEED = 20_261_130


def rows_of(keys: np.ndarray, version: int) -> pa.Table:
    """A row for each key, whose values say which upsert wrote it."""
    made = np.random.default_rng(version)
    return pa.table(
        {
            "id": keys,
            "version": np.full(len(keys), version, np.int32),
            "price": made.random(len(keys)),
            "item": pa.array(made.integers(0, 1000, len(keys))).cast(pa.string()),
        }
    )


def bytes_below(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


class Scans:
    """The same query of the table and of its rows in plain Parquet, by one engine."""

    def __init__(self, engine: str, home: Path) -> None:
        self._plain = home / "plain.parquet"
        self._warehouse = str(home / "warehouse")
        self._spark = None
        if engine == "spark":
            from resources.spark_session import start_spark

            self._spark = start_spark(Settings(home, str(home / "warehouse"), f"jdbc:sqlite:{home / 'lineage.db'}"))

    def keep(self, rows: pa.Table) -> None:
        """Write the rows that the table has now as plain Parquet."""
        pq.write_table(rows, self._plain, compression="zstd")

    def table(self, table: Table) -> tuple[int, int]:
        """Rows, and the sum of their versions."""
        if self._spark is None:
            return _sums(table.to_arrow(columns=["version", "price", "item"]))
        from storage.engines.spark_reader import read_scan

        return self._of_frame(read_scan(self._spark, table, table.scan(), self._warehouse))

    def plain(self) -> tuple[int, int]:
        """The same of plain Parquet."""
        if self._spark is None:
            return _sums(pq.read_table(self._plain, columns=["version", "price", "item"]))
        return self._of_frame(self._spark.read.parquet(str(self._plain)))

    def _of_frame(self, frame) -> tuple[int, int]:  # type: ignore[no-untyped-def]
        row = frame.selectExpr("count(item) AS n", "sum(version) AS v", "sum(price) AS p").first()
        return int(row["n"]), int(row["v"])


def _sums(rows: pa.Table) -> tuple[int, int]:
    return rows.num_rows, int(pc.sum(rows.column("version")).as_py())


def measured(scans: Scans, table: Table, versions: np.ndarray, rounds: int) -> tuple[float, float]:
    """Median seconds of a scan of the table and of plain Parquet, in turns. Raises AssertionError for a wrong answer."""
    scans.keep(table.to_arrow())
    wanted = len(versions), int(versions.sum())
    assert scans.table(table) == wanted == scans.plain()
    pairs = [(seconds(lambda: scans.table(table)), seconds(scans.plain)) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--upserts", type=int, default=200)
    parser.add_argument("--each", type=int, default=14_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engine", choices=["spark", "python"], default="spark")
    asked = parser.parse_args()
    chosen = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory(prefix="snapline-upserts-") as directory:
        home = Path(directory)
        catalog = Catalog(str(home / "warehouse"))
        table = catalog.create_table(
            "a.day", rows_of(np.arange(1), 0).schema, primary_key=["id"], options={"bucket": 4}
        )
        versions = np.zeros(asked.rows, np.int64)
        first = rows_of(np.arange(asked.rows), 0)
        given = first.nbytes
        table.write(first)
        table.compact()
        scans = Scans(asked.engine, home)
        begin, plain_begin = measured(scans, table, versions, asked.rounds)
        before = bytes_below(home / "warehouse")
        commits = []
        for number in track(range(1, asked.upserts + 1), "upserts", console=Console(stderr=True), transient=True):
            keys = chosen.choice(asked.rows, asked.each, replace=False)
            rows = rows_of(keys, number)
            commits.append(seconds(lambda rows=rows: table.write(rows)))
            versions[keys] = number
            given += rows.nbytes
        written = bytes_below(home / "warehouse") - before
        end, plain_end = measured(scans, table, versions, asked.rounds)
        table.compact()
        compacted, _ = measured(scans, table, versions, asked.rounds)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        p50, p99 = (float(np.percentile(commits, share)) for share in (50, 99))
        out.print(
            f"{asked.upserts} upserts of {asked.each:,} rows into {asked.rows:,}, on {asked.engine}", highlight=False
        )
        lines = [
            f"commit p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms ({p99 / p50:.1f}×)",
            f"scan at the beginning {begin:.2f} s ({begin / plain_begin:.2f}× plain Parquet)",
            f"scan at the end {end:.2f} s ({end / plain_end:.2f}× plain Parquet, {end / begin:.2f}× the beginning)",
            f"scan of it compacted {compacted:.2f} s: at the end {end / compacted:.2f}× that",
            f"bytes on disk for each byte upserted {written / max(1, given - first.nbytes):.2f} (in memory, uncompressed)",
            f"largest resident set of this process {memory:.0f} MiB",
        ]
        for line in lines:
            out.print(line, highlight=False)


if __name__ == "__main__":
    main()
