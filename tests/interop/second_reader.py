"""Second readers of every table that a test leaves behind: pypaimon and Java, in processes of their own that stay."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa

from storage import Catalog, StorageError, Table

from .java_paimon import JavaPaimon
from .line_process import LineProcess, UnsupportedBySecondReader

_NONE: Mapping[str, str] = MappingProxyType({})


class SecondReader(Protocol):
    """Another reader of the format. `differs` is the marker of tests whose tables it reads otherwise."""

    name: str
    differs: str
    finest: str

    def read(self, warehouse: str, name: str, options: Mapping[str, str] = _NONE) -> pa.Table:
        """The rows as it sees them; `options` say which version.

        Raises UnsupportedBySecondReader, RuntimeError with what it says.
        """

    def close(self) -> None: ...


class PypaimonReader:
    """pypaimon. It cuts times to the microsecond."""

    name = "pypaimon"
    differs = "pypaimon_differs"
    finest = "us"

    def __init__(self, python: Path, scratch: Path) -> None:
        self._process = LineProcess([str(python), str(Path(__file__).with_name("pypaimon_process.py"))])
        self._scratch = scratch / "rows.arrow"

    def read(self, warehouse: str, name: str, options: Mapping[str, str] = _NONE) -> pa.Table:
        self._process.ask({"warehouse": warehouse, "table": name, "options": dict(options), "file": str(self._scratch)})
        with pa.ipc.open_file(self._scratch) as file:
            return file.read_all()

    def close(self) -> None:
        self._process.close()


class JavaReader:
    """Paimon's Java library."""

    name = "Java"
    differs = "java_differs"
    finest = "ns"

    def __init__(self, paimon: JavaPaimon) -> None:
        self._paimon = paimon

    def read(self, warehouse: str, name: str, options: Mapping[str, str] = _NONE) -> pa.Table:
        return self._paimon.read(warehouse, name, options=options)

    def close(self) -> None:
        self._paimon.close()


def read_alike(
    reader: SecondReader, warehouse: str, name: str, ours: pa.Table, options: Mapping[str, str] = _NONE
) -> None:
    """Fail unless a second reader sees the rows that this store sees. What it calls unsupported is left out."""
    try:
        theirs = reader.read(warehouse, name, options)
    except UnsupportedBySecondReader:
        return
    theirs = theirs.select(ours.column_names).cast(ours.schema)
    differences = {
        "only here": counted(ours, reader.finest) - counted(theirs, reader.finest),
        "only there": counted(theirs, reader.finest) - counted(ours, reader.finest),
    }
    assert not any(differences.values()), f"{reader.name} reads {name} in {warehouse} otherwise: {differences}"


def tables_under(directory: Path) -> list[tuple[str, str, Table]]:
    """Warehouse, name and table of everything below a directory that this store can open.

    Without those of which main was replaced: other readers refuse them (decision 0014).
    """
    tables = []
    for database in sorted(directory.glob("**/*.db")):
        # A lineage database has such a name too.
        for root in sorted(database.iterdir()) if database.is_dir() else ():
            if not (root / "snapshot").is_dir() or (root / "MAIN-BRANCH").exists():
                continue
            warehouse, name = str(database.parent), f"{database.name.removesuffix('.db')}.{root.name}"
            try:
                tables.append((warehouse, name, Catalog(warehouse).table(name)))
            except (StorageError, OSError):
                continue
    return tables


def counted(rows: pa.Table, finest: str = "us") -> Counter[str]:
    """How often each row occurs. `finest`: the unit to which times count, `us` or `ns`."""
    fields = []
    for field in rows.schema:
        nanoseconds = pa.types.is_timestamp(field.type) and field.type.unit == "ns"
        # Python's own times end at the microsecond.
        coarse = pa.int64() if finest == "ns" else pa.timestamp("us", getattr(field.type, "tz", None))
        fields.append(field.with_type(coarse) if nanoseconds else field)
    rows = rows.cast(pa.schema(fields), safe=False)
    return Counter(repr(_unordered(list(row.values()))) for row in rows.to_pylist())


def _unordered(value: Any) -> Any:
    """A value whose maps, which have no order, are sorted."""
    if isinstance(value, dict):
        return {name: _unordered(member) for name, member in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return sorted(((key, _unordered(member)) for key, member in value), key=repr)
    return [_unordered(member) for member in value] if isinstance(value, list) else value
