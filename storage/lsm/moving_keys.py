"""Rows whose key may be in another partition already: what becomes of both. Pure: Arrow tables and numbers in and out.

The primary key of such a table does not hold all partition columns, so that a row may come with another partition than the
one in which its key is. As Paimon's Java library does: with `deduplicate` the row in the old partition is deleted, with
`partial-update` and `aggregation` the new row goes to the old partition, with `first-row` it is left out. Rows are taken in
their order, each after those before it.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..metadata.history import Mark
from .key_buckets import BucketRule, free_slots
from .key_order import last_of_each, ranks, stable_order
from .system_columns import DELETE


@dataclass(frozen=True, slots=True)
class HeldKeys:
    """Keys that are there: `keys` has the columns of the primary key, each key once; `partitions` (int64) numbers the
    partition of each, and `buckets` (int32) is its bucket there.
    """

    keys: pa.Table
    partitions: np.ndarray
    buckets: np.ndarray


@dataclass(frozen=True, slots=True)
class KeysAt:
    """The keys of a table at a snapshot; `partitions` are those that `held` numbers, as manifests hold them."""

    mark: Mark
    held: HeldKeys
    partitions: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """Where rows go, in the order in which they are to be written: the number of the row that was given (int64), of its partition
    (int64), its bucket (int32) and kind (int8). A row that deletes another one is one of those given, with the other's
    partition.
    """

    rows: np.ndarray
    partitions: np.ndarray
    buckets: np.ndarray
    kinds: np.ndarray


def in_order_of_moves(keys: pa.Table, partitions: pa.Table, retracts: np.ndarray) -> np.ndarray:
    """The numbers (int64) of changes of one commit in an order in which they can be applied, given the columns of their keys and
    of their partitions, and which of them take a row away: a key leaves its partitions before it comes to the one where it stays.

    Those of a key in one partition stay in the order in which they are given.
    """
    count = keys.num_rows
    columns = [ranks(column) for column in (*keys.columns, *partitions.columns)]
    order = stable_order(columns, count)
    is_last = last_of_each(columns, order)
    group = np.cumsum(is_last) - is_last
    stays = np.empty(count, bool)
    stays[order] = ~retracts[order[is_last]][group]
    return np.argsort(stays, kind="stable")


class MovingKeys:
    """The keys of a table, with what a writer has done to them. It is of one thread."""

    def __init__(self, held: HeldKeys, rule: BucketRule, merge_engine: str) -> None:
        """`merge_engine`: as the option names it."""
        self._held = held
        self._rule = rule
        self._engine = merge_engine

    def place(self, keys: pa.Table, partitions: np.ndarray, kinds: np.ndarray) -> Placed:
        """Say where rows go, given the columns of their primary key, the numbers (int64) of their partitions, and kinds (int8).
        Raises InvalidRequest if a partition would get too many buckets.
        """
        before, count = self._held.keys.num_rows, keys.num_rows
        together = pa.concat_tables([self._held.keys, keys.cast(self._held.keys.schema)])
        columns = [ranks(together.column(name)) for name in together.column_names]
        # What is held of a key comes before the rows of it.
        order = stable_order(columns, before + count)
        is_first = np.append(True, last_of_each(columns, order)[:-1])
        places = np.arange(len(order))
        given = np.append(self._held.partitions, partitions)[order]
        begins = is_first.copy()
        if self._engine == "deduplicate":
            begins[1:] |= given[1:] != given[:-1]
        # Rows of a key that stay in one partition have one bucket there, that of the first.
        begin = np.maximum.accumulate(np.where(begins, places, 0))
        home = given[begin]
        buckets = self._with_buckets(order, begins, home, before)[begin]
        is_row = order >= before
        placed = self._placed(order - before, is_row, is_row & begins & ~is_first, given, home, buckets, kinds)
        is_last = np.append(is_first[1:], True)
        self._held = HeldKeys(together.take(pa.array(order[is_last])).combine_chunks(), home[is_last], buckets[is_last])
        return placed

    def _with_buckets(self, order: np.ndarray, begins: np.ndarray, home: np.ndarray, before: int) -> np.ndarray:
        """The buckets of keys that are held, and of the rows by which keys come to a partition; of others nothing."""
        buckets = np.full(len(order), -1, np.int32)
        is_held = order < before
        buckets[is_held] = self._held.buckets[order[is_held]]
        new = np.flatnonzero(begins & ~is_held)
        new = new[np.argsort(order[new])]
        for partition in np.unique(home[new]).tolist():
            own = new[home[new] == partition]
            there = self._held.buckets[self._held.partitions == partition]
            sizes = dict(zip(*(part.tolist() for part in np.unique(there, return_counts=True)), strict=True))
            slots, usable = free_slots(sizes, len(own), self._rule)
            rest = np.arange(len(own) - len(slots))
            buckets[own] = np.concatenate([slots, usable[rest % len(usable)]])
        return buckets

    def _placed(
        self,
        rows: np.ndarray,
        is_row: np.ndarray,
        moves: np.ndarray,
        given: np.ndarray,
        home: np.ndarray,
        buckets: np.ndarray,
        kinds: np.ndarray,
    ) -> Placed:
        kept = is_row & (given == home) if self._engine == "first-row" else is_row
        written, moved = np.flatnonzero(kept), np.flatnonzero(moves)
        # The row that is deleted lies where the row before it, of the same key, was.
        source = np.concatenate([written, moved - 1])
        numbers = np.concatenate([rows[written], rows[moved]])
        of_rows = kinds[rows[written]]
        chosen = np.concatenate([of_rows, np.full(len(moved), DELETE, np.int8)])
        arrival = np.concatenate([2 * rows[written] + 1, 2 * rows[moved]])
        in_order = np.argsort(arrival)
        at = source[in_order]
        return Placed(numbers[in_order], home[at], buckets[at], chosen[in_order])
