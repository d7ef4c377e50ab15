"""What `DESCRIBE TABLE EXTENDED` says of a table, or of one of its partitions. Source: FLIP-188."""

import datetime as dt
from collections.abc import Mapping
from typing import Any

from .errors import NotFound
from .identifier import MAIN_BRANCH
from .log.definition import described
from .log_options import log_system
from .metadata.change_tracking import is_tracked
from .metadata.derived_columns import computed_columns, watermark
from .metadata.manifest import ManifestEntry
from .metadata.table_store import TableStore
from .read.row_count import row_count
from .read.scan import Scan
from .read.version import branch_names
from .secret import shown_options

_EPOCH = dt.datetime(1970, 1, 1)


def describe_table(store: TableStore, *, counts: bool = False) -> dict[str, Any]:
    """Property by name, in the order in which they are shown. `counts`: rows are read where metadata do not tell their number."""
    schema, options = store.schema, store.options
    snapshot = store.snapshots.latest()
    scan = Scan(store, snapshot, columns=())
    entries = scan.entries
    mark = watermark(schema.options)
    computed = [f"{column.name} AS {column.expression}" for column in computed_columns(schema.options)]
    branch = store.identifier.branch
    return {
        "name": store.identifier.full_name,
        "branch": branch,
        "comment": schema.comment or "",
        "file.path": store.file_io.url(store.paths.root),
        "file.format": options.file_format,
        "bucket": options.bucket,
        "primary-key": ", ".join(schema.primary_keys),
        "partitioned-by": ", ".join(schema.partition_keys),
        "merge-engine": options.merge_engine if schema.primary_keys else "",
        "changelog-producer": options.changelog_producer,
        "change-tracking": options.change_tracking,
        "computed-columns": "; ".join(computed),
        "watermark-definition": f"{mark.column} AS {mark.expression}" if mark else "",
        "watermark": _moment(snapshot.watermark) if snapshot and snapshot.watermark is not None else None,
        "log.system": log_system(schema.options),
        **described(schema),
        "schema-id": schema.id,
        "snapshots": store.snapshots.describe_existing(),
        "latest-snapshot": snapshot.id if snapshot else None,
        "last-modified": _moment(snapshot.time_ms) if snapshot else None,
        "row-count": _rows(row_count(scan, reads=counts), snapshot.total_record_count if snapshot else 0),
        "record-count-unmerged": snapshot.total_record_count if snapshot else 0,
        **_files(entries),
        "num-partitions": len({entry.partition for entry in entries}) if schema.partition_keys else 0,
        "compacted": _compacted(store, entries),
        "tags": ", ".join(store.tags.names_for_users()),
        "branches": ", ".join(branch_names(store)) if branch == MAIN_BRANCH else "",
        "consumers": ", ".join(consumer.name for consumer in store.consumers.all()),
        "options": ", ".join(f"{key}={value}" for key, value in sorted(shown_options(schema.options).items())),
    }


def describe_partition(store: TableStore, partition: Mapping[str, Any], *, counts: bool = False) -> dict[str, Any]:
    """Property by name of the partition with the given values (`storage.values`) of all partition columns; `counts` as of
    `describe_table`.

    Raises NotFound if it has no files.
    """
    scan = Scan(store, store.snapshots.latest(), columns=())

    def is_meant(entry: ManifestEntry) -> bool:
        values = store.partition_values(entry.partition)
        return all(values[name] == value for name, value in partition.items())

    entries = [entry for entry in scan.entries if is_meant(entry)]
    if not entries:
        held = sorted({store.shown_partition(entry.partition) for entry in scan.entries})
        raise NotFound(
            f"{store.identifier} has no partition {store.partition_text(partition)}. "
            f"Partitions: {', '.join(held[:20]) or 'none'}."
        )
    path = store.partition_path(entries[0].partition)
    records = sum(entry.file.row_count for entry in entries)
    modified = max((entry.file.creation_time_local_ms or 0 for entry in entries), default=0)
    return {
        "partition": store.shown_partition(entries[0].partition),
        "file.path": store.file_io.url(f"{store.paths.data_root(store.options)}/{path}"),
        "change-tracking": is_tracked(store, entries[0].partition),
        "last-modified": _EPOCH + dt.timedelta(milliseconds=modified),
        "bucket": entries[0].total_buckets,
        "row-count": _rows(row_count(scan, reads=counts, partition=entries[0].partition), records),
        "record-count-unmerged": records,
        **_files(entries),
        "compacted": _compacted(store, entries),
    }


def _rows(count: int | None, records: int) -> int | str:
    """The number of rows, or what is known of it."""
    return f"at most {records}" if count is None else count


def _files(entries: list[ManifestEntry]) -> dict[str, int]:
    return {"num-files": len(entries), "total-size-bytes": sum(entry.file.size_bytes for entry in entries)}


def _compacted(store: TableStore, entries: list[ManifestEntry]) -> bool:
    """Whether reading has nothing to merge: with a key, all files are on the top level."""
    if not store.schema.primary_keys:
        return len({entry.place for entry in entries}) == len(entries)
    return all(entry.file.level == store.options.top_level for entry in entries)


def _moment(time_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(time_ms / 1000)
