"""Write rows: collect them, route them to buckets, sort and deduplicate, and write level-0 files.

Nothing written here is visible before a commit takes the messages. Memory holds up to `write-buffer-size` for each
bucket; files of a bucket are written in parallel with those of others.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arguments import checked
from ..errors import CommitConflict, InvalidRequest, NotFound, Unsupported
from ..format.binary_row import buckets_of, encode, hash_rows
from ..lsm.key_order import last_of_each, ranks, stable_order
from ..lsm.merge_engines import merge_engine_of, merge_groups
from ..lsm.system_columns import DELETE, SEQUENCE_NUMBER, UPDATE_BEFORE, VALUE_KIND
from ..metadata.change_tracking import is_tracked
from ..metadata.history import Mark, has_expired
from ..metadata.manifest import POSTPONED_BUCKET, ManifestEntry
from ..metadata.schema_check import refuse_unwritable
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..option_checks import refuse_unsupported
from ..options import TableOptions
from ..paths import partition_path
from ..values import from_arrow
from .data_file_sink import Bucket, DataFileSink
from .dynamic_buckets import DynamicBuckets, NewKeys
from .incoming import Rows, row_kinds, shaped
from .known_places import KNOWN_PLACES, KnownPlaces
from .moved_rows import FindKeys, RowMover
from .postponed import is_postponed, postponed_sink
from .vectors import MarkedFile
from .watermark import highest, row_time

# The property of a snapshot: how many rows were given to its writers under a key that a later row of the same write has.
_DUPLICATE_KEYS = "snapline.duplicate-keys"
# Escaped, what is no longer than this is no longer than a name may be.
_SHORT_PARTITION_BYTES = 60
_THREADS = max(2, min(4, os.cpu_count() or 2))
# Fewer rows are written sooner than threads are started.
_ROWS_WORTH_THREADS = 20_000
# All buckets together never hold more than this many times the buffer of one.
_BUFFERS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """What one writer did, on its way to the commit: files it added, changelog files among them. Pickles."""

    added: tuple[ManifestEntry, ...]
    paths: tuple[str, ...] = field(default=(), compare=False)
    changelog: tuple[ManifestEntry, ...] = ()
    # Rows of a table without a key that are to be taken away, each once.
    retracted: tuple[pa.Table, ...] = ()
    # The snapshot that the rows were numbered after; None for rows that are not numbered after those of the table.
    numbered_at: Mark | None = None
    # Rows that were given and are in no file, since a later one of the same write has their key.
    duplicate_key_count: int = 0
    # When the first of the files was begun, by the clock of whoever wrote them.
    begun_ms: int | None = field(default=None, compare=False)
    # The watermark of the rows that were given.
    watermark: int | None = None
    # Of a table with dynamic buckets: the keys that were given buckets, by partition.
    new_keys: tuple[NewKeys, ...] = field(default=(), compare=False)
    # Of a table whose keys may move from one partition to another: the snapshot whose keys the rows were placed by.
    placed_at: Mark | None = None
    # Files of which rows are marked as deleted, and those that were read with their marks to be written anew.
    marked: tuple[MarkedFile, ...] = field(default=(), compare=False)


def duplicate_keys_property(store: TableStore, messages: Sequence[CommitMessage]) -> dict[str, str]:
    """The property of a commit that says how many rows one of its writers got under a key that a later row has; none if
    there were none. A table whose merge engine combines rows takes them on purpose, and still says so.
    """
    count = sum(message.duplicate_key_count for message in messages)
    return {_DUPLICATE_KEYS: str(count)} if count and store.schema.primary_keys else {}


def duplicate_keys_of(snapshot: Snapshot) -> int:
    """What that property of a snapshot says; 0 where it is not there, or is no number."""
    text = (snapshot.properties or {}).get(_DUPLICATE_KEYS, "")
    return int(text) if text.isdecimal() else 0


def earliest(times_ms: Iterable[int | None]) -> int | None:
    """The earliest of some times, of which not all are known."""
    return min((time_ms for time_ms in times_ms if time_ms is not None), default=None)


@dataclass(slots=True)
class _Place:
    """A bucket while it is written."""

    bucket: Bucket
    next_sequence_number: int


@dataclass(frozen=True, slots=True)
class _Arrived:
    """Rows that are to be written, with their kinds (None: all +I) and the numbers at which they arrived (None: from 0
    on); `row_count` rows had arrived before any were merged.
    """

    rows: pa.Table
    kinds: np.ndarray | None
    numbers: np.ndarray | None
    row_count: int
    # The bucket of each row, where that is known before they are routed.
    buckets: np.ndarray | None = None


@checked
class TableWrite:
    """Collects the rows of one commit. Call `write` any number of times, then `prepare_commit` or `abort`."""

    def __init__(
        self,
        store: TableStore,
        *,
        ignore_existing: bool = False,
        write_name: str | None = None,
        change_tracking: bool = True,
        find_keys: FindKeys | None = None,
    ) -> None:
        """`ignore_existing`: the rows replace the partitions they go to, so sequence numbers start from 0.
        `write_name` is shared by the writers of one commit, and is how `files_of` finds their files. `find_keys` reads the keys
        of a table whose keys do not say in which partition they are.
        """
        refuse_unsupported(store.schema.options, str(store.identifier), for_writing=True)
        refuse_unwritable(store.schema)
        self._store = store
        self._schema = store.schema
        self._options = store.options
        self._ignore_existing = ignore_existing
        self._buffers: list[tuple[pa.Table, np.ndarray | None]] = []
        self._buffered_bytes = 0
        self._places: dict[tuple[bytes, int], _Place] = {}
        self._existing: dict[tuple[bytes, int], int] | None = None
        self._numbered_at: Mark | None = None
        self._bucket_counts: dict[bytes, int] = {}
        self._added: list[ManifestEntry] = []
        own_name = store.clock.unique_name()
        prefix = f"{_file_prefix(write_name)}{own_name[:8]}" if write_name else f"data-{own_name}"
        self._is_postponed = is_postponed(store.schema)
        self._sink = postponed_sink(store, prefix) if self._is_postponed else DataFileSink(store, prefix)
        self._changelog: list[ManifestEntry] = []
        self._retracted: list[pa.Table] = []
        self._row_time = row_time(self._schema)
        self._watermark: int | None = None
        self._duplicate_key_count = 0
        self._changelog_sink: DataFileSink | None = None
        # What an overwrite changes is seen by comparing what it replaced with what it wrote.
        tells = self._options.changelog_producer == "input" and not self._is_postponed
        if tells and change_tracking and not ignore_existing:
            self._changelog_sink = DataFileSink(store, prefix.replace("data-", "changelog-", 1))
        self._value_fields = list(self._schema.fields)
        self._key_fields = self._schema.fields_named(self._schema.trimmed_primary_keys)
        is_hashed = self._options.bucket > 0 or self._schema.has_dynamic_buckets
        self._bucket_fields = self._schema.fields_named(self._schema.bucket_keys) if is_hashed else []
        self._partition_fields = self._schema.fields_named(self._schema.partition_keys)
        self._engine = merge_engine_of(self._schema)
        self._mover = None
        if self._schema.crosses_partitions:
            if find_keys is None:
                raise Unsupported(
                    f"{store.identifier}: rows whose keys move between partitions are not written this way."
                )
            self._mover = RowMover(store, find_keys)
        self._dynamic = DynamicBuckets(store, replaces=ignore_existing) if self._schema.has_dynamic_buckets else None

    def __enter__(self) -> Self:
        """Whoever leaves by an error leaves no file behind."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()

    def write(self, rows: Rows, row_kind_column: str | None = None) -> None:
        """Take rows. Raises InvalidRequest if they do not fit the table, or its merge engine cannot take rows of kind -U or -D
        that are among them; nothing of them is kept then.
        """
        table = shaped(rows, self._schema, row_kind_column)
        self._refuse_partitions(table)
        kinds = row_kinds(rows, table, self._schema, row_kind_column)
        if self._row_time is not None:
            self._watermark = highest([self._watermark, self._row_time.of(table)])
        table, kinds = self._without_ignored(table, kinds)
        if table.num_rows == 0:
            return
        self._buffers.append((table, kinds))
        self._buffered_bytes += table.nbytes
        buckets_open = max(1, self._options.bucket)
        if self._buffered_bytes >= self._options.write_buffer_size_bytes * min(_BUFFERS_AT_ONCE, buckets_open):
            self.flush()

    def _refuse_partitions(self, table: pa.Table) -> None:
        """Raise InvalidRequest for values that make no directory name of their own, before any file is written."""
        null_name = self._options.partition_default_name
        for each in self._partition_fields:
            if not each.type.is_text:
                continue
            column = table.column(each.name)
            longest = pc.max(pc.binary_length(column)).as_py() or 0
            is_null_name = longest >= len(null_name.encode()) and pc.any(pc.equal(column, null_name)).as_py()
            if longest > _SHORT_PARTITION_BYTES or is_null_name:
                for value in pc.unique(column).to_pylist():
                    partition_path([each], [value], self._options, for_writing=True)

    def _without_ignored(self, table: pa.Table, kinds: np.ndarray | None) -> tuple[pa.Table, np.ndarray | None]:
        if kinds is None:
            return table, None
        retractions = (kinds == UPDATE_BEFORE) | (kinds == DELETE)
        ignored = retractions if self._options.ignore_delete else kinds == UPDATE_BEFORE
        if ignored.any() and (self._options.ignore_delete or self._options.ignore_update_before):
            table, kinds, retractions = table.filter(pa.array(~ignored)), kinds[~ignored], retractions[~ignored]
        if not retractions.any():
            return table, kinds if kinds.any() else None
        if not self._key_fields:
            if self._ignore_existing:
                raise InvalidRequest(
                    f"An overwrite of {self._store.identifier} takes no rows of kind -U or -D: there is nothing left that "
                    "they could take away. Leave them out."
                )
            # Without a key rows are counted: whoever commits takes one occurrence away for each.
            self._retracted.append(table.filter(pa.array(retractions)))
            return table.filter(pa.array(~retractions)), None
        # Once they are there, no key that has others can be read any more.
        refused = self._engine.refusal(table.filter(pa.array(retractions)), kinds[retractions])
        if refused is not None:
            raise InvalidRequest(f"{self._store.identifier}: {refused}")
        return table, kinds

    def flush(self) -> None:
        """Write the collected rows to files."""
        if not self._buffers:
            return
        tables = [table for table, _ in self._buffers]
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        kinds = None
        if any(each is not None for _, each in self._buffers):
            parts = [np.zeros(len(table), np.int8) if each is None else each for table, each in self._buffers]
            kinds = np.concatenate(parts)
        self._buffers, self._buffered_bytes = [], 0
        rows = rows.combine_chunks()
        arrived = _Arrived(rows, kinds, None, rows.num_rows)
        if self._mover is not None:
            moved = self._mover.place(rows, np.zeros(rows.num_rows, np.int8) if kinds is None else kinds)
            arrived = _Arrived(moved.rows, moved.kinds, None, moved.rows.num_rows, moved.buckets)
            if not arrived.row_count:
                return
        if self._changelog_sink is not None:
            self._write_changelog(arrived, self._changelog_sink)
        if self._key_fields and not self._engine.last_row_wins:
            arrived = self._merged(arrived)
        jobs = list(self._route(arrived))

        def write_one(job: tuple[_Place, np.ndarray | slice]) -> list[ManifestEntry]:
            return self._write_run(arrived, *job)

        if len(jobs) == 1 or rows.num_rows < _ROWS_WORTH_THREADS:
            results = [write_one(job) for job in jobs]
        else:
            with ThreadPoolExecutor(_THREADS) as pool:
                results = list(pool.map(write_one, jobs))
        for entries in results:
            self._added.extend(entries)
            if self._key_fields:
                self._duplicate_key_count -= sum(entry.file.row_count for entry in entries)
        self._duplicate_key_count += arrived.row_count if self._key_fields else 0

    def prepare_commit(self) -> CommitMessage:
        """Write what is left and say what was written. The writer is used up."""
        self.flush()
        return CommitMessage(
            tuple(self._added),
            tuple(self._paths),
            tuple(self._changelog),
            tuple(self._retracted),
            self._numbered_at,
            self._duplicate_key_count,
            earliest(sink.begun_ms for sink in (self._sink, self._changelog_sink) if sink),
            self._watermark,
            self._dynamic.new_keys if self._dynamic else (),
            self._mover.mark if self._mover else None,
        )

    def abort(self) -> None:
        """Delete every file that was written."""
        self._buffers = []
        self._store.file_io.delete_quietly(self._paths)

    @property
    def _paths(self) -> list[str]:
        return self._sink.paths + (self._changelog_sink.paths if self._changelog_sink else [])

    # --- merging

    def _merged(self, arrived: "_Arrived") -> "_Arrived":
        """One row for each key, made by the merge engine of the table: a file holds no key twice."""
        rows, row_count = arrived.rows, arrived.row_count
        columns = [ranks(rows.column(each.name)) for each in (*self._partition_fields, *self._key_fields)]
        by_field = [self._engine.order_of(rows.column(name)) for name in self._engine.order_by]
        order = stable_order([*columns, *by_field], row_count)
        starts = np.append(0, np.flatnonzero(last_of_each(columns, order))[:-1] + 1)
        kinds = np.zeros(row_count, np.int8) if arrived.kinds is None else arrived.kinds
        numbered = rows.append_column(SEQUENCE_NUMBER, pa.array(np.arange(row_count)))
        numbered = numbered.append_column(VALUE_KIND, pa.array(kinds))
        (batch,) = numbered.take(pa.array(order)).combine_chunks().to_batches()
        merged = merge_groups(batch, starts, self._engine)
        table = pa.Table.from_batches([merged]).select(rows.column_names).cast(rows.schema)
        buckets = None if arrived.buckets is None else arrived.buckets[order][starts]
        return _Arrived(
            table, merged.column(VALUE_KIND).to_numpy(), merged.column(SEQUENCE_NUMBER).to_numpy(), row_count, buckets
        )

    # --- routing

    def _route(self, arrived: "_Arrived", *, every_row: bool = False) -> Iterator[tuple[_Place, "np.ndarray | slice"]]:
        """For each bucket that gets rows: the rows' numbers, sorted and without repeated keys (or in arrival order).

        `every_row` keeps rows of repeated keys.
        """
        rows = arrived.rows
        columns: list[np.ndarray] = [ranks(rows.column(each.name)) for each in self._partition_fields]
        buckets = self._buckets(rows, columns) if arrived.buckets is None else arrived.buckets
        if buckets is not None:
            columns.append(buckets.astype(np.int64))
        place_count = len(columns)
        if not self._key_fields and (not columns or all(not column.any() for column in columns)):
            yield self._place(rows, 0, buckets), slice(0, rows.num_rows)
            return
        columns += [ranks(rows.column(each.name)) for each in self._key_fields]
        order = stable_order(columns, rows.num_rows)
        if self._key_fields and not every_row:
            order = order[last_of_each(columns, order)]
        # After removing repeated keys, the last row of each place marks its end.
        ends = np.flatnonzero(last_of_each(columns[:place_count], order)) + 1 if place_count else np.array([len(order)])
        start = 0
        for end in ends.tolist():
            yield self._place(rows, int(order[start]), buckets), order[start:end]
            start = end

    def _buckets(self, rows: pa.Table, partitions: Sequence[np.ndarray]) -> np.ndarray | None:
        """The bucket of each row; None if all go to bucket 0. `partitions`: the ranks of the partition columns."""
        if self._dynamic is None and self._options.bucket <= 1:
            return None
        columns = [rows.column(each.name).combine_chunks() for each in self._bucket_fields]
        hashes = hash_rows([_array(column) for column in columns], [each.type for each in self._bucket_fields])
        if self._dynamic is None:
            return buckets_of(hashes, self._options.bucket)
        order = stable_order(partitions, rows.num_rows)
        ends = np.flatnonzero(last_of_each(partitions, order)) + 1
        buckets = np.empty(rows.num_rows, np.int32)
        for start, end in pairwise([0, *ends.tolist()]):
            own = order[start:end]
            buckets[own] = self._dynamic.of(self._partition(rows, int(own[0])), hashes[own])
        return buckets

    def _partition(self, rows: pa.Table, row: int) -> bytes:
        """The partition of a row."""
        values = [from_arrow(rows.column(part.name).slice(row, 1), part.type)[0] for part in self._partition_fields]
        return encode([part.type for part in self._partition_fields], values)

    def _place(self, rows: pa.Table, row: int, buckets: np.ndarray | None) -> _Place:
        """The bucket that a row goes to; all rows of a run go to the same one."""
        partition = self._partition(rows, row)
        only = POSTPONED_BUCKET if self._is_postponed else 0
        bucket = only if buckets is None else int(buckets[row])
        place = self._places.get((partition, bucket))
        if place is None:
            path = self._store.partition_path(partition, for_writing=True)
            first = self._first_sequence_number(partition, bucket)
            directory = self._store.paths.bucket(path, bucket, self._options)
            place = self._places[partition, bucket] = _Place(
                Bucket(partition, bucket, self._options.bucket, directory), first
            )
        return place

    def _first_sequence_number(self, partition: bytes, bucket: int) -> int:
        if self._ignore_existing or self._is_postponed or (not self._key_fields and self._options.bucket <= 0):
            return 0
        if self._existing is None:
            self._existing = self._highest_sequence_numbers()
        count = self._bucket_counts.get(partition, self._options.bucket)
        if count != self._options.bucket:
            raise CommitConflict(self._bucket_conflict(count))
        return self._existing.get((partition, bucket), -1) + 1

    def _bucket_conflict(self, count: int) -> str:
        """What to do if the files of a partition have another number of buckets than this writer hashes rows to."""
        name, own = self._store.identifier, self._options.bucket
        newest = self._store.schemas.latest()
        if newest is not None and TableOptions.read(newest.options).bucket == count:
            return f"{name} has {count} buckets since it was rescaled, and had {own} when it was opened. Open it again."
        return (
            f"Files of a partition of {name} have {count} buckets, the table has {own}: whoever changed that has not rescaled "
            f"this partition, or has died. Rescale it to {own}, or overwrite the partition: then its rows are hashed anew."
        )

    def _highest_sequence_numbers(self) -> dict[tuple[bytes, int], int]:
        # The index of keys was looked up a moment ago.
        snapshot = None if self._dynamic is None else self._dynamic.looked_at
        while True:
            snapshot = snapshot or self._store.snapshots.latest()
            self._numbered_at = Mark.of(snapshot)
            if snapshot is None:
                return {}
            known = KNOWN_PLACES.get(self._store)
            try:
                if known is None or not known.advance(self._store, snapshot):
                    known = KNOWN_PLACES[self._store] = KnownPlaces(self._store, snapshot)
                break
            except NotFound:
                # It has expired while it was read: there is a newer one.
                KNOWN_PLACES.pop(self._store, None)
                if not has_expired(self._store, snapshot):
                    raise
                snapshot = None
        self._bucket_counts = known.bucket_counts
        return known.highest

    # --- files

    def _write_changelog(self, arrived: "_Arrived", sink: DataFileSink) -> None:
        """Store rows as they came, unmerged, those of a key one after the other."""
        kinds = np.zeros(arrived.row_count, np.int8) if arrived.kinds is None else arrived.kinds
        for place, order in self._route(arrived, every_row=True):
            if isinstance(order, np.ndarray) and is_tracked(self._store, place.bucket.partition):
                numbers = place.next_sequence_number + order
                self._changelog += sink.write_run(place.bucket, _take(arrived.rows, order), numbers, kinds[order])

    def _write_run(self, arrived: "_Arrived", place: "_Place", order: "np.ndarray | slice") -> list[ManifestEntry]:
        rows, kinds = arrived.rows, arrived.kinds
        first = place.next_sequence_number
        if isinstance(order, slice):
            place.next_sequence_number = first + rows.num_rows
            return self._sink.write_plain(place.bucket, rows, first)
        taken = _take(rows, order)
        if not self._key_fields:
            place.next_sequence_number = first + len(order)
            return self._sink.write_plain(place.bucket, taken, first)
        # Every row that arrived took a number, so a row's number is the place where it arrived.
        place.next_sequence_number = first + arrived.row_count
        picked = np.zeros(len(order), np.int8) if kinds is None else kinds[order]
        numbers = order if arrived.numbers is None else arrived.numbers[order]
        return self._sink.write_run(place.bucket, taken, numbers + first, picked)


def _take(rows: pa.Table, order: np.ndarray) -> pa.Table:
    indices = pa.array(order)
    return pa.Table.from_arrays([column.take(indices) for column in rows.columns], schema=rows.schema)


def files_of(write_name: str, store: TableStore) -> list[str]:
    """All files that the writers of a write have made, those of killed writers too."""
    paths = []
    directories = [store.paths.data_root(store.options)]
    for _ in store.schema.partition_keys:
        directories = [
            f"{directory}/{name}"
            for directory in directories
            for name in store.file_io.list_directories(directory)
            if "=" in name
        ]
    for directory in directories:
        for bucket in store.file_io.list_directories(directory):
            if bucket.startswith("bucket-"):
                files = store.file_io.list_files(f"{directory}/{bucket}")
                prefixes = (_file_prefix(write_name), f"changelog-{write_name}-")
                paths += [f"{directory}/{bucket}/{file.name}" for file in files if file.name.startswith(prefixes)]
    return paths


def _file_prefix(write_name: str) -> str:
    return f"data-{write_name}-"


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
