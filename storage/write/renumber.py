"""Give the rows of a commit higher sequence numbers than those of the table that it is put on.

A writer numbers its rows when it writes them, from the highest number of their bucket on. Another commit may come in
between, with the same numbers or higher ones; then rows of the earlier snapshot would beat those of the later one. So each
attempt of a commit looks whether the snapshots since then brought numbers as high as its own to its buckets, and if so
writes the files of those buckets anew: the same rows in the same order, each number raised by the same amount. Tables
without a key keep the numbers in the manifest alone, where raising them costs nothing.

Rows that replace what is there (overwrites) and files of a branch are not numbered by this table and stay as they are.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..errors import CommitConflict
from ..format.data_file import ExpectedFile
from ..format.file_index.wanted import INDEX_SUFFIX, index_file
from ..format.open_data_file import open_reader, open_writer
from ..lsm.system_columns import SEQUENCE_NUMBER, VALUE_KIND
from ..metadata.history import Mark, snapshots_after
from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.schema import KEY_PREFIX, TableSchema
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..store_errors import naming
from .table_write import CommitMessage

_THREADS = max(2, min(4, os.cpu_count() or 2))
_ROWS_WORTH_THREADS = 20_000
# Whoever had to write files anew twice leaves room for the rows of others while it does, four times more each time.
_ROOM = 1 << 20
# No snapshot has this number; what came after it is everything.
_LONG_AGO = -(1 << 40)


class NumberedFiles:
    """The files that a commit adds, with numbers that can be raised. `added` and `changelog` are changed in place."""

    def __init__(
        self,
        store: TableStore,
        messages: Sequence[CommitMessage],
        added: list[ManifestEntry],
        changelog: list[ManifestEntry],
    ) -> None:
        self._store = store
        self._added = added
        self._changelog = changelog
        numbered = [message for message in messages if message.numbered_at is not None]
        self._names = {entry.file.name for each in numbered for entry in (*each.added, *each.changelog)}
        marks = [message.numbered_at for message in numbered if message.numbered_at is not None]
        self._mark = min(marks, key=lambda mark: mark.snapshot_id, default=None)
        self._times_written = 0
        self._replaced: list[str] = []
        self._written: list[str] = []

    def raise_above(self, latest: Snapshot | None) -> None:
        """See to it that every number is higher than those of its bucket at the snapshot that the commit is put on."""
        if self._mark is None or latest is None or Mark.of(latest) == self._mark:
            return
        lowest: dict[Place, int] = {}
        for entry in (*self._added, *self._changelog):
            if entry.file.name in self._names:
                number = entry.file.min_sequence_number
                lowest[entry.place] = min(lowest.get(entry.place, number), number)
        came = self._came(latest, self._mark, {partition for partition, _ in lowest})
        self._refuse_other_count(latest, came)
        highest = dict.fromkeys(lowest, -1)
        for entry in came:
            if entry.place in highest:
                highest[entry.place] = max(highest[entry.place], entry.file.max_sequence_number)
        shifts = {place: highest[place] + 1 - first for place, first in lowest.items() if highest[place] >= first}
        if shifts:
            room = _ROOM << 2 * (self._times_written - 1) if self._times_written else 0
            self._times_written += 1
            self._write_anew({place: shift + room for place, shift in shifts.items()})
        self._mark = Mark.of(latest)

    def forget_mark(self, names: Collection[str]) -> None:
        """Files of some names have come in the place of others, perhaps in buckets that were not looked at yet: look at all."""
        if self._mark is not None:
            self._names |= set(names)
            self._mark = Mark(_LONG_AGO)

    @property
    def written(self) -> list[str]:
        """The paths of all files that were written here."""
        return list(self._written)

    def keep(self) -> None:
        """The commit has landed: delete the files that others were written for."""
        self._store.file_io.delete_quietly(self._replaced)

    def drop(self) -> None:
        """The commit has not landed and is not tried again: delete the files that were written here."""
        self._store.file_io.delete_quietly(self._written)

    def _came(self, latest: Snapshot, mark: Mark, partitions: Set[bytes]) -> list[ManifestEntry]:
        """The files that came to some partitions after a mark, in the order of their snapshots, or all that there are."""
        store = self._store
        later = snapshots_after(store, mark, latest)
        if later is None:
            return live_files(store.manifests_of(latest), store.manifests, lambda place: place.partition in partitions)
        entries = [entry for snapshot in later for entry in store.delta_of(snapshot) if entry.kind == ADD]
        return [entry for entry in entries if entry.partition in partitions]

    def _refuse_other_count(self, latest: Snapshot, came: Iterable[ManifestEntry]) -> None:
        """Raise CommitConflict if a partition has another number of buckets by now than its rows were hashed to, whatever the
        schema says: a rescale back may have begun, and have died.
        """
        own = {
            entry.partition: entry.total_buckets
            for entry in self._added
            if entry.file.name in self._names and entry.bucket >= 0
        }
        by_now = {entry.partition: entry.total_buckets for entry in came if entry.bucket >= 0}
        strange = {partition for partition, count in own.items() if by_now.get(partition, count) != count}
        if not strange:
            return
        # What came may have gone again.
        store = self._store
        for entry in live_files(store.manifests_of(latest), store.manifests, lambda place: place.partition in strange):
            if entry.bucket >= 0 and entry.total_buckets != own[entry.partition]:
                raise CommitConflict(
                    f"{store.identifier} has {entry.total_buckets} buckets by now where the rows were written for "
                    f"{own[entry.partition]}. Open the table again and repeat the write."
                )

    def _write_anew(self, shifts: dict[Place, int]) -> None:
        name = self._store.clock.unique_name()
        jobs = [
            (entries, index, prefix)
            for entries, prefix in ((self._added, "data"), (self._changelog, "changelog"))
            for index, entry in enumerate(entries)
            if entry.place in shifts and entry.file.name in self._names
        ]

        def write(number: int) -> ManifestEntry:
            entries, index, prefix = jobs[number]
            entry = entries[index]
            if not self._store.schema.primary_keys:
                return _raised(entry, shifts[entry.place])
            directory = self._store.bucket_directory(entry.place)
            new_name = f"{prefix}-{name}-{number}.{entry.file.format}"
            self._written += [f"{directory}/{new_name}", *_index_paths(entry, directory, new_name)]
            return _raised_copy(self._store, entry, directory, new_name, shifts[entry.place])

        is_small = sum(entries[index].file.row_count for entries, index, _ in jobs) < _ROWS_WORTH_THREADS
        written_before = len(self._written)
        try:
            with nullcontext() if is_small or len(jobs) == 1 else ThreadPoolExecutor(_THREADS) as pool:
                made = list((pool.map if pool else map)(write, range(len(jobs))))
        except BaseException:
            self._store.file_io.delete_quietly(self._written[written_before:])
            raise
        for (entries, index, _), entry in zip(jobs, made, strict=True):
            old = entries[index]
            if old.file.name != entry.file.name:
                directory = self._store.bucket_directory(old.place)
                self._replaced += [f"{directory}/{name}" for name in (old.file.name, *old.file.extra_files)]
                self._names.add(entry.file.name)
            entries[index] = entry


def raised_copies(
    store: TableStore, entries: Sequence[ManifestEntry], shifts: Mapping[Place, int]
) -> list[tuple[ManifestEntry, str]]:
    """Write the rows of files of a table with a key to other ones, their numbers raised by what is given for each bucket;
    returns each with its path. If one of them fails, those that were written are deleted.
    """
    name = store.clock.unique_name()
    written: list[str] = []
    copies: list[tuple[ManifestEntry, str]] = []
    try:
        for number, entry in enumerate(entries):
            directory, new_name = store.bucket_directory(entry.place), f"data-{name}-{number}.{entry.file.format}"
            path = f"{directory}/{new_name}"
            written += [path, *_index_paths(entry, directory, new_name)]
            copies.append((_raised_copy(store, entry, directory, new_name, shifts[entry.place]), path))
    except BaseException:
        store.file_io.delete_quietly(written)
        raise
    return copies


def _raised_copy(store: TableStore, entry: ManifestEntry, directory: str, new_name: str, shift: int) -> ManifestEntry:
    size_bytes = _copy(store, entry, directory, new_name, shift)
    raised = _raised(entry, shift)
    extra: tuple[str, ...] = ()
    if (name := index_file(entry.file.extra_files)) is not None:
        # The same rows in the same order: the same indexes.
        extra = (_index_name(entry, name, new_name),)
        store.file_io.write_bytes(f"{directory}/{extra[0]}", store.file_io.read_bytes(f"{directory}/{name}"))
    return replace(raised, file=replace(raised.file, name=new_name, size_bytes=size_bytes, extra_files=extra))


def _index_paths(entry: ManifestEntry, directory: str, new_name: str) -> list[str]:
    """Where the file with the indexes of a copy lies, if the original has one."""
    name = index_file(entry.file.extra_files)
    return [] if name is None else [f"{directory}/{_index_name(entry, name, new_name)}"]


def _index_name(entry: ManifestEntry, name: str, new_name: str) -> str:
    """The name of a copy of the indexes of a file; a checksum in it stays what it is."""
    own = entry.file.name
    return new_name + (name.removeprefix(own) if name.startswith(f"{own}.") else INDEX_SUFFIX)


def _raised(entry: ManifestEntry, shift: int) -> ManifestEntry:
    file = entry.file
    numbers = (file.min_sequence_number + shift, file.max_sequence_number + shift)
    return replace(entry, file=replace(file, min_sequence_number=numbers[0], max_sequence_number=numbers[1]))


def _copy(store: TableStore, entry: ManifestEntry, directory: str, new_name: str, shift: int) -> int:
    """Write the rows of a file to another one, their numbers raised; returns its size in bytes."""
    schema = store.schemas.get(entry.file.schema_id)
    fields = {field.name: field for field in schema.fields}
    types = {name: field.type for name, field in fields.items()}
    arrow = {name: kind.to_arrow() for name, kind in types.items()}
    arrow |= {f"{KEY_PREFIX}{name}": kind for name, kind in arrow.items()}
    expected = ExpectedFile(types=arrow)
    with open_reader(store.file_io, f"{directory}/{entry.file.name}", types, expected) as reader:
        names = reader.column_names
        rows = pa.Table.from_batches(list(reader.read_batches(names, reader.row_groups([]))))
    index = names.index(SEQUENCE_NUMBER)
    numbers = rows.column(index).to_numpy() + np.int64(shift)
    # Not every format gives the types back that it was given.
    rows = rows.set_column(index, SEQUENCE_NUMBER, pa.array(numbers)).cast(_stored_schema(schema, names))
    options = store.options
    path, compression = f"{directory}/{new_name}", options.compression_of_level(0)
    with naming("write", path):
        writer = open_writer(store.file_io, path, rows.schema, fields, options, compression)
        try:
            step = options.row_group_rows
            for start in range(0, rows.num_rows, step):
                writer.write(rows.slice(start, step))
            return writer.close()
        except BaseException:
            writer.abort()
            raise


def _stored_schema(schema: TableSchema, names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of the columns of a data file."""
    system = {
        SEQUENCE_NUMBER: pa.field(SEQUENCE_NUMBER, pa.int64(), False),
        VALUE_KIND: pa.field(VALUE_KIND, pa.int8(), False),
    }
    keys = {
        f"{KEY_PREFIX}{field.name}": pa.field(f"{KEY_PREFIX}{field.name}", field.type.to_arrow(), False)
        for field in schema.fields_named(schema.trimmed_primary_keys)
    }
    own = {field.name: field for field in schema.to_arrow()}
    known = {**own, **keys, **system}
    return pa.schema([known[name] for name in names])
