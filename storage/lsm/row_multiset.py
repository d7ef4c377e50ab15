"""Rows counted: tables as multisets of whole rows, nulls equal to nulls. Pure."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .key_order import ranks

_LARGEST = 2**62


def difference(table: pa.Table, other: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What only the first has and what only the second has, each as often as the counts differ."""
    codes = row_codes([table, other])
    mine, theirs = codes[: table.num_rows], codes[table.num_rows :]
    return _surplus(table, mine, theirs), _surplus(other, theirs, mine)


def _surplus(rows: pa.Table, codes: np.ndarray, others: np.ndarray) -> pa.Table:
    taken = occurrences(codes, others)
    return rows.filter(pa.array(~taken))


def occurrences(codes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Mask over `codes`: true for the first as many occurrences of each code as `wanted` holds."""
    values, counts = np.unique(wanted, return_counts=True)
    if not len(values) or not len(codes):
        return np.zeros(len(codes), bool)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    place_in_group = np.arange(len(codes)) - np.repeat(starts, np.diff(np.append(starts, len(codes))))
    places = np.minimum(np.searchsorted(values, ordered), len(values) - 1)
    allowed = np.where(values[places] == ordered, counts[places], 0)
    mask = np.zeros(len(codes), bool)
    mask[order] = place_in_group < allowed
    return mask


def row_codes(tables: Sequence[pa.Table]) -> np.ndarray:
    """A whole number for each row of the tables, one table after the other: equal for equal rows."""
    rows = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    codes = np.zeros(rows.num_rows, np.int64)
    cardinality = 1
    for column in rows.columns:
        for part in _flat(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column):
            unique, numbers = np.unique(part, return_inverse=True)
            if cardinality > _LARGEST // max(len(unique), 1):
                distinct, codes = np.unique(codes, return_inverse=True)
                cardinality = len(distinct)
            codes = codes * len(unique) + numbers
            cardinality *= max(len(unique), 1)
    return codes


def _flat(column: pa.Array) -> list[np.ndarray]:
    """Numbers that together are equal for equal values."""
    kind = column.type
    if pa.types.is_struct(kind):
        nulls = column.is_null().to_numpy(zero_copy_only=False).astype(np.int64)
        children = [column.field(index) for index in range(kind.num_fields)]
        # What lies under a null does not count.
        return [nulls, *(np.where(nulls == 1, 0, part) for child in children for part in _flat(child))]
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_list_codes(column)]
    return [ranks(column)]


def _list_codes(column: pa.Array) -> np.ndarray:
    """Lists and maps by their elements, place by place."""
    lengths = np.where(
        column.is_null().to_numpy(zero_copy_only=False), -1, np.diff(column.offsets.to_numpy(zero_copy_only=False))
    )
    codes = np.unique(lengths, return_inverse=True)[1]
    elements = (
        column.values
        if not pa.types.is_map(column.type)
        else pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    )
    parts = _flat(elements)
    starts = column.offsets.to_numpy(zero_copy_only=False)[:-1]
    for place in range(int(lengths.max(initial=0))):
        held = lengths > place
        for part in parts:
            at_place = np.full(len(column), -1, np.int64)
            at_place[held] = part[starts[held] + place]
            unique, numbers = np.unique(at_place, return_inverse=True)
            codes = np.unique(codes * len(unique) + numbers, return_inverse=True)[1]
    return codes
