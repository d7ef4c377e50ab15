"""Read a split: open its files, bring old schemas up to date, merge overlapping runs, filter and project.

What always holds: a filter on a column outside the key is applied to rows only after the merge, for an older version
of a row must not come up because a newer one was filtered away.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataField, arrow_schema
from ..format.data_file import MOST_BATCH_ROWS, DataFileReader, ExpectedFile, RowRange
from ..format.deletion_vector import DeletionVector
from ..format.open_data_file import open_reader
from ..lsm.merge import RunCursor, comparable_key, merge_sorted_runs, within_keys, without_deletes
from ..lsm.merge_engines import merge_engine_of
from ..lsm.record_expiry import RecordExpiry
from ..lsm.sorted_run import Key, Section, SortedRun
from ..lsm.system_columns import FILE, INSERT, LEVEL, POSITION, SEQUENCE_NUMBER, VALUE_KIND, WHOLE
from ..metadata.manifest import LOOKUP_MARK, WRITTEN, DataFile
from ..metadata.schema import KEY_PREFIX
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..values import to_arrow
from .file_columns import FileColumns
from .joined_columns import columns_of_files, side_by_side
from .metadata_columns import metadata_field
from .positions import at_positions, numbered, read_vector, unmarked, within_groups, without_positions
from .predicate import Predicate, exact_values, restricted_to, value_ranges
from .row_metadata import FileSources, RowMetadata

# Row kinds of a batch in which every row was added (+I is 0).
_ZEROS = pa.py_buffer(bytes(MOST_BATCH_ROWS))
_NONE: Mapping[str, DeletionVector] = MappingProxyType({})
_NO_EXPIRY: Mapping[str, RecordExpiry] = MappingProxyType({})


@dataclass(frozen=True)
class ReadRequest:
    """What every split of a scan has in common: the table under the reading schema, columns wanted, rows wanted, and the
    snapshot that is read, if it is one that may expire meanwhile.
    """

    store: TableStore
    columns: tuple[str, ...]
    predicate: Predicate | None
    snapshot: Snapshot | None = None
    # Metadata columns, as they are asked for, and then the order of all columns.
    metadata: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches that come out."""
        own = arrow_schema(self.store.schema.fields_named(self.columns))
        if not self.metadata:
            return own
        return pa.schema([metadata_field(name) if name in self.metadata else own.field(name) for name in self.names])


def read_sections(
    request: ReadRequest,
    partition: bytes,
    directory: str,
    sections: Sequence[Section],
    deletion_vectors: Mapping[str, DeletionVector] = _NONE,
    *,
    use_threads: bool,
    sources: FileSources | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read sections of the bucket in `directory`: batches of `request.schema`, none of them empty. `sources`: what metadata
    columns are made of.
    """
    reader = SectionReader(request, partition, directory, use_threads, deletion_vectors, sources=sources)
    for section in sections:
        for batch in reader.read(section):
            if batch.num_rows:
                yield batch


def read_run(
    request: ReadRequest,
    partition: bytes,
    directory: str,
    section: Section,
    deletion_vectors: Mapping[str, DeletionVector] = _NONE,
    *,
    keep_deletes: bool,
    with_level: bool = False,
    merges_single_rows: bool = False,
    expiring: Mapping[str, RecordExpiry] = _NO_EXPIRY,
) -> Iterator[pa.RecordBatch]:
    """The merged rows of a section as one sorted run, for writing it anew; those that are marked as deleted are left out, and
    those that are too old, of the files named in `expiring`.

    Columns: `_KEY_<key>`, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, `_LEVEL` (the lowest of each key) if wanted, then the wanted
    columns that are not in the key.
    """
    reader = SectionReader(
        request, partition, directory, False, deletion_vectors, merges_single_rows=merges_single_rows, expiring=expiring
    )
    runs = _oldest_first(section.runs)
    return reader.merged(
        runs, with_sequence=True, with_level=with_level, keep_deletes=keep_deletes, sort=True, piece=section
    )


def read_file(request: ReadRequest, partition: bytes, directory: str, file: DataFile) -> Iterator[pa.RecordBatch]:
    """Every row of a file of a table with a key, in its order, with the columns of `read_run`."""
    return SectionReader(request, partition, directory, use_threads=False).every_row(file)


def read_whole_file(store: TableStore, directory: str, file: DataFile) -> int:
    """Read every byte and every column of a file; returns its number of rows. Raises CorruptData for what is damaged."""
    with open_data_file(store, directory, file, whole=True) as reader:
        known = {field.name for field in store.schemas.get(file.schema_id).fields} | {SEQUENCE_NUMBER, VALUE_KIND}
        columns = [name for name in reader.column_names if name.removeprefix(KEY_PREFIX) in known]
        batches = reader.read_batches(columns, reader.row_groups([]), use_threads=False)
        return sum(batch.num_rows for batch in batches)


def check_file(store: TableStore, directory: str, file: DataFile, *, whole: bool) -> bool:
    """Raise CorruptData if a file does not look as its manifest and its own end say, or `whole`, as its checksum does;
    says whether it `has_constant_beside_nulls`.

    For those who give the file to another reader, which may look at less.
    """
    with open_data_file(store, directory, file, whole=whole) as reader:
        return reader.has_constant_beside_nulls


def is_whole(file: DataFile, reader: DataFileReader) -> bool:
    """Whether the rows of a file, of a table whose compactions look up, were made of those on the levels above its own, too.

    Java's compactions have always done so, those here mark what they write: what has no mark is of an earlier build, which
    stored what level 0 added. So is what was only moved above level 0.
    """
    return file.level > 0 and file.file_source != WRITTEN and (LOOKUP_MARK in file.name or reader.is_of_java)


def open_data_file(store: TableStore, directory: str, file: DataFile, *, whole: bool = False) -> DataFileReader:
    """An open file, compared with what its manifest says of it."""
    fields = store.schemas.get(file.schema_id).fields
    types = {field.name: field.type for field in fields}
    arrow = {field.name: field.type.to_arrow() for field in fields}
    arrow |= {f"{KEY_PREFIX}{name}": value for name, value in arrow.items()}
    expected = ExpectedFile(file.row_count, file.size_bytes, arrow, whole)
    return open_reader(store.file_io, store.data_path(directory, file), types, expected)


class SectionReader:
    """Reads the sections of a bucket, one after another."""

    def __init__(
        self,
        request: ReadRequest,
        partition: bytes,
        directory: str,
        use_threads: bool,
        deletion_vectors: Mapping[str, DeletionVector] = _NONE,
        *,
        merges_single_rows: bool = False,
        expiring: Mapping[str, RecordExpiry] = _NO_EXPIRY,
        sources: FileSources | None = None,
    ) -> None:
        schema = request.store.schema
        self._expiring = expiring
        self._deletion_vectors = deletion_vectors
        self._use_threads = use_threads
        self._directory = directory
        self._store = request.store
        self._predicate = request.predicate
        self._output = request.schema
        names = dict.fromkeys([*request.columns, *sorted(request.predicate.columns() if request.predicate else ())])
        # A scan that wants no column still has to count rows.
        self._fields = schema.fields_named(list(names) or [schema.fields[0].name])
        self._partition = self._store.partition_values(partition)
        self._key_fields = schema.fields_named(schema.trimmed_primary_keys)
        # Whether single keys are asked for.
        self._is_look_up = bool(self._key_fields) and all(
            exact_values(request.predicate, field.name) is not None for field in self._key_fields
        )
        self._told: RowMetadata | None = None
        if sources is not None and request.metadata:
            self._told = RowMetadata(request.store, partition, directory, sources, request.metadata)
        # What is read beside the columns of the table to make those of metadata.
        self._system = [] if self._told is None else self._told.system
        self._numbers_rows = self._told is not None and self._told.counts_rows
        self._engine = merge_engine_of(schema)
        self._engine.merges_single_rows = merges_single_rows

    def read(self, section: Section) -> Iterator[pa.RecordBatch]:
        """The rows of a section, merged."""
        if self._key_fields and section.needs_merge:
            batches = self._merge(section)
        elif len(section.files) > 1:
            batches = self._join(section)
        else:
            batches = (batch for file in section.files for batch in self._read_raw(file, self._predicate))
        for batch in batches:
            yield self._finish(batch)

    def _join(self, section: Section) -> Iterator[pa.RecordBatch]:
        """The rows of files that hold columns of the same rows."""
        known = {file.schema_id: self._store.schemas.get(file.schema_id).fields for file in section.files}
        chosen = columns_of_files(self._fields, section.files, known)
        parts = [(fields, self._read_raw(file, None, fields)) for file, fields in chosen]
        for columns, row_count in side_by_side(parts, section.files[0].row_count):
            arrays = [
                columns.get(field.name, pa.nulls(row_count, field.type.to_arrow()))
                if field.name not in self._partition
                else self._constant(field, row_count)
                for field in self._fields
            ]
            yield pa.RecordBatch.from_arrays(arrays, [field.name for field in self._fields])

    def _finish(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._predicate is not None:
            batch = self._predicate.filter(batch)
        if not self._output.names:
            return batch.select([])
        metadata_columns = {} if self._told is None else self._told.columns(batch)
        columns = [
            metadata_columns[name] if name in metadata_columns else batch.column(name) for name in self._output.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._output)

    def _merge(self, section: Section) -> Iterator[pa.RecordBatch]:
        runs = _oldest_first(section.runs)
        with_sequence = SEQUENCE_NUMBER in self._system or not (self._engine.last_row_wins and _ranks_decide(runs))
        keys = {field.name for field in self._key_fields}
        stored = [f"{KEY_PREFIX}{field.name}" if field.name in keys else field.name for field in self._fields]
        for batch in self.merged(runs, with_sequence=with_sequence, columns=[*stored, *self._system], piece=section):
            yield batch.rename_columns([*(field.name for field in self._fields), *self._system])

    def merged(
        self,
        runs: Sequence[SortedRun],
        *,
        with_sequence: bool,
        with_level: bool = False,
        columns: Sequence[str] | None = None,
        keep_deletes: bool = False,
        sort: bool = False,
        piece: Section | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The last row of each key of some runs, which are ordered from old to new; only the keys of a `piece`."""
        key_names = {field.name for field in self._key_fields}
        needed = self._engine.needed_for(field.name for field in self._fields)
        values = [field for field in self._store.schema.fields_named(needed) if field.name not in key_names]
        row_filter = restricted_to(self._predicate, key_names | set(self._partition))
        system = [SEQUENCE_NUMBER, VALUE_KIND] if with_sequence else [VALUE_KIND]
        if columns is None:
            keys = [f"{KEY_PREFIX}{field.name}" for field in self._key_fields]
            columns = [*keys, *system, *([LEVEL] if with_level else []), *(field.name for field in values)]
        if self._engine.looks_up:
            system += [LEVEL, WHOLE]
        elif with_level:
            system.append(LEVEL)
        system += [name for name in self._system if name not in system]
        read = [self._read_run(run, values, row_filter, system) for run in runs]
        if piece is not None and piece.is_cut:
            low, high = self._comparable(piece.low), self._comparable(piece.high)
            read = [within_keys(batches, low, high, len(self._key_fields)) for batches in read]
        is_whole = (
            row_filter is None and not (piece is not None and piece.is_cut) and not self._store.options.ignore_delete
        )
        marked = self._deletion_vectors
        counts = [
            sum(file.row_count for file in run.files)
            if is_whole and not any(file.name in marked or file.name in self._expiring for file in run.files)
            else None
            for run in runs
        ]
        cursors = [
            RunCursor(batches, rank, row_count=count)
            for rank, (batches, count) in enumerate(zip(read, counts, strict=True))
        ]
        return merge_sorted_runs(
            cursors, len(self._key_fields), self._engine, columns=columns, keep_deletes=keep_deletes, sort=sort
        )

    def _comparable(self, key: Key | None) -> tuple[object, ...] | None:
        if key is None:
            return None
        pairs = zip(key, self._key_fields, strict=True)
        return comparable_key([to_arrow([value], field.type)[0] for value, field in pairs])

    def every_row(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        """Batches of `_KEY_*`, sequence number, row kind, and the value columns outside the key; deletes are kept."""
        keys = {field.name for field in self._key_fields}
        values = [field for field in self._fields if field.name not in keys]
        return self._read_keyed(file, values, None, [SEQUENCE_NUMBER, VALUE_KIND])

    def _read_run(
        self, run: SortedRun, values: Sequence[DataField], row_filter: Predicate | None, system: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        ignores_deletes = self._store.options.ignore_delete
        for file in run.files:
            for rows in self._read_keyed(file, values, row_filter, system):
                kept = without_deletes(rows) if ignores_deletes else rows
                if kept.num_rows:
                    yield kept

    def _read_keyed(
        self, file: DataFile, values: Sequence[DataField], row_filter: Predicate | None, system: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Batches of `_KEY_*`, of the system columns (the row kind is among them), and of the value columns."""
        # The kind is read even where the manifest counts no deletes: pypaimon writes 0 for files that hold some.
        stored = [name for name in system if name not in (LEVEL, WHOLE, FILE, POSITION)]
        with self._open(file) as reader:
            # Where the file itself says that all rows were added, their kind need not be read, if it only tells deletes.
            all_added = SEQUENCE_NUMBER not in system and reader.extremes(VALUE_KIND) == (INSERT, INSERT)
            mapping = self._mapping(file, reader)
            key_sources = [mapping.key_source(field) for field in self._key_fields]
            plain = [field for field in values if field.name not in self._partition]
            read = [name for name in stored if not (all_added and name == VALUE_KIND)]
            needed = [name for name in [*key_sources, *read, *mapping.sources(plain)] if name is not None]
            of_file = {LEVEL: pa.scalar(file.level, pa.int8())} if LEVEL in system else {}
            if WHOLE in system:
                of_file[WHOLE] = pa.scalar(self._is_whole(file, reader))
            if self._told is not None:
                of_file[FILE] = self._told.number(file)
            ranges = self._ranges(row_filter, mapping, keyed=True)
            vector = self._deletion_vectors.get(file.name)
            marked = None if vector is None else read_vector(self._store, file, vector)
            for batch in self._live_batches(reader, marked, list(dict.fromkeys(needed)), ranges):
                keys = [
                    mapping.column(batch, field, source)
                    for field, source in zip(self._key_fields, key_sources, strict=True)
                ]
                known = {name: pa.repeat(value, batch.num_rows) for name, value in of_file.items()}
                if all_added:
                    known[VALUE_KIND] = _added(batch.num_rows)
                columns = [
                    *keys,
                    *(known[name] if name in known else batch.column(name) for name in system),
                    *(self._value(batch, field, mapping) for field in values),
                ]
                names = [*(f"{KEY_PREFIX}{field.name}" for field in self._key_fields), *system]
                rows = pa.RecordBatch.from_arrays(columns, [*names, *(field.name for field in values)])
                if row_filter is not None:
                    rows = rows.filter(row_filter.mask(self._filter_view(rows)))
                if file.name in self._expiring:
                    rows = self._expiring[file.name].kept(rows)
                if rows.num_rows:
                    yield rows

    def _is_whole(self, file: DataFile, reader: DataFileReader) -> bool:
        # With deletion vectors, the rows that it was made of are marked.
        return file.level > 0 if self._store.options.deletion_vectors_enabled else is_whole(file, reader)

    def _live_batches(
        self,
        reader: DataFileReader,
        marked: np.ndarray | None,
        columns: Sequence[str],
        ranges: Sequence[RowRange],
        groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Batches of some row groups, by default those that can hold rows within some ranges, without the rows of the file at
        the `marked` positions.
        """
        starts = reader.group_starts
        if groups is None:
            # Deleted rows are known by their place in the whole file, and so is that of any.
            by_place = marked is not None or self._numbers_rows
            groups = reader.row_groups(ranges if not by_place or starts is not None else [])
        if self._numbers_rows and groups:
            batches = numbered(reader.read_batches(columns, groups, use_threads=self._use_threads), starts, groups)
            return batches if marked is None else unmarked(batches, marked)
        if marked is None or not groups:
            return reader.read_batches(columns, groups, use_threads=self._use_threads)
        positions = marked if starts is None else within_groups(marked, starts, groups)
        return without_positions(reader.read_batches(columns, groups, use_threads=self._use_threads), positions)

    def _looked_up(
        self,
        reader: DataFileReader,
        mapping: FileColumns,
        columns: Sequence[str],
        ranges: Sequence[RowRange],
        predicate: Predicate,
        marked: np.ndarray | None,
    ) -> Iterator[pa.RecordBatch]:
        """The same of the row groups in which a row matches: what a look-up finds is in few of them, and one column tells."""
        starts = reader.group_starts
        if starts is None:
            yield from self._live_batches(reader, marked, columns, ranges)
            return
        fields = [field for field in self._fields if field.name in predicate.columns()]
        needed = [name for name in mapping.sources(fields) if name is not None] or reader.column_names[:1]
        columns = columns or reader.column_names[:1]
        for group in reader.row_groups(ranges):
            hits: list[np.ndarray] = []
            position = starts[group]
            for batch in reader.read_batches(needed, [group], use_threads=self._use_threads):
                values = [self._value(batch, field, mapping) for field in fields]
                rows = pa.RecordBatch.from_arrays(values, [field.name for field in fields])
                matches = pc.fill_null(predicate.mask(rows), False).to_numpy(zero_copy_only=False)
                hits.append(np.flatnonzero(matches) + position)
                position += batch.num_rows
            places = np.concatenate(hits) if hits else np.empty(0, np.int64)
            places = places if marked is None else np.setdiff1d(places, marked, assume_unique=True)
            if len(places):
                batches = reader.read_batches(columns, [group], use_threads=self._use_threads)
                yield from at_positions(batches, places - starts[group])

    def _filter_view(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The key and partition columns under their own names."""
        partition = [field for field in self._store.schema.fields if field.name in self._partition]
        keys = [rows.column(index) for index in range(len(self._key_fields))]
        constants = [self._constant(field, rows.num_rows) for field in partition]
        names = [field.name for field in (*self._key_fields, *partition)]
        return pa.RecordBatch.from_arrays([*keys, *constants], names)

    def _read_raw(
        self, file: DataFile, predicate: Predicate | None, wanted: Sequence[DataField] | None = None
    ) -> Iterator[pa.RecordBatch]:
        fields = self._fields if wanted is None else wanted
        with self._open(file) as reader:
            mapping = self._mapping(file, reader)
            plain = [field for field in fields if field.name not in self._partition]
            needed = [name for name in mapping.sources(plain) if name is not None]
            # Files just written may hold deletes that their manifest does not count.
            checks_kind = bool(self._key_fields) and file.level == 0
            stored = [] if self._told is None else self._told.stored
            needed += [
                name for name in (VALUE_KIND, SEQUENCE_NUMBER) if name in stored or (checks_kind and name == VALUE_KIND)
            ]
            number = None if self._told is None else self._told.number(file)
            names = [*(field.name for field in fields), *self._system]
            ranges = self._ranges(predicate, mapping, keyed=False)
            vector = self._deletion_vectors.get(file.name)
            marked = None if vector is None else read_vector(self._store, file, vector)
            if predicate is not None and self._is_look_up and not self._numbers_rows:
                batches = self._looked_up(reader, mapping, needed, ranges, predicate, marked)
            else:
                batches = self._live_batches(reader, marked, needed or reader.column_names[:1], ranges)
            for batch in batches:
                if checks_kind:
                    batch = without_deletes(batch)
                values = [self._value(batch, field, mapping) for field in fields]
                values += [
                    pa.repeat(number, batch.num_rows) if name == FILE else batch.column(name) for name in self._system
                ]
                yield pa.RecordBatch.from_arrays(values, names)

    def _mapping(self, file: DataFile, reader: DataFileReader) -> FileColumns:
        schema = self._store.schemas.get(file.schema_id)
        # Keys are left as they are: by them files are sorted.
        trimmed = (
            {field.id for field in schema.fields if field.name not in schema.primary_keys} if reader.trims_char else ()
        )
        return FileColumns(schema.fields, reader.column_names, trimmed)

    def _open(self, file: DataFile) -> DataFileReader:
        return open_data_file(self._store, self._directory, file)

    def _value(self, batch: pa.RecordBatch, field: DataField, mapping: FileColumns) -> pa.Array:
        if field.name in self._partition:
            return self._constant(field, batch.num_rows)
        return mapping.column(batch, field, mapping.source(field))

    def _constant(self, field: DataField, row_count: int) -> pa.Array:
        """A partition column: its value comes from the manifest, whatever the file says."""
        return pa.repeat(to_arrow([self._partition[field.name]], field.type)[0], row_count)

    def _ranges(self, predicate: Predicate | None, mapping: FileColumns, *, keyed: bool) -> list[RowRange]:
        ranges = []
        for name, (low, high, data_type) in value_ranges(predicate).items():
            field = self._store.schema.field(name)
            if name in self._partition or mapping.type_of(field) != field.type:
                continue
            source = mapping.key_source(field) if keyed else mapping.source(field)
            if source is not None:
                bounds = [None if bound is None else to_arrow([bound], data_type)[0].as_py() for bound in (low, high)]
                ranges.append(RowRange(source, *bounds))
        return ranges


def _added(row_count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.int8(), row_count, [None, _ZEROS.slice(0, row_count)])


def _oldest_first(runs: Sequence[SortedRun]) -> list[SortedRun]:
    # Names make the order the same for everybody, whatever else is equal.
    return sorted(
        runs, key=lambda run: (run.max_sequence_number, run.min_sequence_number, [file.name for file in run.files])
    )


def _ranks_decide(runs: Sequence[SortedRun]) -> bool:
    """Whether the runs' ranges of sequence numbers do not overlap, so that age alone says who wins."""
    return all(older.max_sequence_number < newer.min_sequence_number for older, newer in pairwise(runs))
