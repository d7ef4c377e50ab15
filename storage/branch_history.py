"""What a branch of a table has been through, as far as it can be read: its snapshots, and what became of them."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from .errors import StorageError
from .identifier import MAIN_BRANCH
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
    of the snapshot that this one began with; None for main, and for a branch that began empty. `unchanged`: the numbers of
    those that are known to have left the rows as they were. `was_branch`: of a main that was a branch, the name it had.
    `made_ms`: when a branch was made; None for main, and for a branch that does not say it.
    """

    snapshots: tuple[Snapshot, ...]
    tags: tuple[Tag, ...] = ()
    taken_back: frozenset[int] = frozenset()
    taken_over: Mapping[int, str] = field(default_factory=dict)
    begun_at: tuple[str, int] | None = None
    unchanged: frozenset[int] = frozenset()
    was_branch: str = ""
    made_ms: int | None = None

    @property
    def ids(self) -> Set[int]:
        """The numbers of the snapshots."""
        return self._by_id.keys()

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of that number, if it can be read: tags keep some whose files have gone."""
        tagged = self._tags.get(snapshot_id)
        return self._by_id.get(snapshot_id) or (tagged[0].snapshot if tagged else None)

    @cached_property
    def _by_id(self) -> dict[int, Snapshot]:
        return {snapshot.id: snapshot for snapshot in self.snapshots}

    @property
    def known(self) -> Sequence[Snapshot]:
        """All that can be read, ascending: also those whose files have gone, and that a tag keeps."""
        tagged = (tags[0].snapshot for number, tags in self._tags.items() if number not in self._by_id)
        return sorted((*self.snapshots, *tagged), key=lambda snapshot: snapshot.id)

    @property
    def tagged_ids(self) -> Set[int]:
        """The numbers of snapshots that a tag keeps readable."""
        return self._tags.keys()

    def tags_of(self, snapshot_id: int) -> Sequence[Tag]:
        """The tags of a snapshot of the branch."""
        return self._tags.get(snapshot_id, ())

    @cached_property
    def _tags(self) -> dict[int, list[Tag]]:
        tags: dict[int, list[Tag]] = {}
        for tag in self.tags:
            if tag.is_of_its_branch:
                tags.setdefault(tag.snapshot.id, []).append(tag)
        return tags

    def taken_back_by(self, time_ms: int) -> frozenset[int]:
        """The numbers of those that had been taken back at a moment, in milliseconds."""
        return frozenset(taken_back_in([snapshot for snapshot in self.snapshots if snapshot.time_ms <= time_ms]))

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
    origin = None if store.paths.branch == MAIN_BRANCH else read_origin(store.file_io, store.paths)
    taken_over = {snapshot.id: branch for snapshot in snapshots if (branch := branch_taken_over(snapshot))}
    begun_at = None if origin is None or origin.snapshot_id is None else (origin.branch, origin.snapshot_id)
    unchanged = frozenset(_unchanged(store, snapshots, known))
    own = store.paths.branch
    was_branch = own if store.identifier.branch == MAIN_BRANCH != own else ""
    history = BranchHistory(
        snapshots,
        tags,
        frozenset(taken_back_in(snapshots)),
        taken_over,
        begun_at,
        unchanged,
        was_branch,
        None if origin is None else origin.create_time_ms,
    )
    return known if known is not None and known == history else history


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
    snapshots: list[Snapshot] = []
    for snapshot_id in store.snapshots.ids():
        snapshot = by_id.get(snapshot_id) or store.snapshots.find(snapshot_id)
        if snapshot is None or (snapshots and snapshot.follows not in (None, snapshots[-1].identity)):
            return None
        snapshots.append(snapshot)
    return tuple(snapshots)


def _unchanged(store: TableStore, snapshots: Sequence[Snapshot], known: BranchHistory | None) -> Iterator[int]:
    """The numbers of those that left the rows as they were: compactions, statistics, and commits of no file."""
    seen = {} if known is None else {snapshot.id: snapshot.identity for snapshot in known.snapshots}
    for before, snapshot in zip((None, *snapshots), snapshots, strict=False):
        if seen.get(snapshot.id) == snapshot.identity:
            is_unchanged = known is not None and snapshot.id in known.unchanged
        else:
            is_unchanged = not snapshot.changes_rows or _is_empty(store, snapshot, before)
        if is_unchanged:
            yield snapshot.id


def _is_empty(store: TableStore, snapshot: Snapshot, before: Snapshot | None) -> bool:
    if snapshot.delta_record_count or snapshot.index_manifest != (None if before is None else before.index_manifest):
        return False
    try:
        listed = store.manifests.read_list(snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
    except StorageError:
        # It expires this moment, or is damaged: `check` says that.
        return False
    return not any(each.added_file_count or each.deleted_file_count for each in listed)
