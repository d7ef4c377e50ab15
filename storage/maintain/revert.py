"""Revert one commit and keep those after it: what it added goes, what it took away comes back.

Of a table with a key, rows that came later stay the later ones: where what comes back has higher sequence numbers, their
files are written anew with higher ones.
"""

from collections.abc import Mapping, Sequence

from ..errors import CommitConflict, Unsupported
from ..metadata.history import REVERTED_PROPERTY
from ..metadata.index_manifest import refuse_index
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.schema_check import refuse_moving_keys
from ..metadata.snapshot import OVERWRITE, Snapshot
from ..metadata.table_store import TableStore
from ..write.commit import TableCommit
from ..write.commit_id import CommitId
from ..write.renumber import raised_copies
from ..write.table_write import CommitMessage
from .become import Moved, guard_of, live_entries
from .follow import tell_after


def revert(store: TableStore, snapshot: Snapshot, commit_id: CommitId) -> Snapshot | None:
    """Commit the inverse of a snapshot on top of what has come since; returns that commit.

    Raises CommitConflict if later commits have merged its files with their own, Unsupported if it has an index manifest.
    """
    if store.options.deletion_vectors_enabled:
        raise Unsupported(
            f"Snapshot {snapshot.id} of {store.identifier} cannot be taken back alone: the table has 'deletion-vectors.enabled'. "
            "Insist with discard-main, which takes back what came later as well, or roll the table back."
        )
    refuse_index(store, snapshot)
    refuse_moving_keys(store.schema, "Taking a commit back alone, not with discard-main what came later as well,")
    delta = store.delta_of(snapshot)
    back = [entry.added() for entry in delta if entry.kind != ADD]
    highest = _highest(back)
    while True:
        latest = store.snapshots.latest()
        later = _later_files(store, snapshot, latest, highest) if store.schema.primary_keys else []
        copies = raised_copies(store, later, _shifts(highest, later))
        messages = [
            # Without paths: the files are not its own.
            CommitMessage(tuple(back)),
            CommitMessage(tuple(entry for entry, _ in copies), tuple(path for _, path in copies)),
        ]
        try:
            reverted = TableCommit(store, commit_id).commit(
                messages,
                deleted=[*(entry for entry in delta if entry.kind == ADD), *later],
                kind=OVERWRITE,
                operation="REVERT",
                own_properties=reverting(snapshot),
                adds_again=True,
                back_to=snapshot.id - 1,
                guard=guard_of(latest),
            )
        except Moved:
            continue
        except CommitConflict as error:
            raise CommitConflict(
                f"Snapshot {snapshot.id} of {store.identifier} cannot be taken back alone, for later commits build on it: "
                f"{error} Insist with discard-main, which takes those back as well."
            ) from None
        tell_after(store, reverted, ())
        return reverted


def _later_files(
    store: TableStore, snapshot: Snapshot, latest: Snapshot | None, highest: Mapping[Place, int]
) -> list[ManifestEntry]:
    """The files that came after a snapshot to buckets in which its rows would be hidden by those that come back: what comes
    back may have higher sequence numbers than the bucket had when they were written. Raises CommitConflict if they have been
    compacted.
    """
    since = [each for each in store.snapshots.backwards(latest) if each.id > snapshot.id]
    came = {entry.identity for snapshot in since for entry in store.delta_of(snapshot) if entry.kind == ADD}
    later = [entry for entry in live_entries(store, latest) if entry.identity in came and entry.place in highest]
    hidden = {snapshot.place for snapshot in later if snapshot.file.min_sequence_number <= highest[snapshot.place]}
    later = [snapshot for snapshot in later if snapshot.place in hidden]
    if any(snapshot.file.level for snapshot in later):
        raise CommitConflict("Files that came since have been compacted.")
    return later


def _shifts(highest: Mapping[Place, int], later: Sequence[ManifestEntry]) -> dict[Place, int]:
    """By how much the numbers of the files of each bucket are raised, above the highest of those that come back."""
    lowest: dict[Place, int] = {}
    for snapshot in later:
        number = snapshot.file.min_sequence_number
        lowest[snapshot.place] = min(lowest.get(snapshot.place, number), number)
    return {place: highest[place] + 1 - number for place, number in lowest.items()}


def _highest(entries: Sequence[ManifestEntry]) -> dict[Place, int]:
    highest: dict[Place, int] = {}
    for entry in entries:
        highest[entry.place] = max(highest.get(entry.place, -1), entry.file.max_sequence_number)
    return highest


def reverting(snapshot: Snapshot) -> dict[str, str]:
    """The properties of a commit that takes a snapshot back."""
    return {REVERTED_PROPERTY: str(snapshot.id)}
