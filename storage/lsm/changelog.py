"""Changelog: the rows that lead from one state of a bucket to the next, each update as a pair of -U and +U.

Pure: works on two sorted runs, batch by batch. Source: `docs/format.md`, "Changelog".
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .key_order import ranks, stable_order
from .merge import RunCursor, advance_together, match_keys
from .row_multiset import row_codes
from .system_columns import DELETE, INSERT, LEVEL, SEQUENCE_NUMBER, UPDATE_AFTER, UPDATE_BEFORE, VALUE_KIND

_BEFORE, _AFTER = 0, 1


def changelog(
    before: Iterator[pa.RecordBatch],
    after: Iterator[pa.RecordBatch],
    key_count: int,
    told_level: int,
    *,
    drops_equal_pairs: bool = False,
    tells_new_keys_alone: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield +I for keys that came, -D for keys that went, and -U with +U for keys to which rows were written.

    Both sides are sorted runs without deletes: key columns, `_SEQUENCE_NUMBER`, `_VALUE_KIND`, then values. `after` has a
    column `_LEVEL` besides: to a key whose lowest level is below `told_level` rows were written. Batches come out in key order,
    without it. `drops_equal_pairs` leaves out updates that changed no value, `tells_new_keys_alone` whatever becomes of keys
    that were there.
    """
    for slices in advance_together([RunCursor(before, _BEFORE), RunCursor(after, _AFTER)], key_count):
        sides = {rank: rows for rows, rank in slices}
        old, new = sides.get(_BEFORE), sides.get(_AFTER)
        if tells_new_keys_alone:
            rows = _came(old, new, key_count)
        else:
            rows = _between(old, new, key_count, told_level, drops_equal_pairs)
        if rows is not None and rows.num_rows:
            yield rows


def _came(old: pa.RecordBatch | None, new: pa.RecordBatch | None, key_count: int) -> pa.RecordBatch | None:
    if new is None:
        return None
    new = new.drop_columns([LEVEL])
    if old is not None:
        came = np.ones(new.num_rows, bool)
        came[match_keys(new, old, key_count)[0]] = False
        new = new.filter(pa.array(came))
    return _of_kind(new, INSERT)


def _between(
    old: pa.RecordBatch | None, new: pa.RecordBatch | None, key_count: int, told_level: int, drops_equal_pairs: bool
) -> pa.RecordBatch | None:
    if new is not None:
        levels, new = new.column(LEVEL).to_numpy(), new.drop_columns([LEVEL])
    if new is None or old is None:
        return _of_kind(old, DELETE) if old is not None else None if new is None else _of_kind(new, INSERT)
    new_rows, old_rows = match_keys(new, old, key_count)
    came, went = np.ones(new.num_rows, bool), np.ones(old.num_rows, bool)
    came[new_rows] = went[old_rows] = False
    updated = levels[new_rows] < told_level
    if drops_equal_pairs:
        updated &= _differ(new, new_rows, old, old_rows, key_count)
    parts = [
        _of_kind(new.filter(pa.array(came)), INSERT),
        _of_kind(old.filter(pa.array(went)), DELETE),
        _of_kind(old.take(pa.array(old_rows[updated])), UPDATE_BEFORE),
        _of_kind(new.take(pa.array(new_rows[updated])), UPDATE_AFTER),
    ]
    parts = [part for part in parts if part.num_rows]
    if len(parts) < 2:
        return parts[0] if parts else None
    rows = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
    columns = [ranks(rows.column(index)) for index in range(key_count)]
    # -U has a lower number than +U.
    columns.append(rows.column(VALUE_KIND).to_numpy().astype(np.int64))
    return rows.take(pa.array(stable_order(columns, rows.num_rows)))


def _of_kind(rows: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    index = rows.schema.get_field_index(VALUE_KIND)
    return rows.set_column(index, rows.schema.field(index), pa.array(np.full(rows.num_rows, kind, np.int8)))


def _differ(
    new: pa.RecordBatch, new_rows: np.ndarray, old: pa.RecordBatch, old_rows: np.ndarray, key_count: int
) -> np.ndarray:
    """Whether any value differs, row by row; null is equal to null, and NaN to NaN."""
    differs = np.zeros(len(new_rows), bool)
    for index in range(key_count, new.num_columns):
        if new.schema.field(index).name in (SEQUENCE_NUMBER, VALUE_KIND):
            continue
        column, other = new.column(index).take(pa.array(new_rows)), old.column(index).take(pa.array(old_rows))
        if pa.types.is_nested(column.type):
            codes = row_codes([pa.table({"value": column}), pa.table({"value": other})])
            differs |= codes[: len(column)] != codes[len(column) :]
            continue
        same = pc.equal(column, other)
        if pa.types.is_floating(column.type):
            same = pc.or_(same, pc.and_(pc.is_nan(column), pc.is_nan(other)))
        same = pc.fill_null(same, pc.and_(pc.is_null(column), pc.is_null(other)))
        differs |= ~same.to_numpy(zero_copy_only=False)
    return differs
