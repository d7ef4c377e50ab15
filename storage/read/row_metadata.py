"""The metadata columns of rows that are read: from which file each comes, its place there, its number and its kind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..lsm.system_columns import FILE, KINDS, POSITION, SEQUENCE_NUMBER, VALUE_KIND
from ..metadata.manifest import DataFile
from ..metadata.table_store import TableStore
from .metadata_columns import OF_SNAPSHOTS, metadata_field, metadata_of
from .origins import UNKNOWN, Origins, Told


@dataclass(frozen=True)
class FileSources:
    """What is known of the files of a bucket beside what is in them."""

    bucket: int
    origins: Origins = field(default_factory=Origins)


class RowMetadata:
    """Makes the metadata columns of the rows of a bucket from the columns of `system`, which readers put beside the table's."""

    def __init__(
        self, store: TableStore, partition: bytes, directory: str, sources: FileSources, names: Sequence[str]
    ) -> None:
        self._store = store
        self._partition = store.partition_path(partition)
        self._directory = directory
        self._sources = sources
        self._keys = {name: key for name in names if (key := metadata_of(name)) is not None}
        self._files: dict[str, int] = {}
        self._of_files: list[DataFile] = []
        wanted = set(self._keys.values())
        by_number = any(origin.starts is not None for origin in sources.origins.files.values())
        has_key = bool(store.schema.primary_keys)
        self.stored = [
            *([SEQUENCE_NUMBER] if has_key and ("sequence_number" in wanted or by_number) else []),
            *([VALUE_KIND] if has_key and "row_kind" in wanted else []),
        ]
        self.counts_rows = "row_index" in wanted
        self.system = [*self.stored, FILE, *([POSITION] if self.counts_rows else [])]

    @property
    def files(self) -> Sequence[DataFile]:
        """The files that have a number, by it."""
        return self._of_files

    def number(self, file: DataFile) -> pa.Scalar:
        """What stands for a file in the column `FILE`."""
        if file.name not in self._files:
            self._files[file.name] = len(self._of_files)
            self._of_files.append(file)
        return pa.scalar(self._files[file.name], pa.int32())

    def columns(self, rows: pa.RecordBatch) -> Mapping[str, pa.Array]:
        """The metadata columns that are wanted, under the names by which they are asked for."""
        files = rows.column(FILE).to_numpy()
        ids = self._snapshots(rows, files) if OF_SNAPSHOTS & set(self._keys.values()) else None
        return {name: self._column(name, key, rows, files, ids) for name, key in self._keys.items()}

    def _column(self, name: str, key: str, rows: pa.RecordBatch, files: np.ndarray, ids: np.ndarray | None) -> pa.Array:
        kind = metadata_field(name).type
        if ids is not None and key in OF_SNAPSHOTS:
            return of_snapshots(key, ids, self._sources.origins.snapshots, kind)
        match key:
            case "sequence_number":
                numbers = rows.column(SEQUENCE_NUMBER) if SEQUENCE_NUMBER in self.stored else None
                return pa.nulls(rows.num_rows, kind) if numbers is None else numbers.cast(kind)
            case "row_kind" if VALUE_KIND in self.stored:
                return pa.array(KINDS).take(rows.column(VALUE_KIND))
            case "row_kind":
                return pa.repeat(pa.scalar(KINDS[0], kind), rows.num_rows)
            case "row_index":
                return rows.column(POSITION)
            case "bucket":
                return pa.repeat(pa.scalar(self._sources.bucket, kind), rows.num_rows)
            case "partition":
                return pa.repeat(pa.scalar(self._partition, kind), rows.num_rows)
        return pa.array([self._of_file(key, file) for file in self._of_files], kind).take(pa.array(files))

    def _of_file(self, key: str, file: DataFile) -> Any:
        if key == "file_path":
            return self._store.data_path(self._directory, file)
        return file.level if key == "level" else file.schema_id

    def _snapshots(self, rows: pa.RecordBatch, files: np.ndarray) -> np.ndarray:
        """The snapshot that wrote each row."""
        sequence = rows.column(SEQUENCE_NUMBER).to_numpy() if SEQUENCE_NUMBER in self.stored else None
        snapshot_ids = np.full(rows.num_rows, UNKNOWN, np.int64)
        for number in np.unique(files):
            of_file = files == number
            origin = self._sources.origins.files[self._of_files[number].name]
            snapshot_ids[of_file] = origin.of(None if sequence is None else sequence[of_file], int(of_file.sum()))
        return snapshot_ids


def of_snapshots(key: str, ids: np.ndarray, commits: Mapping[int, Told], kind: pa.DataType) -> pa.Array:
    """A metadata column of `OF_SNAPSHOTS`, of its type, for rows of some snapshots."""
    unique, places = np.unique(ids, return_inverse=True)
    values: list[Any] = []
    for snapshot_id in unique.tolist():
        if snapshot_id == UNKNOWN:
            values.append(None)
        elif key == "snapshot_id":
            values.append(snapshot_id)
        else:
            values.append(getattr(commits[snapshot_id], "time" if key == "commit_time" else key))
    return pa.array(values, kind).take(pa.array(places))
