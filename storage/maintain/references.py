"""Which files the snapshots and tags of all branches still need, and for what.

The one place that decides what may be deleted: whatever is not found here is needed by nobody who can still be asked for.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ..format import avro
from ..identifier import MAIN_BRANCH
from ..metadata.live_files import live_files
from ..metadata.manifest import ManifestEntry, Place
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..read.version import all_branches


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """Somebody who needs files: a snapshot, or a tag, of a branch."""

    branch: str
    kind: str
    name: str

    def __str__(self) -> str:
        where = "" if self.branch == MAIN_BRANCH else f" of branch {self.branch}"
        return f"{self.kind} {self.name}{where}"


def holders(store: TableStore) -> Iterator[tuple[Holder, TableStore, Snapshot]]:
    """Every snapshot and tag of every branch, with the branch and the state it stands for."""
    for one in all_branches(store):
        branch = one.identifier.branch
        for snapshot in one.snapshots.all():
            yield Holder(branch, "snapshot", str(snapshot.id)), one, snapshot
        for tag in one.tags.all():
            yield Holder(branch, "tag", tag.name), one, tag.snapshot


def needed_files(store: TableStore, without: Collection[Holder] = ()) -> dict[str, Holder]:
    """The path of every file that is needed, with the first who needs it; some may be thought away."""
    found: dict[str, Holder] = {}
    for holder, branch, snapshot in holders(store):
        if holder in without:
            continue
        for path in files_of(branch, snapshot):
            found.setdefault(path, holder)
    return found


def holders_of(store: TableStore, path: str) -> list[Holder]:
    """Everybody who needs a file."""
    return sorted({holder for holder, branch, snapshot in holders(store) if path in files_of(branch, snapshot)})


def files_of(store: TableStore, snapshot: Snapshot) -> set[str]:
    """Paths of all files by which a snapshot is read: lists, manifests, data and index files."""
    paths, manifests = store.paths, store.manifests
    lists = [snapshot.base_manifest_list, snapshot.delta_manifest_list]
    found = {paths.manifest(name) for name in lists}
    listed = store.manifests_of(snapshot)
    found |= {paths.manifest(one.name) for one in listed}
    found |= set(_data_files(store, live_files(listed, manifests.read)))
    if snapshot.changelog_manifest_list is not None:
        found.add(paths.manifest(snapshot.changelog_manifest_list))
        for one in manifests.read_list(snapshot.changelog_manifest_list):
            found.add(paths.manifest(one.name))
            found |= set(_data_files(store, manifests.read(one.name)))
    if snapshot.index_manifest is not None:
        path = paths.manifest(snapshot.index_manifest)
        records = avro.read_records(store.file_io.read_bytes(path), path)
        found |= {path, *(f"{paths.root}/index/{record['_FILE_NAME']}" for record in records)}
    if snapshot.statistics is not None:
        found.add(f"{paths.root}/statistics/{snapshot.statistics}")
    return found


def _data_files(store: TableStore, entries: Iterable[ManifestEntry]) -> Iterator[str]:
    directories: dict[Place, str] = {}
    for entry in entries:
        if entry.place not in directories:
            directories[entry.place] = store.bucket_directory(entry.place)
        file, directory = entry.file, directories[entry.place]
        yield file.external_path or f"{directory}/{file.name}"
        for extra in file.extra_files:
            yield f"{directory}/{extra}"


def delete_unneeded(store: TableStore, candidates: Collection[str]) -> list[str]:
    """Delete those of some files that nobody needs any more; returns them, in order."""
    files = sorted(set(candidates) - needed_files(store).keys())
    for path in files:
        store.file_io.delete(path)
    return files
