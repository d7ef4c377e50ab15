"""Put a snapshot on top of the history: the one step by which anything becomes visible.

Its file is created if absent, and then the snapshot below it is looked for: numbers expire in ascending order, so that a
number above one that is still there has never been used before. Follows `docs/protocols.md`, "Commit".
"""

from collections.abc import Sequence
from typing import NoReturn

from ..errors import CommitOutcomeUnknown, StorageError
from ..identifier import MAIN_BRANCH
from ..metadata.main_branch import find_main
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore

# How often, and after what time, a file is looked for that an expiry is about to delete.
_LOOKS, _WAIT_MS = 20, 250


def create_on_top(store: TableStore, snapshot: Snapshot, base: Snapshot | None, needed: Sequence[str]) -> bool:
    """Commit a snapshot on top of `base`; False if another one came first, then nothing of it is left.

    Raises NotFound if the table is another one by now, CommitConflict if a file at one of the paths `needed` is not there,
    CommitOutcomeUnknown if the store gave no answer.
    """
    if not _create(store, snapshot, needed):
        return False
    is_local = store.file_io.is_local
    if not is_local:
        # There the hint is written into whatever table is there: it is taken away again with the snapshot.
        store.snapshots.hint_at(snapshot)
    if not _stands(store, snapshot, base):
        return False
    if is_local:
        store.snapshots.hint_at(snapshot)
    return True


def take_away_foreign(store: TableStore, newest: Snapshot | None) -> bool:
    """Take a newest snapshot away that cannot be read and says it was put on top of another one than is there, which can;
    says whether it was so.

    On an object store a writer can create it whose table was dropped and made anew in the request before, and die.
    """
    if store.file_io.is_local or newest is None or newest.follows is None or _has_list(store, newest):
        return False
    below = store.snapshots.find(newest.id - 1)
    is_foreign = below is not None and below.identity != newest.follows and _has_list(store, below)
    return is_foreign and store.snapshots.take_away(newest)


def _has_list(store: TableStore, snapshot: Snapshot) -> bool:
    return store.file_io.exists(store.paths.manifest(snapshot.delta_manifest_list))


def _create(store: TableStore, snapshot: Snapshot, needed: Sequence[str]) -> bool:
    """Create the snapshot file. An answer that was lost is looked for."""
    try:
        return store.snapshots.create(snapshot, needed)
    except OSError as error:
        try:
            there = store.snapshots.find(snapshot.id)
            is_certain = store.file_io.is_local and (store.snapshots.latest_id() or 0) < snapshot.id
        except (OSError, StorageError):
            there, is_certain = None, False
        if there is not None:
            return there.uuid == snapshot.uuid
        if is_certain:
            # On a local file system nothing is under way: what is not there did not land.
            raise
        raise CommitOutcomeUnknown(
            f"{store.identifier}: creating snapshot {snapshot.id} failed ({error}) and it cannot be told whether it landed. "
            f"Look for a snapshot of user {snapshot.commit_user!r} before trying again."
        ) from error


def _stands(store: TableStore, snapshot: Snapshot, base: Snapshot | None) -> bool:
    """Whether a snapshot that was created is part of the history; if not, it is taken away again."""
    try:
        stands = _look(store, snapshot, base)
        while stands is None and store.is_same_table():
            # It was renamed, and named back, in these moments.
            stands = _look(store, snapshot, base)
    except CommitOutcomeUnknown:
        raise
    except (OSError, StorageError) as error:
        # Whatever it is, it came after the snapshot: what that needs must stay.
        raise CommitOutcomeUnknown(
            f"{store.identifier}: snapshot {snapshot.id} was created, but whether it is part of the history cannot be told "
            f"({error}). Look for a snapshot of user {snapshot.commit_user!r} before trying again."
        ) from error
    return _refuse_moved(store, snapshot) if stands is None else stands


def _look(store: TableStore, snapshot: Snapshot, base: Snapshot | None) -> bool | None:
    """The same by one look; None if the table has moved."""
    snapshots = store.snapshots
    # On an object store one listing costs what this look costs, and says more.
    if base is not None and store.file_io.is_local:
        below = snapshots.find(base.id)
        if below is not None and below.identity == base.identity:
            return True
    if not store.is_same_table():
        return None
    if _is_on_the_way_to_the_newest(store, snapshot):
        return True
    # Looked for last: numbers expire in ascending order, so that one that stands goes before the next one does.
    if snapshots.find(snapshot.id) is None and _has_expired(store, snapshot):
        return True
    was_in = not store.file_io.is_local and _was_in_the_history(store, snapshot)
    snapshots.take_away(snapshot)
    return was_in


def _refuse_moved(store: TableStore, snapshot: Snapshot) -> NoReturn:
    """Raise NotFound if the table is another one and nothing of the snapshot is left, else CommitOutcomeUnknown."""
    was_replaced = store.paths != find_main(store.file_io, store.paths.root) and store.identifier.branch == MAIN_BRANCH
    if not was_replaced and store.snapshots.take_away(snapshot):
        store.refuse_other_table()
    raise CommitOutcomeUnknown(
        f"{store.identifier}: snapshot {snapshot.id} was created, and then the table was dropped or renamed, or its main "
        f"replaced: its rows have gone the same way. Look for those of user {snapshot.commit_user!r} before trying again."
    )


def _has_expired(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether a snapshot that is gone has been part of the history. Locally nobody but its writer takes away another one.

    On an object store an expiry may delete a number that it did not judge, but not the files.
    """
    if store.file_io.is_local:
        return True
    for _ in range(_LOOKS):
        if not store.file_io.exists(store.paths.manifest(snapshot.delta_manifest_list)):
            return True
        store.clock.sleep_ms(_WAIT_MS)
    raise CommitOutcomeUnknown(
        f"{store.identifier}: snapshot {snapshot.id} was created and is gone, which an expiry may have done. Look for the rows "
        f"of user {snapshot.commit_user!r} before trying again."
    )


def _was_in_the_history(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether a snapshot that is no part of the history has been: it landed and expired, and was created once more.

    A client library that gets no answer asks again, and creates what has expired since. An expiry remembers the commit id
    before it deletes anything; the ids of those that nobody repeats it does not, but their files go.
    """
    remembered = store.committed.find(snapshot.commit_user)
    if remembered is not None and remembered.holds(snapshot.commit_identifier):
        return True
    return not store.file_io.exists(store.paths.manifest(snapshot.delta_manifest_list))


def _is_on_the_way_to_the_newest(store: TableStore, snapshot: Snapshot) -> bool:
    """Whether a snapshot is the newest, or the next one was put on top of it."""
    if store.snapshots.is_newest(snapshot):
        return True
    following = store.snapshots.find(snapshot.id + 1)
    if following is None:
        return False
    if following.follows is not None:
        return following.follows == snapshot.identity
    # Another writer of the format does not say what it followed, but lists what it found.
    manifests = store.manifests
    listed = {manifest.name for manifest in manifests.read_list(following.base_manifest_list)}
    if {manifest.name for manifest in manifests.read_list(snapshot.delta_manifest_list)} <= listed:
        return True
    raise CommitOutcomeUnknown(
        f"{store.identifier}: snapshot {snapshot.id} was created, but another writer's snapshot {following.id} does not say "
        f"whether it followed it. Look for the rows of user {snapshot.commit_user!r} before trying again."
    )
