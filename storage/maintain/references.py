"""Which files the snapshots, tags and kept changelogs of all branches still need, and for what.

The one place that decides what may be deleted: whatever is not found here is needed by nobody who can still be asked for.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ..format import avro
from ..identifier import MAIN_BRANCH
from ..metadata.live_files import merge_entries
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..read.version import all_branches


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """Somebody who needs files: a snapshot, a tag, or the changelog of a snapshot that has expired, of a branch."""

    branch: str
    kind: str
    name: str

    def __str__(self) -> str:
        where = "" if self.branch == MAIN_BRANCH else f" of branch {self.branch}"
        return f"{self.kind} {self.name}{where}"


def needed_files(
    store: TableStore,
    without: Collection[Holder] = (),
    among: Collection[str] | None = None,
    reader: "ReferenceReader | None" = None,
) -> dict[str, Holder]:
    """The path of every file that is needed, with the first who needs it.

    Some holders may be thought away. `among`: only these files matter. `reader`: one that has read some of it already.
    """
    found: dict[str, Holder] = {}
    for holder, paths in _holders(store, reader or ReferenceReader(among)):
        if holder in without:
            continue
        for path in paths:
            if among is None or path in among:
                found.setdefault(path, holder)
    return found


def holders_of(store: TableStore, paths: Collection[str]) -> list[Holder]:
    """Everybody who needs one of some files."""
    wanted = set(paths)
    return sorted(holder for holder, needed in _holders(store, ReferenceReader(wanted)) if needed & wanted)


def files_of(store: TableStore, snapshot: Snapshot) -> set[str]:
    """Paths of all files by which a snapshot is read: lists, manifests, data and index files."""
    return ReferenceReader().files_of(store, snapshot)


def changelog_files_of(store: TableStore, snapshots: Iterable[Snapshot]) -> set[str]:
    """Paths of the files by which the changelogs of snapshots are read."""
    reader = ReferenceReader()
    return {path for snapshot in snapshots for path in reader.changelog_files_of(store, snapshot)}


def last_needed(
    store: TableStore, snapshots: Iterable[Snapshot], reader: "ReferenceReader | None" = None
) -> dict[str, int]:
    """The files of some snapshots of a branch, each with the last of them that needs it."""
    reader = reader or ReferenceReader()
    found: dict[str, int] = {}
    before: Snapshot | None = None
    live: set[str] = set()
    for snapshot in sorted(snapshots, key=lambda one: one.id):
        if before is not None and before.id + 1 == snapshot.id:
            # From one to the next only the difference counts, however many files the table has.
            gone, came = reader.difference(store, snapshot)
            found.update(dict.fromkeys(gone - came, before.id))
            live = (live - gone) | came if gone or came else live
        else:
            found.update(dict.fromkeys(live, before.id if before else 0))
            live = reader.data_files_of(store, snapshot)
        found.update(dict.fromkeys(reader.metadata_files_of(store, snapshot), snapshot.id))
        before = snapshot
    found.update(dict.fromkeys(live, before.id if before else 0))
    return found


def delete_unneeded(
    store: TableStore, candidates: Collection[str], reader: "ReferenceReader | None" = None
) -> list[str]:
    """Delete those of some files that nobody needs any more; returns them, in order."""
    files = sorted(set(candidates) - needed_files(store, among=candidates, reader=reader).keys())
    for path in files:
        store.file_io.delete(path)
    return files


def _holders(store: TableStore, reader: "ReferenceReader") -> Iterator[tuple[Holder, set[str]]]:
    """Every snapshot, tag and kept changelog of every branch, and the files that it needs."""
    for one in all_branches(store):
        branch = one.identifier.branch
        for snapshot in one.snapshots.all():
            yield Holder(branch, "snapshot", str(snapshot.id)), reader.files_of(one, snapshot)
        for tag in one.tags.all():
            yield Holder(branch, "tag", tag.name), reader.files_of(one, tag.snapshot)
        for changelog in one.changelogs.all():
            yield Holder(branch, "changelog", str(changelog.id)), reader.changelog_files_of(one, changelog)


class ReferenceReader:
    """Reads which files snapshots need; each manifest once, however many snapshots it is part of."""

    def __init__(self, among: Collection[str] | None = None) -> None:
        self._among = None if among is None else frozenset(among)
        self._read: dict[str, tuple[tuple[ManifestEntry, tuple[str, ...]], ...]] = {}
        self._directories: dict[Place, str] = {}

    def files_of(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        return self.metadata_files_of(store, snapshot) | self.data_files_of(store, snapshot)

    def data_files_of(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        pairs = [pair for one in store.manifests_of(snapshot) for pair in self._entries(store, one.name)]
        paths = {entry.identity: paths for entry, paths in pairs}
        live = merge_entries(entry for entry, _ in pairs)
        return {path for entry in live if entry.kind == ADD for path in paths[entry.identity]}

    def difference(self, store: TableStore, snapshot: Snapshot) -> tuple[set[str], set[str]]:
        """The data files that a snapshot took away, and those that it added."""
        gone: set[str] = set()
        came: set[str] = set()
        for one in store.manifests.read_list(snapshot.delta_manifest_list):
            for entry, paths in self._entries(store, one.name):
                (came if entry.kind == ADD else gone).update(paths)
        return gone, came

    def metadata_files_of(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        """All files but those of rows: lists, manifests, indexes, statistics, and the changelog."""
        paths = store.paths
        found = {paths.manifest(name) for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)}
        found |= {paths.manifest(one.name) for one in store.manifests_of(snapshot)}
        found |= self.changelog_files_of(store, snapshot)
        if snapshot.index_manifest is not None:
            path = paths.manifest(snapshot.index_manifest)
            records = avro.read_records(store.file_io.read_bytes(path), path)
            found |= {path, *(f"{paths.root}/index/{record['_FILE_NAME']}" for record in records)}
        if snapshot.statistics is not None:
            found.add(f"{paths.root}/statistics/{snapshot.statistics}")
        return found

    def changelog_files_of(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        name = snapshot.changelog_manifest_list
        if name is None:
            return set()
        found = {store.paths.manifest(name)}
        for one in store.manifests.read_list(name):
            found.add(store.paths.manifest(one.name))
            found.update(path for _, paths in self._entries(store, one.name) for path in paths)
        return found

    def _entries(self, store: TableStore, manifest: str) -> tuple[tuple[ManifestEntry, tuple[str, ...]], ...]:
        found = self._read.get(manifest)
        if found is None:
            pairs = ((entry, self._paths(store, entry)) for entry in store.manifests.read(manifest))
            found = tuple(pair for pair in pairs if self._among is None or not self._among.isdisjoint(pair[1]))
            self._read[manifest] = found
        return found

    def _paths(self, store: TableStore, entry: ManifestEntry) -> tuple[str, ...]:
        directory = self._directories.get(entry.place)
        if directory is None:
            directory = self._directories[entry.place] = store.bucket_directory(entry.place)
        file = entry.file
        own = file.external_path or f"{directory}/{file.name}"
        return own, *(f"{directory}/{extra}" for extra in file.extra_files)
