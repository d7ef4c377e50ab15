"""What a branch of a table has been through, as far as it can be read: its snapshots, and what became of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from .maintain.rollback import taken_back_in
from .metadata.branch_origin import read_origin
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .metadata.tag import Tag
from .write.taken_over import branch_taken_over


@dataclass(frozen=True)
class BranchHistory:
    """The snapshots of a branch, ascending, and its tags.

    `taken_back`: the numbers of those whose rows are in no later one, by a rollback or a main that was given up.
    `taken_over`: for snapshots that brought the commits of another branch, its name. `begun_at`: the branch and the number
    of the snapshot that this one began with; None for main, and for a branch that began empty.
    """

    snapshots: tuple[Snapshot, ...]
    tags: tuple[Tag, ...] = ()
    taken_back: frozenset[int] = frozenset()
    taken_over: Mapping[int, str] = field(default_factory=dict)
    begun_at: tuple[str, int] | None = None

    @cached_property
    def ids(self) -> frozenset[int]:
        """The numbers of the snapshots."""
        return frozenset(snapshot.id for snapshot in self.snapshots)

    @cached_property
    def tagged_ids(self) -> set[int]:
        """The numbers of snapshots that a tag keeps readable."""
        return {tag.snapshot.id for tag in self.tags if tag.is_of_its_branch}

    def fate(self, snapshot_id: int) -> str:
        """What has become of a snapshot of the branch: `expired` or `taken back`; empty for one that can be read and counts."""
        if snapshot_id in self.ids:
            return "taken back" if snapshot_id in self.taken_back else ""
        if snapshot_id in self.tagged_ids:
            return ""
        return "expired" if snapshot_id <= (self.snapshots[-1].id if self.snapshots else 0) else "taken back"


def branch_history(store: TableStore, known: BranchHistory | None = None) -> BranchHistory:
    """What a branch has been through by now. `known`: what it had been before, of which nothing is read again that still is."""
    latest = store.snapshots.latest()
    tags = tuple(store.tags.all())
    snapshots = _known_snapshots(store, latest, known) or tuple(store.snapshots.all())
    origin = None if store.paths.branch == "main" else read_origin(store.file_io, store.paths)
    taken_over = {snapshot.id: branch for snapshot in snapshots if (branch := branch_taken_over(snapshot))}
    begun_at = None if origin is None or origin.snapshot_id is None else (origin.branch, origin.snapshot_id)
    found = BranchHistory(snapshots, tags, frozenset(taken_back_in(snapshots)), taken_over, begun_at)
    return known if known is not None and known == found else found


def _known_snapshots(
    store: TableStore, latest: Snapshot | None, known: BranchHistory | None
) -> tuple[Snapshot, ...] | None:
    """The snapshots of the branch, of which none is read again that is known; None if the newest known one is not there any
    more, or they do not follow each other.
    """
    if known is None or latest is None or not known.snapshots:
        return None
    last = known.snapshots[-1]
    still = latest if latest.id == last.id else store.snapshots.find(last.id)
    if still is None or still.identity != last.identity:
        return None
    by_id = {snapshot.id: snapshot for snapshot in known.snapshots}
    found: list[Snapshot] = []
    for snapshot_id in store.snapshots.ids():
        snapshot = by_id.get(snapshot_id) or store.snapshots.find(snapshot_id)
        if snapshot is None or (found and snapshot.follows not in (None, found[-1].identity)):
            return None
        found.append(snapshot)
    return tuple(found)
