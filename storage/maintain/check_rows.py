"""Check the rows of data files against what manifests say of them."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ..format.binary_row import encode
from ..lsm.key_order import ranks
from ..lsm.system_columns import DELETE, SEQUENCE_NUMBER, UPDATE_BEFORE, VALUE_KIND
from ..metadata.manifest import POSTPONED_BUCKET, ManifestEntry
from ..metadata.schema import KEY_PREFIX
from ..metadata.table_store import TableStore
from ..read.split_read import ReadRequest, read_file
from ..values import from_arrow


def broken_rows(store: TableStore, entry: ManifestEntry, *, is_changelog: bool) -> Iterator[str]:
    """What is wrong with the rows of a file of a table with a key, a text for each: their order, keys, sequence numbers and
    kinds, as its manifest says. Raises CorruptData or NotFound if it cannot be read.
    """
    file, directory = entry.file, store.bucket_directory(entry.place)
    keys = store.schema.fields_named(store.schema.trimmed_primary_keys)
    request = ReadRequest(store, tuple(store.schema.trimmed_primary_keys), None)
    table = pa.Table.from_batches(read_file(request, entry.partition, directory, file)).combine_chunks()
    rows = table.num_rows
    columns = [ranks(table.column(f"{KEY_PREFIX}{key.name}")) for key in keys]
    order = np.lexsort(tuple(reversed(columns)))
    # Files of the bucket for rows that wait for one are written as they come.
    is_sorted = entry.bucket != POSTPONED_BUCKET
    if is_sorted and not (order == np.arange(rows)).all():
        yield f"data file {file.name} is not sorted by its key"
    same = np.ones(rows - 1, bool)
    for column in columns:
        same &= column[1:] == column[:-1]
    if is_sorted and same.any() and not is_changelog:
        yield f"data file {file.name} holds a key more than once"
    # Of rows as they come, Java records the first and the last key.
    for row, recorded, what in ((0, file.min_key, "first"), (rows - 1, file.max_key, "last")):
        values = [from_arrow(table.column(f"{KEY_PREFIX}{key.name}").slice(row, 1), key.type)[0] for key in keys]
        if encode([key.type for key in keys], values) != recorded:
            yield f"the {what} key of data file {file.name} is not the one in its manifest"
    sequence = table.column(SEQUENCE_NUMBER).to_numpy()
    if (int(sequence.min()), int(sequence.max())) != (file.min_sequence_number, file.max_sequence_number):
        yield f"sequence numbers of data file {file.name} are not those in its manifest"
    kinds = table.column(VALUE_KIND).to_numpy()
    deletes = int(np.isin(kinds, (UPDATE_BEFORE, DELETE)).sum())
    if file.delete_row_count is not None and deletes != file.delete_row_count:
        yield f"data file {file.name} holds {deletes} deletes, its manifest says {file.delete_row_count}"
