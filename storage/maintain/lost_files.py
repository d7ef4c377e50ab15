"""Whether the newest snapshot can be read: a writer that slept for days may have committed files that were cleaned meanwhile.

It takes such a commit back itself, unless it dies before. Until somebody else does, nothing is to be put on top of the
snapshot, and those before it are the last that can be read. Follows `docs/protocols.md`, "Commit".
"""

from ..errors import CommitConflict, NotFound
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..write.commit import Guard
from ..write.lost_to_cleaning import taken_of
from ..write.take_back import take_back
from .references import ReferenceReader


def lost_file(store: TableStore, snapshot: Snapshot, reader: ReferenceReader | None = None) -> str | None:
    """What is gone of the files that a snapshot needs: its metadata, and the data files that it added."""
    # What this process remembers of files does not say that they are there.
    names = {snapshot.base_manifest_list, snapshot.delta_manifest_list}
    try:
        names.update(one.name for one in store.manifests_of(snapshot))
        _, added = (reader or ReferenceReader()).difference(store, snapshot)
    except NotFound as error:
        return str(error)
    wanted: dict[str, set[str]] = {}
    for path in [*(store.paths.manifest(name) for name in names), *added]:
        directory, _, name = path.rpartition("/")
        if directory.startswith(f"{store.paths.root}/"):
            wanted.setdefault(directory, set()).add(name)
    for directory, names in sorted(wanted.items()):
        gone = names - {file.name for file in store.file_io.list_files(directory)}
        # A listing may miss a file that came while it was made.
        lost = [name for name in sorted(gone) if not store.file_io.exists(f"{directory}/{name}")]
        if lost:
            return f"File {directory}/{lost[0]} does not exist."
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
    """Raise NotFound if the newest snapshot cannot be read: those before it are all there is then."""
    refuse_taken(store, newest)
    lost = lost_file(store, newest, reader)
    if lost is not None:
        raise NotFound(
            f"Snapshot {newest.id} of {store.identifier}, the newest, cannot be read: {lost} Nothing expires, since an earlier "
            f"one may be the last that can be. Put the state before on top: roll back to {newest.id - 1}."
        )


def take_back_lost(
    store: TableStore, newest: Snapshot, target: Snapshot, guard: Guard | None = None
) -> Snapshot | None:
    """Put on top of a newest snapshot that cannot be read the state before it, or that of `target` if that has expired or
    cannot be read either; returns what is on top then, None if the newest can be read.

    `guard` may be against it unless that state is the target's: where a publication is open, it has to be possible to go on
    with it. Raises NotFound that names what to go back to if the target cannot be read: nothing is done then.
    """
    if newest.identity == target.identity or lost_file(store, newest) is None:
        return None
    refuse_lost_target(store, target)
    before = store.snapshots.before(newest)
    base = before if before is not None and lost_file(store, before) is None else target
    if guard is not None and base.identity != target.identity:
        guard(newest)
    return take_back(store, newest, base) or store.snapshots.latest()


def refuse_lost_target(store: TableStore, target: Snapshot) -> None:
    """Raise NotFound that names the newest snapshot that can be read if a snapshot, or what a tag keeps of one, cannot be."""
    lost = lost_file(store, target)
    if lost is None:
        return
    readable = next((one for one in store.snapshots.backwards() if lost_file(store, one) is None), None)
    tags = [one.name for one in store.tags.readable() if lost_file(store, one.snapshot) is None]
    ways = [f"snapshot {readable.id}"] if readable else []
    ways += [f"tag {tags[0]!r}"] if tags else []
    advice = (
        f"Roll back to {' or '.join(ways)}."
        if ways
        else f"No other can be read: bring it back, or drop {store.identifier}."
    )
    raise NotFound(f"Snapshot {target.id} of {store.identifier} cannot be read: {lost} Nothing is done. {advice}")
