"""The rows of one writer of a table whose keys may move from one partition to another: each with the place to which it goes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..format.binary_row import encode
from ..lsm.key_buckets import BucketRule
from ..lsm.key_order import last_of_each, ranks, stable_order
from ..lsm.moving_keys import KeysAt, MovingKeys
from ..metadata.history import Mark
from ..metadata.table_store import TableStore
from ..values import from_arrow, to_arrow

# Reads the keys that are there.
FindKeys = Callable[[], KeysAt]


@dataclass(frozen=True, slots=True)
class MovedRows:
    """Rows with the partition to which they go in their columns, their kinds (int8), and their buckets (int32)."""

    rows: pa.Table
    kinds: np.ndarray
    buckets: np.ndarray


class RowMover:
    """Gives rows their places. The keys of the table are read when the first rows come."""

    def __init__(self, store: TableStore, find_keys: FindKeys) -> None:
        self._store = store
        self._find_keys = find_keys
        self._fields = store.schema.fields_named(store.schema.partition_keys)
        self._types = [field.type for field in self._fields]
        self._moving: MovingKeys | None = None
        self._numbers: dict[bytes, int] = {}
        self._values: list[tuple[object, ...]] = []
        # The snapshot whose keys were read.
        self.mark: Mark | None = None

    def place(self, rows: pa.Table, kinds: np.ndarray) -> MovedRows:
        """Where rows go, with those that are deleted because of them."""
        if self._moving is None:
            keys_at = self._find_keys()
            self.mark = keys_at.mark
            for partition in keys_at.partitions:
                self._number(partition)
            options = self._store.options
            self._moving = MovingKeys(keys_at.held, BucketRule.of(options), options.merge_engine)
        keys = rows.select(list(self._store.schema.primary_keys))
        placed = self._moving.place(keys, self._partitions(rows), kinds)
        moved = rows.take(pa.array(placed.rows))
        numbers = pa.array(placed.partitions)
        for index, field in enumerate(self._fields):
            values = to_arrow([value[index] for value in self._values], field.type)
            place = moved.schema.get_field_index(field.name)
            column = values.take(numbers).cast(moved.schema.field(place).type)
            moved = moved.set_column(place, moved.schema.field(place), column)
        return MovedRows(moved.combine_chunks(), placed.kinds, placed.buckets)

    def _partitions(self, rows: pa.Table) -> np.ndarray:
        """The number (int64) of the partition of each row."""
        columns = [ranks(rows.column(field.name)) for field in self._fields]
        order = stable_order(columns, rows.num_rows)
        is_last = last_of_each(columns, order)
        group = np.cumsum(is_last) - is_last
        samples = rows.select([field.name for field in self._fields]).take(pa.array(order[is_last]))
        values = zip(*(from_arrow(samples.column(field.name), field.type) for field in self._fields), strict=True)
        numbers = np.array([self._number(encode(self._types, row)) for row in values], np.int64)
        keys_at = np.empty(rows.num_rows, np.int64)
        keys_at[order] = numbers[group]
        return keys_at

    def _number(self, partition: bytes) -> int:
        if partition not in self._numbers:
            self._numbers[partition] = len(self._values)
            self._values.append(self._store.decode_partition(partition))
        return self._numbers[partition]
