"""Whether the newest snapshot can be read: a writer that slept for days may have committed files that were cleaned meanwhile.

It takes such a commit back itself, unless it dies before. Until somebody else does, nothing is to be put on top of the
snapshot, and those before it are the last that can be read. Follows `docs/protocols.md`, "Commit".
"""

import logging

from ..errors import CommitConflict, CorruptData, NotFound
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..write.attempt import Guard
from ..write.lost_to_cleaning import taken_of
from ..write.take_back import take_back
from .references import ReferenceReader

_log = logging.getLogger(__name__)


def lost_file(
    store: TableStore, snapshot: Snapshot, reader: ReferenceReader | None = None
) -> CorruptData | NotFound | None:
    """What is gone, or damaged, of the files that a snapshot needs: its metadata, and of the data files that it added those that
    are gone.
    """
    reader = reader or ReferenceReader()
    # What this process remembers of files does not say that they are there.
    sizes: dict[str, int | None] = {
        snapshot.base_manifest_list: snapshot.base_manifest_list_size,
        snapshot.delta_manifest_list: snapshot.delta_manifest_list_size,
    }
    try:
        sizes.update((manifest.name, manifest.size_bytes) for manifest in store.manifests_of(snapshot))
        reader.read_manifests(store, snapshot)
        _, added = reader.difference(store, snapshot)
    except (CorruptData, NotFound) as error:
        return error
    wanted: dict[str, dict[str, int | None]] = {}
    for path, size in [
        *((store.paths.manifest(name), size) for name, size in sizes.items()),
        *((each, None) for each in added),
    ]:
        directory, _, name = path.rpartition("/")
        if directory.startswith(f"{store.paths.root}/"):
            wanted.setdefault(directory, {})[name] = size
    for directory, names in sorted(wanted.items()):
        there = {file.name: file.size_bytes for file in store.file_io.list_files(directory)}
        # A listing may miss a file that came while it was made.
        lost = [name for name in sorted(names.keys() - there) if not store.file_io.exists(f"{directory}/{name}")]
        if lost:
            return NotFound(f"File {directory}/{lost[0]} does not exist.")
        for name, size in names.items():
            if size is not None and there.get(name, size) != size:
                return CorruptData(f"File {directory}/{name} is damaged: it has {there[name]} bytes instead of {size}.")
    return None


def refuse_taken(store: TableStore, snapshot: Snapshot) -> None:
    """Raise CommitConflict if an orphan cleaning that has not seen a snapshot may take its files: its writer, who was late, takes
    it back.
    """
    taken = taken_of(store, snapshot)
    if taken is not None:
        raise CommitConflict(
            f"Snapshot {snapshot.id} of {store.identifier} was written so late that {taken}. Nothing is done. Try again once "
            "that has ended."
        )


def refuse_lost(store: TableStore, newest: Snapshot, reader: ReferenceReader) -> None:
    """Raise NotFound, or CorruptData, if the newest snapshot cannot be read: those before it are all there is then."""
    refuse_taken(store, newest)
    lost = lost_file(store, newest, reader)
    if lost is not None:
        raise type(lost)(
            f"Snapshot {newest.id} of {store.identifier}, the newest, cannot be read: {lost} Nothing expires, since an earlier "
            f"one may be the last that can be. {_way_back(store)}"
        )


def take_back_lost(
    store: TableStore, newest: Snapshot, target: Snapshot, guard: Guard | None = None
) -> Snapshot | None:
    """Put on top of a newest snapshot that cannot be read the state before it, or that of `target` if that has expired or
    cannot be read either; returns what is on top then, None if the newest can be read.

    `guard` may be against it unless that state is the target's: where a publication is open, it has to be possible to go on
    with it. Raises NotFound that names what to go back to if the target cannot be read: nothing is done then.
    """
    lost = lost_file(store, newest)
    if lost is None:
        return None
    refuse_lost_target(store, target)
    if newest.identity == target.identity:
        return None
    _log.warning("%s: what snapshot %d held alone is lost: %s", store.identifier, newest.id, lost)
    before = store.snapshots.before(newest)
    base = before if before is not None and lost_file(store, before) is None else target
    if guard is not None and base.identity != target.identity:
        guard(newest)
    return take_back(store, newest, base) or store.snapshots.latest()


def refuse_lost_target(store: TableStore, target: Snapshot) -> None:
    """Raise NotFound, or CorruptData, that names the newest snapshot that can be read if a snapshot, or what a tag keeps of one,
    cannot be.
    """
    lost = lost_file(store, target)
    if lost is not None:
        raise type(lost)(
            f"Snapshot {target.id} of {store.identifier} cannot be read: {lost} Nothing is done. {_way_back(store)}"
        )


def _way_back(store: TableStore) -> str:
    """What to roll back to: the newest snapshot that can be read, and a tag."""
    readable = next((snapshot for snapshot in store.snapshots.backwards() if lost_file(store, snapshot) is None), None)
    tags = [each.name for each in store.tags.readable() if lost_file(store, each.snapshot) is None]
    ways = [f"snapshot {readable.id}"] if readable else []
    ways += [f"tag {tags[0]!r}"] if tags else []
    if not ways:
        return f"No other can be read: bring it back, or drop {store.identifier}."
    return f"Roll back to {' or '.join(ways)}."
