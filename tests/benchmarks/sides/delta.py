"""delta-rs."""

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from side import Side


class Delta(Side):
    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def load(self, rows: pa.Table) -> None:
        write_deltalake(self._path("main"), rows)

    def upsert(self, rows: pa.Table) -> None:
        merge = DeltaTable(self._path("main")).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def scan(self, columns: list[str] | None = None) -> pa.Table:
        return DeltaTable(self._path("main")).to_pyarrow_table(columns=columns)

    def lookup(self, low: int, high: int) -> pa.Table:
        filters = [("id", ">=", low), ("id", "<", high)]
        return DeltaTable(self._path("main")).to_pyarrow_table(filters=filters)

    def compact(self) -> None:
        DeltaTable(self._path("main")).optimize.compact()

    def make_small(self) -> None:
        """The first commit makes it."""

    def commit_small(self, rows: pa.Table) -> None:
        write_deltalake(self._path("small"), rows, mode="append", partition_by=["part"])

    def plan_small(self, part: int | None = None) -> int:
        table = DeltaTable(self._path("small"))
        return len(table.file_uris(None if part is None else [("part", "=", str(part))]))

    def scan_small(self, part: int | None = None) -> pa.Table:
        table = DeltaTable(self._path("small"))
        return table.to_pyarrow_table(filters=None if part is None else [("part", "=", part)])

    def scan_small_at(self, commit: int) -> pa.Table:
        return DeltaTable(self._path("small"), version=commit - 1).to_pyarrow_table()

    def snapshots_small(self) -> int:
        return len(DeltaTable(self._path("small")).history())

    def files_small(self) -> int:
        return len(DeltaTable(self._path("small")).file_uris())

    def make_appended(self) -> None:
        """The first commit makes it."""

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self._path("appended"), rows, mode="append", partition_by=["part"])

    def scan_appended(self, part: int | None = None) -> pa.Table:
        table = DeltaTable(self._path("appended"))
        return table.to_pyarrow_table(filters=None if part is None else [("part", "=", part)])


side = Delta
