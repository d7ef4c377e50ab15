"""This store."""

import sys
import time
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[3]))
import workload
from side import Side

from storage import Catalog, Table


class Snapline(Side):
    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self._catalog = Catalog(directory)
        self._tables: dict[str, Table] = {}

    def _open(self, name: str) -> Table:
        return Catalog(self.directory).table(f"bench.{name}")

    def _make(self, name: str, schema: pa.Schema, **arguments: object) -> None:
        self._tables[name] = self._catalog.create_table(f"bench.{name}", schema, **arguments)  # type: ignore[arg-type]

    def load(self, rows: pa.Table) -> None:
        options = {"bucket": workload.BUCKETS, "write-only": True}
        self._make("main", workload.COLUMNS, primary_key=["id"], options=options)
        self.upsert(rows)

    def upsert(self, rows: pa.Table) -> None:
        self._tables["main"].write(rows)

    def scan(self, columns: list[str] | None = None) -> pa.Table:
        return self._open("main").to_arrow(columns=columns)

    def lookup(self, low: int, high: int) -> pa.Table:
        where = f"id = {low}" if high == low + 1 else f"id >= {low} AND id < {high}"
        return self._open("main").to_arrow(where=where)

    def compact(self) -> None:
        self._open("main").compact()

    def load_text_keyed(self, rows: pa.Table) -> None:
        options = {"bucket": workload.BUCKETS, "write-only": True}
        self._make("text", workload.TEXT_KEYED, primary_key=["region", "code"], options=options)
        self.upsert_text_keyed(rows)

    def upsert_text_keyed(self, rows: pa.Table) -> None:
        self._tables["text"].write(rows)

    def scan_text_keyed(self) -> pa.Table:
        return self._open("text").to_arrow()

    def upsert_compacting(self, base: pa.Table, changes: list[pa.Table]) -> dict[str, float]:
        self._make("compacting", workload.COLUMNS, primary_key=["id"], options={"bucket": workload.BUCKETS})
        table = self._tables["compacting"]
        table.write(base)
        start = time.perf_counter()
        for rows in changes:
            table.write(rows)
        seconds = time.perf_counter() - start
        written = {"APPEND": 0, "COMPACT": 0}
        for snapshot in table.store.snapshots.all():
            written[snapshot.commit_kind] += table.changes_of(snapshot).bytes_added
        kept = sum(table.system_table("files")["file_size_in_bytes"].to_pylist())
        table.compact()
        compacted = sum(table.system_table("files")["file_size_in_bytes"].to_pylist())
        return {
            "upserts_compacting": seconds,
            "write_amplification": sum(written.values()) / written["APPEND"],
            "space_amplification": kept / compacted,
        }

    def make_small(self) -> None:
        options = {"bucket": 1, "write-only": True}
        self._make("small", workload.PARTED, primary_key=["part", "id"], partition_by=["part"], options=options)

    def commit_small(self, rows: pa.Table) -> None:
        self._tables["small"].write(rows)

    def plan_small(self, part: int | None = None) -> int:
        return len(self._open("small").scan(where=None if part is None else f"part = {part}").splits)

    def scan_small(self, part: int | None = None) -> pa.Table:
        return self._open("small").to_arrow(where=None if part is None else f"part = {part}")

    def scan_small_at(self, commit: int) -> pa.Table:
        return self._open("small").to_arrow(version=commit)

    def tag_small(self, name: str) -> None:
        self._tables["small"].tags.create(name)

    def branch_small(self, name: str) -> None:
        self._tables["small"].branches.create(name)

    def snapshots_small(self) -> int:
        return self._open("small").system_table("snapshots").num_rows

    def files_small(self) -> int:
        return self._open("small").system_table("files").num_rows

    def make_appended(self) -> None:
        self._make("appended", workload.PARTED, partition_by=["part"])

    def append(self, rows: pa.Table) -> None:
        self._tables["appended"].write(rows)

    def scan_appended(self, part: int | None = None) -> pa.Table:
        return self._open("appended").to_arrow(where=None if part is None else f"part = {part}")


side = Snapline
