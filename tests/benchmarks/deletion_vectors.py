"""Measure a table with deletion vectors against the same one merged on reading, and against plain Parquet.

    python -m tests.benchmarks.deletion_vectors [--rows 1000000] [--rounds 3] [--cpu]

W2: a bulk load and 20 upserts of 1 % each, half of the keys of which exist. Then a full scan, a look-up of one key, and a range
of 1 % of the keys. The two tables and the plain files are measured in turn in each round; a figure is the median over rounds.
Every answer is checked. `small`: row groups of 16,384 rows, which
is what a look-up reads at the least. Plain Parquet: the same rows in as many files as there are buckets, sorted by key.
`scan files`: the files of the table with deletion vectors as Parquet alone, with the rows that are marked: the limit of its scan.
`--cpu` counts the time of processors, all threads together, instead of the clock's: for machines that others use as well.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage import Catalog, Table
from tests.benchmarks import workload

UPSERTS = 20
_clock = time.perf_counter
_KINDS = {
    "marked": {"deletion-vectors.enabled": True},
    "marked, small": {"deletion-vectors.enabled": True, "parquet.row-group.rows": 16384},
    "merged": {"write-only": True},
}


def _table_name(kind: str) -> str:
    return kind.replace(", ", "_")


def timed(act: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    begun = _clock()
    act()
    return _clock() - begun


def build(directory: Path, name: str, count: int) -> tuple[Table, float, float]:
    """A table after the load and the upserts, and the seconds that both took."""
    options = {"bucket": workload.BUCKETS, **_KINDS[name]}
    table = Catalog(str(directory)).create_table(
        f"bench.{_table_name(name)}", workload.COLUMNS, primary_key=["id"], options=options
    )
    load = timed(lambda: table.write(workload.base(count)))
    changes = [workload.upsert(number, count, count // 100) for number in range(UPSERTS)]
    return table, load, sum(timed(lambda rows=rows: table.write(rows)) for rows in changes)


def plain_files(directory: Path, rows: pa.Table) -> list[str]:
    """The rows as plain Parquet files, sorted by key, one for each bucket."""
    rows = rows.sort_by("id")
    share = -(-rows.num_rows // workload.BUCKETS)
    paths = []
    for number in range(workload.BUCKETS):
        path = str(directory / f"plain-{number}.parquet")
        pq.write_table(
            rows.slice(number * share, share), path, compression="zstd", compression_level=1, row_group_size=131072
        )
        paths.append(path)
    return paths


def figures(directory: Path, count: int) -> dict[str, float]:
    """Seconds of one round, by name."""
    seconds: dict[str, float] = {}
    tables = {}
    for name in _KINDS:
        tables[name], seconds[f"load {name}"], seconds[f"upserts {name}"] = build(directory, name, count)
    rows = tables["merged"].to_arrow()
    paths = plain_files(directory, rows)
    marked = tables["marked"]
    assert marked.count() == rows.num_rows == marked.to_arrow().num_rows
    wanted = [int(chosen_id) for chosen_id in np.random.default_rng(5).choice(rows["id"].to_numpy(), 15)]
    seconds["scan plain"] = min(timed(lambda: pq.ParquetDataset(paths).read(use_threads=True)) for _ in range(3))
    live = marked.system_table("files")["file_path"].to_pylist()
    columns = rows.schema.names
    seconds["scan files"] = min(timed(lambda: pq.ParquetDataset(live).read(columns)) for _ in range(3))
    for name in tables:
        opened = Catalog(str(directory)).table(f"bench.{_table_name(name)}")
        seconds[f"scan {name}"] = min(timed(opened.to_arrow) for _ in range(3))
        times = []
        for key in wanted:
            begun = _clock()
            answer = Catalog(str(directory)).table(f"bench.{_table_name(name)}").to_arrow(where=f"id = {key}")
            times.append(_clock() - begun)
            assert answer.num_rows == 1
        seconds[f"look-up {name}"] = statistics.median(times)
        low = count // 2
        where = f"id >= {low} AND id < {low + count // 100}"
        seconds[f"range {name}"] = min(timed(partial(opened.to_arrow, where=where)) for _ in range(3))
    seconds["compact marked"] = timed(marked.compact)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args()
    if given.cpu:
        globals()["_clock"] = time.process_time
    every: list[dict[str, float]] = []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory(prefix="snapline-bench-") as directory:
            every.append(figures(Path(directory), given.rows))
    for name in every[0]:
        median = statistics.median(round_seconds[name] for round_seconds in every)
        share = statistics.median(round_seconds[name] / round_seconds["scan plain"] for round_seconds in every)
        sys.stdout.write(
            f"{name:22} {median * 1000:10.1f} ms" + (f"  {share:5.2f}x plain\n" if "scan" in name else "\n")
        )


if __name__ == "__main__":
    main()
