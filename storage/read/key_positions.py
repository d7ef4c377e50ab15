"""Where the rows of some keys lie in a data file of a table with a key: read by the columns of the key alone."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ..format.data_file import DataFileReader
from ..lsm.merge import without_deletes
from ..metadata.manifest import ManifestEntry
from ..metadata.schema import KEY_PREFIX
from ..metadata.table_store import TableStore
from .file_columns import FileColumns
from .split_read import ReadRequest, open_data_file, read_file

# With more keys than these every row group holds one of them.
_KEYS_WORTH_LOOKING = 20_000


def keys_of(store: TableStore, entry: ManifestEntry) -> Iterator[pa.RecordBatch]:
    """The keys of the rows of a file, without those of deletes that the table ignores."""
    names = store.schema.trimmed_primary_keys
    request = ReadRequest(store, tuple(names), None)
    stored = [f"{KEY_PREFIX}{name}" for name in names]
    for rows in read_file(request, entry.partition, store.bucket_directory(entry.place), entry.file):
        kept = without_deletes(rows) if store.options.ignore_delete else rows
        yield kept.select(stored)


def keys_with_positions(
    store: TableStore, entry: ManifestEntry, wanted: pa.RecordBatch
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of the key columns of a file, each with the position of its first row: those of the row groups that can hold one
    of the `wanted` keys, which are sorted.
    """
    fields = store.schema.fields_named(store.schema.trimmed_primary_keys)
    names = [f"{KEY_PREFIX}{field.name}" for field in fields]
    with open_data_file(store, store.bucket_directory(entry.place), entry.file) as reader:
        mapping = FileColumns(store.schemas.get(entry.file.schema_id).fields, reader.column_names)
        sources = [mapping.key_source(field) for field in fields]
        needed = [name for name in sources if name is not None]
        first = sources[0] if mapping.type_of(fields[0]) == fields[0].type else None
        for start, groups in _groups(reader, first, wanted):
            position = start
            for batch in reader.read_batches(needed, groups, use_threads=True):
                columns = [mapping.column(batch, field, name) for field, name in zip(fields, sources, strict=True)]
                yield position, pa.RecordBatch.from_arrays(columns, names)
                position += batch.num_rows


def _groups(reader: DataFileReader, column: str | None, wanted: pa.RecordBatch) -> Iterator[tuple[int, Sequence[int]]]:
    """Row groups to read together, each with the position of its first row."""
    starts, extremes = reader.group_starts, reader.group_extremes(column) if column is not None else None
    if starts is None or extremes is None or wanted.num_rows > _KEYS_WORTH_LOOKING:
        yield 0, reader.row_groups([])
        return
    values = wanted.column(0).to_pylist()
    for group, known in enumerate(extremes):
        if known is None or _holds_one(values, *known):
            yield starts[group], [group]


def _holds_one(values: Sequence[Any], low: Any, high: Any) -> bool:
    try:
        return bisect_left(values, low) < bisect_right(values, high)
    except TypeError:
        return True
