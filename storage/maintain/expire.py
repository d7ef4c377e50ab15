"""Expire snapshots: old ones go, and with them the files that no other snapshot, tag or branch needs.

What always holds: a snapshot that can be seen can be read. So the snapshot goes first, its files after it; a crash in
between leaves files that nobody needs, which `orphan_files` finds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InvalidRequest
from ..metadata.consumer import Consumer
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from .references import Holder, delete_unneeded, files_of, needed_files


@dataclass(frozen=True, slots=True)
class Removal:
    """Snapshots that went (or would go), and the files that went with them, each with the last snapshot that needed it."""

    snapshot_ids: tuple[int, ...]
    files: tuple[str, ...]
    last_needed_by: tuple[int, ...] = ()


def expire_snapshots(
    store: TableStore, *, retain_last: int, older_than_ms: int | None = None, dry_run: bool = False
) -> Removal:
    """Expire all but the last `retain_last` snapshots, only those committed before `older_than_ms` if that is given.

    Tags and branches keep what they need, consumers what they have not read. `dry_run` removes
    nothing. Raises InvalidRequest unless one snapshot stays.
    """
    if retain_last < 1:
        raise InvalidRequest(
            f"retain_last = {retain_last}: at least the latest snapshot stays. Drop the table to empty it."
        )
    snapshots = list(store.snapshots.all())
    expired = snapshots[: max(0, len(snapshots) - retain_last)]
    if older_than_ms is not None:
        # In order: one that is young enough keeps all that follow it.
        young = next((index for index, one in enumerate(expired) if one.time_ms >= older_than_ms), len(expired))
        expired = expired[:young]
    unread = min((one.next_snapshot_id for one in _living_consumers(store)), default=None)
    if unread is not None:
        expired = [one for one in expired if one.id < unread]
    return remove_snapshots(store, expired, dry_run=dry_run)


def _living_consumers(store: TableStore) -> list[Consumer]:
    lifetime_ms = store.options.consumer_expiration_ms
    return store.consumers.all(None if lifetime_ms is None else store.clock.now_ms() - lifetime_ms)


def remove_snapshots(store: TableStore, removed: Sequence[Snapshot], *, dry_run: bool = False) -> Removal:
    """Remove snapshots from either end of the history, then the files that only they needed."""
    if not removed:
        return Removal((), ())
    candidates: dict[str, int] = {}
    for snapshot in removed:
        for path in files_of(store, snapshot):
            candidates[path] = max(snapshot.id, candidates.get(path, 0))
    ids = tuple(snapshot.id for snapshot in removed)
    gone = {Holder(store.identifier.branch, "snapshot", str(one)) for one in ids}
    if dry_run:
        files = sorted(candidates.keys() - needed_files(store, gone).keys())
        return Removal(ids, tuple(files), tuple(candidates[path] for path in files))
    remaining = [one for one in store.snapshots.ids() if one not in ids]
    if remaining:
        store.snapshots.write_hint("EARLIEST", remaining[0])
        store.snapshots.write_hint("LATEST", remaining[-1])
    for snapshot in removed:
        store.file_io.delete(store.paths.snapshot(snapshot.id))
    # Asked again now: a tag may have been made of one of them until it was gone.
    files = delete_unneeded(store, candidates)
    return Removal(ids, tuple(files), tuple(candidates[path] for path in files))
