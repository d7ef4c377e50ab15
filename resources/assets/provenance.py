"""Dagster's event log: which versions of which assets were read, and which materialization told of a snapshot."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

import dagster as dg

from lineage import sources_of
from storage import Snapshot, SnapshotRef

from ..session import Session


def made_from(
    context: dg.AssetExecutionContext, session: Session, snapshot: Snapshot, read: Sequence[SnapshotRef]
) -> list[SnapshotRef]:
    """The sources of a snapshot: an attempt that died may have committed it, from what it had `read` itself."""
    if {(ref, ref.time_ms) for ref in sources_of(snapshot)} == {(ref, ref.time_ms) for ref in read}:
        # What has just been committed says what has just been read: no table need be looked at again.
        return list(read)
    sources = list(session.sources_of(snapshot).values())
    if newer := sorted(set(read) - set(sources)):
        context.log.warning(
            f"snapshot {snapshot.id} was committed by an attempt that died before it could say so, from "
            f"{', '.join(map(str, sources))}: {', '.join(map(str, newer))} is not in it. Materialize the asset once more"
        )
    return sources


def runs_that_told(instance: dg.DagsterInstance, key: dg.AssetKey, ref: SnapshotRef, since: float) -> list[str]:
    """The ids of the runs with an event of a snapshot, of those that came since a time, in seconds since 1970."""
    # Runs that are repeated tell of earlier snapshots after later ones.
    recent = takewhile(lambda event: event.timestamp >= since, _events(instance, key, ref.branch))
    return [event.run_id for event in recent if event.snapshot_id == ref.snapshot_id]


def provenance_tags(instance: dg.DagsterInstance, sources: Mapping[dg.AssetKey, SnapshotRef]) -> dict[str, str]:
    """Tags that tell Dagster which versions of which assets were read. Its own, taken as a step starts, can be wrong."""
    tags = {}
    for key, ref in sources.items():
        tags[f"dagster/input_data_version/{key.to_user_string()}"] = ref.data_version
        pointer = event_of(instance, key, ref)
        if pointer is not None:
            tags[f"dagster/input_event_pointer/{key.to_user_string()}"] = str(pointer)
    return tags


def event_of(instance: dg.DagsterInstance, key: dg.AssetKey, ref: SnapshotRef) -> int | None:
    """The newest materialization of a table that is not newer than a snapshot."""
    for event in _events(instance, key, ref.branch):
        if event.snapshot_id <= ref.snapshot_id:
            return event.storage_id
    return None


def newest_told(instance: dg.DagsterInstance, key: dg.AssetKey, branch: str) -> int:
    """The snapshot of the newest materialization of a branch of a table; 0 without any."""
    return next((event.snapshot_id for event in _events(instance, key, branch)), 0)


class _Event(NamedTuple):
    """A materialization of a table."""

    storage_id: int
    snapshot_id: int
    run_id: str
    timestamp: float


def _events(instance: dg.DagsterInstance, key: dg.AssetKey, branch: str) -> Iterator[_Event]:
    """The materializations of a branch of a table, newest first."""
    cursor = None
    while True:
        page = instance.fetch_materializations(key, limit=100, cursor=cursor)
        for record in page.records:
            event = record.asset_materialization
            if event is None:
                continue
            snapshot, of_branch = event.metadata.get("snapshot"), event.metadata.get("branch")
            if snapshot is not None and of_branch is not None and of_branch.value == branch:
                yield _Event(record.storage_id, int(str(snapshot.value)), record.run_id, record.timestamp)
        if not page.has_more:
            return
        cursor = page.cursor
