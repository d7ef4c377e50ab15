"""A streaming read: where a reader of changes begins, how far it goes in one step, and what it reads there.

A position is the id of the last snapshot that was consumed. `NOTHING_READ` stands before the first reading of the whole
table, after which the changes follow: each row is seen once. Decisions only; who remembers the position (a checkpoint, a
consumer) is the caller's affair. Source: FLIP-188, start-up modes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .. import metrics
from ..errors import InvalidRequest, NotFound
from ..metadata.table_store import TableStore
from .changes import ChangeSplit, plan_changes, plan_first_reading
from .split_read import ReadRequest

NOTHING_READ = -1
FULL, LATEST, FROM_SNAPSHOT, FROM_TIMESTAMP = "full", "latest", "from-snapshot", "from-timestamp"
FROM_SNAPSHOT_FULL = "from-snapshot-full"
START_UP_MODES = (FULL, LATEST, FROM_SNAPSHOT, FROM_SNAPSHOT_FULL, FROM_TIMESTAMP)


@dataclass(frozen=True, slots=True)
class StartUp:
    """How a stream begins: `full` (the whole table, then changes), `latest` (only what comes), `from-snapshot` (with
    the changes of that snapshot), `from-snapshot-full` (the whole table at that snapshot, then changes) or
    `from-timestamp` (with the changes of the first snapshot at or after it).
    """

    mode: str = FULL
    snapshot_id: int | None = None
    timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", self.mode.lower())
        if self.mode not in START_UP_MODES:
            raise InvalidRequest(f"Start-up mode {self.mode!r} is unknown. Use one of: {', '.join(START_UP_MODES)}.")
        if (self.snapshot_id is not None) != (self.mode in (FROM_SNAPSHOT, FROM_SNAPSHOT_FULL)):
            raise InvalidRequest(
                "A snapshot id belongs to the start-up mode `from-snapshot`, or `from-snapshot-full`, which need one."
            )
        if (self.timestamp_ms is not None) != (self.mode == FROM_TIMESTAMP):
            raise InvalidRequest("A timestamp belongs to the start-up mode `from-timestamp`, which needs one.")


def refuse_beyond(store: TableStore, start: StartUp) -> None:
    """Raise NotFound for a snapshot to begin with that is not the next one to come either."""
    latest = store.snapshots.latest_id() or 0
    if start.snapshot_id is not None and start.snapshot_id > latest + 1:
        raise NotFound(
            f"Snapshot {start.snapshot_id} of {store.identifier} does not exist: the latest is {latest}. A stream begins with "
            f"one that is there, or with {latest + 1}, the next."
        )


def first_position(store: TableStore, start: StartUp) -> int:
    """The position of a stream that begins. Raises NotFound for a snapshot that has expired."""
    if start.mode == FULL:
        return NOTHING_READ
    if start.mode == FROM_SNAPSHOT_FULL:
        store.snapshots.get(start.snapshot_id or 0)
        return NOTHING_READ
    latest = store.snapshots.latest_id() or 0
    if start.mode == LATEST:
        return latest
    if start.snapshot_id is not None:
        if start.snapshot_id <= latest:
            store.snapshots.get(start.snapshot_id)
        return start.snapshot_id - 1
    assert start.timestamp_ms is not None
    before = store.snapshots.at_or_before(start.timestamp_ms - 1)
    return before.id if before else (store.snapshots.earliest_id() or 1) - 1


def next_position(
    store: TableStore,
    position: int,
    *,
    snapshots_at_once: int | None,
    until: int | None = None,
    first: int | None = None,
) -> int:
    """Where a step from a position ends: at most so many snapshots on, and never beyond `until`. The first reading is of
    the snapshot `first`, or else of the latest.
    """
    latest = store.snapshots.latest_id() or 0
    metrics.take(metrics.STREAM_LAG, latest - max(position, 0), table=str(store.identifier))
    latest = latest if until is None else min(latest, until)
    if position == NOTHING_READ:
        return latest if first is None else first
    furthest = latest if snapshots_at_once is None else min(latest, position + snapshots_at_once)
    return max(position, furthest)


def plan_step(request: ReadRequest, start: int, end: int) -> Iterator[ChangeSplit]:
    """What is read between two positions. Raises NotFound if a snapshot in between has expired."""
    if start != NOTHING_READ:
        yield from plan_changes(request, start, end)
    elif end > 0:
        yield from plan_first_reading(request, request.store.snapshots.get(end))
