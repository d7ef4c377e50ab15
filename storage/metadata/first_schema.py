"""The first schema of a table, from columns, keys and options."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa

from ..data_types import DataField, DataType, nested_fields, type_from_arrow
from ..errors import InvalidRequest, Unsupported
from ..format.file_index.wanted import check_file_indexes
from ..option_checks import check_table_options
from ..options import TableOptions
from .case_twins import refuse_new_twins
from .schema import TableSchema
from .schema_check import check_avro, check_column_options, check_iceberg, check_schema


def new_schema(
    columns: pa.Schema | Sequence[DataField],
    *,
    primary_keys: Sequence[str] = (),
    partition_keys: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
    time_ms: int,
) -> TableSchema:
    """The first schema of a new table, checked. Raises InvalidRequest or Unsupported that says what is wrong.

    Columns of an Arrow schema get field ids in order, fields of nested columns right after their column.
    """
    texts = {str(key): _option_text(value) for key, value in (options or {}).items()}
    for given, key, what in (
        (primary_keys, "primary-key", "The primary key"),
        (partition_keys, "partition", "The list of partition columns"),
    ):
        if given and key in texts:
            raise InvalidRequest(f"{what} is given twice, once as the option {key!r}. Leave the option out.")
    primary_keys = tuple(primary_keys) or _names(texts.pop("primary-key", ""))
    partition_keys = tuple(partition_keys) or _names(texts.pop("partition", ""))
    check_table_options(texts, "to be created")
    numbers = count()
    fields = tuple(_number(column, numbers) for column in columns)
    fields = tuple(
        replace(field, type=field.type.not_null()) if field.name in primary_keys else field for field in fields
    )
    texts |= _whole_row_key(texts, fields, primary_keys, partition_keys)
    highest = max((inner.id for field in fields for inner in (field, *nested_fields(field.type))), default=-1)
    schema = TableSchema(0, fields, highest, partition_keys, primary_keys, texts, comment, time_ms)
    check_schema(schema)
    _refuse_unsure_directories(schema)
    refuse_new_twins(schema.to_arrow())
    check_column_options(schema, schema.options)
    check_file_indexes(schema.options, {field.name: field.type for field in schema.fields})
    check_avro(schema)
    check_iceberg(schema)
    return schema


def _whole_row_key(
    texts: Mapping[str, str], fields: Sequence[DataField], primary_keys: Sequence[str], partition_keys: Sequence[str]
) -> dict[str, str]:
    """Rows without a key that are hashed to buckets are hashed by all of their columns; the option says so to every reader."""
    options = TableOptions.read(texts)
    if primary_keys or options.bucket < 1 or options.bucket_key or any(field.type.is_nested for field in fields):
        return {}
    names = [field.name for field in fields if field.name not in partition_keys]
    return {} if not names or any("," in name for name in names) else {"bucket-key": ",".join(names)}


def _refuse_unsure_directories(schema: TableSchema) -> None:
    """Raise Unsupported for partition columns of numbers that each version of Java writes in other digits (decision 0020)."""
    for field in schema.fields_named(schema.partition_keys):
        if field.type.is_float:
            raise Unsupported(
                f"Partition column {field.name!r} has type {field.type}: which directory Paimon's Java library looks for depends "
                "on the version of Java. Use DECIMAL or text."
            )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _number(column: pa.Field | DataField, numbers: "count[int]") -> DataField:
    field_id = next(numbers)
    if isinstance(column, DataField):
        return DataField(
            field_id, column.name, _renumber(column.type, numbers), column.description, column.default_value
        )
    description = (column.metadata or {}).get(b"comment")
    try:
        data_type = type_from_arrow(column.type, column.nullable, lambda: next(numbers))
    except InvalidRequest as error:
        raise InvalidRequest(f"Column {column.name!r}: {error}") from None
    return DataField(field_id, column.name, data_type, description.decode() if description else None)


def renumbered(field: DataField, numbers: "count[int]") -> DataField:
    """A column with ids of its own."""
    return _number(field, numbers)


def _renumber(data_type: DataType, numbers: "count[int]") -> DataType:
    fields = tuple(replace(field, id=next(numbers), type=_renumber(field.type, numbers)) for field in data_type.fields)
    inner: dict[str, Any] = {
        name: _renumber(part, numbers)
        for name, part in (("key", data_type.key), ("element", data_type.element))
        if part is not None
    }
    return replace(data_type, fields=fields, **inner)
