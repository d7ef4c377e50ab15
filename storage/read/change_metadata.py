"""Metadata columns of changes: which commit made each.

A commit makes the changes that it tells of. Those that a compaction tells of (`changelog-producer` = `lookup` or
`full-compaction`) were made by the commits whose rows it moved to where readers see them: if those are of one snapshot, so is
every change; else the sequence number of a row that came lies within the files of one of them, and a row that was replaced (-U)
is of the commit of the one that follows it (+U). Of a row that went (-D) nothing is left that would tell. Follows decision 0050.
"""

import datetime as dt
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..errors import InvalidRequest, NotFound
from ..lsm.system_columns import DELETE, SEQUENCE_NUMBER, UPDATE_AFTER, UPDATE_BEFORE, VALUE_KIND
from ..metadata.manifest import ADD, POSTPONED_BUCKET, ManifestEntry, Place
from ..metadata.schema import TableSchema
from ..metadata.snapshot import COMPACT, Snapshot
from ..metadata.table_store import TableStore
from .contributors import snapshot_before
from .metadata_columns import METADATA_COLUMNS, OF_SNAPSHOTS, metadata_among, metadata_field, metadata_of
from .origins import UNKNOWN, FileOrigin, Origins, Told, origins_of, together
from .row_metadata import of_snapshots
from .split_read import ReadRequest

# The others are of files in which rows stand, and a change stands in none.
OF_CHANGES = frozenset({*OF_SNAPSHOTS, "row_kind", "partition"})


def metadata_of_changes(schema: TableSchema, names: Sequence[str]) -> tuple[str, ...]:
    """Which of some names are metadata of changes. Raises InvalidRequest for metadata that only rows in files have."""
    metadata_names = metadata_among(schema, names)
    for name in metadata_names:
        if metadata_of(name) not in OF_CHANGES:
            known = ", ".join(column for column in METADATA_COLUMNS if column in OF_CHANGES)
            raise InvalidRequest(
                f"{name!r} is metadata of rows in files, and a change tells of its commit alone: {known}. Read the table in "
                "batch."
            )
    return metadata_names


def tells_of_commits(request: ReadRequest) -> bool:
    """Whether somebody asks for what only the commits that made changes tell."""
    return any(metadata_of(name) in OF_SNAPSHOTS for name in request.metadata)


def told_by(snapshot: Snapshot) -> Origins:
    """Of the changes that a snapshot made itself."""
    local = dt.datetime.fromtimestamp(snapshot.time_ms / 1000)
    return Origins({}, {snapshot.id: Told(local, snapshot.commit_user, snapshot.commit_identifier)})


def origins_of_changelog(
    store: TableStore, snapshot: Snapshot, changelog: Sequence[ManifestEntry], told_level: int
) -> Origins:
    """Of the changes in the files of a snapshot's changelog. `told_level`: changes to rows below this level were not told yet.

    Where history has ended, nothing is known.
    """
    if snapshot.commit_kind != COMPACT:
        return told_by(snapshot)
    try:
        gone = [
            entry
            for entry in store.delta_of(snapshot)
            if entry.kind != ADD and (entry.file.level < told_level or entry.bucket == POSTPONED_BUCKET)
        ]
        before_store, before = snapshot_before(store, snapshot)
        origins = Origins() if before is None else origins_of(before_store, before, gone)
    except NotFound:
        origins = Origins()
    places = (
        {entry.place: _origin_at(store, entry.place, gone, origins) for entry in changelog} if origins.files else {}
    )
    return Origins({entry.file.name: places.get(entry.place, FileOrigin()) for entry in changelog}, origins.snapshots)


def _origin_at(store: TableStore, place: Place, gone: Sequence[ManifestEntry], origins: Origins) -> FileOrigin:
    """Of the changes that a compaction has told of in a bucket."""
    partition, _ = place
    moved = [entry for entry in gone if entry.place == place]
    postponed = [entry for entry in gone if (entry.partition, entry.bucket) == (partition, POSTPONED_BUCKET)]
    files = [(entry.file, origins.files[entry.file.name]) for entry in (*moved, *postponed)]
    # A row that went may have been too old.
    has_one_cause = store.options.record_level_expire_time_ms is None
    origin = together(files, is_one=has_one_cause)
    # Rows that come from a postponed bucket are numbered anew.
    return FileOrigin() if postponed and origin.starts is not None else origin


def snapshots_of_changes(rows: pa.RecordBatch, origin: FileOrigin) -> np.ndarray:
    """The snapshot that made each change of a file's (int64), UNKNOWN where it cannot be told. The rows have `_VALUE_KIND` and
    `_SEQUENCE_NUMBER`, and none that was replaced (-U) is the last where the one that replaced it follows.
    """
    snapshot_ids = origin.of(rows.column(SEQUENCE_NUMBER).to_numpy(), rows.num_rows)
    if origin.starts is None:
        return snapshot_ids
    kinds = rows.column(VALUE_KIND).to_numpy()
    following = np.append(np.where(kinds[1:] == UPDATE_AFTER, snapshot_ids[1:], UNKNOWN), UNKNOWN)
    return np.where(kinds == UPDATE_BEFORE, following, np.where(kinds == DELETE, UNKNOWN, snapshot_ids))


def with_metadata(
    rows: pa.RecordBatch, kinds: pa.Array, ids: np.ndarray, partition: str, names: Sequence[str], origins: Origins
) -> pa.RecordBatch:
    """Changes with metadata columns under the names by which they are asked for; those that are there already stay, but for
    the kind.
    """
    own = [name for name in rows.schema.names if metadata_of(name) != "row_kind" or name not in names]
    columns = {name: rows.column(name) for name in own}
    for name in names:
        if name not in columns:
            columns[name] = _column(name, kinds, ids, partition, origins)
    return pa.RecordBatch.from_pydict(columns)


def _column(name: str, kinds: pa.Array, ids: np.ndarray, partition: str, origins: Origins) -> pa.Array:
    key, kind = metadata_of(name), metadata_field(name).type
    if key == "row_kind":
        return kinds
    if key == "partition":
        return pa.repeat(pa.scalar(partition, kind), len(kinds))
    assert key is not None
    return of_snapshots(key, ids, origins.snapshots, kind)
