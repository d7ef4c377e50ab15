"""What checksums cost: the same rows written and read with those of pages, footers and files, and without, in one run.

    python -m tests.benchmarks.checksums [--rows 2000000]

Prints a ratio for each figure: with checksums, divided by without. Rounds of both follow one another.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from storage import Catalog, Table
from storage.engines.duckdb_views import add_scan
from storage.format import avro, orc_file, parquet_file, seal
from storage.metadata import manifest
from storage.read.split import Split

ROUNDS = 9
out = Console()


@contextmanager
def without_checksums() -> Iterator[None]:
    """Neither write nor look at any checksum in data files and manifests."""
    writer, file = pq.ParquetWriter, pq.ParquetFile

    def plain_writer(*given: Any, **options: Any) -> Any:
        return writer(*given, **{**options, "write_page_checksum": False})

    def plain_file(*given: Any, **options: Any) -> Any:
        return file(*given, **{**options, "page_checksum_verification": False})

    class Unsealed(seal.Sealing):
        def write(self, data: Any) -> int:
            self._position += len(data)
            self._stream.write(data)
            return len(data)

        def finish_parquet(self) -> int:
            return self._position

        finish_orc = finish_parquet

    def nothing(*_: Any, **__: Any) -> None: ...

    with (
        patch.object(pq, "ParquetWriter", plain_writer),
        patch.object(pq, "ParquetFile", plain_file),
        patch("storage.format.data_file.Sealing", Unsealed),
        patch.object(parquet_file, "check_parquet_end", nothing),
        patch.object(parquet_file, "check_parquet_rows", nothing),
        patch.object(orc_file, "check_orc", nothing),
        patch.object(avro, "check_avro", nothing),
        patch.object(Split, "check_files", nothing),
    ):
        yield


def rows(count: int) -> pa.Table:
    chosen = np.random.default_rng(1)
    return pa.table(
        {
            "id": np.arange(count),
            "number": chosen.integers(0, 1 << 40, count),
            "price": chosen.random(count),
            "text": pa.array([f"text {number}" for number in chosen.integers(0, count, count)]),
            "kind": pa.array(["a", "b", "c"]).take(pa.array(chosen.integers(0, 3, count))),
        }
    )


def measure(what: str, act: Callable[[], object]) -> None:
    """Print the ratio of the medians of both ways, whose rounds take turns."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(ROUNDS):
        for checked in (True, False):
            manifest.forget()
            start = time.process_time()
            if checked:
                act()
            else:
                with without_checksums():
                    act()
            times[checked].append(time.process_time() - start)
    with_, without = median(times[True]), median(times[False])
    out.print(f"{what}: {with_ / without:.2f} ({with_ * 1000:.1f} ms of CPU with, {without * 1000:.1f} ms without)")


def by_duckdb(table: Table, query: str) -> object:
    connection = duckdb.connect()
    add_scan(connection, "a", "t", table.scan())
    return connection.sql(query).to_arrow_table()


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--rows", type=int, default=1_000_000)
    count = given.parse_args().rows
    content = rows(count)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").exists() else None) as directory:
        catalog = Catalog(directory)
        for file_format in ("parquet", "orc"):
            options = {"bucket": 1, "file.format": file_format, "write-only": True}
            name = f"a.{file_format}"
            table = catalog.create_table(name, content.schema, primary_key=["id"], options=options)
            plain = catalog.create_table(f"{name}_plain", content.schema, options={"file.format": file_format})

            def write(name: str = name) -> None:
                catalog.drop_table(f"{name}_new", if_exists=True)
                catalog.create_table_like(f"{name}_new", name).write(content)

            measure(f"{file_format}: write {count} rows", write)
            table.write(content)
            plain.write(content)
            measure(f"{file_format}: scan {count} rows", lambda table=plain: table.to_arrow())
            measure(f"{file_format}: scan one column", lambda table=plain: table.to_arrow(columns=["number"]))
            table.write(content.slice(count // 2, count // 4))
            measure(f"{file_format}: scan with a merge", lambda table=table: table.to_arrow())
            if file_format == "parquet":
                measure(
                    "parquet: DuckDB, every column",
                    lambda table=plain: by_duckdb(table, "SELECT max(COLUMNS(*)) FROM a.t"),
                )
                measure(
                    "parquet: DuckDB, one column", lambda table=plain: by_duckdb(table, "SELECT max(number) FROM a.t")
                )
        small = catalog.create_table(
            "a.small", content.schema, primary_key=["id"], options={"bucket": 1, "write-only": True}
        )
        measure("parquet: 20 commits of 10 rows", lambda: [small.write(content.slice(0, 10)) for _ in range(20)])
        many = catalog.create_table_like("a.many", "a.small")
        for _ in range(20):
            many.write(content.slice(0, 10))
        measure("parquet: scan of 20 small files", lambda: many.to_arrow())


if __name__ == "__main__":
    main()
