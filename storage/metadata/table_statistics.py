"""Statistics of a whole table: a JSON document beside the metadata that a snapshot names. Follows `docs/format.md`.

They are written by ANALYZE, and stand in the snapshots that follow until the schema changes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..document import integer, read_document, sealed
from ..errors import CorruptData
from .snapshot import Snapshot
from .table_store import TableStore

_KEYS = ("snapshotId", "schemaId", "mergedRecordCount", "mergedRecordSize")


@dataclass(frozen=True)
class ColumnStatistics:
    """What is known of a column. `minimum` and `maximum` are texts as the format has them, None where there is no order or no
    value; lengths are in bytes.
    """

    field_id: int
    distinct_count: int | None = None
    minimum: str | None = None
    maximum: str | None = None
    null_count: int | None = None
    average_length: int | None = None
    greatest_length: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The statistics as the file holds them."""
        values = {
            "colId": self.field_id,
            "distinctCount": self.distinct_count,
            "min": self.minimum,
            "max": self.maximum,
            "nullCount": self.null_count,
            "avgLen": self.average_length,
            "maxLen": self.greatest_length,
        }
        return {key: value for key, value in values.items() if value is not None}


@dataclass(frozen=True)
class TableStatistics:
    """What is known of the rows of a snapshot, once merged: how many there are, and the bytes of their files."""

    snapshot_id: int
    schema_id: int
    row_count: int
    size_bytes: int
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The statistics as the file holds them."""
        return {
            "snapshotId": self.snapshot_id,
            "schemaId": self.schema_id,
            "mergedRecordCount": self.row_count,
            "mergedRecordSize": self.size_bytes,
            "colStats": {name: column.to_json() for name, column in self.columns.items()},
        }


def write_statistics(store: TableStore, statistics: TableStatistics) -> str:
    """Write a statistics file and return its name."""
    name = f"stat-{store.clock.unique_name()}-0"
    content = json.dumps(sealed(statistics.to_json(), name), indent=2)
    store.file_io.write_bytes(store.paths.statistics(name), content.encode())
    return name


def statistics_rows(store: TableStore, snapshot: Snapshot | None) -> list[tuple[Any, ...]]:
    """The statistics that a snapshot names, as the row of a system table; none if it names none."""
    if snapshot is None or snapshot.statistics is None:
        return []
    numbers, columns = read_statistics(store, snapshot.statistics)
    return [(*numbers, json.dumps(columns, sort_keys=True))]


def read_statistics(store: TableStore, name: str) -> tuple[list[int | None], Mapping[str, Any]]:
    """The numbers of a statistics file, in the order of its system table, and what it says of columns. Raises CorruptData that
    says what ends that.
    """
    path = store.paths.statistics(name)
    try:
        return _parsed(read_document(store.file_io.read_bytes(path), path), path)
    except CorruptData as error:
        raise CorruptData(
            f"{str(error).rstrip('.')}. Restore the file, or run ANALYZE TABLE again: rows are not read by it."
        ) from None


def _parsed(content: Mapping[str, Any], path: str) -> tuple[list[int | None], Mapping[str, Any]]:
    for key in _KEYS[:2]:
        if content.get(key) is None:
            raise CorruptData(f"File {path} is damaged: it names no {key}.")
    columns = content.get("colStats") or {}
    if not isinstance(columns, dict):
        raise CorruptData(f"File {path} is damaged: colStats is no object.")
    return [None if content.get(key) is None else integer(content[key], path, key) for key in _KEYS], columns
