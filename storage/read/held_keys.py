"""All keys of a table whose rows may move from one partition to another, and where each is: the format keeps no index of them."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..errors import NotFound
from ..lsm.moving_keys import HeldKeys, KeysAt
from ..metadata.history import Mark, has_expired
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from .scan import Scan


def no_keys(store: TableStore) -> KeysAt:
    """The keys of an empty table."""
    fields = store.schema.fields_named(store.schema.primary_keys)
    keys = pa.schema([(field.name, field.type.to_arrow()) for field in fields]).empty_table()
    return KeysAt(Mark(), HeldKeys(keys, np.empty(0, np.int64), np.empty(0, np.int32)), ())


def read_keys(store: TableStore) -> KeysAt:
    """The keys of the newest snapshot: the columns of the primary key of all rows, in memory."""
    while True:
        snapshot = store.snapshots.latest()
        if snapshot is None:
            return no_keys(store)
        try:
            return _keys_of(store, snapshot)
        except NotFound:
            # It has expired while it was read: there is a newer one.
            if not has_expired(store, snapshot):
                raise


def _keys_of(store: TableStore, snapshot: Snapshot) -> KeysAt:
    schema = store.schema
    if schema.table_options.merge_engine == "first-row":
        # Readers of such a table do not see level 0, and its keys are there.
        store = store.at_schema(replace(schema, options={**schema.options, "merge-engine": "deduplicate"}))
    scan = Scan(store, snapshot, schema.primary_keys)
    numbers: dict[bytes, int] = {}
    parts, partitions, buckets = [no_keys(store).held.keys], [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for split in scan.splits:
        number = numbers.setdefault(split.partition, len(numbers))
        for batch in split.read():
            parts.append(pa.Table.from_batches([batch]).cast(parts[0].schema))
            partitions.append(np.full(batch.num_rows, number, np.int64))
            buckets.append(np.full(batch.num_rows, split.bucket, np.int32))
    held = HeldKeys(pa.concat_tables(parts).combine_chunks(), np.concatenate(partitions), np.concatenate(buckets))
    return KeysAt(Mark.of(snapshot), held, tuple(numbers))
