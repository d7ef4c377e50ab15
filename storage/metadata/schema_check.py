"""What the format does not allow of a schema, and what is not written here: refused, saying what is wrong."""

import re
from collections.abc import Collection, Iterator

from ..data_types import DataField, DataType, nested_fields
from ..errors import InvalidRequest, Unsupported
from ..format.iceberg_types import iceberg_fields, partition_fields
from ..values import from_literal
from .field_options import check_field_option
from .schema import KEY_PREFIX, TableSchema

# Options that one merge engine alone follows.
_OF_ENGINES = {
    "aggregation.remove-record-on-delete": "aggregation",
    "partial-update.remove-record-on-delete": "partial-update",
    "partial-update.remove-record-on-sequence-group": "partial-update",
}
_RESERVED_NAMES = ("_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID")


def check_schema(schema: TableSchema) -> None:
    """Raise InvalidRequest or Unsupported, saying what is wrong, for a schema that the format does not allow."""
    names = schema.column_names
    if not names:
        raise InvalidRequest("A table needs at least one column.")
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(f"Column {name!r} occurs {names.count(name)} times. Column names must be unique.")
        if not name or name in _RESERVED_NAMES or name.startswith(KEY_PREFIX):
            raise InvalidRequest(f"Column name {name!r} is reserved by the format. Rename the column.")
    for what, keys in (("primary key", schema.primary_keys), ("partition", schema.partition_keys)):
        for key in keys:
            field = _declared(schema, key, f"{what} column")
            if field.type.is_nested:
                raise InvalidRequest(
                    f"{what.capitalize()} column {key!r} has type {field.type}: it must not be nested."
                )
            if what == "partition" and field.type.is_bytes:
                raise InvalidRequest(f"Partition column {key!r} has type {field.type}: use text, a number or a date.")
        if len(set(keys)) < len(keys):
            raise InvalidRequest(f"The {what} names a column twice: {', '.join(keys)}.")
    for field in schema.fields:
        field.type.to_arrow()
    _check_fields(schema)
    _check_texts(schema)
    _check_untracked(schema)
    _check_variants(schema)
    _check_keys(schema)
    _check_buckets(schema)


def check_column_options(schema: TableSchema, keys: Collection[str]) -> None:
    """Raise InvalidRequest if options that were given name columns that are not there, or say what nobody asks for."""
    options = schema.table_options
    _refuse_told_overwrites(schema, keys)
    for key in sorted(keys):
        value = schema.options[key]
        if key.startswith("fields."):
            check_field_option(schema, key)
        if value != "false" and options.merge_engine != _OF_ENGINES.get(key, options.merge_engine):
            raise InvalidRequest(
                f"Option {key!r} has no effect with 'merge-engine' = {options.merge_engine!r}: leave it out."
            )
        if key == "sequence.field" and len(set(options.sequence_field)) < len(options.sequence_field):
            raise InvalidRequest(f"Option {key!r} = {value!r} names a column twice: name it once.")
        if key.startswith(("partition.expiration", "partition.timestamp")) and not schema.partition_keys:
            raise InvalidRequest(f"Option {key!r} has no effect on a table without partitions: leave it out.")
        if key == "partition.timestamp-pattern":
            columns = re.findall(r"\$(\w+)", value)
            if not columns:
                raise InvalidRequest(
                    f"Option {key!r} = {value!r} names no partition column: write $column, as in `$day $hour:00`."
                )
            strange = [name for name in columns if name not in schema.partition_keys]
            if strange:
                raise InvalidRequest(
                    f"Option {key!r} = {value!r} names {strange[0]!r}, which is no partition column: "
                    f"{', '.join(schema.partition_keys)}."
                )


def _refuse_told_overwrites(schema: TableSchema, keys: Collection[str]) -> None:
    """Raise InvalidRequest for an option with which Paimon's Java library does not open the table, and which is the default."""
    key, producer = "streaming-read-overwrite", schema.table_options.changelog_producer
    if schema.options.get(key) != "true" or not {key, "changelog-producer"} & set(keys):
        return
    if not schema.primary_keys or producer in ("lookup", "full-compaction"):
        beside = f"with 'changelog-producer' = {producer!r}" if schema.primary_keys else "without a primary key"
        raise InvalidRequest(
            f"Option {key!r} = 'true': Paimon's Java library does not open a table {beside} that has it. Leave it out: readers "
            "here see what overwrites did unless it is 'false'."
        )


def _check_untracked(schema: TableSchema) -> None:
    """Partitions without change tracking are named by values of partition columns."""
    for text in schema.table_options.change_tracking_off_partitions:
        for part in text.split("/"):
            name, equals, value = part.partition("=")
            if not equals or name not in schema.partition_keys:
                raise InvalidRequest(
                    f"Option 'change-tracking.off-partitions' has {text!r}: write partitions as column=value/column=value, with "
                    f"partition columns ({', '.join(schema.partition_keys) or 'the table has none'})."
                )
            from_literal(value, schema.field(name).type)


def check_avro(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Raise InvalidRequest for what Avro files of the table could not hold, or Paimon's Java library not write or read there;
    what was so `before` is left alone.
    """
    known = set() if before is None else set(_avro_troubles(before))
    for trouble in _avro_troubles(schema):
        if trouble not in known:
            raise InvalidRequest(trouble)


def check_iceberg(schema: TableSchema) -> None:
    """Raise Unsupported, naming the column, for types that readers of Iceberg could not be shown, if they are to be."""
    if schema.table_options.metadata_iceberg_storage != "disabled":
        iceberg_fields(schema.fields)
        partition_fields(schema.fields_named(schema.partition_keys))


def _avro_troubles(schema: TableSchema) -> Iterator[str]:
    options = schema.table_options
    if all(options.format_of_level(level) != "avro" for level in range(options.top_level + 1)):
        return
    for field in (inner for each in schema.fields for inner in (each, *nested_fields(each.type))):
        if not (field.name[:1].isalpha() or field.name[:1] == "_") or not all(
            char.isalpha() or char.isdecimal() or char == "_" for char in field.name
        ):
            yield (
                f"Column {field.name!r}: a name in Avro files begins with a letter or _ and goes on with letters, digits and _. "
                "Rename the column, or use another 'file.format'."
            )
        if field.type.root == "TIME" and field.type.precision > 3:
            yield (
                f"Column {field.name!r}: Avro has no place for {field.type}. Use a precision of 3 or less, or another "
                "'file.format'."
            )
    for field in schema.fields:
        if any(
            data_type.root == "MULTISET" and data_type.element and not data_type.element.is_text
            for data_type in _types_in(field.type)
        ):
            yield (
                f"Column {field.name!r}: Paimon's Java library cannot read Avro files with a MULTISET of anything but texts. "
                "Use another type, or another 'file.format'."
            )


def _check_fields(schema: TableSchema) -> None:
    """Raise InvalidRequest for structs, at any depth, that have two fields of one name."""
    for field in schema.fields:
        for data_type in _types_in(field.type):
            names = [inner.name for inner in data_type.fields]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise InvalidRequest(
                    f"Column {field.name!r} has type {field.type}, in which field {twice!r} occurs twice. Give each a name of "
                    "its own."
                )


def _check_variants(schema: TableSchema) -> None:
    """Raise Unsupported for variants in formats of files that have no place for them, in Java as well."""
    options = schema.table_options
    others = sorted({options.format_of_level(level) for level in range(options.top_level + 1)} - {"parquet"})
    if not others:
        return
    for field in schema.fields:
        if any(data_type.root == "VARIANT" for data_type in _types_in(field.type)):
            raise Unsupported(
                f"Column {field.name!r} has type {field.type}: variants are kept in Parquet files alone, and this table has "
                f"files of {', '.join(others)}. Use 'file.format' = 'parquet', or store the column as STRING or BYTES."
            )


def _types_in(data_type: DataType) -> Iterator[DataType]:
    yield data_type
    for inner in (data_type.key, data_type.element, *(field.type for field in data_type.fields)):
        if inner is not None:
            yield from _types_in(inner)


def _check_texts(schema: TableSchema) -> None:
    try:
        schema.to_json().encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"A name, an option or a comment holds half of a character (a lone surrogate), {error.object[error.start]!r}, "
            "which no file can."
        ) from None


def _declared(schema: TableSchema, name: str, what: str) -> DataField:
    if name not in schema.column_names:
        raise InvalidRequest(
            f"{what.capitalize()} {name!r} is not a column. Columns: {', '.join(schema.column_names)}."
        )
    return schema.field(name)


def _check_keys(schema: TableSchema) -> None:
    if not schema.primary_keys:
        return
    missing = [key for key in schema.partition_keys if key not in schema.primary_keys]
    options = schema.table_options
    if missing and options.bucket != -1:
        raise InvalidRequest(
            f"The primary key ({', '.join(schema.primary_keys)}) must contain every partition column: add "
            f"{', '.join(missing)}, or partition by columns of the key. With 'bucket' = '-1' it need not: then rows of a key "
            "move from one partition to another."
        )
    if missing and options.sequence_field:
        raise Unsupported(
            f"Option 'sequence.field' with a primary key that does not contain {', '.join(missing)}: a row that comes late would "
            "be in two partitions. Leave the option out, or add the partition columns to the key."
        )
    if not schema.trimmed_primary_keys:
        raise InvalidRequest(
            f"The primary key ({', '.join(schema.primary_keys)}) consists of partition columns only: "
            "each partition could hold one row. Add a column to the key."
        )


def refuse_unwritable(schema: TableSchema) -> None:
    """Raise Unsupported for buckets that other writers give keys to, and this one would give to others."""
    bucket = schema.table_options.bucket
    if schema.primary_keys and bucket < 1 and bucket not in (-1, -2):
        raise Unsupported(
            f"A table with a primary key needs a positive 'bucket', -1 for dynamic ones or -2 for postponed ones, found {bucket}."
        )


def refuse_moving_keys(schema: TableSchema, doing: str) -> None:
    """Raise Unsupported for what brings files back or over, where a key may be in another partition by now."""
    if schema.crosses_partitions:
        raise Unsupported(
            f"{doing} is not supported for a table whose primary key ({', '.join(schema.primary_keys)}) does not contain all "
            "partition columns: a key could come to be in two partitions."
        )


def _check_buckets(schema: TableSchema) -> None:
    options = schema.table_options
    refuse_unwritable(schema)
    if options.bucket == 0 or options.bucket < -2 or (options.bucket == -2 and not schema.primary_keys):
        raise InvalidRequest(
            f"Option 'bucket' = {options.bucket}: use a positive number, -1, or with a primary key -2."
        )
    if not schema.primary_keys and options.bucket > 0 and not options.bucket_key:
        raise InvalidRequest(
            f"Option 'bucket' = {options.bucket} without a primary key needs a 'bucket-key': name the columns to hash."
        )
    if options.dynamic_bucket_max_buckets == 0:
        raise InvalidRequest("Option 'dynamic-bucket.max-buckets' = 0: use a positive number, or -1 for no limit.")
    if options.bucket < 0 and options.bucket_key:
        raise InvalidRequest("Option 'bucket-key' needs a positive 'bucket'.")
    for key in options.bucket_key:
        field = _declared(schema, key, "bucket key")
        if key in schema.partition_keys or field.type.is_nested:
            raise InvalidRequest(
                f"Bucket key {key!r} has type {field.type}; it must be a plain column outside of the partition columns."
            )
        if schema.primary_keys and key not in schema.primary_keys:
            raise InvalidRequest(f"Bucket key {key!r} must be part of the primary key.")
    if (
        options.rowkind_field is not None
        and not _declared(schema, options.rowkind_field, "'rowkind.field'").type.is_text
    ):
        raise InvalidRequest(f"Option 'rowkind.field' = {options.rowkind_field!r} must name a text column.")
