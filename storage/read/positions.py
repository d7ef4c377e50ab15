"""Rows of a file by their positions: those that a deletion vector marks, and all but those."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ..errors import CorruptData
from ..format.deletion_vector import DeletionVector
from ..lsm.system_columns import POSITION
from ..metadata.manifest import DataFile
from ..metadata.table_store import TableStore


def read_vector(store: TableStore, file: DataFile, vector: DeletionVector) -> np.ndarray:
    """The positions that a deletion vector marks in its data file. Raises CorruptData if the file has no such rows."""
    positions = vector.read(store.file_io)
    if len(positions) and not 0 <= positions[0] <= positions[-1] < file.row_count:
        raise CorruptData(
            f"The deletion vector at {vector.offset} of index file {vector.path} deletes rows that data file "
            f"{file.name} does not have."
        )
    return positions


def at_positions(batches: Iterator[pa.RecordBatch], positions: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The rows at some positions (int64, ascending) of those that come."""
    start = 0
    for batch in batches:
        low, high = np.searchsorted(positions, [start, start + batch.num_rows])
        if low < high:
            yield batch.take(pa.array(positions[low:high] - start))
        start += batch.num_rows


def within_groups(positions: np.ndarray, starts: Sequence[int], groups: Sequence[int]) -> np.ndarray:
    """Positions in a file as positions among the rows of some of its row groups, which begin at `starts`."""
    inside, before = [], 0
    for group in groups:
        low, high = starts[group], starts[group + 1]
        first, last = np.searchsorted(positions, [low, high])
        inside.append(positions[first:last] - low + before)
        before += high - low
    return np.concatenate(inside)


def numbered(
    batches: Iterator[pa.RecordBatch], starts: Sequence[int] | None, groups: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """The rows of some row groups, which begin at `starts`, or of a whole file, with the column `POSITION`: where each lies in
    the file.
    """
    places = (
        None if starts is None else np.concatenate([[0], *(np.arange(*starts[group : group + 2]) for group in groups)])
    )
    start = 0
    for batch in batches:
        end = start + batch.num_rows
        # What stands before the places keeps them together where there are none.
        own = np.arange(start, end) if places is None else places[start + 1 : end + 1].astype(np.int64)
        yield batch.append_column(POSITION, pa.array(own, pa.int64()))
        start = end


def without_positions(batches: Iterator[pa.RecordBatch], positions: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The rows of a file but those at some positions."""
    start = 0
    for batch in batches:
        low, high = np.searchsorted(positions, [start, start + batch.num_rows])
        if low < high:
            kept = np.ones(batch.num_rows, bool)
            kept[positions[low:high] - start] = False
            batch, rows = batch.filter(pa.array(kept)), batch.num_rows
        else:
            rows = batch.num_rows
        start += rows
        yield batch


def unmarked(batches: Iterator[pa.RecordBatch], positions: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Rows that know where they lie in their file (`numbered`), but for those at some positions."""
    for batch in batches:
        marked = np.isin(batch.column(POSITION).to_numpy(), positions)
        yield batch.filter(pa.array(~marked)) if marked.any() else batch
