"""pypaimon."""

from typing import Any

import pyarrow as pa
import workload
from pypaimon import CatalogFactory, Schema
from side import Side


class PyPaimon(Side):
    options: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self._catalog = CatalogFactory.create({"warehouse": directory})
        self._catalog.create_database("bench", True)

    def _make(self, name: str, columns: pa.Schema, keys: list[str], parts: list[str], bucket: int) -> None:
        options = {"file.compression": "zstd", **self.options} | ({"bucket": str(bucket)} if bucket > 0 else {})
        schema = Schema.from_pyarrow_schema(columns, primary_keys=keys, partition_keys=parts, options=options)
        self._catalog.create_table(f"bench.{name}", schema, False)

    def _write(self, name: str, rows: pa.Table) -> None:
        builder = self._catalog.get_table(f"bench.{name}").new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(rows)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()

    def _builder(self, name: str, where: dict[str, tuple[int, int]] | None = None, **options: str) -> Any:
        table = self._catalog.get_table(f"bench.{name}")
        builder = (table.copy(options) if options else table).new_read_builder()
        for column, (low, high) in (where or {}).items():
            predicates = builder.new_predicate_builder()
            chosen = (
                predicates.equal(column, low)
                if high == low + 1
                else predicates.and_predicates(
                    [predicates.greater_or_equal(column, low), predicates.less_than(column, high)]
                )
            )
            builder = builder.with_filter(chosen)
        return builder

    def _read(self, builder: Any) -> pa.Table:
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    def load(self, rows: pa.Table) -> None:
        self._make("main", workload.COLUMNS, ["id"], [], workload.BUCKETS)
        self._write("main", rows)

    def upsert(self, rows: pa.Table) -> None:
        self._write("main", rows)

    def scan(self, columns: list[str] | None = None) -> pa.Table:
        builder = self._builder("main")
        return self._read(builder.with_projection(columns) if columns else builder)

    def lookup(self, low: int, high: int) -> pa.Table:
        return self._read(self._builder("main", {"id": (low, high)}))

    def make_small(self) -> None:
        self._make("small", workload.PARTED, ["part", "id"], ["part"], 1)

    def commit_small(self, rows: pa.Table) -> None:
        self._write("small", rows)

    def plan_small(self, part: int | None = None) -> int:
        where = None if part is None else {"part": (part, part + 1)}
        return len(self._builder("small", where).new_scan().plan().splits())

    def scan_small(self, part: int | None = None) -> pa.Table:
        return self._read(self._builder("small", None if part is None else {"part": (part, part + 1)}))

    def scan_small_at(self, commit: int) -> pa.Table:
        return self._read(self._builder("small", **{"scan.snapshot-id": str(commit)}))

    def tag_small(self, name: str) -> None:
        self._catalog.get_table("bench.small").create_tag(name)

    def branch_small(self, name: str) -> None:
        self._catalog.get_table("bench.small").branch_manager().create_branch(name)

    def snapshots_small(self) -> int:
        builder = self._catalog.get_table("bench.small$snapshots").new_read_builder()
        return self._read(builder).num_rows

    def files_small(self) -> int:
        builder = self._catalog.get_table("bench.small$files").new_read_builder()
        return self._read(builder).num_rows

    def make_appended(self) -> None:
        self._make("appended", workload.PARTED, [], ["part"], 0)

    def append(self, rows: pa.Table) -> None:
        self._write("appended", rows)

    def scan_appended(self, part: int | None = None) -> pa.Table:
        return self._read(self._builder("appended", None if part is None else {"part": (part, part + 1)}))


side = PyPaimon
