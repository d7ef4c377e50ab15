"""A selective filter on a column without order, with each file index and without: files read, time, what the index costs.

    python -m tests.benchmarks.file_indexes [--files 20] [--rows 200000] [--rounds 5]

Prints a table. Each file holds the numbers of its own share of all customers, at random places; a condition asks for the rows
of one customer. Times are medians of reads of a table that is open, in one process.
"""

import argparse
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa
from rich.console import Console

from storage import Catalog, Table

SCHEMA = pa.schema([("customer", pa.int64()), ("name", pa.string()), ("amount", pa.float64()), ("note", pa.string())])
KINDS = ("none", "bloom-filter", "bitmap", "range-bitmap", "bsi")
CONDITIONS = {
    "customer = {0}": "one number",
    "name = 'customer {0}'": "one text",
    "customer IN ({0}, {1})": "two numbers",
}
out = Console()


def options_of(kind: str, customers: int) -> dict[str, str]:
    """The options of a table with an index of this kind on both columns, or on those that can have it."""
    if kind == "none":
        return {}
    columns = ["customer"] if kind == "bsi" else ["customer", "name"]
    options = {f"file-index.{kind}.columns": ",".join(columns)}
    if kind == "bloom-filter":
        options |= {f"file-index.{kind}.{name}.items": str(customers) for name in columns}
        options |= {f"file-index.{kind}.{name}.fpp": "0.01" for name in columns}
    return options


def written(catalog: Catalog, kind: str, file_count: int, row_count: int) -> tuple[Table, float]:
    """A table of so many files of so many rows, and how long it took to write it (s)."""
    customers = row_count // 20
    table = catalog.create_table(f"b.{kind.replace('-', '_')}", SCHEMA, options=options_of(kind, customers))
    began = time.perf_counter()
    for number in range(file_count):
        rng = np.random.default_rng(number)
        # Of all numbers every n-th: the smallest and the largest of each file say nothing.
        ids = rng.integers(0, customers, row_count) * file_count + number
        names = pa.array([f"customer {each}" for each in ids.tolist()])
        notes = pa.array(["some words that take up room"] * row_count)
        table.write(pa.table([pa.array(ids), names, pa.array(rng.random(row_count)), notes], schema=SCHEMA))
    return table, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a file")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    out.print("| index | write | index bytes of a file | condition | files read | time |", markup=False, soft_wrap=True)
    out.print("|---|---|---|---|---|---|", markup=False)
    with tempfile.TemporaryDirectory(prefix="snapline-bench-") as directory:
        catalog = Catalog(directory)
        answers: dict[str, set[int]] = {}
        for kind in KINDS:
            table, write_s = written(catalog, kind, given.files, given.rows)
            size = index_bytes(table)
            for condition, shown in CONDITIONS.items():
                where = condition.format(7 * given.files + 3, 11 * given.files + 5)
                times = []
                for _ in range(given.rounds):
                    began = time.perf_counter()
                    count = table.to_arrow(where=where).num_rows
                    times.append(time.perf_counter() - began)
                answers.setdefault(where, set()).add(count)
                files = sum(len(each.files) for split in table.scan(where=where).splits for each in split.sections)
                took = f"{statistics.median(times) * 1000:.0f} ms"
                out.print(
                    f"| {kind} | {write_s:.1f} s | {size:,} | {shown} | {files} of {given.files} | {took} |",
                    soft_wrap=True,
                )
        assert all(len(counts) == 1 for counts in answers.values()), answers


def index_bytes(table: Table) -> int:
    """Bytes of the indexes of a file, of the first one."""
    entry = table.scan().entries[0]
    directory = table.store.bucket_directory(entry.place)
    names = entry.file.extra_files
    beside = sum(len(table.store.file_io.read_bytes(f"{directory}/{name}")) for name in names)
    return beside + len(entry.file.embedded_index or b"")


if __name__ == "__main__":
    main()
