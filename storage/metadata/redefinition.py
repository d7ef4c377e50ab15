"""Another definition of a table that is there: the version of its schema that comes next.

Pure: works on schemas alone. Columns that keep their name and type keep their id, all others are new ones, so that old files
show null for them. What says where rows lie, and which of them count, stays: the history is read by it. Follows
`docs/format.md`, "Schema files".
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from ..data_types import DataField, nested_fields
from ..errors import InvalidRequest
from .derived_columns import computed_columns, watermark
from .first_schema import renumbered
from .option_change import FIXED_OPTIONS
from .schema import TableSchema

_ADVICE = "DROP the table and CREATE it, which gives up its history."


def redefined(old: TableSchema, new: TableSchema, *, time_ms: int) -> TableSchema:
    """The version after `old` that says what a first schema `new` says. Raises InvalidRequest for what cannot change."""
    for what in _differences(old, new):
        raise InvalidRequest(f"{what} cannot be replaced in a table with a history. {_ADVICE}")
    before = {field.name: field for field in old.fields}
    numbers = count(old.highest_field_id + 1)
    fields = tuple(_field(before.get(field.name), field, numbers) for field in new.fields)
    ids = (inner.id for field in fields for inner in (field, *nested_fields(field.type)))
    highest = max(old.highest_field_id, *ids)
    return replace(new, id=old.id + 1, fields=fields, highest_field_id=highest, time_ms=time_ms)


def _field(before: DataField | None, field: DataField, numbers: "count[int]") -> DataField:
    if before is not None and not field.type.is_nested and before.type.not_null() == field.type.not_null():
        return replace(field, id=before.id)
    return renumbered(field, numbers)


def _differences(old: TableSchema, new: TableSchema) -> Iterator[str]:
    """What differs of all that the history is read by."""
    for what, each, other in (
        ("The primary key", old.primary_keys, new.primary_keys),
        ("The partition columns", old.partition_keys, new.partition_keys),
        ("Option 'bucket'", old.table_options.bucket, new.table_options.bucket),
        ("Option 'bucket-key'", old.bucket_keys, new.bucket_keys),
        ("Option 'merge-engine'", old.table_options.merge_engine, new.table_options.merge_engine),
    ):
        if each != other:
            yield f"{what} ({_shown(each)}, to be {_shown(other)})"
    if (computed_columns(old.options), watermark(old.options)) != (
        computed_columns(new.options),
        watermark(new.options),
    ):
        yield "Computed columns and WATERMARK"
    for name in dict.fromkeys([*old.primary_keys, *old.partition_keys, *old.bucket_keys]):
        types = old.field(name).type.not_null(), new.field(name).type.not_null()
        if types[0] != types[1]:
            yield f"The type of {name!r}, {types[0]}, to be {types[1]},"
    fixed = {*FIXED_OPTIONS, "sequence.field", "ignore-delete"} - {
        "merge-engine",
        "bucket-key",
        "primary-key",
        "partition",
    }
    fixed |= {
        key for key in (*old.options, *new.options) if key.startswith("fields.") and not key.endswith(".stats-mode")
    }
    for key in sorted(fixed):
        if old.options.get(key) != new.options.get(key):
            yield f"Option {key!r}"


def _shown(value: object) -> str:
    return (", ".join(map(str, value)) or "none") if isinstance(value, tuple) else str(value)
