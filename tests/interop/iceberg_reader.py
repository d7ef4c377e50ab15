"""Readers of Iceberg, pyiceberg and DuckDB, in a process of their own that stays."""

from pathlib import Path

import pyarrow as pa

from storage import Table
from storage.iceberg.location import location_of

from .line_process import LineProcess
from .second_reader import counted

READERS = ("pyiceberg", "duckdb")
PYTHON = Path(__file__).parent.parent.parent / ".venv" / "pyiceberg" / "bin" / "python"


class IcebergReader:
    """What they see of a table of this store."""

    def __init__(self, scratch: Path) -> None:
        assert PYTHON.exists(), "pyiceberg is not installed: `make test` does it"
        self._process = LineProcess([str(PYTHON), str(Path(__file__).with_name("iceberg_process.py"))])
        self._scratch = scratch / "iceberg.arrow"
        # How many data files the last read by pyiceberg took.
        self.files = 0

    def read(
        self,
        table: Table,
        reader: str = "pyiceberg",
        *,
        where: str | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
    ) -> pa.Table:
        """The rows that a reader sees, as this store would give them."""
        directory = location_of(table.store, table.store.options).directory.removesuffix("/metadata")
        answer = self._process.ask(
            {
                "reader": reader,
                "metadata": directory,
                "where": where,
                "snapshot": snapshot,
                "tag": tag,
                "file": str(self._scratch),
            }
        )
        self.files = answer["files"]
        with pa.ipc.open_file(self._scratch) as file:
            return file.read_all()

    def close(self) -> None:
        self._process.close()


def assert_seen_alike(
    iceberg: IcebergReader, table: Table, where: str | None = None, *, ours: pa.Table | None = None
) -> None:
    """Fail unless each of them sees the rows of a table that this store sees, or those that are given."""
    expected = table.to_arrow(where=where) if ours is None else ours
    for reader in READERS:
        seen = iceberg.read(table, reader, where=where)
        assert seen.column_names == expected.column_names, reader
        # DuckDB knows neither narrow whole numbers of Iceberg's `int` nor maps of Arrow's by another name of their fields.
        seen = pa.table(
            [_cast(seen[name], expected.schema.field(name).type) for name in seen.column_names], expected.schema
        )
        assert counted(seen) == counted(expected), f"{reader} where {where}"


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.chunked_array([pa.array(column.to_pylist(), kind)])
