"""This store, under measurement."""

from pathlib import Path

import pyarrow as pa

from storage import Catalog

from .workload import BUCKETS, COLUMNS


class SnaplineSide:
    """A table with a primary key in a directory."""

    def __init__(self, directory: Path, name: str = "t") -> None:
        self._catalog = Catalog(str(directory))
        self._name = f"bench.{name}"
        self.table = self._catalog.create_table(self._name, COLUMNS, primary_key=["id"], options={"bucket": BUCKETS})

    def write(self, rows: pa.Table) -> None:
        self.table.write(rows)

    def scan(self, columns: list[str] | None = None) -> pa.Table:
        return self._catalog.table(self._name).to_arrow(columns=columns)

    def lookup(self, key: int) -> pa.Table:
        return self._catalog.table(self._name).to_arrow(where=f"id = {key}")

    def key_range(self, low: int, high: int) -> pa.Table:
        return self._catalog.table(self._name).to_arrow(where=f"id >= {low} AND id < {high}")

    def plan(self) -> int:
        return len(self._catalog.table(self._name).scan().splits)

    def files(self) -> list[str]:
        return [path for split in self.table.scan().splits for path in split.file_paths]
