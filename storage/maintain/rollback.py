"""Roll a branch back to a snapshot: later snapshots and tags go, and the files that only they needed.

First the branch is closed by a snapshot that shows the old state again: readers have it from then on, writers wait. Then
the snapshots in between go, and last the one that closes. A crash leaves the branch closed; calling it again finishes the
work. Schemas stay: a rollback undoes no change of columns.
"""

from ..errors import CommitConflict, NotFound
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..write.close import REPLACEMENT, ROLLBACK, close, closed_for, is_closed_for, refuse_closed
from .expire import Removal
from .references import delete_unneeded, last_needed


def rollback_to(store: TableStore, target: Snapshot, *, seen: int | None = None) -> Removal:
    """Make a snapshot the latest again, a tagged one that has expired among them.

    `seen`: the latest snapshot that may be lost. Raises NotFound for a snapshot of elsewhere, CommitConflict if there is
    a later one than that.
    """
    found = store.snapshots.find(target.id)
    if found is not None and found.uuid != target.uuid:
        raise NotFound(f"{store.identifier} has another snapshot {target.id} than the one that is meant.")
    _close(store, target, seen)
    later = [snapshot for snapshot in store.snapshots.all() if snapshot.id > target.id]
    tags = [tag for tag in store.tags.all() if tag.snapshot.id > target.id]
    candidates = last_needed(store, later)
    for tag in tags:
        candidates |= last_needed(store, [tag.snapshot])
    if found is None:
        # Only a tag remembers it. Nothing older can be left: it becomes the whole history.
        store.snapshots.restore(target.without_others())
    for snapshot in reversed(later[:-1]):
        store.snapshots.delete(snapshot.id)
    for tag in tags:
        store.tags.delete(tag.name)
    for changelog_id in store.changelogs.ids():
        if changelog_id > target.id:
            store.changelogs.delete(changelog_id)
    if found is None:
        store.snapshots.write_hint("EARLIEST", target.id)
    if later:
        # The hint follows, so that nobody overlooks what closes the branch as long as it is there.
        store.snapshots.delete(later[-1].id)
        store.snapshots.write_hint("LATEST", target.id)
    files = delete_unneeded(store, candidates)
    return Removal(
        tuple(one.id for one in later if closed_for(one) is None), tuple(files), tuple(candidates[one] for one in files)
    )


def _close(store: TableStore, target: Snapshot, seen: int | None) -> None:
    while (latest := store.snapshots.latest()) is not None and latest != target:
        if is_closed_for(latest, ROLLBACK, REPLACEMENT):
            # What a rollback that died has left, or a replacement of main, which is given up.
            return
        refuse_closed(store, latest)
        if seen is not None and latest.id != seen:
            raise CommitConflict(
                f"A writer came first: {store.identifier} has snapshot {latest.id} by now, and {seen} was the last that may "
                "be lost. Nothing is done; ask again."
            )
        if close(store, latest, f"{ROLLBACK} {target.id}", shows=target) is not None:
            return
