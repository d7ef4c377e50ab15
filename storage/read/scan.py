"""Plan a scan: from a snapshot to the files that can hold wanted rows, packed into splits.

Files are skipped by partition, by bucket (where the filter names the keys), by key range and by column statistics; a
file under a merge only by its key, since an older version of a row must not surface.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from .. import metrics
from ..data_types import DataField, DataType
from ..format.binary_row import EMPTY_ROW, buckets_of, decoder, hash_rows
from ..format.column_stats import ColumnStats, deserialize
from ..format.deletion_vector import DeletionVector
from ..lazy import lazy_property
from ..lsm.sorted_run import Section, SortedRun, cut_by_key, split_into_sections
from ..metadata.history import told_of_expiry
from ..metadata.index_manifest import vectors_of
from ..metadata.live_files import live_files
from ..metadata.manifest import POSTPONED_BUCKET, DataFile, ManifestEntry, ManifestFile, Place
from ..metadata.manifest_columns import FilePlace
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.trouble import warn_of_waiting
from ..option_checks import refuse_unsupported
from ..values import to_arrow
from .file_indexes import FileIndexes
from .joined_columns import row_groups
from .metadata_columns import OF_SNAPSHOTS, metadata_among, metadata_of
from .origins import Origins, origins_of
from .predicate import Predicate, exact_values, restricted_to
from .split import Split
from .split_read import ReadRequest

_READ_AHEAD = max(2, os.cpu_count() or 2)
# Fewer rows than these are read before threads have begun.
_ROWS_WORTH_THREADS = 50_000
_T = TypeVar("_T")


@dataclass(frozen=True)
class Scan:
    """What to read of a table at a snapshot. `columns` None means all; `predicate` is bound to the reading schema.

    `limit`: so many rows are enough, whichever they are. `lowest_level`: the rows of levels below, with a primary key, are left
    out; None: those that readers of the table do not see.
    """

    store: TableStore
    snapshot: Snapshot | None
    columns: tuple[str, ...] | None = None
    predicate: Predicate | None = None
    limit: int | None = None
    lowest_level: int | None = None

    def __post_init__(self) -> None:
        refuse_unsupported(self.store.schema.options, str(self.store.identifier), for_writing=False)

    @lazy_property
    def request(self) -> ReadRequest:
        """What is asked of a split: columns, condition, limit."""
        if self.columns is None:
            return ReadRequest(self.store, tuple(self.store.schema.column_names), self.predicate, self.snapshot)
        metadata = metadata_among(self.store.schema, self.columns)
        own = tuple(name for name in self.columns if name not in metadata)
        return ReadRequest(self.store, own, self.predicate, self.snapshot, metadata, self.columns)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of what is read."""
        return self.request.schema

    @lazy_property
    def entries(self) -> list[ManifestEntry]:
        """The files that can hold wanted rows, as far as partition, bucket and a file's own statistics tell."""
        if self.snapshot is None:
            return []
        pruning = _Pruning(self.store, self.predicate)
        with told_of_expiry(self.store, self.snapshot):
            manifests = [
                manifest for manifest in self.store.manifests_of(self.snapshot) if pruning.keeps_manifest(manifest)
            ]
            entries = live_files(manifests, self.store.manifests, pruning.keeps_place)
        return [entry for entry in entries if pruning.keeps_file(entry)]

    @lazy_property
    def deletion_vectors(self) -> dict[str, DeletionVector]:
        """The deleted rows of data files, by the file's name."""
        if self.snapshot is None or not self._has_deletion_vectors:
            return {}
        with told_of_expiry(self.store, self.snapshot):
            return vectors_of(self.store, self.snapshot)

    def _origins(self, entries: Sequence[ManifestEntry]) -> Origins:
        """Which snapshots wrote the rows of files, where somebody asks for it."""
        if self.snapshot is None or not OF_SNAPSHOTS & {metadata_of(name) for name in self.request.metadata}:
            return Origins()
        with told_of_expiry(self.store, self.snapshot):
            return origins_of(self.store, self.snapshot, entries)

    @lazy_property
    def splits(self) -> list[Split]:
        """Splits of about `source.split.target-size`, in the order of partitions and buckets."""
        table = str(self.store.identifier)
        with metrics.timed(metrics.PLAN_DURATION, table=table):
            splits = self._plan()
        if metrics.is_metered():
            files = [file for split in splits for file in split.files]
            metrics.take(metrics.PLAN_FILES, len(files), table=table)
            metrics.take(metrics.PLAN_ROWS, sum(file.row_count for file in files), table=table)
            metrics.take(metrics.PLAN_BYTES, sum(file.size_bytes for file in files), table=table)
        return splits

    def _plan(self) -> list[Split]:
        places: dict[Place, list[DataFile]] = {}
        lowest = self.lowest_level
        if lowest is None:
            # There compaction settles what stands: rows that it has not seen are not there yet.
            lowest = 1 if self.store.options.hides_level_0 else 0
        lowest = lowest if self.store.schema.primary_keys else 0
        shown = [entry for entry in self.entries if entry.file.level >= lowest]
        if self.lowest_level is None and len(shown) < len(self.entries):
            warn_of_waiting(self.store)
        for entry in shown:
            places.setdefault(entry.place, []).append(entry.file)
        origins = self._origins(shown)
        splits: list[Split] = []
        for (partition, bucket), files in sorted(places.items()):
            directory = self.store.bucket_directory((partition, bucket))
            sections = self._cut_large(self._prune_sections(self._sections(files), directory))
            splits += [
                Split(
                    self.request,
                    partition,
                    bucket,
                    directory,
                    tuple(packed),
                    self._vectors_of(packed),
                    origins.of(packed),
                )
                for group in self._by_marks(sections)
                for packed in self._pack(group)
            ]
        return self._enough(splits)

    def narrowed(self, splits: Iterable[Split]) -> list[Split]:
        """What this scan's filter leaves of splits that another scan of the same snapshot planned.

        Who shares the splits of a plan with somebody else narrows them afterwards: a plan with a filter divides files
        otherwise, since those that no row can come from are not there to be merged with.
        """
        places = {entry.place for entry in self.entries}
        narrowed = []
        for split in splits:
            is_there = (split.partition, split.bucket) in places
            sections = self._prune_sections(split.sections, split.directory) if is_there else ()
            if sections:
                narrowed.append(replace(split, request=self.request, sections=tuple(sections)))
        return narrowed

    def _enough(self, splits: list[Split]) -> list[Split]:
        """The first splits that surely hold `limit` rows; all of them if that cannot be told without reading."""
        if self.limit is None or self.predicate is not None:
            return splits
        held = 0
        for number, split in enumerate(splits):
            if held >= self.limit:
                return splits[:number]
            held += split.row_count_unmerged if split.row_count_is_exact else 0
        return splits

    def _cut_large(self, sections: Sequence[Section]) -> list[Section]:
        """Sections that are larger than a split in pieces of about that size, by ranges of keys."""
        target = self.store.options.source_split_target_size_bytes
        if not self.store.key_types or (
            self._has_deletion_vectors and not any(section.needs_merge for section in sections)
        ):
            return list(sections)
        return [
            piece
            for section in sections
            for piece in (
                cut_by_key(section, target, self.store.key_range) if section.size_bytes > target else [section]
            )
        ]

    @property
    def _has_deletion_vectors(self) -> bool:
        return self.store.options.deletion_vectors_enabled

    def _by_marks(self, sections: Sequence[Section]) -> list[list[Section]]:
        """Sections without deletion vectors before those with, so that any reader can read the splits of the former; as they
        are where rows have an order.
        """
        marked = self.deletion_vectors
        if not marked or (not self.store.key_types and self.store.options.bucket > 0):
            return [list(sections)]
        groups: tuple[list[Section], list[Section]] = ([], [])
        for section in sections:
            groups[any(file.name in marked for file in section.files)].append(section)
        return list(groups)

    def _vectors_of(self, sections: Sequence[Section]) -> dict[str, DeletionVector]:
        vectors = self.deletion_vectors
        names = (file.name for section in sections for file in section.files) if vectors else ()
        return {name: vectors[name] for name in names if name in vectors}

    def _sections(self, files: Sequence[DataFile]) -> list[Section]:
        key_types = self.store.key_types
        if not key_types or (self._has_deletion_vectors and all(file.level for file in files)):
            # With deletion vectors, what a newer file replaced is marked in the older one: nothing is merged.
            if self.store.schema.options.get("data-evolution.enabled", "false") == "true":
                return row_groups(files)
            ordered = sorted(files, key=lambda file: file.min_sequence_number)
            return [Section((SortedRun((file,)),)) for file in ordered]
        return split_into_sections(files, self.store.key_range)

    def _prune_sections(self, sections: Sequence[Section], directory: str) -> Sequence[Section]:
        """Drop sections of a single file by its value statistics and its indexes; others must be merged whole."""
        if self.predicate is None:
            return sections
        statistics = FileStatistics(self.store)
        kept = [
            section
            for section in sections
            if len(section.files) > 1 or section.is_cut or statistics.may_match(self.predicate, section.files[0])
        ]
        indexes = FileIndexes(self.store, self.predicate, statistics.of)
        return indexes.keep(
            kept,
            lambda kept_section: None if len(kept_section.files) > 1 or kept_section.is_cut else kept_section.files[0],
            directory,
        )

    def _pack(self, sections: Sequence[Section]) -> Iterator[list[Section]]:
        options = self.store.options
        packed: list[Section] = []
        weight = 0
        for section in sections:
            own = max(section.size_bytes, options.source_split_open_file_cost_bytes)
            if packed and weight + own > options.source_split_target_size_bytes:
                yield packed
                packed, weight = [], 0
            packed.append(section)
            weight += own
        if packed:
            yield packed

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Batches of all splits, one split after the other, up to the limit."""
        left = self.limit
        for split in self.splits:
            for batch in split.read():
                if left is None or batch.num_rows < left:
                    left = None if left is None else left - batch.num_rows
                    yield batch
                else:
                    yield batch.slice(0, left)
                    return

    def to_reader(self) -> pa.RecordBatchReader:
        """The scan as a stream."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """All rows in memory; splits are read in parallel."""
        if self.limit is not None:
            return pa.Table.from_batches(list(self.to_batches()), self.schema)
        parts = self._of_each_split(lambda split, use_threads: list(split.read(use_threads=use_threads)))
        return pa.Table.from_batches([batch for part in parts for batch in part], self.schema)

    def _of_each_split(self, read: Callable[[Split, bool], _T]) -> list[_T]:
        """What a function makes of each split, in parallel where that pays; it is told whether it may use threads itself."""
        splits = self.splits
        is_small = sum(split.row_count_unmerged for split in splits) < _ROWS_WORTH_THREADS
        if len(splits) < 2 or (is_small and self.store.file_io.is_local):
            return [read(split, not is_small) for split in splits]
        with ThreadPoolExecutor(min(_READ_AHEAD, len(splits))) as pool:
            return list(pool.map(lambda split: read(split, False), splits))

    def known_count(self) -> int | None:
        """The number of rows where metadata tell it; None where rows have to be read: to be merged, or filtered."""
        if self.predicate is not None or not all(split.row_count_is_exact for split in self.splits):
            return None
        count = sum(split.row_count_unmerged for split in self.splits)
        return count if self.limit is None else min(count, self.limit)

    def count(self) -> int:
        """The number of rows: from metadata where nothing has to be merged or filtered."""
        known = self.known_count()
        if known is not None:
            return known
        counted = replace(self, columns=())
        if self.limit is not None:
            return sum(batch.num_rows for batch in counted.to_batches())
        return sum(
            counted._of_each_split(
                lambda split, use_threads: sum(batch.num_rows for batch in split.read(use_threads=use_threads))
            )
        )


class FileStatistics:
    """Column statistics of data files, mapped from the schema a file was written with to the reading schema."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._ids = {field.name: field.id for field in store.schema.fields}
        self._schemas: dict[int, tuple[Sequence[DataField], set[int], set[int]]] = {}
        self._described: dict[Any, tuple[list[int], list[DataType], Callable[[bytes], tuple[Any, ...]]]] = {}

    def may_match(self, predicate: Predicate, file: DataFile) -> bool:
        """False if no row of the file can match."""
        return predicate.may_match(self.of(file, predicate.columns()), file.row_count)

    def of(self, file: DataFile, columns: set[str]) -> dict[str, ColumnStats]:
        """Statistics of those columns that have any; partition columns are left to the partition."""
        old_fields, same, held = self._schema(file.schema_id)
        known = self._by_id(file, old_fields)
        statistics = {}
        # Of a partition column the manifest is right, whatever the file says.
        for name in columns - set(self._store.schema.partition_keys):
            field_id = self._ids[name]
            if field_id in same and field_id in known:
                # Blanks at the end of a CHAR are in the bounds, and are not read from ORC.
                if file.format != "orc" or self._store.schema.field(name).type.root != "CHAR":
                    statistics[name] = known[field_id]
            elif field_id not in held:
                statistics[name] = ColumnStats(null_count=file.row_count)
        return statistics

    def _schema(self, schema_id: int) -> tuple[Sequence[DataField], set[int], set[int]]:
        """The columns of a schema; ids of those that have the same type by now; ids of all."""
        if schema_id not in self._schemas:
            fields = self._store.schemas.get(schema_id).fields
            new_types = {field.id: field.type.not_null() for field in self._store.schema.fields}
            # A column that changed its type may compare otherwise than its old statistics.
            same = {field.id for field in fields if new_types.get(field.id) == field.type.not_null()}
            self._schemas[schema_id] = (fields, same, {field.id for field in fields})
        return self._schemas[schema_id]

    def _by_id(self, file: DataFile, old_fields: Sequence[DataField]) -> dict[int, ColumnStats]:
        key = (file.schema_id, file.value_stats_columns)
        if key not in self._described:
            if file.value_stats_columns is None:
                described = list(old_fields)
            else:
                by_name = {field.name: field for field in old_fields}
                described = [by_name[name] for name in file.value_stats_columns if name in by_name]
            types = [field.type for field in described]
            self._described[key] = ([field.id for field in described], types, decoder(types))
        ids, types, decode = self._described[key]
        if file.value_stats_columns is None and (
            file.write_columns is not None or any(data_type.is_nested for data_type in types)
        ):
            # Statistics of nested columns lie between the others and cannot be decoded, and who has written a part of the columns
            # does not say here which.
            return {}
        return dict(zip(ids, deserialize(file.value_stats, types, decode), strict=True))


class _Pruning:
    """What a filter says about partitions, buckets and keys. Decisions only: it touches no file."""

    def __init__(self, store: TableStore, predicate: Predicate | None) -> None:
        schema = store.schema
        self._partition_keys = schema.partition_keys
        self._partition_types = store.partition_types
        self._partition_filter = restricted_to(predicate, set(schema.partition_keys)) if schema.partition_keys else None
        self._key_names = schema.trimmed_primary_keys
        self._store = store
        self._key_filter = restricted_to(predicate, set(self._key_names)) if self._key_names else None
        self._bucket_hashes = _bucket_hashes(schema.fields_named(schema.bucket_keys), predicate)
        self._partitions: dict[bytes, bool] = {}
        self._same_buckets: dict[int, bool] = {}
        self._predicate = predicate

    def keeps_manifest(self, manifest: ManifestFile) -> bool:
        if self._partition_filter is None or manifest.partition_stats.minimums == EMPTY_ROW:
            return True
        stats = deserialize(manifest.partition_stats, self._partition_types)
        rows = manifest.added_file_count + manifest.deleted_file_count
        return self._partition_filter.may_match(dict(zip(self._partition_keys, stats, strict=True)), rows)

    def keeps_place(self, place: FilePlace) -> bool:
        """By partition and bucket alone, so that an add and its delete are kept or dropped together."""
        if place.bucket == POSTPONED_BUCKET:
            # Postponed rows are invisible until a compaction distributes them.
            return False
        if self._bucket_hashes is not None and place.total_buckets > 0 and self._has_bucket_types(place.schema_id):
            buckets = set(buckets_of(self._bucket_hashes, place.total_buckets).tolist())
            if place.bucket not in buckets:
                return False
        return self._keeps_partition(place.partition)

    def _has_bucket_types(self, schema_id: int) -> bool:
        """Whether files of a schema lie in the buckets that values have now: another type has other hashes."""
        known = self._same_buckets.get(schema_id)
        if known is None:
            old = {field.id: field.type.not_null() for field in self._store.schemas.get(schema_id).fields}
            now = self._store.schema.fields_named(self._store.schema.bucket_keys)
            known = self._same_buckets[schema_id] = all(old.get(field.id) == field.type.not_null() for field in now)
        return known

    def _keeps_partition(self, partition: bytes) -> bool:
        if self._partition_filter is None:
            return True
        kept = self._partitions.get(partition)
        if kept is None:
            values = self._store.partition_values(partition)
            stats = {name: ColumnStats(value, value, int(value is None)) for name, value in values.items()}
            kept = self._partitions[partition] = self._partition_filter.may_match(stats, 1)
        return kept

    def keeps_file(self, entry: ManifestEntry) -> bool:
        """By the range of its keys."""
        if self._key_filter is None:
            return True
        low, high = self._store.key_range(entry.file)
        stats: dict[str, ColumnStats] = {}
        # Only the first column is bounded by the key range as a whole, the next as long as those before are constant.
        for name, first, last in zip(self._key_names, low, high, strict=True):
            stats[name] = ColumnStats(first, last, 0)
            if first != last:
                break
        return self._key_filter.may_match(stats, entry.file.row_count)


def _bucket_hashes(fields: Sequence[DataField], predicate: Predicate | None) -> Any:
    """Hashes of all bucket keys that matching rows can have, if the filter lists them; else None."""
    if not fields or predicate is None:
        return None
    lists = [exact_values(predicate, field.name) for field in fields]
    rows: list[tuple[Any, ...]] = [()]
    for values in lists:
        if values is None or len(rows) * len(values) > 1000:
            return None
        rows = [(*row, value) for row in rows for value in values]
    columns = [to_arrow([row[index] for row in rows], field.type) for index, field in enumerate(fields)]
    return hash_rows(columns, [field.type for field in fields])
