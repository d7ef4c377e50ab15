"""Mark the rows that a compaction of level 0 replaces in the files that it leaves as they are.

Of a key the levels above 0 hold one row that is not marked, at the most. So the keys of level 0 are looked for in the files of
the levels above the result, by the columns of the key alone and only in row groups that can hold one of them. Follows
`docs/format.md`, "Deletion vectors".
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from ..format.deletion_vector import DeletionVector
from ..lsm.key_order import ranks, stable_order
from ..lsm.merge import match_keys
from ..metadata.manifest import ManifestEntry
from ..metadata.table_store import TableStore
from ..read.key_positions import keys_of, keys_with_positions
from ..write.vectors import MarkedFile, files_read


def marks_of(
    store: TableStore,
    picked: Sequence[ManifestEntry],
    left: Sequence[ManifestEntry],
    vectors: Mapping[str, DeletionVector],
) -> list[MarkedFile]:
    """What a compaction of the `picked` files of a bucket marks in those that are `left` on the levels above, and which of
    both it has read with which vectors.
    """
    if not store.schema.primary_keys:
        return files_read(picked, vectors)
    marked = files_read([entry for entry in (*picked, *left) if entry.file.level], vectors)
    new = [entry for entry in picked if entry.file.level == 0]
    if not new or not left:
        return marked
    keys = _sorted_keys(store, new)
    if not keys.num_rows:
        return marked
    by_name = {mark.name: mark for mark in marked}
    for entry in left:
        positions = _positions(store, entry, keys, vectors.get(entry.file.name))
        if len(positions):
            by_name[entry.file.name] = MarkedFile(entry.place, entry.file.name, vectors.get(entry.file.name), positions)
    return list(by_name.values())


def _sorted_keys(store: TableStore, entries: Sequence[ManifestEntry]) -> pa.RecordBatch:
    """The keys of files, each once, in order."""
    rows = pa.Table.from_batches([batch for entry in entries for batch in keys_of(store, entry)]).combine_chunks()
    columns = [ranks(rows.column(index)) for index in range(rows.num_columns)]
    order = stable_order(columns, rows.num_rows)
    is_first = np.zeros(rows.num_rows, bool)
    is_first[:1] = True
    for column in columns:
        is_first[1:] |= column[order[1:]] != column[order[:-1]]
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in rows.take(pa.array(order[is_first])).columns], names=rows.column_names
    )


def _positions(
    store: TableStore, entry: ManifestEntry, keys: pa.RecordBatch, vector: DeletionVector | None
) -> np.ndarray:
    """The positions (int64, ascending) of the rows of a file with one of some keys that are not marked yet."""
    places_in_file: list[np.ndarray] = []
    for first, rows in keys_with_positions(store, entry, keys):
        _, places = match_keys(keys, rows, rows.num_columns)
        if len(places):
            places_in_file.append(np.sort(places) + first)
    positions = np.concatenate(places_in_file) if places_in_file else np.empty(0, np.int64)
    if vector is not None and len(positions):
        positions = np.setdiff1d(positions, vector.read(store.file_io), assume_unique=True)
    return positions
