"""Which files the snapshots, tags and kept changelogs of all branches still need, and for what.

The one place that decides what may be deleted: whatever is not found here is needed by nobody who can still be asked for.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from ..errors import CommitConflict, CorruptData, MainReplaced, NotFound, StorageError
from ..identifier import BACK_PREFIX, BRANCH_PREFIX, HOLD_PREFIX, MAIN_BRANCH, PUBLICATION_PREFIX
from ..metadata.index_manifest import read_index_manifest
from ..metadata.live_files import merge_entries
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..progress import progress_of_each
from ..read.version import all_branches
from .lost_schema import refuse_lost_branches

_TRIES = 50
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """Somebody who needs files: a snapshot, a tag, or the changelog of a snapshot that has expired, of a branch."""

    branch: str
    kind: str
    name: str

    def __str__(self) -> str:
        where = "" if self.branch == MAIN_BRANCH else f" of branch {self.branch}"
        return f"{self.kind} {self.name}{where}{self._reason()}"

    def _reason(self) -> str:
        """What a tag of the store's own is for."""
        if self.kind == "tag" and self.name.startswith(HOLD_PREFIX):
            return " (while something is made of it; left by a crash, `expire-tags` deletes it after a day)"
        if self.kind == "tag" and self.name.startswith(PUBLICATION_PREFIX):
            return " (until a publication is done: `snapline branch recover`)"
        if self.kind == "tag" and self.name.startswith(BRANCH_PREFIX):
            return " (as long as a branch lasts that was made there)"
        if self.kind == "tag" and self.name.startswith(BACK_PREFIX):
            return " (until what came before a rollback or merge has expired)"
        return ""


def needed_files(
    store: TableStore,
    without: Collection[Holder] = (),
    among: Collection[str] | None = None,
    reader: "ReferenceReader | None" = None,
) -> dict[str, Holder]:
    """The path of every file that is needed, with the first who needs it.

    Some holders may be thought away. `among`: only these files matter. `reader`: one that has read some of it already.
    """
    wanted = None if among is None else frozenset(among)

    def fold(holders: Iterable[tuple[Holder, set[str]]]) -> dict[str, Holder]:
        needed: dict[str, Holder] = {}
        for holder, paths in holders:
            if holder not in without:
                for path in paths if wanted is None else paths & wanted:
                    needed.setdefault(path, holder)
        return needed

    return _of_all_holders(store, reader or ReferenceReader(wanted), fold)


def holders_of(store: TableStore, paths: Collection[str]) -> list[Holder]:
    """Everybody who needs one of some files."""
    wanted = set(paths)

    def fold(holders: Iterable[tuple[Holder, set[str]]]) -> list[Holder]:
        return sorted(holder for holder, needed in holders if needed & wanted)

    return _of_all_holders(store, ReferenceReader(wanted), fold)


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
    needed: dict[str, int] = {}
    before: Snapshot | None = None
    live: set[str] = set()
    for snapshot in sorted(snapshots, key=lambda branch_snapshot: branch_snapshot.id):
        if before is not None and before.id + 1 == snapshot.id:
            # From one to the next only the difference counts, however many files the table has.
            gone, came = reader.difference(store, snapshot)
            needed.update(dict.fromkeys(gone - came, before.id))
            live = (live - gone) | came if gone or came else live
        else:
            needed.update(dict.fromkeys(live, before.id if before else 0))
            live = reader.data_files_of(store, snapshot)
        needed.update(dict.fromkeys(reader.metadata_files_of(store, snapshot), snapshot.id))
        before = snapshot
    needed.update(dict.fromkeys(live, before.id if before else 0))
    return needed


def delete_unneeded(
    store: TableStore, candidates: Collection[str], reader: "ReferenceReader | None" = None
) -> list[str]:
    """Delete those of some files that nobody needs any more; returns them, in order."""
    files = sorted(set(candidates) - needed_files(store, among=candidates, reader=reader).keys())
    for path in progress_of_each(files, str(store.identifier), "files deleted"):
        store.file_io.delete(path)
    return files


def _of_all_holders(
    store: TableStore, reader: "ReferenceReader", fold: Callable[[Iterable[tuple[Holder, set[str]]]], _Result]
) -> _Result:
    """What `fold` makes of every snapshot, tag and kept changelog of every branch, each with the files that it needs.

    Holders come and go meanwhile, and what one of them gives up another may have got just before: so the tags, changelogs
    and branches are listed before and after they are read, and if they changed, or one was gone when it was to be read,
    all is done again. Of snapshots that come meanwhile nothing is to be known: they need what the newest before needed,
    what is new, or what a tag holds. Raises CommitConflict if holders never keep still, CorruptData that names the file, and
    who needs it, if one that stays cannot be read, or the schema of a branch is lost.
    """
    refuse_lost_branches(store.file_io, store.paths.root)
    lost: StorageError | None = None
    for _ in range(_TRIES):
        try:
            before, lost = _listing(store), None
            result = fold(pair for branch in all_branches(store) for pair in _holders_of(branch, reader))
            if _listing(store) == before:
                return result
        except _Gone as gone:
            lost = gone.lost
        except MainReplaced:
            # Of another branch main is looked up again.
            if store.identifier.branch == MAIN_BRANCH:
                raise
    if lost is not None:
        raise lost
    raise CommitConflict(
        f"Tags and branches of {store.identifier.full_name} come and go too fast to tell which files they need. Try again."
    )


class _Gone(Exception):
    """A holder that was listed is not there any more. `lost`: it is, but is about to go, and this cannot be read of it."""

    def __init__(self, lost: StorageError | None = None) -> None:
        super().__init__()
        self.lost = lost


def _holders_of(branch: TableStore, reader: "ReferenceReader") -> Iterator[tuple[Holder, set[str]]]:
    """Every holder of a branch, with the files that it needs."""
    tags, changelogs = branch.tags, branch.changelogs
    # Tags first: what a tag held for a commit, the commit's snapshot needs once the tag is gone.
    for name in tags.names():
        tag = _there(tags.find(name))
        if name.startswith(HOLD_PREFIX) and not _is_readable(branch, tag, reader):
            # Made in vain by somebody who died before he saw that its snapshot had expired.
            continue
        yield _held(branch, "tag", name, tag, partial(reader.files_of_tag, branch, tag), partial(tags.find, name))
    for number in changelogs.ids():
        kept, again = _there(changelogs.find(number)), partial(changelogs.find, number)
        yield _held(branch, "changelog", str(number), kept, partial(reader.changelog_files_of, branch, kept), again)
    for number in progress_of_each(branch.snapshots.ids(), str(branch.identifier), "snapshots asked for their files"):
        snapshot, again = _there(branch.snapshots.find(number)), partial(branch.snapshots.find, number)
        yield _held(branch, "snapshot", str(number), snapshot, partial(reader.files_of, branch, snapshot), again)


def _there(holder: _Result | None) -> _Result:
    """A holder that was listed. Raises _Gone if it is not there any more."""
    if holder is None:
        raise _Gone
    return holder


def _held(
    branch: TableStore,
    kind: str,
    name: str,
    holder: object,
    files: Callable[[], set[str]],
    find: Callable[[], object],
) -> tuple[Holder, set[str]]:
    """A holder with its files. Raises _Gone if they cannot be read since `find` does not find it any more."""
    held = Holder(branch.identifier.branch, kind, name)
    with _if_still_there(branch, held, holder, find):
        return held, files()


def _is_readable(branch: TableStore, tag: Tag, reader: "ReferenceReader") -> bool:
    try:
        reader.files_of(branch, tag.snapshot)
    except NotFound:
        return False
    return True


@contextmanager
def _if_still_there(branch: TableStore, held: Holder, holder: object, find: Callable[[], object]) -> Iterator[None]:
    """Turn an error of reading what a holder needs into _Gone if the holder has gone meanwhile, CorruptData that names both
    if it is there.

    Another one may have its name: a tag that was moved, or a snapshot at a number that had expired, soon taken away.
    """
    try:
        yield
    except StorageError as error:
        if find() != holder or not branch.is_same_table():
            raise _Gone from None
        if not isinstance(error, CorruptData | NotFound):
            raise
        ends = "delete the tag" if held.kind == "tag" else f"let the {held.kind} expire"
        lost = CorruptData(f"{error} It is needed by {held}: restore the file, or {ends}.")
        if held.kind == "snapshot" and int(held.name) < branch.consumers.expiring_below():
            # Its files may have gone before one that was created once more.
            raise _Gone(lost) from None
        raise lost from None


@contextmanager
def _unless_taken_back(store: TableStore, snapshot: Snapshot) -> Iterator[None]:
    """End quietly where a snapshot's files are not there and it was taken back for that: it needs none any more."""
    try:
        yield
    except NotFound:
        if not store.snapshots.is_taken_back(snapshot):
            raise


def _listing(store: TableStore) -> list[tuple[str, ...]]:
    """The branches, and the tags and changelogs of each, with what tells whether they were replaced."""
    listed: list[tuple[str, ...]] = []
    for branch in all_branches(store):
        listed.append((branch.identifier.branch,))
        for directory in (branch.paths.tag_directory, branch.paths.changelog_directory):
            files = store.file_io.list_files(directory, or_in_place=True)
            listed += [(directory, file.name, str(file.size_bytes), str(file.modified_ms)) for file in files]
    return sorted(listed)


class ReferenceReader:
    """Reads which files snapshots need; each manifest once, however many snapshots it is part of."""

    def __init__(self, among: Collection[str] | None = None) -> None:
        self._among = None if among is None else frozenset(among)
        self._read: dict[str, tuple[tuple[ManifestEntry, tuple[str, ...]], ...]] = {}
        self._directories: dict[Place, str] = {}

    def files_of(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        return self.metadata_files_of(store, snapshot) | self.data_files_of(store, snapshot)

    def files_of_tag(self, store: TableStore, tag: Tag) -> set[str]:
        """As `files_of`. Paimon lets the changelog of a tagged snapshot expire with the snapshot."""
        name = tag.snapshot.changelog_manifest_list
        if name is not None and not store.file_io.exists(store.paths.manifest(name)):
            return self.files_of(store, replace(tag.snapshot, changelog_manifest_list=None))
        return self.files_of(store, tag.snapshot)

    def read_manifests(self, store: TableStore, snapshot: Snapshot) -> None:
        """Read all by which the rows of a snapshot are found. Raises NotFound, CorruptData if that cannot be."""
        merge_entries(
            entry for manifest in store.manifests_of(snapshot) for entry, _ in self._entries(store, manifest.name)
        )
        if snapshot.index_manifest is not None:
            read_index_manifest(store, snapshot.index_manifest)

    def data_files_of(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        with _unless_taken_back(store, snapshot):
            return self._data_files_of(store, snapshot)
        return set()

    def _data_files_of(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        pairs = [pair for manifest in store.manifests_of(snapshot) for pair in self._entries(store, manifest.name)]
        paths = {entry.identity: paths for entry, paths in pairs}
        live = merge_entries(entry for entry, _ in pairs)
        return {path for entry in live if entry.kind == ADD for path in paths[entry.identity]}

    def difference(self, store: TableStore, snapshot: Snapshot) -> tuple[set[str], set[str]]:
        """The data files that a snapshot took away, and those that it added."""
        gone: set[str] = set()
        came: set[str] = set()
        with _unless_taken_back(store, snapshot):
            for manifest in store.manifests.read_list(snapshot.delta_manifest_list):
                for entry, paths in self._entries(store, manifest.name):
                    (came if entry.kind == ADD else gone).update(paths)
        return gone, came

    def metadata_files_of(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        """All files but those of rows: lists, manifests, indexes, statistics, and the changelog."""
        with _unless_taken_back(store, snapshot):
            return self._metadata_files_of(store, snapshot)
        return set()

    def _metadata_files_of(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        paths = store.paths
        files = {paths.manifest(name) for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)}
        files |= {paths.manifest(manifest.name) for manifest in store.manifests_of(snapshot)}
        files |= self.changelog_files_of(store, snapshot)
        if snapshot.index_manifest is not None:
            path = paths.manifest(snapshot.index_manifest)
            indexes = read_index_manifest(store, snapshot.index_manifest)
            files |= {path, *(index.path for index in indexes if not index.is_external)}
        if snapshot.statistics is not None:
            files.add(paths.statistics(snapshot.statistics))
        return files

    def changelog_files_of(self, store: TableStore, snapshot: Snapshot) -> set[str]:
        name = snapshot.changelog_manifest_list
        if name is None:
            return set()
        files = {store.paths.manifest(name)}
        for manifest in store.manifests.read_list(name):
            files.add(store.paths.manifest(manifest.name))
            files.update(path for _, paths in self._entries(store, manifest.name) for path in paths)
        return files

    def _entries(self, store: TableStore, manifest: str) -> tuple[tuple[ManifestEntry, tuple[str, ...]], ...]:
        entries = self._read.get(manifest)
        if entries is None:
            pairs = ((entry, self._paths(store, entry)) for entry in store.manifests.read(manifest))
            entries = tuple(pair for pair in pairs if self._among is None or not self._among.isdisjoint(pair[1]))
            self._read[manifest] = entries
        return entries

    def _paths(self, store: TableStore, entry: ManifestEntry) -> tuple[str, ...]:
        directory = self._directories.get(entry.place)
        if directory is None:
            directory = self._directories[entry.place] = store.bucket_directory(entry.place)
        file = entry.file
        if file.external_path:
            # What is needed may be deleted one day; what lies outside of the table is not the table's to delete.
            return ()
        return f"{directory}/{file.name}", *(f"{directory}/{extra}" for extra in file.extra_files)
