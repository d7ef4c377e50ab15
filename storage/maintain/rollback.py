"""Roll a branch back to a snapshot: later snapshots and tags go, and the files that only they needed.

The newest snapshot goes first, so that a reader sees the branch shrink step by step and a crash leaves a shorter
history than before; calling it again finishes the work. Schemas stay: a rollback undoes no change of columns.
"""

from ..errors import NotFound
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from .expire import Removal, remove_snapshots


def rollback_to(store: TableStore, target: Snapshot) -> Removal:
    """Make a snapshot the latest again, a tagged one that has expired among them. Raises NotFound for one of elsewhere."""
    found = store.snapshots.find(target.id)
    if found is not None and found.uuid != target.uuid:
        raise NotFound(f"{store.identifier} has another snapshot {target.id} than the one that is meant.")
    later = [snapshot for snapshot in store.snapshots.all() if snapshot.id > target.id]
    if found is None:
        # Only a tag remembers it. Nothing older can be left, and ids have no gaps: it becomes the whole history.
        store.snapshots.restore(target.without_others())
    for tag in store.tags.all():
        if tag.snapshot.id > target.id:
            store.tags.delete(tag.name)
    return remove_snapshots(store, later[::-1])
