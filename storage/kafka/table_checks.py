"""What has to be true of a Kafka table when it is created; what may be wrong until it is written is said by the writer."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import InvalidRequest
from ..messages.json_codec import JsonCodec
from ..messages.message_format import MessageFormat
from ..messages.registry import message_format
from .definition import KafkaColumn, KafkaTable
from .metadata_casts import can_cast
from .metadata_keys import WRITABLE, MetadataKey, readable_keys, resolve_key
from .options import KafkaOptions, read_options


@dataclass(frozen=True)
class CheckedTable:
    """A table whose parts fit together: its options read, its formats made, its metadata columns resolved."""

    table: KafkaTable
    options: KafkaOptions
    key_columns: tuple[KafkaColumn, ...]
    value_columns: tuple[KafkaColumn, ...]
    key_format: MessageFormat | None
    value_format: MessageFormat
    keys: dict[str, MetadataKey]


def check_table(table: KafkaTable, codec: JsonCodec) -> CheckedTable:
    """Read the definition of a table. Raises InvalidRequest, NotFound or Unsupported that names what is wrong."""
    options = read_options(table.options)
    physical = {column.name: column for column in table.physical}
    _check_names(table)
    key_names = table.primary_key if options.is_upsert else options.key_fields
    _check_key(table, options, physical)
    key_columns = tuple(physical[name] for name in key_names)
    value_columns = tuple(column for column in table.physical if not options.except_key or column.name not in key_names)
    if not value_columns and not key_columns:
        raise InvalidRequest(f"{table.identifier} has no physical column: a record would hold nothing.")
    value = _format(options.value_format, value_columns, options.value_options, codec)
    inner = tuple(_without_prefix(column, options) for column in key_columns)
    key = None if options.key_format is None else _format(options.key_format, inner, options.key_options, codec)
    _check_formats(table, options, value, key)
    keys = {column.name: _metadata_key(table, column, value, key) for column in table.metadata}
    return CheckedTable(table, options, key_columns, value_columns, key, value, keys)


def check_writable(checked: CheckedTable) -> None:
    """Raise InvalidRequest for a table that can be read and not written."""
    table = checked.table
    persisted = [column for column in table.metadata if not column.is_virtual]
    for column in persisted:
        if not checked.keys[column.name].is_writable:
            raise InvalidRequest(
                f"Invalid metadata key {column.metadata!r} in column {column.name!r} of table {table.identifier}: it cannot be "
                f"written. Keys that can: {', '.join(WRITABLE)}. Declare the column VIRTUAL."
            )
    written = [checked.keys[column.name].key for column in persisted]
    if len(set(written)) < len(written) or {"headers", "header-list"} <= set(written):
        raise InvalidRequest(
            f"{table.identifier} has two columns that write {' and '.join(sorted(set(written)))}. Declare all but one VIRTUAL."
        )
    if len(checked.options.topics) > 1:
        raise InvalidRequest(
            f"{table.identifier} reads several topics, so that it is not known where rows go. Name one."
        )


def _format(name: str, columns: tuple[KafkaColumn, ...], options: Mapping[str, str], codec: JsonCodec) -> MessageFormat:
    return message_format(name, [column.field for column in columns], options, codec)


def _without_prefix(column: KafkaColumn, options: KafkaOptions) -> KafkaColumn:
    return KafkaColumn(column.name.removeprefix(options.key_prefix), column.type)


def _check_names(table: KafkaTable) -> None:
    seen: dict[str, str] = {}
    for name in table.order or [column.name for column in table.columns]:
        if name.lower() in seen:
            kinds = "Duplicate columns exist in the metadata column and regular column."
            raise InvalidRequest(f"A column named {name!r} already exists in {table.identifier}. {kinds}")
        seen[name.lower()] = name


def _check_key(table: KafkaTable, options: KafkaOptions, physical: dict[str, KafkaColumn]) -> None:
    listed = ", ".join(physical)
    for what, names in (("PRIMARY KEY", table.primary_key), ("'key.fields'", options.key_fields)):
        for name in names:
            if names.count(name) > 1:
                raise InvalidRequest(f"{what} of {table.identifier} names {name!r} twice.")
            if name not in physical:
                raise InvalidRequest(
                    f"{what} of {table.identifier} names {name!r}, which is no physical column: {listed}."
                )
    if options.is_upsert:
        if not table.primary_key:
            raise InvalidRequest(
                f"'upsert-kafka' needs a PRIMARY KEY: it is the key of the records of {table.identifier}."
            )
        if options.key_format is None:
            raise InvalidRequest("'upsert-kafka' needs 'key.format' and 'value.format'.")
        fields = table.primary_key
    else:
        fields = options.key_fields
        if options.key_format is None and fields:
            raise InvalidRequest(
                "The option 'key.fields' can only be declared if a key format is defined using 'key.format'."
            )
        if options.except_key and not fields:
            raise InvalidRequest(
                "'value.fields-include' = 'EXCEPT_KEY' leaves the fields of the key out of the value, and there are none: name "
                "them by 'key.fields', with a 'key.format', or leave the option out."
            )
        if options.key_format is not None and not fields:
            raise InvalidRequest(
                f"A key format {options.key_format!r} requires the declaration of one or more of key fields using 'key.fields'."
            )
    if options.key_prefix and not options.except_key:
        raise InvalidRequest(
            "A key prefix is not allowed when option 'value.fields-include' is set to 'ALL'. Set it to 'EXCEPT_KEY'."
        )
    for name in fields if options.key_prefix else ():
        if not name.startswith(options.key_prefix) or name == options.key_prefix:
            raise InvalidRequest(
                f"Key field {name!r} does not start with 'key.fields-prefix' = {options.key_prefix!r}."
            )
    if options.verify_integrity and (options.except_key or options.key_format is None):
        raise InvalidRequest(
            "'fields.verify-integrity' compares fields of the key with those of the value: it needs 'key.format', and "
            "'value.fields-include' = 'ALL'."
        )


def _check_formats(table: KafkaTable, options: KafkaOptions, value: MessageFormat, key: MessageFormat | None) -> None:
    if key is not None and not key.is_insert_only:
        raise InvalidRequest(
            f"'key.format' = {key.name!r} tells changes, which a key has none of. Use 'json', for example."
        )
    if options.is_upsert and not value.is_insert_only:
        raise InvalidRequest(
            f"'upsert-kafka' connector doesn't support {value.name!r} as value format, because {value.name!r} is not in "
            "insert-only mode."
        )
    if table.primary_key and not options.is_upsert and value.is_insert_only:
        raise InvalidRequest(
            f"{table.identifier} has a PRIMARY KEY, and 'kafka' with {value.name!r} inserts rows only, so that nothing keeps it. "
            "Use 'upsert-kafka', or leave the key out."
        )


def _metadata_key(
    table: KafkaTable, column: KafkaColumn, value: MessageFormat, key: MessageFormat | None
) -> MetadataKey:
    metadata_key = resolve_key(column.metadata or "", value, key)
    where = f"metadata key {column.metadata!r} in column {column.name!r} of table {table.identifier}"
    if metadata_key is None:
        raise InvalidRequest(f"Invalid {where}. Keys that can be read: {', '.join(readable_keys(value, key))}.")
    if not can_cast(metadata_key.type, column.type):
        raise InvalidRequest(
            f"Invalid data type of {where}: {column.type} cannot be made from {metadata_key.type}, the type of the metadata."
        )
    if not column.is_virtual and not can_cast(column.type, metadata_key.type):
        raise InvalidRequest(
            f"Invalid data type of {where}: {column.type} cannot be written as {metadata_key.type}, the type of the metadata."
        )
    if metadata_key.type.nullable and not column.type.nullable:
        raise InvalidRequest(
            f"Column {column.name!r} is NOT NULL, and {column.metadata!r} may be null. Leave NOT NULL out."
        )
    return metadata_key
