"""PyIceberg with an SQLite catalog."""

import os

import pyarrow as pa
import pyarrow.compute as pc
import workload
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, LessThan
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from side import Side


class Iceberg(Side):
    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        os.makedirs(directory, exist_ok=True)
        self._catalog().create_namespace("bench")

    def _catalog(self) -> SqlCatalog:
        return SqlCatalog("bench", uri=f"sqlite:///{self.directory}/catalog.db", warehouse=f"file://{self.directory}")

    def _table(self, name: str):
        return self._catalog().load_table(f"bench.{name}")

    def load(self, rows: pa.Table) -> None:
        self._catalog().create_table("bench.main", workload.COLUMNS).append(rows)

    def upsert(self, rows: pa.Table) -> None:
        # Replacing rows by key is the fastest upsert that it has.
        keys = rows["id"].filter(pc.less(rows["id"], pc.max(rows["id"]))).to_pylist()
        self._table("main").overwrite(rows, overwrite_filter=In("id", keys))

    def scan(self, columns: list[str] | None = None) -> pa.Table:
        return self._table("main").scan(selected_fields=tuple(columns) if columns else ("*",)).to_arrow()

    def lookup(self, low: int, high: int) -> pa.Table:
        return self._table("main").scan(And(GreaterThanOrEqual("id", low), LessThan("id", high))).to_arrow()

    def _make(self, name: str) -> None:
        table = self._catalog().create_table(f"bench.{name}", workload.PARTED)
        part = table.schema().find_field("part").field_id
        with table.update_spec() as update:
            update.add_identity("part")
        assert PartitionSpec(PartitionField(part, 1000, IdentityTransform(), "part"))

    def make_small(self) -> None:
        self._make("small")

    def commit_small(self, rows: pa.Table) -> None:
        self._table("small").append(rows)

    def plan_small(self, part: int | None = None) -> int:
        scan = self._table("small").scan() if part is None else self._table("small").scan(EqualTo("part", part))
        return len(list(scan.plan_files()))

    def scan_small(self, part: int | None = None) -> pa.Table:
        return self._table("small").scan(EqualTo("part", part)).to_arrow()

    def scan_small_at(self, commit: int) -> pa.Table:
        table = self._table("small")
        return table.scan(snapshot_id=table.history()[commit - 1].snapshot_id).to_arrow()

    def tag_small(self, name: str) -> None:
        table = self._table("small")
        table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, name).commit()

    def branch_small(self, name: str) -> None:
        table = self._table("small")
        table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, f"b-{name}").commit()

    def snapshots_small(self) -> int:
        return self._table("small").inspect.snapshots().num_rows

    def files_small(self) -> int:
        return self._table("small").inspect.files().num_rows

    def make_appended(self) -> None:
        self._make("appended")

    def append(self, rows: pa.Table) -> None:
        self._table("appended").append(rows)

    def scan_appended(self, part: int | None = None) -> pa.Table:
        table = self._table("appended")
        return (table.scan() if part is None else table.scan(EqualTo("part", part))).to_arrow()


side = Iceberg
