"""Delete and update single rows: by key where there is one, else by writing the files that hold them anew.

Copy-on-write reads file by file and keeps those in which nothing matches. It conflicts with a writer only if that took
away one of the same files.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .data_types import DataType
from .errors import InvalidRequest
from .format.binary_row import decode
from .lsm.sorted_run import Section, SortedRun
from .metadata.manifest import ManifestEntry
from .metadata.snapshot import Snapshot
from .metadata.table_store import TableStore
from .paths import partition_path
from .read.predicate import Predicate
from .read.scan import FileStatistics, Scan
from .read.split_read import ReadRequest, read_sections
from .values import from_literal, to_arrow
from .write.table_write import CommitMessage, TableWrite

Change = Callable[[pa.Table, pa.Array], pa.Table]


def assignments(store: TableStore, values: Mapping[str, Any]) -> dict[str, pa.Scalar]:
    """The values to set, each as its column holds it. Raises InvalidRequest for keys, unknown columns, other types."""
    schema = store.schema
    scalars = {}
    for name, value in values.items():
        field = schema.field(name)
        if name in schema.primary_keys or name in schema.partition_keys:
            raise InvalidRequest(
                f"Column {name!r} says where a row lies and cannot be updated. Delete the row and write it anew."
            )
        if value is None and not field.type.nullable:
            raise InvalidRequest(f"Column {name!r} is NOT NULL.")
        scalars[name] = _scalar(value, field.type)
    if not scalars:
        raise InvalidRequest("An update sets at least one column.")
    return scalars


def _scalar(value: Any, data_type: DataType) -> pa.Scalar:
    if data_type.is_nested:
        return pa.scalar(value, data_type.to_arrow())
    return to_arrow([from_literal(value, data_type)], data_type)[0]


def with_values(rows: pa.Table, mask: pa.Array | pa.ChunkedArray, values: Mapping[str, pa.Scalar]) -> pa.Table:
    """The rows, with some columns set where the mask is."""
    for name, value in values.items():
        place = rows.column_names.index(name)
        field = rows.schema.field(name)
        rows = rows.set_column(place, field, pc.if_else(mask, value, rows.column(name)).cast(field.type))
    return rows


def rewrite_files(
    store: TableStore, snapshot: Snapshot, predicate: Predicate, change: Change
) -> tuple[list[ManifestEntry], CommitMessage]:
    """Write anew each file of a table without a key in which rows match: `change` gets its rows and which of them match.

    Returns the files to take away, and what to add.
    """
    scan = Scan(store, snapshot, None, predicate)
    request = ReadRequest(store, tuple(store.schema.column_names), None)
    statistics = FileStatistics(store)
    deleted: list[ManifestEntry] = []
    writer = TableWrite(store, ignore_existing=True)
    try:
        for entry in scan.entries:
            if not statistics.may_match(predicate, entry.file):
                continue
            values = decode(entry.partition, store.partition_types)
            path = partition_path(store.schema.fields_named(store.schema.partition_keys), values, store.options)
            directory = store.paths.bucket(path, entry.bucket)
            section = Section((SortedRun((entry.file,)),))
            batches = list(read_sections(request, entry.partition, directory, [section], use_threads=True))
            if not batches:
                continue
            rows = pa.Table.from_batches(batches).combine_chunks()
            (batch,) = rows.to_batches()
            mask = pc.fill_null(predicate.mask(batch), False)
            if not pc.any(mask).as_py():
                continue
            deleted.append(entry)
            writer.write(change(rows, mask))
        return deleted, writer.prepare_commit()
    except BaseException:
        writer.abort()
        raise
