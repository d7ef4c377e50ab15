"""Check that rows can be merged: an aggregate may not fit its column though every row of it is sound."""

from collections.abc import Iterator

import pyarrow as pa

from ..errors import StorageError
from ..lsm.merge_engines import merge_engine_of
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..read.scan import Scan


def unreadable_buckets(store: TableStore, snapshot: Snapshot) -> Iterator[str]:
    """The buckets of a snapshot whose rows cannot be merged, and why; of tables that aggregate, others merge anything."""
    if not store.schema.primary_keys or not merge_engine_of(store.schema).aggregates:
        return
    for split in Scan(store, snapshot, lowest_level=0).splits:
        if split.needs_merge:
            try:
                for _ in split.read():
                    pass
            except (StorageError, OSError, pa.ArrowException) as error:
                yield f"rows of {split.directory} cannot be read: {error}"
