"""What came to a table between two versions and what went, in all: the sum of its changes, those of overwrites included."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import NotFound, Unsupported
from ..lsm.row_multiset import difference, row_codes
from ..metadata.change_tracking import UNTRACKED_PROPERTY
from ..metadata.history import told_of_expiry
from ..metadata.live_files import postponed_files
from ..metadata.manifest import POSTPONED_BUCKET
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from .changes import ROW_KIND, SNAPSHOT_ID, changes_schema, latest_schema, plan_changes
from .split_read import ReadRequest


def net_changes(store: TableStore, after: int, until: Snapshot) -> tuple[pa.Table, pa.Table]:
    """The rows that came after a snapshot and are there at a later one, and those that were there and went.

    Versions are what commits left, as `Table.after_commit` shows them. With a primary key a row that has changed is among those
    that came, with its latest values alone. Without one, rows count: what came and went again is in neither. All in memory.
    Raises NotFound if a snapshot in between has expired, Unsupported where changes do not tell what rows are now.
    """
    snapshots = list(_snapshots(store, after, until))
    _refuse_untold(store, snapshots)
    refuse_unseen(store, after)
    shown = latest_schema(store)
    options = {**shown.schema.options, "streaming-read-overwrite": "true"}
    shown = shown.at_schema(replace(shown.schema, options=options))
    names = shown.schema.column_names
    request = ReadRequest(shown, tuple(names), None)
    batches = [batch for split in plan_changes(request, after, until.id) for batch in split.read()]
    rows = pa.Table.from_batches(batches, changes_schema(request))
    plain = rows.drop_columns([ROW_KIND, SNAPSHOT_ID])
    came = pc.is_in(rows[ROW_KIND], pa.array(["+I", "+U"]))
    if not shown.schema.primary_keys:
        went, more = difference(plain.filter(pc.invert(came)), plain.filter(came))
        return more, went
    last = pa.array(_last_of_each(row_codes([plain.select(list(shown.schema.primary_keys))])))
    plain, came = plain.take(last), came.take(last)
    return plain.filter(came), plain.filter(pc.invert(came))


def _last_of_each(codes: np.ndarray) -> np.ndarray:
    """Where each code occurs for the last time, in order."""
    _, from_the_end = np.unique(codes[::-1], return_index=True)
    return np.sort(len(codes) - 1 - from_the_end)


def _snapshots(store: TableStore, after: int, until: Snapshot) -> Iterator[Snapshot]:
    for snapshot_id in range(after + 1, until.id + 1):
        snapshot = store.snapshots.find(snapshot_id)
        if snapshot is None:
            raise NotFound(f"Snapshot {snapshot_id} of {store.identifier} has expired: what it did cannot be told.")
        yield snapshot


def _refuse_untold(store: TableStore, snapshots: list[Snapshot]) -> None:
    """Raise Unsupported if changes are not all that rows have become."""
    name = store.identifier
    for snapshot in snapshots:
        if snapshot.changes_rows and UNTRACKED_PROPERTY in (snapshot.properties or {}):
            raise Unsupported(f"Snapshot {snapshot.id} of {name} was committed without change tracking.")
    if not store.schema.primary_keys:
        return
    for schema_id in {snapshot.schema_id for snapshot in snapshots}:
        options = store.schemas.get(schema_id).table_options
        if options.merge_engine != "deduplicate":
            raise Unsupported(f"The merge engine of {name}, {options.merge_engine}, makes rows of what was written.")
        if options.sequence_field:
            raise Unsupported(f"{name} has a 'sequence.field': what was written last need not be what a row is now.")
        if options.told_level is not None:
            raise Unsupported(f"'changelog-producer' = {options.changelog_producer!r} of {name} tells of rows later.")


def refuse_unseen(store: TableStore, after: int) -> None:
    """Raise Unsupported if a snapshot has rows in postponed buckets, which changes have told before it: who read the table at
    that snapshot has not got them, and would get them from no change after it.
    """
    if not after or not store.schema.primary_keys or store.options.bucket != POSTPONED_BUCKET:
        return
    snapshot = store.snapshots.find(after)
    if snapshot is None:
        raise NotFound(f"Snapshot {after} of {store.identifier} has expired: what its readers saw cannot be told.")

    with told_of_expiry(store, snapshot):
        if postponed_files(store.manifests_of(snapshot), store.manifests):
            raise Unsupported(
                f"Snapshot {after} of {store.identifier} has rows that its readers see once they are compacted: changes after it "
                "do not tell of them."
            )
