"""What the Dagster UI shows of a materialization, under the keys that it knows how to render."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import quote

import dagster as dg

from lineage import columns_of
from storage import CommitSummary, CorruptData, DataType, Snapshot, SnapshotRef, Split, Table
from storage.engines.duckdb_compare import count_changes

from ..links.address import recovery_address, snapshot_address
from ..settings import Settings
from ..warehouse.partition_condition import condition

SNAPSHOT_PAGE, RECOVERY_PAGE = "snapshot_page", "recovery_page"
_ROW_HEIGHT = 24
_COMPARED_ROWS = 1_000_000
# More are not named in a condition: the whole table is compared.
_NAMED_PARTITIONS = 100
_KINDS = ("rows_inserted", "rows_updated", "rows_deleted")
_NOTHING = {"rows_added": 0, "rows_removed": 0, "files_added": 0, "files_removed": 0, "bytes_added": 0}
_CHARACTER_WIDTH = 7.5


@dataclass(frozen=True)
class CommitNumbers:
    """What a commit did to rows and files: in all, and by partition, the values of its columns in their order.

    `given`: how many rows it got, and how many of them under a key that a later one has; nothing for tables without a key.
    """

    total: Mapping[str, int]
    partitions: Mapping[tuple[Any, ...], Mapping[str, int]]
    given: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, snapshot: Snapshot) -> "CommitNumbers":
        """The numbers of a snapshot. How many rows were inserted, updated and deleted is told, always, of a table with a key
        and up to a million rows; of a larger one, where comparing takes time, never.
        """
        summary = table.changes_of(snapshot)
        total, duplicates = _numbers(summary), summary.duplicate_keys
        changed = table.changes_by_partition(snapshot)
        partitions = {tuple(_values(table, each).values()): _numbers(item) for each, item in changed}
        changes = _row_changes(table, snapshot)
        if changes is not None:
            for place, counts in changes.items():
                partitions[place] = {**partitions.get(place, _NOTHING), **dict(zip(_KINDS, counts, strict=True))}
            nothing = dict.fromkeys(_KINDS, 0)
            partitions = {place: {**nothing, **partition} for place, partition in partitions.items()}
            total |= {kind: sum(partition[kind] for partition in partitions.values()) for kind in _KINDS}
        keyed = bool(table.schema.primary_keys)
        given = {"rows_given": summary.rows_added + duplicates, "duplicate_keys": duplicates} if keyed else {}
        return cls(total, partitions, given)

    @classmethod
    def none(cls, table: Table) -> "CommitNumbers":
        """The numbers of a run that committed nothing."""
        kinds = dict.fromkeys(_KINDS, 0) if _is_compared(table.snapshot(), table) else {}
        return cls({**_NOTHING, **kinds}, {})

    def of_partition(self, table: Table, partition: Mapping[str, Any]) -> Mapping[str, int]:
        """The numbers of a partition; zeros for one that the commit left alone."""
        values = table.partition_values(partition)
        # Dagster's partition may be several of the table's: those of one day, in every shop.
        at = {number: values[name] for number, name in enumerate(table.schema.partition_keys) if name in values}
        numbers = {**_NOTHING, **{kind: 0 for kind in _KINDS if kind in self.total}}
        for place, counts in self.partitions.items():
            if all(place[number] == value for number, value in at.items()):
                numbers = {key: count + counts.get(key, 0) for key, count in numbers.items()}
        return numbers


def table_metadata(
    table: Table, snapshot: Snapshot, sources: Sequence[SnapshotRef], numbers: CommitNumbers
) -> dict[str, Any]:
    """Metadata of a whole table at a snapshot, and of the commit that made it, whose numbers are given."""
    ref = table.ref(snapshot.id)
    assert ref is not None
    scan = table.after_commit(snapshot.id).scan(columns=[])
    return {
        **page_metadata(ref),
        "dagster/row_count": scan.count(),
        "dagster/column_schema": column_schema(table),
        "dagster/table_name": f"{ref.catalog}.{table.identifier.full_name}",
        "dagster/uri": table.location,
        "snapshot": snapshot.id,
        "branch": table.identifier.branch,
        "commit": f"{snapshot.commit_kind} by {snapshot.commit_user}, barrier {snapshot.commit_identifier}",
        "committed_at": dg.MetadataValue.timestamp(datetime.fromtimestamp(snapshot.time_ms / 1000, UTC)),
        **numbers.total,
        **numbers.given,
        "compaction": _compaction(scan.splits),
        **source_metadata(ref, sources),
        **column_metadata(snapshot),
        **trouble_metadata(table),
    }


def page_metadata(ref: SnapshotRef) -> dict[str, Any]:
    """The page of a snapshot in the lineage browser."""
    return {SNAPSHOT_PAGE: dg.MetadataValue.url(snapshot_address(Settings.from_environment().browser_url, ref))}


def recovery_page_metadata(branch: str) -> dict[str, Any]:
    """The page of a recovery in the lineage browser."""
    return {RECOVERY_PAGE: dg.MetadataValue.url(recovery_address(Settings.from_environment().browser_url, branch))}


def trouble_metadata(table: Table) -> dict[str, Any]:
    """What follows commits to a table and has failed, or the file that should tell and cannot; nothing if all is well."""
    try:
        troubles = table.troubles()
    except CorruptData as error:
        return {"warning": str(error)}
    return {"warning": "; ".join(str(trouble) for trouble in troubles)} if troubles else {}


def _numbers(changes: CommitSummary) -> dict[str, int]:
    return {
        "rows_added": changes.rows_added,
        "rows_removed": changes.rows_deleted,
        "files_added": changes.files_added,
        "files_removed": changes.files_deleted,
        "bytes_added": changes.bytes_added,
    }


def _is_compared(snapshot: Snapshot | None, table: Table) -> bool:
    return bool(table.schema.primary_keys) and (snapshot is None or snapshot.total_record_count <= _COMPARED_ROWS)


def _row_changes(table: Table, snapshot: Snapshot) -> dict[tuple[Any, ...], tuple[int, int, int]] | None:
    """How many rows a commit has inserted, updated and deleted by partition, compared by key; None where that is not told, as
    without a key, where rows added and removed say it all, or if the snapshot before has expired.
    """
    before = table.snapshots.before(snapshot)
    if not _is_compared(snapshot, table) or (before is None and snapshot.id > 1):
        return None
    changed = [each for each, _ in table.changes_by_partition(snapshot)]
    names = table.schema.partition_keys
    if before is None:
        return {
            tuple(_values(table, each).values()): (table.after_commit(snapshot.id).count(where=condition([each])), 0, 0)
            for each in changed
        }
    if not _is_compared(before, table):
        return None
    where = condition(changed) if names and 0 < len(changed) <= _NAMED_PARTITIONS else None
    partition_counts = count_changes(table.after_commit(before.id), table.after_commit(snapshot.id), where)
    return {tuple(_values(table, each)[name] for name in names): counts for each, counts in partition_counts}


def _values(table: Table, partition: Mapping[str, str | None]) -> Mapping[str, Any]:
    known = table.partition_values({name: value for name, value in partition.items() if value is not None})
    return {name: known.get(name) for name in partition}


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
        dg.TableRecord(
            {"table": f"{source.database}.{source.table}", "branch": source.branch, "snapshot": source.snapshot_id}
        )
        for source in sources
    ]
    assets = {
        f"made_from_{source.database}.{source.table}": dg.AssetKey([source.database, source.table])
        for source in sources
    }
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
    # No wider than need be: a wide one would push what stands beside it off the page.
    left = round(_CHARACTER_WIDTH * max(len(str(source)) for source in sources))
    width = left + 60 + round(_CHARACTER_WIDTH * len(str(ref)))
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' font-family='monospace' "
        "font-size='12' fill='#667'>"
    ]
    for index, source in enumerate(sources):
        y = _ROW_HEIGHT * index + 18
        parts.append(f"<text x='{left}' y='{y}' text-anchor='end'>{escape(str(source))}</text>")
        parts.append(f"<path d='M{left + 6} {y - 4}L{left + 46} {middle}' stroke='#66c'/>")
    parts.append(f"<text x='{left + 52}' y='{middle + 4}'>{escape(str(ref))}</text></svg>")
    return "data:image/svg+xml," + quote("".join(parts), safe="/'=:;,!()*")


def partition_metadata(
    table: Table, snapshot: Snapshot, partition: Mapping[str, Any], numbers: CommitNumbers
) -> dict[str, Any]:
    """What is true of one partition alone, in place of what `table_metadata` tells of the whole table."""
    scan = table.after_commit(snapshot.id).scan(columns=[], where=condition([partition]))
    return {
        "dagster/partition_row_count": scan.count(),
        "partition_files": sum(len(split.file_paths) for split in scan.splits),
        "partition_bytes": sum(split.size_bytes for split in scan.splits),
        **numbers.of_partition(table, partition),
    }
