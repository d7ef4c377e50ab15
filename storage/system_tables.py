"""System tables: what a table's metadata says, as Arrow tables. Columns follow `docs/format.md`, "System tables"."""

import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from .data_types import DataType
from .errors import InvalidRequest
from .format.binary_row import EMPTY_ROW, decoder
from .format.column_stats import SerializedStats, deserialize
from .lsm.system_columns import KINDS
from .metadata.branch_origin import read_origin
from .metadata.manifest import ManifestEntry
from .metadata.snapshot import Snapshot
from .metadata.table_statistics import statistics_rows
from .metadata.table_store import TableStore
from .paths import BLANK
from .read.changes import ROW_KIND
from .read.row_count import row_count
from .read.scan import FileStatistics, Scan
from .read.version import branch_names, on_branch
from .secret import shown_options
from .values import text_caster
from .write.operation import operation_of

_TIME = pa.timestamp("ms")


def _columns(*columns: tuple[str, pa.DataType]) -> pa.Schema:
    """A schema from names; a name that ends with `!` is NOT NULL."""
    return pa.schema([pa.field(name.rstrip("!"), kind, not name.endswith("!")) for name, kind in columns])


_TEXT, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
_SCHEMAS = {
    "snapshots": _columns(
        ("snapshot_id!", _LONG),
        ("schema_id!", _LONG),
        ("commit_user!", _TEXT),
        ("commit_identifier!", _LONG),
        ("commit_kind!", _TEXT),
        ("commit_time!", _TIME),
        ("base_manifest_list!", _TEXT),
        ("delta_manifest_list!", _TEXT),
        ("changelog_manifest_list", _TEXT),
        ("total_record_count", _LONG),
        ("delta_record_count", _LONG),
        ("changelog_record_count", _LONG),
        ("watermark", _LONG),
        ("next_row_id", _LONG),
        ("operation", _TEXT),
        ("writer_version", _TEXT),
    ),
    "schemas": _columns(
        ("schema_id!", _LONG),
        ("fields!", _TEXT),
        ("partition_keys!", _TEXT),
        ("primary_keys!", _TEXT),
        ("options!", _TEXT),
        ("comment", _TEXT),
        ("update_time!", _TIME),
    ),
    "options": _columns(("key!", _TEXT), ("value!", _TEXT)),
    "tags": _columns(
        ("tag_name!", _TEXT),
        ("snapshot_id!", _LONG),
        ("schema_id!", _LONG),
        ("commit_time!", _TIME),
        ("record_count", _LONG),
        ("create_time", _TIME),
        ("time_retained", _TEXT),
        ("tagged_snapshot_id!", _LONG),
    ),
    "branches": _columns(
        ("branch_name!", _TEXT),
        ("create_time!", _TIME),
        ("tag_name", _TEXT),
        ("tagged_snapshot_id", _LONG),
        ("name!", _TEXT),
    ),
    "files": _columns(
        ("partition", _TEXT),
        ("bucket!", _INT),
        ("file_path!", _TEXT),
        ("file_format!", _TEXT),
        ("schema_id!", _LONG),
        ("level!", _INT),
        ("record_count!", _LONG),
        ("file_size_in_bytes!", _LONG),
        ("min_key", _TEXT),
        ("max_key", _TEXT),
        ("null_value_counts!", _TEXT),
        ("min_value_stats!", _TEXT),
        ("max_value_stats!", _TEXT),
        ("min_sequence_number", _LONG),
        ("max_sequence_number", _LONG),
        ("creation_time", _TIME),
        ("deleteRowCount", _LONG),
        ("file_source", _TEXT),
        ("first_row_id", _LONG),
        ("write_cols", pa.list_(_TEXT)),
    ),
    "manifests": _columns(
        ("file_name!", _TEXT),
        ("file_size!", _LONG),
        ("num_added_files!", _LONG),
        ("num_deleted_files!", _LONG),
        ("schema_id!", _LONG),
        ("min_partition_stats", _TEXT),
        ("max_partition_stats", _TEXT),
        ("min_row_id", _LONG),
        ("max_row_id", _LONG),
    ),
    "partitions": _columns(
        ("partition", _TEXT),
        ("record_count!", _LONG),
        ("file_size_in_bytes!", _LONG),
        ("file_count!", _LONG),
        ("last_update_time", _TIME),
        ("created_at", _TIME),
        ("created_by", _TEXT),
        ("updated_by", _TEXT),
        ("options", _TEXT),
        ("total_buckets!", _INT),
        ("done!", pa.bool_()),
        ("deleted_record_count", _LONG),
    ),
    "buckets": _columns(
        ("partition", _TEXT),
        ("bucket!", _INT),
        ("record_count!", _LONG),
        ("file_size_in_bytes!", _LONG),
        ("file_count!", _LONG),
        ("last_update_time", _TIME),
    ),
    "consumers": _columns(("consumer_id!", _TEXT), ("next_snapshot_id!", _LONG)),
    "statistics": _columns(
        ("snapshot_id", _LONG),
        ("schema_id!", _LONG),
        ("mergedRecordCount", _LONG),
        ("mergedRecordSize", _LONG),
        ("colstat", _TEXT),
    ),
}
AUDIT_LOG = "audit_log"
SYSTEM_TABLES = (*_SCHEMAS, AUDIT_LOG)


def read_system_table(store: TableStore, name: str, partition: Mapping[str, Any] | None = None) -> pa.Table:
    """The rows of a system table; of `partitions` those alone that have these values, as the store holds them. Raises
    InvalidRequest that lists the names there are.
    """
    if name == AUDIT_LOG:
        return _audit_log(store)
    reader = _READERS.get(name)
    if reader is None:
        known = ", ".join(f"${name}" for name in SYSTEM_TABLES)
        raise InvalidRequest(f"{store.identifier} has no system table ${name}. System tables: {known}.")
    schema = _SCHEMAS[name]
    rows = reader(store) if partition is None else _partitions(store, partition)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


Rows = Sequence[Sequence[Any]]


def _snapshots(store: TableStore) -> Rows:
    return [
        (
            snapshot.id,
            snapshot.schema_id,
            snapshot.commit_user,
            snapshot.commit_identifier,
            snapshot.commit_kind,
            _local(snapshot.time_ms),
            snapshot.base_manifest_list,
            snapshot.delta_manifest_list,
            snapshot.changelog_manifest_list,
            snapshot.total_record_count,
            snapshot.delta_record_count,
            snapshot.changelog_record_count,
            snapshot.watermark,
            snapshot.next_row_id,
            operation_of(snapshot),
            snapshot.writer_version,
        )
        for snapshot in store.snapshots.all()
    ]


def _schemas(store: TableStore) -> Rows:
    schemas = [store.schemas.get(schema_id) for schema_id in store.schemas.ids()]
    return [
        (
            schema.id,
            json.dumps([field.to_json() for field in schema.fields], ensure_ascii=False),
            json.dumps(schema.partition_keys),
            json.dumps(schema.primary_keys),
            json.dumps(shown_options(schema.options)),
            schema.comment,
            _local(schema.time_ms),
        )
        for schema in schemas
    ]


def _options(store: TableStore) -> Rows:
    return sorted(shown_options(store.schema.options).items())


def _tags(store: TableStore) -> Rows:
    rows = []
    for tag in store.tags.all():
        created = tag.create_time
        retained = tag.time_retained_seconds
        rows.append(
            (
                tag.name,
                tag.snapshot.id,
                tag.snapshot.schema_id,
                _local(tag.snapshot.time_ms),
                row_count(_as_tagged(store, tag.snapshot), reads=True),
                created,
                None if retained is None else _iso_duration(retained),
                tag.snapshot.id,
            )
        )
    return rows


def _as_tagged(store: TableStore, snapshot: Snapshot) -> Scan:
    return Scan(store.at_schema(store.schemas.get(snapshot.schema_id)), snapshot)


def _iso_duration(seconds: float) -> str:
    """Hours, minutes and seconds as Java prints a duration: `PT24H`."""
    hours, rest = divmod(int(seconds), 3600)
    minutes, second = divmod(rest, 60)
    text = "".join(f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M"), (second, "S")) if count)
    return f"PT{text or '0S'}"


def _branches(store: TableStore) -> Rows:
    rows = []
    for name in branch_names(store):
        branch = on_branch(store, name)
        origin = read_origin(store.file_io, branch.paths)
        if origin is not None:
            tag, snapshot_id, created = origin.tag, origin.snapshot_id, origin.create_time_ms
        else:
            # Another writer made it: it began where its history does.
            snapshot_id, created = branch.snapshots.earliest_id(), branch.schemas.get(0).time_ms
            tag = next((tag.name for tag in branch.tags.all() if tag.snapshot.id == snapshot_id), None)
        rows.append((name, _local(created), tag, snapshot_id, name))
    return rows


def _audit_log(store: TableStore) -> pa.Table:
    """The merged state with the kind of each row, rows that are deleted among them."""
    scan = Scan(store, store.snapshots.latest())
    columns = store.schema.column_names
    schema = pa.schema([pa.field(ROW_KIND, _TEXT, False), *store.schema.to_arrow()])
    batches = []
    for split in scan.splits:
        for kinds, rows in split.read_with_kinds():
            arrays = [pa.array(KINDS).take(kinds), *(rows.column(name) for name in columns)]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema)


def _live(store: TableStore) -> list[ManifestEntry]:
    return Scan(store, store.snapshots.latest()).entries


def _files(store: TableStore) -> Rows:
    entries = _live(store)
    statistics = FileStatistics(store)
    names = set(store.schema.column_names)
    texts = [(field.name, _shower(field.type)) for field in store.schema.fields]
    show_partition, show_key = _row_shower(store.partition_types), _row_shower(store.key_types)
    rows = []
    for entry in entries:
        file = entry.file
        stats = statistics.of(file, names)
        known = [(name, text, stats[name]) for name, text in texts if name in stats]
        directory = store.bucket_directory(entry.place)
        has_keys = file.min_key != EMPTY_ROW
        rows.append(
            (
                f"{{{show_partition(entry.partition)}}}",
                entry.bucket,
                store.data_path(directory, file),
                file.format,
                file.schema_id,
                file.level,
                file.row_count,
                file.size_bytes,
                f"[{show_key(file.min_key)}]" if has_keys else None,
                f"[{show_key(file.max_key)}]" if has_keys else None,
                _braces(f"{name}={'null' if each.null_count is None else each.null_count}" for name, _, each in known),
                _braces(f"{name}={text(each.minimum)}" for name, text, each in known),
                _braces(f"{name}={text(each.maximum)}" for name, text, each in known),
                file.min_sequence_number,
                file.max_sequence_number,
                _created(file.creation_time_local_ms),
                file.delete_row_count,
                {0: "APPEND", 1: "COMPACT"}.get(file.file_source or 0),
                file.first_row_id,
                None if file.write_columns is None else list(file.write_columns),
            )
        )
    return rows


def _manifests(store: TableStore) -> Rows:
    latest = store.snapshots.latest()
    if latest is None:
        return []
    return [
        (
            manifest.name,
            manifest.size_bytes,
            manifest.added_file_count,
            manifest.deleted_file_count,
            manifest.schema_id,
            *_partition_range(store, manifest.partition_stats),
            None,
            None,
        )
        for manifest in (*store.manifests_of(latest), *store.changelog_manifests_of(latest))
    ]


def _partition_range(store: TableStore, stats: SerializedStats) -> tuple[str, str]:
    shown = [_shower(data_type) for data_type in store.partition_types]
    decoded = list(zip(shown, deserialize(stats, store.partition_types), strict=True))
    return _braces(show(each.minimum) for show, each in decoded), _braces(show(each.maximum) for show, each in decoded)


def _grouped(store: TableStore, key: Callable[[ManifestEntry], Any]) -> dict[Any, list[ManifestEntry]]:
    groups: dict[Any, list[ManifestEntry]] = {}
    for entry in _live(store):
        groups.setdefault(key(entry), []).append(entry)
    return groups


def _totals(entries: Sequence[ManifestEntry]) -> tuple[int, int, int]:
    files = [entry.file for entry in entries]
    return sum(file.row_count for file in files), sum(file.size_bytes for file in files), len(files)


def _partitions(store: TableStore, wanted: Mapping[str, Any] | None = None) -> Rows:
    rows = []
    for partition, entries in _grouped(store, lambda entry: entry.partition).items():
        values = store.partition_values(partition)
        if any(values[name] != value for name, value in (wanted or {}).items()):
            continue
        times = [entry.file.creation_time_local_ms for entry in entries]
        known = [time for time in times if time is not None]
        rows.append(
            (
                _partition_text(store, values),
                *_totals(entries),
                _created(max(known, default=None)),
                _created(min(known, default=None)),
                None,
                None,
                None,
                entries[0].total_buckets,
                False,
                sum(entry.file.delete_row_count or 0 for entry in entries),
            )
        )
    return sorted(rows)


def _partition_text(store: TableStore, values: Mapping[str, Any]) -> str:
    """`k1=v1/k2=v2` as Java's system table has it: values as text, which names of directories need not be."""
    blank = store.options.partition_default_name
    shown = store.partition_literals(values)
    return "/".join(
        f"{name}={blank if value is None or not str(value).strip(BLANK) else value}" for name, value in shown.items()
    )


def _buckets(store: TableStore) -> Rows:
    rows = []
    show_partition = _row_shower(store.partition_types)
    for (partition, bucket), entries in sorted(_grouped(store, lambda live_entry: live_entry.place).items()):
        known = [
            entry.file.creation_time_local_ms for entry in entries if entry.file.creation_time_local_ms is not None
        ]
        updated = _created(max(known, default=None))
        rows.append((f"{{{show_partition(partition)}}}", bucket, *_totals(entries), updated))
    return rows


_READERS: dict[str, Callable[[TableStore], Rows]] = {
    "snapshots": _snapshots,
    "schemas": _schemas,
    "options": _options,
    "tags": _tags,
    "branches": _branches,
    "files": _files,
    "manifests": _manifests,
    "partitions": _partitions,
    "buckets": _buckets,
    "consumers": lambda store: [(consumer.name, consumer.next_snapshot_id) for consumer in store.consumers.all()],
    "statistics": lambda store: statistics_rows(store, store.snapshots.latest()),
}


def _local(time_ms: int) -> dt.datetime:
    """Local wall-clock time, as the format's own system tables show it."""
    return dt.datetime.fromtimestamp(time_ms / 1000)


def _created(local_ms: int | None) -> dt.datetime | None:
    return None if local_ms is None else dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=local_ms)


def _shower(data_type: DataType) -> Callable[[Any], str]:
    """What shows the values of a column."""
    cast = text_caster(data_type)
    return lambda value: "null" if value is None else cast(value)


def _row_shower(types: Sequence[DataType]) -> Callable[[bytes], str]:
    """What shows serialized rows."""
    decode, shower = decoder(types), [_shower(data_type) for data_type in types]
    return lambda row: ", ".join(show(value) for show, value in zip(shower, decode(row), strict=True))


def _braces(values: Iterable[str]) -> str:
    return "{" + ", ".join(values) + "}"
