"""What the platform itself costs for each asset of a run: pin, commit, lineage, metadata, events.

    python -m tests.benchmarks.assets [--assets 20]

Materializes a chain of assets over tables, each made from the one before, and a chain of plain Dagster assets that write the
same rows as Parquet files; no Spark in either. Prints the difference for each asset.
"""

import argparse
import logging
import os
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from resources import SparkResource, TablesResource, table_asset

ROUNDS = 5
ROWS = 1000
out = Console()


def rows() -> pa.Table:
    return pa.table({"id": list(range(ROWS)), "value": [float(number) for number in range(ROWS)]})


def over_tables(count: int) -> list[Any]:
    """A chain of table assets."""
    made: list[Any] = []
    for number in range(count):
        name = f"chain.t{number}"
        if number:

            def follow(before: pa.Table) -> pa.Table:
                return before

            made.append(
                table_asset(
                    name,
                    inputs={"before": f"chain.t{number - 1}"},
                    primary_key=["id"],
                    code_version="1",
                    description=name,
                )(follow)
            )
        else:
            made.append(table_asset(name, primary_key=["id"], code_version="1", description=name)(rows))
    return made


def over_files(count: int, directory: Path) -> list[Any]:
    """The same with plain assets and files."""

    def plain_asset(number: int) -> Any:
        @dg.asset(key=["plain", f"t{number}"], deps=[["plain", f"t{number - 1}"]] if number else [], code_version="1")
        def plain() -> None:
            upstream_rows = pq.read_table(directory / f"{number - 1}.parquet") if number else rows()
            pq.write_table(upstream_rows, directory / f"{number}.parquet")

        return plain

    return [plain_asset(number) for number in range(count)]


def measure(assets: list[Any], instance: dg.DagsterInstance, resources: dict[str, Any]) -> float:
    """Seconds of a run: the median, after one that is not counted."""
    times = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert dg.materialize(assets, instance=instance, resources=resources).success
        times.append(time.perf_counter() - start)
    return median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--assets", type=int, default=20)
    count = parser.parse_args().assets
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        os.environ["SNAPLINE_HOME"] = str(root / "home")
        (root / "dagster").mkdir()
        (root / "dagster" / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
        (root / "files").mkdir()
        spark = SparkResource()
        with dg.DagsterInstance.from_config(str(root / "dagster")) as instance:
            plain = measure(over_files(count, root / "files"), instance, {})
            tables = TablesResource(spark=spark)
            ours = measure(over_tables(count), instance, {"tables": tables, "spark": spark})
    out.print(f"{count} plain assets: {plain / count * 1000:.0f} ms each")
    out.print(f"{count} table assets: {ours / count * 1000:.0f} ms each ({ours / plain:.1f}x)")
    out.print(f"the platform's own: {(ours - plain) / count * 1000:.0f} ms for each asset")


if __name__ == "__main__":
    main()
