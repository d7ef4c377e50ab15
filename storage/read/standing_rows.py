"""Which rows of data files stand, where rows of newer files replace or delete others and vectors mark some: told from the keys
alone, for readers that read the files themselves and leave out the other rows by their places.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..lsm.sorted_run import Section
from ..lsm.system_columns import FILE, POSITION
from ..metadata.history import told_of_expiry
from ..metadata.manifest import DataFile, Place
from .positions import read_vector
from .predicate import restricted_to
from .row_metadata import FileSources
from .split import Split
from .split_read import SectionReader

# What a reader may have to keep of a scan: a byte for each row until all are known, and then a bit.
MOST_ROWS = 1 << 25
MOST_FILES = 1024
# Of a file that a process reads at a time.
_AT_ONCE = max(2, os.cpu_count() or 2)


@dataclass(frozen=True, slots=True)
class StandingRows:
    """A data file, and for each of its rows whether it stands (bool)."""

    path: str
    file: DataFile
    stands: np.ndarray


def splits_told_by_keys(splits: Iterable[Split]) -> list[Split]:
    """Those of the splits of a scan that cannot be read natively, but can be by whoever leaves out the rows that do not stand.

    Of no bucket a part: its splits may share files. Of all together no more than `MOST_ROWS` rows and `MOST_FILES` files, in
    the order of the splits.
    """
    places: dict[Place, list[Split]] = {}
    for split in splits:
        if not split.can_be_read_natively:
            places.setdefault((split.partition, split.bucket), []).append(split)
    chosen: list[Split] = []
    row_count = file_count = 0
    for of_place in places.values():
        files = {file.name: file for split in of_place for file in split.files}
        rows = sum(file.row_count for file in files.values())
        if row_count + rows > MOST_ROWS or file_count + len(files) > MOST_FILES:
            continue
        if all(split.is_told_by_keys for split in of_place):
            row_count, file_count = row_count + rows, file_count + len(files)
            chosen += of_place
    return chosen


def standing_rows(splits: Sequence[Split]) -> list[StandingRows]:
    """The files of some `splits_told_by_keys` with rows that stand, the largest first. Reads columns of the key (and of
    `sequence.field`), in parallel; of keys that the condition of the scan leaves out, rows may not stand.

    Raises CorruptData for a damaged file.
    """
    by_path: dict[str, StandingRows] = {}
    for split in splits:
        for path, file in zip(split.file_paths, split.files, strict=True):
            if path not in by_path:
                by_path[path] = StandingRows(path, file, np.zeros(file.row_count, bool))
    with ThreadPoolExecutor(min(_AT_ONCE, max(len(splits), 1))) as pool:
        list(pool.map(lambda split: _mark(split, by_path), splits))
    standing = [rows for rows in by_path.values() if rows.stands.any()]
    return sorted(standing, key=lambda rows: (-rows.file.row_count, rows.path))


def _mark(split: Split, by_path: dict[str, StandingRows]) -> None:
    """Mark what stands of the files of a split. Pieces of a section share files, and no rows."""
    store = split.request.store
    names = store.schema.trimmed_primary_keys
    predicate = restricted_to(split.request.predicate, {*names, *store.schema.partition_keys}) if names else None
    metadata = ("row_index",)
    request = replace(
        split.request, columns=tuple(names), predicate=predicate, metadata=metadata, names=(*names, *metadata)
    )
    reader = _PlaceReader(
        request, split.partition, split.directory, False, split.deletion_vectors, sources=FileSources(0)
    )
    with told_of_expiry(store, split.request.snapshot):
        for section in split.sections:
            if not section.needs_merge and not any(file.level == 0 and names for file in section.files):
                for file in section.files:
                    stands = by_path[store.data_path(split.directory, file)].stands
                    stands[:] = True
                    vector = split.deletion_vectors.get(file.name)
                    if vector is not None:
                        stands[read_vector(store, file, vector)] = False
                continue
            _mark_merged(reader, section, split, by_path)


def _mark_merged(reader: "_PlaceReader", section: Section, split: Split, by_path: dict[str, StandingRows]) -> None:
    store = split.request.store
    for batch in reader.read(section):
        numbers, positions = batch.column(FILE).to_numpy(), batch.column(POSITION).to_numpy()
        for number in np.unique(numbers):
            path = store.data_path(split.directory, reader.files[number])
            by_path[path].stands[positions[numbers == number]] = True


class _PlaceReader(SectionReader):
    """Reads the places of rows: by number the file that each comes from, and its position there."""

    @property
    def files(self) -> Sequence[DataFile]:
        """The files by their numbers."""
        assert self._told is not None
        return self._told.files

    def _finish(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select([FILE, POSITION])
