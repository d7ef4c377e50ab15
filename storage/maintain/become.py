"""Make a branch what a snapshot holds, of the same branch or another one: one commit on top, of files that are there already.

It acts on the exact state that was judged: `Moved` says that somebody committed meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence

from ..errors import CommitConflict, NotFound
from ..format.deletion_vector import DeletionVector
from ..metadata.history import has_expired
from ..metadata.index_manifest import refuse_index
from ..metadata.live_files import live_files
from ..metadata.manifest import ManifestEntry, Place
from ..metadata.snapshot import OVERWRITE, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.way_back import told_of_way_back
from ..write.attempt import Held
from ..write.commit import TableCommit
from ..write.commit_id import CommitId
from ..write.listeners import CommitListener
from ..write.table_write import CommitMessage
from ..write.vectors import given_vectors


class Moved(CommitConflict):
    """There is a newer snapshot than the one that was judged: judge again."""


def become(
    store: TableStore,
    target: Sequence[ManifestEntry],
    judged: Snapshot | None,
    *,
    operation: str,
    commit_id: CommitId,
    properties: Mapping[str, str],
    listeners: Sequence[CommitListener] = (),
    touches: Callable[[Place], bool] | None = None,
    guard: Callable[[Snapshot | None], None] | None = None,
    even_empty: bool = False,
    held: Held | None = None,
    back_to: Snapshot | int = 0,
    vectors: Mapping[str, DeletionVector] | None = None,
) -> Snapshot | None:
    """Commit, on top of the snapshot that was judged, what makes the live files those of `target`; None if they are,
    unless `even_empty`.

    `touches` leaves buckets out. `guard` is asked as well, before each try; `held`, `back_to`: see `TableCommit.commit`;
    `vectors`: the deletion vectors of the target, by file name. Raises Moved if a snapshot came after the judged one,
    CommitConflict if the commit cannot be.
    """
    try:
        live = live_entries(store, judged)
    except NotFound:
        if has_expired(store, judged):
            raise Moved(f"Snapshot {judged.id if judged else None}, which was judged, has expired meanwhile.") from None
        raise
    there, wanted = {entry.identity for entry in live}, {entry.identity for entry in target}
    may_touch = touches or (lambda place: True)
    added = [entry for entry in target if entry.identity not in there and may_touch(entry.place)]
    deleted = [entry for entry in live if entry.identity not in wanted and may_touch(entry.place)]
    kept = [entry for entry in target if may_touch(entry.place)]
    return TableCommit(store, commit_id, listeners).commit(
        # Without paths: the files are somebody else's too, and stay whatever happens here.
        [CommitMessage(tuple(added))],
        deleted=deleted,
        kind=OVERWRITE,
        operation=operation,
        own_properties=properties,
        guard=guard_of(judged, guard),
        adds_again=True,
        held=held,
        back_to=back_to,
        even_empty=even_empty,
        vectors=() if not store.options.deletion_vectors_enabled else given_vectors(kept, vectors or {}),
    )


def guard_of(
    judged: Snapshot | None, guard: Callable[[Snapshot | None], None] | None = None
) -> Callable[[Snapshot | None], None]:
    """A guard that raises Moved unless the newest snapshot is the one that was judged, and then asks another."""

    def refuse_moved(latest: Snapshot | None) -> None:
        if (latest.identity if latest else None) != (judged.identity if judged else None):
            raise Moved(
                f"Snapshot {latest.id if latest else None} came after {judged.id if judged else None}, which was judged. "
                "Nothing is done; ask again."
            )
        if guard is not None:
            guard(latest)

    return refuse_moved


def live_entries(store: TableStore, snapshot: Snapshot | None) -> list[ManifestEntry]:
    """The live files at a snapshot; none without one. Raises Unsupported if they and their deletion vectors are not all that
    tells its rows.
    """
    refuse_index(store, snapshot)
    with told_of_way_back(store, snapshot):
        return [] if snapshot is None else live_files(store.manifests_of(snapshot), store.manifests)
