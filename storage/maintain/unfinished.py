"""What has begun and is not done, so that writers are refused: with the command that ends it, should whoever began it be dead."""

import shlex
from collections.abc import Iterator

from ..metadata.live_files import live_files
from ..metadata.table_store import TableStore
from ..write.close import DELETION, RENAMING, REPLACEMENT, closed_by, closed_for

# Of the partitions that a rescale has left out.
_MOST_NAMED = 10


def unfinished(store: TableStore) -> Iterator[str]:
    """Of one branch, in a sentence each."""
    latest = store.snapshots.latest()
    reason = closed_for(latest)
    if latest is not None and reason is not None:
        yield (
            f"it is closed to writers: {reason} has begun and is not done. If whoever did it has died, "
            f"{_way_on(store, reason, closed_by(latest))}."
        )
    count = store.options.bucket
    if latest is None or count < 1:
        return
    entries = live_files(store.manifests_of(latest), store.manifests)
    others = sorted(
        {
            (store.shown_partition(entry.partition), entry.total_buckets)
            for entry in entries
            if entry.total_buckets != count
        }
    )
    if others:
        places = [f"{path or 'files'} of {buckets}" for path, buckets in others]
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        yield (
            f"the schema says {count} buckets, and there are {', '.join(places[:_MOST_NAMED])}{more}: a rescale has left them "
            "out, or is not done, and writers to them are refused. Rescale: snapline rescale "
            f"{shlex.quote(str(store.identifier))} --buckets {count}."
        )


def _way_on(store: TableStore, reason: str, publication: int | None) -> str:
    if publication is not None:
        return f"publication {publication} goes on by `snapline branch recover`, or is undone with `--undo`"
    table = store.identifier.full_name
    for kind in (REPLACEMENT, DELETION, RENAMING):
        name = reason.removeprefix(f"{kind} ")
        if name == reason:
            continue
        if kind == RENAMING:
            return f'do it again: `snapline sql "ALTER TABLE {table} RENAME TO {name}"`'
        command = "replace-main-branch" if kind == REPLACEMENT else "delete-branch"
        return f"do it again: `snapline {command} {shlex.quote(table)} --name {shlex.quote(name)}`"
    return "do it again"
