"""Rows on their way in: bring them into the shape of the table, or say exactly what does not fit."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataField
from ..errors import InvalidRequest
from ..metadata.default_values import default_of
from ..metadata.schema import TableSchema
from .inner_values import check_inner_values
from .value_limits import check_limits, cut_blanks

ROW_KINDS = ("+I", "-U", "+U", "-D")
Rows: TypeAlias = pa.Table | pa.RecordBatch
Data: TypeAlias = Rows | pa.RecordBatchReader


def shaped(rows: Rows, schema: TableSchema, row_kind_column: str | None = None) -> pa.Table:
    """The rows with exactly the table's columns, in order and type; a row kind column outside the table is dropped.

    Missing columns become their default, or null. Raises InvalidRequest for unknown or missing columns, values that do not fit
    the column's type, and nulls where none may be.
    """
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    _check_names(table.column_names, schema, row_kind_column)
    columns = []
    for field in schema.fields:
        if field.name in table.column_names:
            columns.append(_cast(table.column(field.name), field))
        elif (default := default_of(field)) is not None:
            columns.append(pa.chunked_array([pa.repeat(default, table.num_rows)]))
        elif field.type.nullable:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type.to_arrow())]))
        else:
            raise InvalidRequest(f"Column {field.name!r} is NOT NULL, but the rows do not have it. Add it to the rows.")
    return pa.Table.from_arrays(columns, schema=schema.to_arrow())


def _check_names(names: Iterable[str], schema: TableSchema, row_kind_column: str | None) -> None:
    names = list(names)
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(f"The rows have column {name!r} twice. Give each column a name of its own.")
        if name not in schema.column_names and name != row_kind_column:
            close = get_close_matches(name, schema.column_names, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Columns: {', '.join(schema.column_names)}."
            raise InvalidRequest(f"The table has no column {name!r}. {hint}")
    if row_kind_column is not None and row_kind_column not in names:
        raise InvalidRequest(f"The rows have no column {row_kind_column!r} for the row kind.")


def _cast(column: pa.ChunkedArray, field: DataField) -> pa.ChunkedArray:
    target = field.type.to_arrow()
    if column.type != target:
        unknown = _unknown_field(column.type, target, field.name)
        if unknown is not None:
            raise InvalidRequest(
                f"Column {field.name!r} has type {field.type}: it has no field {unknown!r}, the rows have. Leave the field "
                f"out, or add it: ALTER TABLE … ADD COLUMN {unknown} TYPE."
            )
        if not _is_sensible(column.type, target):
            raise InvalidRequest(
                f"Column {field.name!r} has type {field.type} in the table, the rows have {column.type}. "
                "Cast the rows first."
            )
        try:
            if pa.types.is_integer(column.type) and pa.types.is_decimal(target):
                # Arrow asks whether any int64 would fit; the way over a wide decimal asks about the values.
                column = column.cast(pa.decimal256(76, target.scale))
            column = column.cast(target)
        except (pa.ArrowException, NotImplementedError) as error:
            raise InvalidRequest(
                f"Column {field.name!r} has type {field.type}; a value of the rows ({column.type}) does not fit: {error}"
            ) from None
    column = cut_blanks(column, field.type)
    check_limits(column, field.type, f"Column {field.name!r}", each="row")
    check_inner_values(column, field)
    if not field.type.nullable and column.null_count:
        row = int(np.flatnonzero(np.asarray(pc.is_null(column)))[0])
        raise InvalidRequest(
            f"Column {field.name!r} is NOT NULL, but {column.null_count} of {len(column)} rows are null there "
            f"(the first is row {row}). Fill or drop them."
        )
    return column


def _unknown_field(source: pa.DataType, target: pa.DataType, path: str) -> str | None:
    """The path of a field, at any depth, that rows have and the table has not: a cast would drop it."""
    types = pa.types
    if types.is_dictionary(source):
        return _unknown_field(source.value_type, target, path)
    if types.is_struct(source) and types.is_struct(target):
        known = {field.name: field.type for field in target}
        for field in source:
            inner = f"{path}.{field.name}"
            if field.name not in known:
                return inner
            unknown = _unknown_field(field.type, known[field.name], inner)
            if unknown is not None:
                return unknown
        return None
    for kind, part in _parts(source):
        for other_kind, other in _parts(target):
            unknown = _unknown_field(part, other, f"{path}.{kind}") if kind == other_kind else None
            if unknown is not None:
                return unknown
    return None


def _parts(kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """What a map or a list is made of, as SQL names it."""
    if pa.types.is_map(kind):
        return [("key", kind.key_type), ("value", kind.item_type)]
    return [("element", kind.value_type)] if hasattr(kind, "value_type") and not pa.types.is_dictionary(kind) else []


def _is_sensible(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast says the same thing in another type: no text to numbers, no time zone invented."""
    types = pa.types
    if types.is_null(source):
        return True
    if types.is_dictionary(source):
        return _is_sensible(source.value_type, target)

    def is_text(kind: pa.DataType) -> bool:
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))

    def is_number(kind: pa.DataType) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))

    if types.is_struct(source) and types.is_struct(target):
        known = {field.name: field.type for field in target}
        return all(_is_sensible(field.type, known[field.name]) for field in source if field.name in known)
    if (parts := _parts(source)) and [kind for kind, _ in parts] == [kind for kind, _ in _parts(target)]:
        return all(_is_sensible(part, other) for (_, part), (_, other) in zip(parts, _parts(target), strict=True))
    if is_text(source) or is_text(target):
        return is_text(source) and is_text(target)
    if is_number(source) or is_number(target):
        return is_number(source) and is_number(target)
    if types.is_boolean(source) or types.is_boolean(target):
        return bool(source == target)
    if types.is_timestamp(source) and types.is_timestamp(target):
        return (source.tz is None) == (target.tz is None)
    return not (types.is_timestamp(source) and types.is_date(target))


def row_kinds(rows: Rows, table: pa.Table, schema: TableSchema, row_kind_column: str | None) -> np.ndarray | None:
    """The kind of each row as int8 (0 +I, 1 -U, 2 +U, 3 -D), or None if all are +I."""
    column_name = row_kind_column or schema.table_options.rowkind_field
    if column_name is None:
        return None
    column = rows.column(column_name) if column_name in rows.schema.names else table.column(column_name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise InvalidRequest(f"The row kind column {column_name!r} has type {column.type}; it must hold text.")
    kinds = pc.index_in(column.cast(pa.string()), value_set=pa.array(ROW_KINDS))
    if kinds.null_count:
        wrong = column.filter(pc.is_null(kinds))[0].as_py()
        raise InvalidRequest(f"{wrong!r} in column {column_name!r} is no row kind. Use one of: {', '.join(ROW_KINDS)}.")
    numbers: np.ndarray = kinds.to_numpy().astype(np.int8)
    return numbers
