"""Orphan files: what lies in a table's directories and nobody needs, left behind by writers that died.

Files that are young may belong to a commit in progress, so only those older than a safety age are taken. Ages are told by
the clock that gives files their times, which is that of the file system: this machine's may be days ahead.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

from ..errors import CorruptData, InvalidRequest, NotFound, StorageError
from ..iceberg.clean_up import left_over
from ..identifier import HOLD_PREFIX
from ..metadata.cleaning import Cleaning
from ..metadata.discard import METADATA_DIRECTORIES
from ..metadata.table_store import TableStore
from ..paths import TablePaths
from ..progress import progress_of_each
from ..read.version import all_branches
from ..write.close import DECISION_FILE
from ..write.commit_time import SAFE_MS
from .branch_tags import left_tags
from .brought_back import delete_tags_in_vain
from .hold import HOLD_MS, delete_hold
from .references import needed_files

# `metadata`: of Iceberg, whose files are told apart by what names them.
_METADATA_DIRECTORIES = ("metadata", *METADATA_DIRECTORIES, "cleaning")
_NAMED_BY_SNAPSHOTS = ("manifest", "index", "statistics")
_TEMPORARY = re.compile(r"\..+\.tmp")
_BUCKET = re.compile(r"bucket-(\d+|postpone)")


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file that nobody needs."""

    path: str
    size_bytes: int


def remove_orphan_files(
    store: TableStore, *, age_ms: int, dry_run: bool = False, no_writers: bool = False
) -> list[OrphanFile]:
    """Delete what nobody needs and was last written so long ago; returns it. `dry_run` deletes nothing.

    Snapshots, schemas, tags and consumers are never taken, but for temporary files beside them, and holds, and consumers that
    somebody was about to begin, which have lasted a day, or with `no_writers` that age. Raises InvalidRequest for an age below
    that at which writers look whether their files are
    still there, unless `no_writers` says that there are none.
    """
    if age_ms < 0:
        raise InvalidRequest(f"An age of {age_ms} ms: an age is not negative.")
    if age_ms < SAFE_MS and not (no_writers or dry_run):
        raise InvalidRequest(
            f"Files of {store.identifier} that are younger than {SAFE_MS // 60_000} minutes may belong to writers that have not "
            "committed yet. Give an age of at least that, or say that no writer runs: no_writers."
        )
    now_ms, listed = _files_by_now(store)
    if now_ms is None:
        return []
    until_ms = now_ms - age_ms
    long_ago_ms = until_ms if no_writers else min(until_ms, now_ms - HOLD_MS)
    with nullcontext() if dry_run else _said(store, until_ms, long_ago_ms):
        return _clean(store, listed, until_ms, long_ago_ms, dry_run=dry_run)


@contextmanager
def _said(store: TableStore, until_ms: int, long_ago_ms: int) -> Iterator[None]:
    """Say that a cleaning is under way: who is late looks here once his snapshot is there, so that one of both sees the other."""
    newest = {
        branch.paths.branch: (last.id, last.identity)
        for branch in all_branches(store)
        if (last := branch.snapshots.latest())
    }
    name = f"cleaning-{store.clock.unique_name()}"
    try:
        store.cleanings.begin(name, Cleaning(until_ms, newest))
        store.cleanings.forget(long_ago_ms)
        yield
    finally:
        with suppress(OSError, StorageError):
            store.cleanings.end(name)


def _clean(
    store: TableStore, listed: Sequence[tuple[str, int, int | None]], until_ms: int, long_ago_ms: int, *, dry_run: bool
) -> list[OrphanFile]:
    # Listed first: what is committed while this runs is needed by then, too young to be in the list, or taken back.
    candidates = [(path, size) for path, size, time_ms in listed if time_ms is not None and time_ms <= until_ms]
    needed = needed_files(store)
    # A file that is needed and lies under a directory's former name is not in its place, and is no orphan.
    missing = {path.rpartition("/")[2] for path in needed.keys() - {path for path, _, _ in listed}}
    orphans = [
        OrphanFile(path, size)
        for path, size in sorted(candidates)
        if path not in needed and path.rpartition("/")[2] not in missing
    ]
    orphans += _stale_snapshots(store, until_ms)
    orphans += _decisions(store, until_ms)
    orphans += [
        OrphanFile(path, size)
        for path, size, time_ms in left_over(store)
        if time_ms is not None and time_ms <= until_ms
    ]
    unfinished = list(_unfinished_branches(store, until_ms))
    if not dry_run:
        for orphan in progress_of_each(orphans, str(store.identifier), "orphan files deleted"):
            store.file_io.delete(orphan.path)
        for directory, _ in unfinished:
            _delete_unfinished(store, directory)
        for branch in all_branches(store):
            _end_holds(branch, long_ago_ms)
            delete_tags_in_vain(branch)
            branch.tags.forget_marks(long_ago_ms)
            branch.consumers.give_up_unsure(long_ago_ms, store.clock.unique_name())
        with suppress(CorruptData):
            # Which branches there are cannot be told: their tags stay.
            for branch, tag in left_tags(store, long_ago_ms):
                delete_hold(branch, tag)
    return [*orphans, *(orphan for _, files in unfinished for orphan in files)]


def _decisions(store: TableStore, until_ms: int) -> list[OrphanFile]:
    """What became of closings that are on top of no branch any more: nobody asks for it again."""
    directory = store.paths.branch_directory
    decisions = [
        (file, match[1])
        for file in store.file_io.list_files(directory)
        if (match := DECISION_FILE.fullmatch(file.name))
    ]
    newest = (
        {latest.identity for branch in all_branches(store) if (latest := branch.snapshots.latest())}
        if decisions
        else set()
    )
    return [
        OrphanFile(f"{directory}/{file.name}", file.size_bytes)
        for file, closing in decisions
        if closing not in newest and file.modified_ms is not None and file.modified_ms <= until_ms
    ]


def _unfinished_branches(store: TableStore, until_ms: int) -> Iterator[tuple[str, list[OrphanFile]]]:
    """Directories of branches that were being made or deleted, in which nothing is young."""
    for name in store.file_io.list_directories(store.paths.branch_directory):
        directory = f"{store.paths.branch_directory}/{name}"
        files = list(_below(store, directory, only_temporary=False)) if name.startswith(".") else []
        if files and all(time_ms is not None and time_ms <= until_ms for _, _, time_ms in files):
            yield directory, [OrphanFile(path, size) for path, size, _ in files]


def _delete_unfinished(store: TableStore, directory: str) -> None:
    """By another name first: who sleeps while he makes the branch finds all of it, or nothing."""
    gone = TablePaths(store.paths.root, making=store.clock.unique_name()).metadata_root
    with suppress(NotFound):
        if store.file_io.move_directory_if_absent(directory, gone):
            store.file_io.delete_directory(gone)


def _files_by_now(store: TableStore) -> tuple[int | None, list[tuple[str, int, int | None]]]:
    """The time by the clock of the file system, None if it tells none, and all files that may be orphans."""
    path = f"{store.paths.schema_directory}/.now-{store.clock.unique_name()}.tmp"
    if not store.file_io.create_exclusively(path, b"", of=store.read_witness()):
        return None, []
    try:
        listed = list(_files(store))
    finally:
        with suppress(OSError, StorageError):
            store.file_io.delete(path)
    now_ms = next((time_ms for each, _, time_ms in listed if each == path), None)
    return now_ms, [each for each in listed if each[0] != path]


def has_file(store: TableStore, name: str) -> bool:
    """Whether a table has a file of that path, or whose path ends with that name, needed or not."""
    listed = _below(store, store.paths.root, only_temporary=False)
    return any(path == name or path.endswith(f"/{name}") for path, _, _ in listed)


def _end_holds(branch: TableStore, until_ms: int) -> None:
    """Take away the holds that processes which died have left."""
    for file in branch.file_io.list_files(branch.paths.tag_directory):
        name = file.name.removeprefix("tag-")
        if name.startswith(HOLD_PREFIX) and file.modified_ms is not None and file.modified_ms <= until_ms:
            tag = branch.tags.find(name)
            if tag is not None:
                delete_hold(branch, tag)


def _stale_snapshots(store: TableStore, until_ms: int) -> list[OrphanFile]:
    """Snapshot files below the history: writers created them at numbers that had expired, and died."""
    stale = []
    for branch in all_branches(store):
        history = {snapshot.id for snapshot in branch.snapshots.all()}
        below = [number for number in branch.snapshots.listed_ids() if history and number < min(history)]
        paths = {branch.paths.snapshot(number) for number in below}
        directory = branch.paths.snapshot_directory
        for file in store.file_io.list_files(directory) if paths else []:
            path = f"{directory}/{file.name}"
            if path in paths and file.modified_ms is not None and file.modified_ms <= until_ms:
                stale.append(OrphanFile(path, file.size_bytes))
    return stale


def _files(store: TableStore) -> Iterator[tuple[str, int, int | None]]:
    root = store.paths.root
    for name in store.file_io.list_directories(root):
        if name in _NAMED_BY_SNAPSHOTS or name in _METADATA_DIRECTORIES:
            yield from _below(store, f"{root}/{name}", only_temporary=name in _METADATA_DIRECTORIES)
        else:
            yield from _in_buckets(store, f"{root}/{name}")


def _in_buckets(store: TableStore, directory: str) -> Iterator[tuple[str, int, int | None]]:
    """What lies in the buckets below a directory of data. Beside them others put what is theirs, such as `_SUCCESS`."""
    if _BUCKET.fullmatch(directory.rpartition("/")[2]):
        yield from _below(store, directory, only_temporary=False)
        return
    for file in store.file_io.list_files(directory):
        if _TEMPORARY.fullmatch(file.name):
            yield f"{directory}/{file.name}", file.size_bytes, file.modified_ms
    for name in store.file_io.list_directories(directory):
        yield from _in_buckets(store, f"{directory}/{name}")


def _below(store: TableStore, directory: str, *, only_temporary: bool) -> Iterator[tuple[str, int, int | None]]:
    for file in store.file_io.list_files(directory):
        if not only_temporary or _TEMPORARY.fullmatch(file.name):
            yield f"{directory}/{file.name}", file.size_bytes, file.modified_ms
    for name in store.file_io.list_directories(directory):
        yield from _below(store, f"{directory}/{name}", only_temporary=only_temporary)
