"""A second reader of every table that a test leaves behind: pypaimon, in a process of its own that stays."""

import json
import subprocess
from collections import Counter
from pathlib import Path

import pyarrow as pa

from storage import Catalog, StorageError, Table


class UnsupportedBySecondReader(Exception):
    """pypaimon says that it does not do this yet."""


class SecondReader:
    """pypaimon, started for the first table that it is asked for."""

    def __init__(self, python: Path, scratch: Path) -> None:
        self._python = python
        self._scratch = scratch / "rows.arrow"
        self._process: subprocess.Popen[str] | None = None

    def read(self, warehouse: str, name: str) -> pa.Table:
        """The rows as pypaimon sees them. Raises UnsupportedBySecondReader, RuntimeError with what it says."""
        if self._process is None:
            script = str(Path(__file__).with_name("pypaimon_process.py"))
            self._process = subprocess.Popen(
                [str(self._python), script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(
            json.dumps({"warehouse": warehouse, "table": name, "file": str(self._scratch)}) + "\n"
        )
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer:
            kind = UnsupportedBySecondReader if answer["error"].startswith("NotImplementedError") else RuntimeError
            raise kind(f"{name} in {warehouse}: {answer['error']}\n{answer['trace']}")
        with pa.ipc.open_file(self._scratch) as file:
            return file.read_all()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


def tables_under(directory: Path) -> list[tuple[str, str, Table]]:
    """Warehouse, name and table of everything below a directory that this store can open.

    Without those of which main was replaced: other readers refuse them (decision 0014).
    """
    found = []
    for database in sorted(directory.glob("**/*.db")):
        # A lineage database has such a name too.
        for root in sorted(database.iterdir()) if database.is_dir() else ():
            if not (root / "snapshot").is_dir() or (root / "MAIN-BRANCH").exists():
                continue
            warehouse, name = str(database.parent), f"{database.name.removesuffix('.db')}.{root.name}"
            try:
                found.append((warehouse, name, Catalog(warehouse).table(name)))
            except (StorageError, OSError):
                continue
    return found


def counted(rows: pa.Table) -> Counter[str]:
    """How often each row occurs. Times count to the microsecond, which is all that pypaimon reads."""
    fields = [
        field.with_type(pa.timestamp("us", field.type.tz))
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns"
        else field
        for field in rows.schema
    ]
    rows = rows.cast(pa.schema(fields), safe=False)
    return Counter(repr(list(row.values())) for row in rows.to_pylist())
