"""Sequence groups of the merge engine partial-update: columns that are updated together, in an order of their own.

With `partial-update.remove-record-on-sequence-group` a -D that is not late in one of the named groups removes the row: what comes
after it is merged into the values that it came with. Source: `docs/format.md`, "Merge engines".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..errors import InvalidRequest
from ..metadata.field_options import declared_groups
from ..metadata.schema import TableSchema
from ..option_texts import parse_names
from .aggregators import Groups
from .key_order import ranks
from .system_columns import DELETE, VALUE_KIND

REMOVING = "partial-update.remove-record-on-sequence-group"


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """Columns that are updated together, by the order of columns of their own."""

    order_by: tuple[str, ...]
    columns: tuple[str, ...]


def sequence_groups(schema: TableSchema) -> list[SequenceGroup]:
    """The groups that the options of a table declare. Raises InvalidRequest for a column that there is not."""
    groups = []
    for order_by, columns in declared_groups(schema.options).values():
        for name in (*order_by, *columns):
            schema.field(name)
        groups.append(SequenceGroup(order_by, columns))
    return groups


def removing_fields(options: Mapping[str, str], groups: Sequence[SequenceGroup]) -> tuple[str, ...]:
    """The columns of sequence groups of which a -D removes the row. Raises InvalidRequest for others, and beside
    `ignore-delete`, as Paimon does.
    """
    names = parse_names(options.get(REMOVING, ""))
    ordering = [name for group in groups for name in group.order_by]
    for name in names:
        if name not in ordering:
            raise InvalidRequest(
                f"Option {REMOVING!r} names {name!r}, which orders no sequence group. Those that do: "
                f"{', '.join(ordering) or 'none'}."
            )
    if names and _drops_deletes(options):
        raise InvalidRequest(f"Options {REMOVING!r} and 'ignore-delete' exclude each other: leave one out.")
    return names


def since_last_removal(
    rows: pa.RecordBatch, groups: Groups, merged: dict[str, pa.Array], removing: Sequence[SequenceGroup]
) -> tuple[pa.RecordBatch, Groups, dict[str, pa.Array], np.ndarray]:
    """The rows of each key from its last removal on, which counts as an addition of the values that it has; and which rows are
    such. A key that ends with one is a delete.
    """
    kinds = rows.column(VALUE_KIND).to_numpy()
    last = _last_removals(rows, groups, removing, kinds == DELETE)
    ends_removed = last == groups.ends
    merged[VALUE_KIND] = pa.array(np.where(ends_removed, DELETE, merged[VALUE_KIND].to_numpy()).astype(np.int8))
    numbers = np.arange(rows.num_rows)
    kept = numbers >= last[groups.of_rows]
    removals = np.isin(numbers, last[last >= 0])
    starts = np.append(0, np.cumsum(np.add.reduceat(kept.astype(np.int64), groups.starts)))[:-1]
    return rows.filter(pa.array(kept)), Groups(starts, (groups.retracts & ~removals)[kept]), merged, removals[kept]


def _last_removals(
    rows: pa.RecordBatch, groups: Groups, removing: Sequence[SequenceGroup], deletes: np.ndarray
) -> np.ndarray:
    """The row of each key that removes it last; -1 where none does.

    What a removal finds depends on those before it, so that keys with a delete are gone through row by row.
    """
    orders = [
        list(zip(*(ranks(rows.column(name)).tolist() for name in group.order_by), strict=True)) for group in removing
    ]
    empty = [
        ~np.logical_or.reduce([np.asarray(rows.column(name).is_valid()) for name in group.order_by])
        for group in removing
    ]
    removals = np.full(groups.count, -1, np.int64)
    for key in np.flatnonzero(np.logical_or.reduceat(deletes, groups.starts)):
        highest: list[tuple[int, ...] | None] = [None] * len(removing)
        for row in range(groups.starts[key], groups.ends[key] + 1):
            not_late = [
                not empty[place][row] and (known is None or orders[place][row] >= known)
                for place, known in enumerate(highest)
            ]
            if deletes[row] and any(not_late):
                removals[key] = row
                highest = [None if empty[place][row] else order[row] for place, order in enumerate(orders)]
            else:
                for place, is_new in enumerate(not_late):
                    if is_new:
                        highest[place] = orders[place][row]
    return removals


def _drops_deletes(options: Mapping[str, str]) -> bool:
    return options.get("ignore-delete", "false").strip().lower() == "true"
