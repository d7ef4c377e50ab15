"""Orphan files: what lies in a table's directories and nobody needs, left behind by writers that died.

Files that are young may belong to a commit in progress, so only those older than a safety age are taken.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..identifier import HOLD_PREFIX
from ..metadata.table_store import TableStore
from ..read.version import all_branches
from .references import needed_files
from .tagging import expire_tags

_OWN_DIRECTORIES = ("trouble", "committed")
_METADATA_DIRECTORIES = ("schema", "snapshot", "tag", "branch", "consumer", "changelog", "service", *_OWN_DIRECTORIES)
_TEMPORARY = re.compile(r"\..+\.tmp")


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file that nobody needs."""

    path: str
    size_bytes: int


def remove_orphan_files(store: TableStore, *, older_than_ms: int, dry_run: bool = False) -> list[OrphanFile]:
    """Delete what nobody needs and was last written before `older_than_ms`; returns it. `dry_run` deletes nothing.

    Snapshots, schemas and tags are never taken, but for temporary files beside them.
    """
    # Listed first: what is committed while this runs is needed by then, or too young to be in the list.
    candidates = [
        (path, size) for path, size, time_ms in _files(store) if time_ms is not None and time_ms < older_than_ms
    ]
    needed = needed_files(store)
    orphans = [OrphanFile(path, size) for path, size in sorted(candidates) if path not in needed]
    orphans += _stale_snapshots(store, older_than_ms)
    if not dry_run:
        for orphan in orphans:
            store.file_io.delete(orphan.path)
        for branch in all_branches(store):
            expire_tags(branch, prefix=HOLD_PREFIX)
    return orphans


def _stale_snapshots(store: TableStore, older_than_ms: int) -> list[OrphanFile]:
    """Snapshot files below the history: writers created them at numbers that had expired, and died."""
    stale = []
    for branch in all_branches(store):
        history = {snapshot.id for snapshot in branch.snapshots.all()}
        below = [number for number in branch.snapshots.listed_ids() if history and number < min(history)]
        paths = {branch.paths.snapshot(number) for number in below}
        directory = branch.paths.snapshot_directory
        for file in store.file_io.list_files(directory) if paths else []:
            path = f"{directory}/{file.name}"
            if path in paths and file.modified_ms is not None and file.modified_ms < older_than_ms:
                stale.append(OrphanFile(path, file.size_bytes))
    return stale


def _files(store: TableStore) -> Iterator[tuple[str, int, int | None]]:
    root = store.paths.root
    for name in store.file_io.list_directories(root):
        yield from _below(store, f"{root}/{name}", only_temporary=name in _METADATA_DIRECTORIES)


def _below(store: TableStore, directory: str, *, only_temporary: bool) -> Iterator[tuple[str, int, int | None]]:
    for file in store.file_io.list_files(directory):
        if not only_temporary or _TEMPORARY.fullmatch(file.name):
            yield f"{directory}/{file.name}", file.size_bytes, file.modified_ms
    for name in store.file_io.list_directories(directory):
        yield from _below(store, f"{directory}/{name}", only_temporary=only_temporary)
