"""Main takes over what a branch holds, as one commit on top of what main has become. No file is copied, no snapshot goes.

Where neither side has changed rows since they parted, main keeps its own files: it may have compacted them.
"""

from collections.abc import Mapping, Sequence

from ..errors import CommitConflict
from ..metadata.live_files import live_files
from ..metadata.manifest import ManifestEntry, Place
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..write.commit import CommitId, CommitListener, TableCommit
from ..write.table_write import CommitMessage
from .merge_branch import copy_schemas, refuse_other_schemas
from .verdict import judge


def adopt(
    main: TableStore,
    branch: TableStore,
    *,
    until: int,
    commit_id: CommitId,
    properties: Mapping[str, str] | None = None,
    listeners: Sequence[CommitListener] = (),
) -> Snapshot | None:
    """Commit to main what makes its rows those of the branch; returns the snapshot, None if they are already.

    What main did up to the snapshot `until` is replaced. Raises CommitConflict if it has changed rows since then. A repeated
    `commit_id` changes nothing.
    """
    commit = TableCommit(main, commit_id, listeners)
    earlier = commit.find_committed()
    if earlier is not None:
        return earlier

    def refuse_later() -> None:
        later = [one for one in main.snapshots.all() if one.id > until and one.changes_rows]
        if later:
            told = ", ".join(f"{one.id} ({one.operation or one.commit_kind} by {one.commit_user})" for one in later)
            raise CommitConflict(
                f"Main of {main.identifier.full_name} has moved beyond snapshot {until}, up to which branch "
                f"{branch.identifier.branch!r} replaces it: {told}."
            )

    refuse_later()
    refuse_other_schemas(branch, main)
    copy_schemas(branch, main)
    theirs, ours = _live(branch), _live(main)
    touched = _touched(main, branch, [*theirs, *ours])
    held = {one.identity for one in ours}
    wanted = {one.identity for one in theirs}
    added = [one for one in theirs if one.place in touched and one.identity not in held]
    deleted = [one for one in ours if one.place in touched and one.identity not in wanted]
    return commit.commit(
        # Without paths: the files are the branch's too, and stay whatever happens here.
        [CommitMessage(tuple(added))],
        deleted=deleted,
        operation="ADOPT",
        properties=properties,
        guard=lambda _: refuse_later(),
    )


def _live(store: TableStore) -> list[ManifestEntry]:
    latest = store.snapshots.latest()
    return [] if latest is None else live_files(store.manifests_of(latest), store.manifests.read)


def _touched(main: TableStore, branch: TableStore, live: Sequence[ManifestEntry]) -> set[Place]:
    """The buckets in which either side has changed rows since they parted; all of them if that cannot be told."""
    common = judge(main, branch).common
    places: set[Place] = set()
    for store in (main, branch):
        snapshots = [one for one in store.snapshots.all() if one.id > (common or 0)]
        if common is None or (snapshots and min(one.id for one in snapshots) > common + 1):
            return {entry.place for entry in live}
        for snapshot in snapshots:
            if snapshot.changes_rows:
                places |= {entry.place for entry in store.delta_of(snapshot)}
    return places
