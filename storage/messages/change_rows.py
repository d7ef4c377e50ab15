"""Rows of messages that say what was there before and after a change: put into the order of the messages, with their kinds."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc


def changes_in_order(
    before: pa.Table,
    before_of: pa.Array,
    before_kinds: pa.Array,
    after: pa.Table,
    after_of: pa.Array,
    after_kinds: pa.Array,
) -> tuple[pa.Table, pa.Array, pa.Array]:
    """Rows, kinds (int8) and messages (int64): of each message first the row before, then the row after.

    `before_of`, `after_of`: the messages of the rows, rising.
    """
    if not len(before_of):
        return after, after_kinds, after_of
    if not len(after_of):
        return before, before_kinds, before_of
    rows = pa.concat_tables([before, after])
    messages = pa.concat_arrays([before_of, after_of])
    side = pa.concat_arrays([_repeat(0, len(before_of)), _repeat(1, len(after_of))])
    order = pc.sort_indices(
        pa.table({"message": messages, "side": side}), [("message", "ascending"), ("side", "ascending")]
    )
    kinds = pa.concat_arrays([before_kinds, after_kinds])
    # A table without columns has no rows to take.
    ordered = rows.take(order).combine_chunks() if rows.num_columns else rows
    return ordered, kinds.take(order), messages.take(order)


def kinds_of(count: int, kind: int) -> pa.Array:
    """One kind for all of some rows."""
    return _repeat(kind, count)


def of_any(values: pa.Array, wanted: Sequence[str]) -> pa.Array:
    """Whether each text is among some, null for none: as booleans without nulls."""
    return pc.fill_null(pc.is_in(values, pa.array(wanted, pa.string())), False)


def columns_of(rows: pa.Array, places: pa.Array) -> pa.Table:
    """The columns of an array of structs at some places."""
    picked = rows.take(places)
    return pa.Table.from_arrays(picked.flatten(), schema=pa.schema(list(picked.type)))


def _repeat(value: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int8()), count)
