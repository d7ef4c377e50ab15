"""Move the rows of postponed buckets to real ones, where readers see them: a snapshot of kind COMPACT, as Java's compactions of
such tables make it. A partition keeps the number of buckets that it has; the first time it gets `postpone.default-bucket-num`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby

import pyarrow as pa

from ..errors import CommitConflict, NotFound
from ..lsm.system_columns import KINDS, VALUE_KIND
from ..metadata.history import has_expired
from ..metadata.live_files import live_files, postponed_files
from ..metadata.manifest import POSTPONED_BUCKET, ManifestEntry, Place
from ..metadata.schema import KEY_PREFIX
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, COMPACT, Snapshot
from ..metadata.table_store import TableStore
from ..read.arrival import in_order_of_arrival
from ..read.split_read import ReadRequest, read_file
from ..write.commit import TableCommit
from ..write.commit_id import CommitId
from ..write.listeners import CommitListener
from ..write.newer_columns import at_columns_of
from ..write.postponed import with_buckets
from ..write.table_write import CommitMessage, TableWrite

_KIND = "_SNAPLINE_KIND"
# How often others may write in between.
_TRIES = 10


def settle_postponed(
    store: TableStore,
    *,
    wanted: Callable[[Place], bool] | None = None,
    listeners: Sequence[CommitListener] = (),
) -> Snapshot | None:
    """Move the rows of all postponed buckets, or of those `wanted`; None if there are none. Raises CommitConflict if somebody
    else has moved them meanwhile, or the snapshot has expired.
    """
    latest = store.snapshots.latest()
    if latest is None:
        return None
    live = live_files(store.manifests_of(latest), store.manifests)
    counts = {entry.partition: entry.total_buckets for entry in live if entry.bucket >= 0}
    postponed = [
        entry for entry in live if entry.bucket == POSTPONED_BUCKET and (wanted is None or wanted(entry.place))
    ]
    if not postponed:
        return None

    def count_of(entry: ManifestEntry) -> int:
        return counts.get(entry.partition, store.options.postpone_default_bucket_num)

    # Those of a partition in the order in which they came. Java takes them by their local times of creation, which is the same
    # with one writer whose clock is not set back.
    postponed = in_order_of_arrival(store, latest, postponed)
    postponed.sort(key=lambda postponed_entry: (count_of(postponed_entry), postponed_entry.partition))
    messages: list[CommitMessage] = []
    try:
        for count, group in groupby(postponed, count_of):
            messages.append(_rewritten(store, list(group), count))
    except BaseException as error:
        store.file_io.delete_quietly([path for message in messages for path in message.paths])
        if isinstance(error, NotFound) and has_expired(store, latest):
            raise CommitConflict(
                f"{store.identifier}: rows that wait in postponed buckets were to be moved, and snapshot {latest.id} has expired "
                f"meanwhile ({error}) Nothing is written; repeat it."
            ) from None
        raise
    commit_id = CommitId(store.clock.unique_name(), BATCH_COMMIT_IDENTIFIER)
    return TableCommit(store, commit_id, listeners).commit(
        messages, deleted=postponed, kind=COMPACT, operation="COMPACT"
    )


def settled(store: TableStore, listeners: Sequence[CommitListener]) -> Snapshot | None:
    """The newest snapshot, once none of its rows waits in a postponed bucket: those that do are moved first. Raises
    CommitConflict if others write more each time.
    """
    for _ in range(_TRIES):
        newest = store.newest()
        if newest is None or not postponed_files(store.manifests_of(newest), store.manifests):
            return newest
        with suppress(CommitConflict):
            settle_postponed(at_columns_of(store, newest), listeners=listeners)
    raise CommitConflict(
        f"Rows of {store.identifier} wait in postponed buckets, and were moved to real ones {_TRIES} times; each time others had "
        "written more, or moved them too. Nothing is changed; repeat it when fewer write."
    )


def _rewritten(store: TableStore, entries: Sequence[ManifestEntry], count: int) -> CommitMessage:
    """The rows of files, written to so many buckets of their partitions."""
    request = ReadRequest(store, tuple(store.schema.column_names), None)
    keys = set(store.schema.trimmed_primary_keys)
    stored = [f"{KEY_PREFIX}{name}" if name in keys else name for name in store.schema.column_names]
    with TableWrite(with_buckets(store, count)) as write:
        for entry in entries:
            for rows in read_file(request, entry.partition, store.bucket_directory(entry.place), entry.file):
                kinds = pa.array(KINDS).take(rows.column(VALUE_KIND))
                columns = [*(rows.column(name) for name in stored), kinds]
                table = pa.Table.from_arrays(columns, names=[*store.schema.column_names, _KIND])
                write.write(table, row_kind_column=_KIND)
        return write.prepare_commit()
