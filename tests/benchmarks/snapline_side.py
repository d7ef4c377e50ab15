"""This store, under measurement."""

from pathlib import Path

import pyarrow as pa

from storage import Catalog

from .workload import BUCKETS, COLUMNS


class SnaplineSide:
    """A table with a primary key in a directory. `write_only`: nothing is compacted unless `compact` is called."""

    def __init__(self, directory: Path, name: str = "t", *, write_only: bool = True) -> None:
        self._catalog = Catalog(str(directory))
        self._name = f"bench.{name}"
        self.table = self._catalog.create_table(
            self._name, COLUMNS, primary_key=["id"], options={"bucket": BUCKETS, "write-only": write_only}
        )

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

    def compact(self) -> None:
        self._catalog.table(self._name).compact()

    def amplification(self) -> tuple[float, float]:
        """Bytes written for each byte that users wrote, and bytes kept for each byte that is left after compaction."""
        table = self._catalog.table(self._name)
        written = {"APPEND": 0, "COMPACT": 0}
        for snapshot in table.store.snapshots.all():
            written[snapshot.commit_kind] += table.changes_of(snapshot).bytes_added
        kept = sum(table.system_table("files")["file_size_in_bytes"].to_pylist())
        table.compact()
        compacted = sum(table.system_table("files")["file_size_in_bytes"].to_pylist())
        return sum(written.values()) / written["APPEND"], kept / compacted

    def files(self) -> list[str]:
        return [path for split in self.table.scan().splits for path in split.file_paths]
