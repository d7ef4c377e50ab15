"""The buckets of the rows of one writer, in a table with dynamic buckets: looked up in the index of the newest snapshot, and
given out for keys that are new. Nothing is written here: the commit writes the index, with what others have added meanwhile.
"""

from dataclasses import dataclass, field

import numpy as np

from ..errors import NotFound
from ..lsm.key_buckets import BucketRule, KeyBuckets
from ..metadata.hash_index import HashFiles, hash_files, known_hashes
from ..metadata.history import has_expired
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore


@dataclass(frozen=True, slots=True)
class NewKeys:
    """What a writer did to the index of a partition. Pickles.

    `base`: the names of the index files that it knew, by bucket; None: it replaces what is there, and looked at nothing.
    `hashes`: those (int32) that were new, by bucket.
    """

    partition: bytes
    base: dict[int, str] | None
    hashes: dict[int, np.ndarray] = field(compare=False)


def names_of(files: HashFiles) -> dict[int, str]:
    """The names of the index files of a partition, by bucket."""
    return {bucket: file.name for bucket, file in files.items()}


def buckets_held(store: TableStore, files: HashFiles) -> KeyBuckets:
    """What the index files of a partition say. Raises CorruptData for one that is not sound, NotFound."""
    return KeyBuckets({bucket: known_hashes(store, file) for bucket, file in files.items()})


class DynamicBuckets:
    """The buckets of the rows of one writer."""

    def __init__(self, store: TableStore, *, replaces: bool) -> None:
        """`replaces`: the rows take the place of those that are there, so that all keys are new."""
        self._store = store
        self._replaces = replaces
        self._rule = BucketRule.of(store.options)
        self._partitions: dict[bytes, KeyBuckets] = {}
        self._bases: dict[bytes, dict[int, str] | None] = {}
        # The newest snapshot when the index was looked at last.
        self.looked_at: Snapshot | None = None

    def of(self, partition: bytes, hashes: np.ndarray) -> np.ndarray:
        """The bucket (int32) of each hash (int32) of keys of a partition. Raises InvalidRequest if there would be too many."""
        if partition not in self._partitions:
            self._partitions[partition], self._bases[partition] = self._load(partition)
        return self._partitions[partition].assign(hashes, self._rule)

    @property
    def new_keys(self) -> tuple[NewKeys, ...]:
        """What was new in each partition that got rows."""
        return tuple(
            NewKeys(partition, self._bases[partition], known.fresh) for partition, known in self._partitions.items()
        )

    def _load(self, partition: bytes) -> tuple[KeyBuckets, dict[int, str] | None]:
        if self._replaces:
            return KeyBuckets(), None
        while True:
            self.looked_at = snapshot = self._store.snapshots.latest()
            try:
                files = hash_files(self._store, snapshot).get(partition, {})
                return buckets_held(self._store, files), names_of(files)
            except NotFound:
                # It has expired while it was read: there is a newer one.
                if not has_expired(self._store, snapshot):
                    raise
