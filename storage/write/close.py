"""Close a branch to writers while its history is being cut: a snapshot that none of them goes past.

It is created as any commit is, only if its number is free, so that a writer either comes first or finds the branch
closed. Until it is taken away again, readers see what it shows.
"""

from ..errors import CommitConflict
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, COMPACT, Snapshot
from ..metadata.table_store import TableStore
from .commit_time import commit_time

_CLOSED_PROPERTY = "snapline.closed"
# What a branch is closed for.
ROLLBACK, MERGE, REPLACEMENT = "a rollback to snapshot", "the merge of branch", "the replacement of main with branch"


def closed_for(snapshot: Snapshot | None) -> str | None:
    """What a branch is closed for, if its latest snapshot closes it."""
    return None if snapshot is None else (snapshot.properties or {}).get(_CLOSED_PROPERTY)


def is_closed_for(snapshot: Snapshot | None, *reasons: str) -> bool:
    """Whether a branch is closed by its latest snapshot for one of some reasons, whatever the object."""
    return (closed_for(snapshot) or "").startswith(reasons)


def refuse_closed(store: TableStore, latest: Snapshot | None) -> None:
    """Raise CommitConflict if a branch is closed."""
    reason = closed_for(latest)
    if reason is not None:
        raise CommitConflict(
            f"{store.identifier} is closed to writers: {reason} has begun and is not done. Wait for it; if whoever did it "
            "has died, do it again."
        )


def own_files(store: TableStore, closing: Snapshot) -> list[str]:
    """The files that were written for a snapshot that closes a branch, and for nothing else."""
    return [store.paths.manifest(one) for one in (closing.base_manifest_list, closing.delta_manifest_list)]


def close(
    store: TableStore, latest: Snapshot | None, reason: str, *, shows: Snapshot | None, snapshot_id: int | None = None
) -> Snapshot | None:
    """Put on top of the latest snapshot one that closes the branch and shows the state of another; None if a writer
    came first. `snapshot_id`: its number, if it is not the next one.
    """
    name = store.clock.unique_name()
    lists = [f"manifest-list-{name}-0", f"manifest-list-{name}-1"]
    sizes = [
        store.manifests.write_list(lists[0], [] if shows is None else store.manifests_of(shows)),
        store.manifests.write_list(lists[1], []),
    ]
    time = commit_time(store.clock.now_ms(), latest, None)
    total = 0 if shows is None else shows.total_record_count
    snapshot = Snapshot(
        id=snapshot_id or (latest.id + 1 if latest else 1), uuid=store.clock.unique_name(),
        schema_id=shows.schema_id if shows else store.schema.id, base_manifest_list=lists[0],
        base_manifest_list_size=sizes[0], delta_manifest_list=lists[1], delta_manifest_list_size=sizes[1],
        commit_user=name, commit_identifier=BATCH_COMMIT_IDENTIFIER, commit_kind=COMPACT,
        time_ms=time.time_ms, total_record_count=total,
        delta_record_count=0, index_manifest=shows.index_manifest if shows else None,
        watermark=shows.watermark if shows else None, next_row_id=latest.next_row_id if latest else 0,
        operation="CLOSE", properties=time.with_properties({_CLOSED_PROPERTY: reason}),
    )  # fmt: skip
    if store.snapshots.create(snapshot):
        return snapshot
    store.file_io.delete_quietly([store.paths.manifest(one) for one in lists])
    return None
