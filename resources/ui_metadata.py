"""What the Dagster UI shows of a materialization, under the keys that it knows how to render."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import quote

import dagster as dg

from lineage import columns_of
from storage import CorruptData, DataType, Snapshot, SnapshotRef, Split, Table
from storage.engines.duckdb_compare import count_changes

_ROW_HEIGHT = 24
_COMPARED_ROWS = 200_000
_CHARACTER_WIDTH = 8
_LEAST_WIDTH = 200


def table_metadata(table: Table, snapshot: Snapshot, sources: Sequence[SnapshotRef]) -> dict[str, Any]:
    """Metadata of a whole table at a snapshot, and of the commit that made it."""
    ref = table.ref(snapshot.id)
    assert ref is not None
    changes = table.changes_of(snapshot)
    scan = table.scan(columns=[], version=snapshot.id)
    count = scan.count()
    return {
        "dagster/row_count": count,
        "dagster/column_schema": column_schema(table),
        "dagster/table_name": f"{ref.catalog}.{table.identifier.full_name}",
        "dagster/uri": table.location,
        "snapshot": snapshot.id,
        "branch": table.identifier.branch,
        "commit": f"{snapshot.commit_kind} by {snapshot.commit_user}, barrier {snapshot.commit_identifier}",
        "committed_at": dg.MetadataValue.timestamp(datetime.fromtimestamp(snapshot.time_ms / 1000, UTC)),
        "rows_added": changes.rows_added,
        "rows_removed": changes.rows_deleted,
        **_row_changes(table, snapshot, count),
        "files_added": changes.files_added,
        "files_removed": changes.files_deleted,
        "bytes_added": changes.bytes_added,
        "compaction": _compaction(scan.splits),
        **source_metadata(ref, sources),
        **column_metadata(snapshot),
        **trouble_metadata(table),
    }


def trouble_metadata(table: Table) -> dict[str, Any]:
    """What follows commits to a table and has failed, or the file that should tell and cannot; nothing if all is well."""
    try:
        troubles = table.troubles()
    except CorruptData as error:
        return {"warning": str(error)}
    return {"warning": "; ".join(str(trouble) for trouble in troubles)} if troubles else {}


def _row_changes(table: Table, snapshot: Snapshot, count: int) -> dict[str, int]:
    """How many rows a commit to a table with a key has inserted, updated and deleted, compared by key; nothing for tables
    that are so large that comparing takes time, and without a key, where rows added and removed say it all.
    """
    if not table.schema.primary_keys:
        return {}
    before = table.store.snapshots.before(snapshot)
    if before is None:
        return {"rows_inserted": count, "rows_updated": 0, "rows_deleted": 0} if snapshot.id == 1 else {}
    if max(count, before.total_record_count) > _COMPARED_ROWS:
        return {}
    inserted, updated, deleted = count_changes(table.at(before.id), table.at(snapshot.id))
    return {"rows_inserted": inserted, "rows_updated": updated, "rows_deleted": deleted}


def _compaction(splits: Sequence[Split]) -> str:
    """How far a table is compacted: what reading it has to merge."""
    files, merged = sum(len(split.file_paths) for split in splits), sum(split.needs_merge for split in splits)
    return f"{files} files; {merged or 'none'} of {len(splits)} buckets {'need' if merged > 1 else 'needs'} a merge"


def column_metadata(snapshot: Snapshot) -> dict[str, Any]:
    """Which columns the columns were computed from, as far as that is known."""
    columns = columns_of(snapshot)
    if not columns:
        return {}
    dependencies = {
        name: [dg.TableColumnDep(dg.AssetKey([database, table]), column) for _, database, table, column in sources]
        for name, sources in columns.items()
    }
    return {"dagster/column_lineage": dg.TableColumnLineage(dependencies)}


def source_metadata(ref: SnapshotRef, sources: Sequence[SnapshotRef]) -> dict[str, Any]:
    """The snapshots that were read, as a table and as a picture."""
    if not sources:
        return {}
    records = [
        dg.TableRecord({"table": f"{one.database}.{one.table}", "branch": one.branch, "snapshot": one.snapshot_id})
        for one in sources
    ]
    assets = {f"made_from_{one.database}.{one.table}": dg.AssetKey([one.database, one.table]) for one in sources}
    return {
        "sources": dg.MetadataValue.table(records),
        **{name: dg.MetadataValue.asset(key) for name, key in assets.items()},
        "lineage": dg.MetadataValue.md(f"![lineage]({_picture(ref, sources)})"),
    }


def column_schema(table: Table) -> dg.TableSchema:
    """Columns with types, descriptions and what holds for them."""
    schema = table.schema
    columns = [
        dg.TableColumn(
            field.name,
            _shown(field.type),
            field.description,
            dg.TableColumnConstraints(
                nullable=field.type.nullable,
                unique=schema.primary_keys == (field.name,),
                other=_roles(table, field.name),
            ),
        )
        for field in schema.fields
    ]
    return dg.TableSchema(columns=columns)


def _shown(data_type: DataType) -> str:
    return str(data_type).removesuffix(" NOT NULL")


def _roles(table: Table, column: str) -> list[str]:
    roles = {"primary key": table.schema.primary_keys, "partition": table.schema.partition_keys}
    return [role for role, columns in roles.items() if column in columns]


def _picture(ref: SnapshotRef, sources: Sequence[SnapshotRef]) -> str:
    """Sources on the left, the new snapshot on the right, as a data URI: the UI renders images, not inline SVG.

    Kept short, since the UI folds long text away.
    """
    height = _ROW_HEIGHT * len(sources) + 8
    middle = _ROW_HEIGHT * (len(sources) - 1) // 2 + 14
    left = max(_CHARACTER_WIDTH * max(len(str(one)) for one in sources), _LEAST_WIDTH)
    width = left + 60 + max(_CHARACTER_WIDTH * len(str(ref)), _LEAST_WIDTH)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' font-family='monospace' "
        "font-size='12' fill='#667'>"
    ]
    for index, one in enumerate(sources):
        y = _ROW_HEIGHT * index + 18
        parts.append(f"<text x='{left}' y='{y}' text-anchor='end'>{escape(str(one))}</text>")
        parts.append(f"<path d='M{left + 6} {y - 4}L{left + 46} {middle}' stroke='#66c'/>")
    parts.append(f"<text x='{left + 52}' y='{middle + 4}'>{escape(str(ref))}</text></svg>")
    return "data:image/svg+xml," + quote("".join(parts), safe="/'=:;,!()*")


def partition_metadata(table: Table, snapshot: Snapshot, partition: Mapping[str, Any]) -> dict[str, Any]:
    """What is true of one partition alone."""
    condition = " AND ".join(f"{name} = '{value}'" for name, value in partition.items())
    scan = table.scan(columns=[], where=condition, version=snapshot.id)
    return {
        "dagster/partition_row_count": scan.count(),
        "partition_files": sum(len(split.file_paths) for split in scan.splits),
        "partition_bytes": sum(split.size_bytes for split in scan.splits),
    }
