"""What lineage is made of: which job read and wrote which tables, and which snapshots at which barrier.

A job is a commit user, a barrier a commit identifier: they stand in the snapshot itself, next to the list of sources,
so that every row here can be read off the tables again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from storage import Snapshot, SnapshotRef

Side = Literal["source", "sink"]
# Key of the snapshot property that lists the snapshots it was made from.
SOURCES_PROPERTY = "snapline.sources"


@dataclass(frozen=True, slots=True, order=True)
class TableLineage:
    """A job reads (source) or writes (sink) a table."""

    job: str
    database: str
    table: str
    branch: str
    create_time: datetime


@dataclass(frozen=True, slots=True, order=True)
class SnapshotLineage:
    """A job consumed (source) or produced (sink) a snapshot at a barrier."""

    job: str
    barrier_id: int
    database: str
    table: str
    branch: str
    snapshot_id: int
    create_time: datetime

    def ref(self, catalog: str) -> SnapshotRef:
        return SnapshotRef(catalog, self.database, self.table, self.branch, self.snapshot_id)


@dataclass(frozen=True, slots=True, order=True)
class JobStartup:
    """The snapshot of a table that a job began with."""

    job: str
    database: str
    table: str
    branch: str
    snapshot_id: int


def sources_property(sources: Sequence[SnapshotRef]) -> dict[str, str]:
    """The snapshot property that names the sources of a commit."""
    rows = sorted({(one.catalog, one.database, one.table, one.branch, one.snapshot_id) for one in sources})
    return {SOURCES_PROPERTY: json.dumps(rows, ensure_ascii=False)}


def sources_of(snapshot: Snapshot) -> list[SnapshotRef]:
    """The snapshots that a snapshot was made from, as its properties tell."""
    text = (snapshot.properties or {}).get(SOURCES_PROPERTY)
    return [SnapshotRef(*row) for row in json.loads(text)] if text else []


def commit_time(snapshot: Snapshot) -> datetime:
    """When a snapshot was committed: UTC, without time zone, in whole milliseconds."""
    moment = datetime.fromtimestamp(snapshot.time_ms // 1000, UTC).replace(tzinfo=None)
    return moment.replace(microsecond=snapshot.time_ms % 1000 * 1000)
