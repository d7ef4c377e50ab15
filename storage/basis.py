"""What a change of rows was computed from, whether that still holds, and computing the change again if not.

An UPDATE, DELETE or MERGE reads the table at one snapshot and is committed on top of the newest. In between others may
have changed the same rows; then what was computed is wrong, and is computed again from the newest snapshot. With a key
the same rows are those of the same keys, without one those of the same files.

Follows `docs/isolation.md`, "Changes of rows".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from .arguments import checked
from .errors import CommitConflict, NotFound, RowsChanged, StorageError, Unsupported
from .lsm.row_multiset import row_codes
from .metadata.history import Mark, has_expired, snapshots_after
from .metadata.manifest import ADD, ManifestEntry, Place
from .metadata.schema import KEY_PREFIX
from .metadata.snapshot import OVERWRITE, Snapshot
from .metadata.table_store import TableStore
from .read.predicate import Predicate
from .read.scan import Scan
from .read.split_read import ReadRequest, read_file
from .write.attempt import Guard
from .write.newer_columns import refuse_unknown_columns
from .write.overwrite import Overwrite
from .write.table_write import CommitMessage

_TRIES = 10
# The operations of commits that may have inserted rows because of which others are not there.
MERGE = "MERGE"
REPLACE_WHERE = "REPLACE WHERE"
_T = TypeVar("_T")


@checked
@dataclass(frozen=True)
class Basis:
    """The snapshot that a change of rows is computed from; None for a table without one."""

    store: TableStore
    snapshot: Snapshot | None

    @property
    def mark(self) -> Mark:
        """The snapshot by what tells it from others; it travels to other processes."""
        return Mark.of(self.snapshot)

    def scan(self, predicate: Predicate | None = None) -> Scan:
        """The rows that the change is computed from."""
        # Also what no compaction has lifted yet: else it would be lost under what is computed.
        return Scan(self.store, self.snapshot, None, predicate, lowest_level=0)

    def guard(self, messages: Sequence[CommitMessage], *, inserts: bool = False) -> Guard:
        """What refuses to commit the change if others have changed the same rows: see `refuse_overtaken`."""
        return refuse_overtaken(self.store, self.mark, messages, inserts=inserts)


def repeated(
    store: TableStore,
    change: Callable[[Basis], _T],
    *,
    reads_rows: bool = True,
    newest: Callable[[], Snapshot | None] | None = None,
) -> _T:
    """What a change of rows returns, which is computed from the newest snapshot and committed under the guard of its basis.

    It is computed again, up to ten times in all, as long as others change the same rows meanwhile, or the snapshot expires
    that it is computed from; then this raises CommitConflict, and nothing is written. So it does if `reads_rows` of what has
    columns by now that the table was opened without. `newest`: what finds the newest snapshot.
    """
    options = store.options
    for attempt in range(1, _TRIES + 1):
        basis = Basis(store, (newest or store.newest)())
        if reads_rows:
            refuse_unknown_columns(store, basis.snapshot)
        try:
            return change(basis)
        except RowsChanged as error:
            said = str(error)
        except NotFound as error:
            if not has_expired(store, basis.snapshot):
                raise
            said = f"Snapshot {basis.mark.snapshot_id} has expired meanwhile: {error}"
        if attempt < _TRIES:
            longest = min(options.commit_max_retry_wait_ms, options.commit_min_retry_wait_ms * 2**attempt)
            store.clock.sleep_up_to_ms(longest)
    raise CommitConflict(
        f"{store.identifier}: the change was computed {_TRIES} times, and each time others changed the same rows, or compacted "
        "and expired what it was computed from, before it could be committed. Nothing is written; repeat it when fewer write. "
        f"The last time: {said}"
    )


def refuse_overtaken(
    store: TableStore, mark: Mark, messages: Sequence[CommitMessage], *, inserts: bool = False
) -> Guard:
    """A guard that raises RowsChanged if snapshots after a mark changed rows that the messages change too.

    With a key: rows of the same keys. Without one the commit itself notices that a file has gone that it was to take
    away; what is left to notice is, if the change `inserts` rows because they were not there, another such change. Two that
    replace what satisfies a condition meet in any table: of rows that only one of them sees, both would be left.
    """
    return _Overtaken(store, mark, messages, inserts=inserts)


def guard_of_places(
    store: TableStore, messages: Sequence[CommitMessage], overwrite: Overwrite | None, guard: Guard | None
) -> Guard | None:
    """The guard of a commit to a table whose keys may move from one partition to another: besides `guard`, it raises
    RowsChanged if others have written the same keys since the writer read where they are.

    Raises Unsupported for rows of several writers, which know nothing of each other, and for rows that replace only a part of
    the table; nothing is deleted.
    """
    written = [message for message in messages if message.added]
    if len(written) > 1:
        raise Unsupported(
            f"{store.identifier} has a primary key that does not contain all partition columns: one writer has to have all "
            "rows of a commit. With Spark, use write_frame, SQL or an asset."
        )
    if written and overwrite is not None and (overwrite.matching is not None or overwrite.dynamic):
        raise Unsupported(
            f"{store.identifier} has a primary key that does not contain all partition columns: an overwrite replaces the whole "
            "table (dynamic=False). To replace a partition, drop it and write its rows."
        )
    if not written or overwrite is not None or written[0].placed_at is None:
        return guard
    own = refuse_overtaken(store, written[0].placed_at, written)

    def refuse(latest: Snapshot | None) -> None:
        own(latest)
        if guard is not None:
            guard(latest)

    return refuse


class _Overtaken:
    def __init__(self, store: TableStore, mark: Mark, messages: Sequence[CommitMessage], *, inserts: bool) -> None:
        self._store = store
        # How far nobody has changed the same rows.
        self._mark = mark
        self._inserts = inserts
        self._own: dict[Place, list[ManifestEntry]] = {}
        for message in messages:
            for entry in message.added:
                self._own.setdefault(self._scope(entry), []).append(entry)
        self._own_keys: dict[Place, pa.Table] = {}

    def _scope(self, entry: ManifestEntry) -> Place:
        """Where a key of a file can be as well: others may have given it another bucket, or moved it to another partition."""
        schema = self._store.schema
        if schema.crosses_partitions:
            return b"", 0
        return (entry.partition, 0) if schema.has_dynamic_buckets else entry.place

    def __call__(self, latest: Snapshot | None) -> None:
        if Mark.of(latest) == self._mark:
            return
        later = None if latest is None else snapshots_after(self._store, self._mark, latest)
        if later is None:
            raise RowsChanged(
                f"{self._store.identifier} has moved on from snapshot {self._mark.snapshot_id} so far that it cannot be "
                "told which rows others have changed. Compute the change again."
            )
        for snapshot in later:
            if snapshot.changes_rows and self._meets(snapshot):
                raise RowsChanged(
                    f"Snapshot {snapshot.id} of {self._store.identifier} ({snapshot.operation or snapshot.commit_kind} by "
                    f"{snapshot.commit_user}) changed rows that this change was computed from. Compute it again."
                )
        self._mark = Mark.of(latest)

    def _meets(self, snapshot: Snapshot) -> bool:
        if self._inserts and snapshot.operation == REPLACE_WHERE:
            return True
        if not self._store.schema.primary_keys:
            return self._inserts and (snapshot.operation == MERGE or snapshot.commit_kind == OVERWRITE)
        delta = self._store.delta_of(snapshot)
        return any(self._shares_keys(entry, self._own.get(self._scope(entry), ())) for entry in delta)

    def _shares_keys(self, entry: ManifestEntry, own_files: Sequence[ManifestEntry]) -> bool:
        """Whether a file that came or went has a key that this change writes."""
        low, high = self._store.key_range(entry.file)
        ranges = [self._store.key_range(own.file) for own in own_files]
        if not any(low <= last and first <= high for first, last in ranges):
            return False
        if entry.kind != ADD:
            return True
        try:
            scope = self._scope(entry)
            if scope not in self._own_keys:
                self._own_keys[scope] = self._keys(own_files)
            own, others = self._own_keys[scope], self._keys([entry])
        except StorageError:
            # A file that cannot be read may hold any of the keys.
            return True
        codes = row_codes([own, others])
        return bool(np.isin(codes[: own.num_rows], codes[own.num_rows :]).any())

    def _keys(self, entries: Sequence[ManifestEntry]) -> pa.Table:
        names = self._store.schema.trimmed_primary_keys
        request = ReadRequest(self._store, tuple(names), None)
        stored = [f"{KEY_PREFIX}{name}" for name in names]
        fields = [
            (name, self._store.schema.field(key).type.to_arrow()) for name, key in zip(stored, names, strict=True)
        ]
        batches = [
            batch.select(stored)
            for entry in entries
            for batch in read_file(request, entry.partition, self._store.bucket_directory(entry.place), entry.file)
        ]
        return pa.concat_tables(
            [
                pa.schema(fields).empty_table(),
                *(pa.Table.from_batches([batch]).cast(pa.schema(fields)) for batch in batches),
            ]
        )
