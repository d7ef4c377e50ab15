"""Rows of kind -U or -D that a table's merge engine cannot take, where another writer of the format has written them.

Nothing here writes such rows, and readers of their keys get an error: `check` names the files.
"""

import numpy as np
import pyarrow as pa

from ..lsm.merge_engines import Deduplicate, merge_engine_of
from ..lsm.system_columns import DELETE, UPDATE_BEFORE, VALUE_KIND
from ..metadata.manifest import ManifestEntry
from ..metadata.table_store import TableStore
from ..read.split_read import ReadRequest, read_file


def unmergeable_rows(store: TableStore, entry: ManifestEntry, *, deep: bool) -> str | None:
    """What there is to say of the rows of a data file that cannot be merged; None if all can. A file that holds no deletes, by
    its manifest, is opened only if `deep`, for some writers do not count them.
    """
    schema, file = store.schema, entry.file
    if not schema.primary_keys or store.options.ignore_delete or (file.delete_row_count == 0 and not deep):
        return None
    engine = merge_engine_of(schema)
    if isinstance(engine, Deduplicate):
        return None
    request = ReadRequest(store, tuple(schema.column_names), None)
    batches = list(read_file(request, entry.partition, store.bucket_directory(entry.place), file))
    if not batches:
        return None
    table = pa.Table.from_batches(batches)
    kinds = table.column(VALUE_KIND).to_numpy()
    retracts = np.isin(kinds, (UPDATE_BEFORE, DELETE))
    if not retracts.any():
        return None
    refused = engine.refusal(table.filter(pa.array(retracts)), kinds[retracts])
    if refused is None:
        return None
    return (
        f"data file {file.name} holds {int(retracts.sum())} rows of kind -U or -D, and their keys cannot be read where they have "
        f"other rows: {refused}"
    )
