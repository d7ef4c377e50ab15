"""What an incremental asset reads: the rows that have come to an input since it was read last, where that can be told."""

from dataclasses import dataclass

import pyarrow as pa

from lineage import (
    sources_of,
)
from storage import NotFound, Snapshot, SnapshotRef, Table, Unsupported

from ..session import Session
from ..warehouse.snapshot_properties import CODE_PROPERTY

# Below, it is of no account that looking for what has changed reads more than there is.
_ROWS_WORTH_READING_ALL = 100_000


@dataclass(frozen=True)
class Increment:
    """The rows of an input that an incremental asset has not read, or None if it has to read all of it; and the reason.

    `is_all`: the rows are all that there are, and take the place of the table's.
    """

    rows: pa.Table | None
    reason: str
    is_all: bool = False


class ReadAll(Exception):
    """Says why an increment would not be right."""


def rows_since(session: Session, table: Table, known: SnapshotRef, name: str, ref: SnapshotRef, sink: str) -> pa.Table:
    """The rows that came to a table since a snapshot. Raises ReadAll."""
    if table.schema.primary_keys and not session.table(sink).schema.primary_keys:
        raise ReadAll(f"rows of {name} may change, and {sink} has no key by which they could be replaced")
    then = table.snapshots.find(known.snapshot_id)
    if then is None or then.time_ms != known.time_ms:
        raise ReadAll(f"{known}, which was read last, has expired or is another one now")
    _refuse_more_than_all(table, known, ref)
    try:
        rows, went = table.net_changes(known.snapshot_id, ref.snapshot_id)
    except (NotFound, Unsupported) as error:
        raise ReadAll(str(error)) from None
    if went.num_rows:
        raise ReadAll(f"{went.num_rows} rows that {known} had were deleted, or replaced by others")
    return rows


def consumed(session: Session, code_version: str, sink: str, job: str, ref: SnapshotRef) -> tuple[SnapshotRef, int]:
    """The snapshot of a source that the newest rows of an asset's table were made from, and the one that has these rows. Raises
    ReadAll if that is not the whole story of them.
    """
    snapshot = own_newest(session, code_version, sink, job)
    for source in sources_of(snapshot):
        if (source.database, source.table, source.branch) == (ref.database, ref.table, ref.branch):
            return source, snapshot.id
    raise ReadAll(f"snapshot {snapshot.id} of {sink} was not made from {ref.table_name}")


def own_newest(session: Session, code_version: str, sink: str, job: str) -> Snapshot:
    """The newest change of an asset's table, if the asset has made it as it is now. Raises ReadAll."""
    made = session.table(sink).last_change() if session.catalog.exists(sink) else None
    snapshot = None if made is None else session.table(sink).snapshot(made.snapshot_id)
    if snapshot is None:
        raise ReadAll(f"{sink} has no rows yet")
    if snapshot.commit_user != job:
        raise ReadAll(f"snapshot {snapshot.id} of {sink} was written by {snapshot.commit_user}")
    if (snapshot.properties or {}).get(CODE_PROPERTY) != code_version:
        raise ReadAll(f"the code has changed since snapshot {snapshot.id} of {sink}")
    return snapshot


def _refuse_more_than_all(table: Table, known: SnapshotRef, ref: SnapshotRef) -> None:
    """Raise ReadAll if more was written and taken away since a snapshot than there is."""
    later = table.snapshots.between(known.snapshot_id, ref.snapshot_id)
    changes = [table.changes_of(snapshot) for snapshot in later if snapshot.changes_rows]
    moved, there = sum(change.rows_added + change.rows_deleted for change in changes), table.snapshot(ref.snapshot_id)
    if there is not None and moved > max(there.total_record_count, _ROWS_WORTH_READING_ALL):
        raise ReadAll(f"{moved} rows were written and taken away since {known}, which is more than there are")
