"""Write, scan and compact many rows on Spark, against Spark's own Parquet, and how much memory its Python workers take.

    python -m tests.benchmarks.spark_scale [--rows 20000000]

Prints one line for each figure. Memory is the largest resident set that any Python worker had, looked at ten times a second.
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from resources import Settings
from resources.spark_session import start_spark
from storage import Catalog
from storage.engines.spark_jobs import compact_on_spark
from storage.engines.spark_reader import read_scan
from storage.engines.spark_writer import write_frame

BUCKETS = 8
out = Console()


class WorkerMemory:
    """Watches the Python workers of Spark."""

    def __init__(self) -> None:
        self.largest_bytes = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "WorkerMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._stopped.wait(0.1):
            for process in Path("/proc").iterdir():
                if not process.name.isdigit():
                    continue
                try:
                    if b"pyspark" in (process / "cmdline").read_bytes() and int(process.name) != os.getpid():
                        command = (process / "comm").read_text()
                        resident = int((process / "statm").read_text().split()[1]) * page
                        if command.startswith("python"):
                            self.largest_bytes = max(self.largest_bytes, resident)
                except OSError:
                    continue


def timed(what: str, act: Callable[[], Any]) -> float:
    start = time.perf_counter()
    with WorkerMemory() as memory:
        act()
    seconds = time.perf_counter() - start
    out.print(f"{what}: {seconds:.1f} s, largest Python worker {memory.largest_bytes / 2**20:.0f} MiB", highlight=False)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="snapline-spark-") as directory:
        home = Path(directory)
        settings = Settings(home, str(home / "warehouse"), f"jdbc:sqlite:{home / 'lineage.db'}")
        spark = start_spark(settings)
        frame = spark.range(rows).selectExpr(
            "xxhash64(id) AS id",
            "cast(id % 1000000 AS int) AS number",
            "rand(1) * 100 AS price",
            "randn(2) AS weight",
            "timestamp_micros(1700000000000000 + id) AS at",
            "concat('kind ', cast(id % 20 AS string)) AS kind",
            "concat('name ', cast(id AS string)) AS name",
            "date_add(DATE'2022-01-01', cast(id % 1000 AS int)) AS day",
        )
        schema = spark.createDataFrame([], frame.schema).toArrow().schema
        table = Catalog(settings.warehouse).create_table(
            "bench.t", schema, primary_key=["id"], options={"bucket": BUCKETS, "write-only": True}
        )
        plain = str(home / "plain")
        parquet = timed(
            "Spark's Parquet, shuffled and sorted by key",
            lambda: (
                frame.repartition(BUCKETS, "id")
                .sortWithinPartitions("id")
                .write.option("compression", "zstd")
                .parquet(plain)
            ),
        )
        ours = timed("write", lambda: write_frame(frame, table, settings.warehouse))
        out.print(f"write ratio: {ours / parquet:.2f}×")

        def total(read: Callable[[], Any]) -> None:
            totals = (
                read()
                .selectExpr("count(*)", "sum(number)", "max(name)", "sum(weight)", "max(at)", "count(kind)")
                .collect()
            )
            assert totals[0][0] == rows, totals

        def scan() -> Any:
            return read_scan(spark, table, table.scan(), settings.warehouse)

        total(scan)
        reference = min(
            timed("Spark's Parquet scan", lambda: total(lambda: spark.read.parquet(plain))) for _ in range(3)
        )
        seconds = min(timed("scan", lambda: total(scan)) for _ in range(3))
        out.print(f"scan ratio: {seconds / reference:.2f}×")
        change = frame.limit(rows // 20)
        timed("upsert of a twentieth", lambda: write_frame(change, table, settings.warehouse))
        merged = min(timed("merged scan", lambda: total(scan)) for _ in range(2))
        out.print(f"merged scan ratio: {merged / reference:.2f}×")
        timed("compaction", lambda: compact_on_spark(spark, table))
        timed("scan after it", lambda: total(scan))


if __name__ == "__main__":
    main()
