"""Which files count as lost: those that are gone, and those so old that an orphan cleaning which is under way may take them.

Who cleans first writes how old files it takes (`TableStore.cleanings`) and then looks who needs them; who has written files long
before he creates the snapshot that needs them looks here afterwards. One of both sees the other. A cleaning that has seen
the snapshot spares its files. Follows `docs/protocols.md`, "Commit", step 8.
"""

from collections.abc import Sequence

from ..metadata.index_manifest import index_files_of
from ..metadata.manifest import ADD
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore


def first_lost(store: TableStore, paths: Sequence[str], snapshot: Snapshot | None = None) -> str | None:
    """What has become, or may become, of the first file that counts as lost; None if none does. `snapshot` needs them."""
    # Before the files are looked for: who cleans deletes first, and then takes his own file away.
    taken = _taken_until(store, snapshot)
    gone = next((path for path in paths if not store.file_io.exists(path)), None)
    if gone is not None:
        return f"{gone} is gone"
    return None if taken is None else _written_until(store, paths, taken)


def taken_of(store: TableStore, snapshot: Snapshot) -> str | None:
    """The first file that a snapshot of any branch has added and that a cleaning which has not seen it may take; None by none."""
    if _taken_until(store, snapshot) is None:
        return None
    manifests = store.manifests
    lists = [snapshot.delta_manifest_list, snapshot.changelog_manifest_list]
    names = [snapshot.base_manifest_list, *(name for name in lists if name is not None)]
    held = [manifest.name for name in lists if name is not None for manifest in manifests.read_list(name)]
    added = [
        entry for name in held for entry in manifests.read(name) if entry.kind == ADD and not entry.file.external_path
    ]
    paths = [f"{store.bucket_directory(entry.place)}/{entry.file.name}" for entry in added]
    paths += _indexes_of(store, snapshot)
    return first_lost(store, [*map(store.paths.manifest, [*names, *held]), *paths], snapshot)


def _indexes_of(store: TableStore, snapshot: Snapshot) -> list[str]:
    """The index manifest and the index files that a snapshot has added: they are named as its lists are."""
    unique = snapshot.delta_manifest_list.removeprefix("manifest-list-").rpartition("-")[0]
    name = snapshot.index_manifest
    if name is None or unique not in name:
        return []
    paths = [file.path for file in index_files_of(store, snapshot) if not file.is_external]
    return [store.paths.manifest(name), *(path for path in paths if unique in path.rpartition("/")[2])]


def _taken_until(store: TableStore, snapshot: Snapshot | None) -> int | None:
    """Up to which time of writing files may be taken by those that are cleaning and have not seen a snapshot; None by none."""
    cleanings = store.cleanings
    unseen = [
        cleaning for cleaning in cleanings.all() if snapshot is None or not cleanings.has_seen(cleaning, snapshot)
    ]
    return max((each.until_ms for each in unseen), default=None)


def _written_until(store: TableStore, paths: Sequence[str], until_ms: int) -> str | None:
    """The first of some files that was last written at a time or before it, by listings, as cleaning tells ages."""
    wanted: dict[str, set[str]] = {}
    for path in paths:
        directory, _, name = path.rpartition("/")
        wanted.setdefault(directory, set()).add(name)
    for directory, names in wanted.items():
        for file in store.file_io.list_files(directory):
            if file.name in names and file.modified_ms is not None and file.modified_ms <= until_ms:
                return f"{directory}/{file.name} may be deleted at any moment by the orphan cleaning that is under way"
    return None
