"""Whether the hash index of a table with dynamic buckets and its rows agree: each key that a bucket's files hold is in the
index of that bucket, and in no other bucket of its partition.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from ..errors import StorageError
from ..metadata.hash_index import hash_files, read_hashes
from ..metadata.manifest import ManifestEntry
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..write.key_index import hashes_of


def broken_index(
    store: TableStore, snapshot: Snapshot, entries: Sequence[ManifestEntry], *, deep: bool
) -> Iterator[str]:
    """What is wrong with the index of a snapshot whose live files are given. `deep` reads the keys of all files as well.
    Raises CorruptData, NotFound for an index manifest that cannot be read.
    """
    files = hash_files(store, snapshot)
    for partition in sorted({*files, *(entry.partition for entry in entries)}):
        held: dict[int, np.ndarray] = {}
        for bucket, file in sorted(files.get(partition, {}).items()):
            try:
                held[bucket] = read_hashes(store, file)
            except (StorageError, OSError) as error:
                yield str(error)
        yield from _held_twice(store, partition, held)
        if deep and held.keys() == files.get(partition, {}).keys():
            yield from _lost_keys(store, [entry for entry in entries if entry.partition == partition], held)


def _held_twice(store: TableStore, partition: bytes, held: dict[int, np.ndarray]) -> Iterator[str]:
    """Hashes that are in the index files of two buckets."""
    together = np.concatenate([*held.values()]) if held else np.empty(0, np.int32)
    values, counts = np.unique(together, return_counts=True)
    if (counts > 1).any():
        twice = values[counts > 1]
        buckets = [bucket for bucket, hashes in held.items() if np.isin(twice, hashes).any()]
        yield (
            f"the hash index of partition {store.shown_partition(partition)!r} has {len(twice)} keys in more than one of the "
            f"buckets {buckets}: writers that knew nothing of each other gave them out. {_MENDED}"
        )


def _lost_keys(store: TableStore, entries: Sequence[ManifestEntry], held: dict[int, np.ndarray]) -> Iterator[str]:
    """Keys in files of a bucket that its index does not have."""

    def bucket_of(entry: ManifestEntry) -> int:
        return entry.bucket

    for bucket, group in groupby(sorted(entries, key=bucket_of), bucket_of):
        known = held.get(bucket, np.empty(0, np.int32))
        for entry in group:
            try:
                lost = int(np.count_nonzero(~np.isin(hashes_of(store, entry), known)))
            except (StorageError, OSError):
                # What cannot be read is reported as such.
                continue
            if lost:
                yield (
                    f"data file {entry.file.name} of bucket {bucket} holds {lost} rows whose key is not in the hash index of "
                    f"that bucket: who writes the key next may put it into another one. {_MENDED}"
                )


_MENDED = "Overwrite the partition with its rows, which gives each key one bucket."
