"""Which data files of a snapshot readers of Iceberg see, and what manifests say of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import Unsupported
from ..format.column_stats import deserialize
from ..format.iceberg_types import column_type
from ..format.open_data_file import open_reader
from ..format.parquet_file import ParquetReader
from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, ManifestEntry
from ..metadata.schema import TableSchema
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from .bounds import encoded
from .location import Location
from .manifest import ADDED, Entry, partition_record
from .names import ambiguous_names


def is_seen(store: TableStore, entry: ManifestEntry) -> bool:
    """Whether readers of Iceberg, who merge nothing, see a file: of a table with a key those of the highest level alone."""
    return not store.schema.primary_keys or entry.file.level == store.options.top_level


def seen_files(store: TableStore, snapshot: Snapshot) -> dict[str, ManifestEntry]:
    """The files that they see at a snapshot, by path."""
    entries = live_files(store.manifests_of(snapshot), store.manifests)
    return {path_of(store, entry): entry for entry in entries if is_seen(store, entry)}


def changes(store: TableStore, snapshots: Iterable[Snapshot]) -> tuple[dict[str, ManifestEntry], set[str]]:
    """The files that some snapshots after each other added for them, by path, and the paths that they took away."""
    added: dict[str, ManifestEntry] = {}
    removed: set[str] = set()
    for snapshot in snapshots:
        for entry in store.delta_of(snapshot):
            path = path_of(store, entry)
            if entry.kind != ADD:
                added.pop(path, None)
                removed.add(path)
            elif is_seen(store, entry):
                removed.discard(path)
                added[path] = entry
    return added, removed


def path_of(store: TableStore, entry: ManifestEntry) -> str:
    """Where the data file of an entry lies."""
    return store.data_path(store.bucket_directory(entry.place), entry.file)


class FileRecords:
    """Makes the entries of manifests from those of Paimon's. Raises Unsupported for files that its readers would misread."""

    def __init__(
        self, store: TableStore, place: Location, schemas: Mapping[int, TableSchema], snapshot_id: int
    ) -> None:
        self._store = store
        self._place = place
        self._schemas = schemas
        self._snapshot_id = snapshot_id
        self._kinds = {field.id: column_type(field) for field in store.schema.fields}
        self._partition = store.schema.fields_named(store.schema.partition_keys)
        self._ambiguous = ambiguous_names(schemas.values())

    def entry(self, path: str, entry: ManifestEntry) -> Entry:
        """The entry of a file that a snapshot has added."""
        file = entry.file
        if file.format != "parquet":
            raise Unsupported(
                f"Data file {path} is no Parquet file: readers of Iceberg need those. Rewrite it by a full compaction."
            )
        if self._ambiguous:
            self._refuse_without_ids(path)
        nulls, lows, highs = self._statistics(entry)
        record = {
            "content": 0,
            "file_path": self._place.url(path),
            "file_format": "parquet",
            "partition": partition_record(self._partition, self._store.decode_partition(entry.partition)),
            "record_count": file.row_count,
            "file_size_in_bytes": file.size_bytes,
            "null_value_counts": nulls,
            "lower_bounds": lows,
            "upper_bounds": highs,
            "referenced_data_file": None,
            "content_offset": None,
            "content_size_in_bytes": None,
        }
        return Entry(ADDED, self._snapshot_id, self._snapshot_id, record)

    def _statistics(
        self, entry: ManifestEntry
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
        """Null counts and lower and upper bounds of the columns that the table still has, by their ids."""
        file = entry.file
        schema = self._schemas[file.schema_id]
        named = file.value_stats_columns if file.value_stats_columns is not None else file.write_columns
        fields = schema.fields if named is None else schema.fields_named(named)
        nulls, lows, highs = [], [], []
        for field, stats in zip(fields, deserialize(file.value_stats, [column.type for column in fields]), strict=True):
            kind = self._kinds.get(field.id)
            if kind is None:
                continue
            if stats.null_count is not None:
                nulls.append({"key": field.id, "value": stats.null_count})
            if stats.minimum is None or stats.maximum is None or not isinstance(kind, str) or field.type.is_bytes:
                continue
            low, high = encoded(stats.minimum, kind), encoded(stats.maximum, kind)
            if low is not None and high is not None:
                lows.append({"key": field.id, "value": low})
                highs.append({"key": field.id, "value": high})
        return nulls, lows, highs

    def _refuse_without_ids(self, path: str) -> None:
        """Raise Unsupported for a file whose columns are told by name alone, where a name has stood for several."""
        with open_reader(self._store.file_io, path, {}) as reader:
            if isinstance(reader, ParquetReader) and reader.has_field_ids:
                return
        raise Unsupported(
            f"Data file {path} does not tell the ids of its columns, and {', '.join(sorted(self._ambiguous))} has been "
            "the name of several: readers of Iceberg cannot tell which it holds. Rewrite it by a full compaction."
        )
