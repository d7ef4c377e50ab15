"""Mark partitions as done: a file `_SUCCESS` in the directory of each, for which jobs of others wait.

It holds when the partition was marked first and last, as Java Paimon's does. Source: `docs/format.md`, "Marks of partitions".
"""

import json
from collections.abc import Iterable

from ..errors import InvalidRequest
from ..identifier import MAIN_BRANCH
from ..metadata.manifest import ADD
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.trouble import MARKING, afterwards

SUCCESS_FILE = "_SUCCESS"
_FIRST, _LAST = "creationTime", "modificationTime"


def mark_done(store: TableStore, paths: Iterable[str]) -> list[str]:
    """Write the mark of each partition, given by its path (`day=2024-05-01`), whether it has rows or not; returns the paths in
    order. Raises InvalidRequest on a branch, whose rows lie in the directories of main's partitions.
    """
    if store.paths.branch != MAIN_BRANCH:
        raise InvalidRequest(
            f"{store.identifier} is a branch, and its partitions lie in the directories of main's: jobs that wait for a "
            "mark would take main's partition for done. Mark it on main, once the branch is published."
        )
    marked = sorted(set(paths))
    for path in marked:
        _mark(store, path)
    return marked


def mark_after(store: TableStore, partitions: Iterable[bytes], snapshot_id: int | None) -> None:
    """Mark the partitions to which a commit to main has written, if the table's options say so."""
    if store.paths.branch != MAIN_BRANCH or not store.options.partition_end_input_to_done:
        return
    paths = {store.partition_path(partition) for partition in partitions}
    if paths - {""}:
        afterwards(store, MARKING, lambda: mark_done(store, paths), list[str](), snapshot_id)


def mark_brought(store: TableStore, snapshot: Snapshot) -> None:
    """The same for a commit that has brought files from a branch, or of an earlier snapshot."""
    if store.paths.branch == MAIN_BRANCH and store.options.partition_end_input_to_done and store.schema.partition_keys:
        mark_after(store, {entry.partition for entry in store.delta_of(snapshot) if entry.kind == ADD}, snapshot.id)


def _mark(store: TableStore, partition_path: str) -> None:
    path = f"{store.paths.root}/{partition_path}/{SUCCESS_FILE}"
    now_ms = store.clock.now_ms()
    first = _first_time(store.file_io.read_text_or_none(path))
    mark = {_FIRST: now_ms if first is None else first, _LAST: now_ms}
    store.file_io.overwrite(path, json.dumps(mark).encode(), of=store.read_witness())


def _first_time(text: str | None) -> int | None:
    """When a mark was made first; None if there is none, or none that tells it (other programs write empty ones)."""
    try:
        first = json.loads(text)[_FIRST] if text else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return first if isinstance(first, int) and not isinstance(first, bool) else None
