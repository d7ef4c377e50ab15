"""A place in the history of a branch, and the snapshots that came after it."""

from dataclasses import dataclass

from .snapshot import Snapshot
from .table_store import TableStore

# Beyond so many snapshots it is cheaper to look at the table as it is.
_SNAPSHOTS_TO_FOLLOW = 100


@dataclass(frozen=True, slots=True)
class Mark:
    """A snapshot as somebody saw it, by its number and a name that only it has; number 0: there was none yet. Pickles."""

    snapshot_id: int = 0
    delta_manifest_list: str | None = None

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> "Mark":
        """The mark of a snapshot; None is a table without one."""
        return cls() if snapshot is None else cls(snapshot.id, snapshot.delta_manifest_list)


def has_expired(store: TableStore, snapshot: Snapshot | None) -> bool:
    """Whether a snapshot has expired since somebody read it: then files of it may be gone, and there is a newer one.

    Raises NotFound if the table itself has gone.
    """
    if snapshot is None:
        return False
    here = store.snapshots.find(snapshot.id)
    store.refuse_other_table()
    return here is None or here.identity != snapshot.identity


def snapshots_after(store: TableStore, mark: Mark, latest: Snapshot) -> list[Snapshot] | None:
    """The snapshots after a mark and up to the latest, ascending; None if some have expired, or are very many, or if the
    marked one is not part of the history.
    """
    if not 0 <= latest.id - mark.snapshot_id <= _SNAPSHOTS_TO_FOLLOW:
        return None
    if mark.snapshot_id and Mark.of(store.snapshots.find(mark.snapshot_id)) != mark:
        return None
    later: list[Snapshot] = []
    for snapshot_id in range(mark.snapshot_id + 1, latest.id + 1):
        snapshot = latest if snapshot_id == latest.id else store.snapshots.find(snapshot_id)
        if snapshot is None or (later and snapshot.follows not in (None, later[-1].identity)):
            return None
        later.append(snapshot)
    return later
