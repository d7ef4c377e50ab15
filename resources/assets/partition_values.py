"""Which value of a column a key of a Dagster partition means, and which key a value: known once the column's type is."""

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg

from storage import DataType, InvalidRequest, Table


@dataclass(frozen=True)
class PartitionKey:
    """A key of a partitions definition, or of one of its dimensions. `instance` knows the keys of dynamic ones."""

    text: str
    definition: dg.PartitionsDefinition[Any]
    instance: dg.DagsterInstance | None = None

    def literal(self, column: str, data_type: DataType) -> str:
        """The value of a column as users write it. Of a time window over timestamps it is the start in the definition's time
        zone: the moment of it for TIMESTAMP_LTZ, the local time for others; else the key.

        Raises InvalidRequest for the two windows that begin at one local time.
        """
        window = self.definition
        if not data_type.is_timestamp or not isinstance(window, dg.TimeWindowPartitionsDefinition):
            return self.text
        try:
            start = window.time_window_for_partition_key(self.text).start
        except ValueError:
            return self.text
        if data_type.root == "TIMESTAMP":
            twin = _twin_of(window, start)
            if twin is not None:
                raise InvalidRequest(
                    f"Partitions {self.text!r} and {twin!r} begin at one local time of {window.timezone}, and column {column!r} "
                    f"is {data_type}, which has no time zone: they would be one partition of the table. Let the column hold "
                    "TIMESTAMP_LTZ, which are moments."
                )
            return str(start.replace(tzinfo=None))
        return str(start.astimezone(dt.UTC).replace(tzinfo=None))


def values_in(table: Table, partitions: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Partitions, by Dagster key, with values of the table's columns in place of keys.

    Raises InvalidRequest for keys that mean the same partition, of those that are given and of all that the definition has.
    """
    columns = {field.name: field.type for field in table.schema.fields_named(table.schema.partition_keys)}
    placed = {}
    for key, values in partitions.items():
        placed[key] = {
            column: value.literal(column, columns[column])
            if isinstance(value, PartitionKey) and column in columns
            else value
            for column, value in values.items()
        }
    for column in {column for values in partitions.values() for column in values if column in columns}:
        given = [values[column] for values in partitions.values() if column in values]
        _refuse_rivals(table, column, [each for each in given if isinstance(each, PartitionKey)])
    return placed


def key_of_values(
    definition: dg.PartitionsDefinition[Any],
    column: str | Mapping[str, str],
    partition: Mapping[str, object],
    table: Table,
) -> str:
    """Dagster's key of a partition of the table, given by column as users write values."""
    if not isinstance(column, Mapping):
        return _key_of_value(definition, partition[column], table.schema.field(column).type)
    assert isinstance(definition, dg.MultiPartitionsDefinition)
    names = sorted(column)
    return "|".join(
        _key_of_value(
            definition.get_partitions_def_for_dimension(name),
            partition[column[name]],
            table.schema.field(column[name]).type,
        )
        for name in names
    )


def _key_of_value(definition: dg.PartitionsDefinition[Any], value: object, data_type: DataType) -> str:
    if not data_type.is_timestamp or not isinstance(definition, dg.TimeWindowPartitionsDefinition):
        return str(value)
    try:
        start = dt.datetime.fromisoformat(str(value))
        zone = ZoneInfo(definition.timezone) if data_type.root == "TIMESTAMP" else dt.UTC
        return _window_at(definition, start.replace(tzinfo=zone)) or str(value)
    except (ValueError, OverflowError):
        # A time that no window begins at, or that Python has none of.
        return str(value)


def _window_at(definition: dg.TimeWindowPartitionsDefinition, start: dt.datetime) -> str | None:
    """The key of the window that begins at a moment, if there is one."""
    key = definition.get_partition_key_for_timestamp(start.timestamp())
    window = definition.time_window_for_partition_key(key)
    return key if window.start.timestamp() == start.timestamp() else None


def _twin_of(definition: dg.TimeWindowPartitionsDefinition, start: dt.datetime) -> str | None:
    """The key of the other window that begins at the same local time, which clocks that are set back show twice."""
    zone = ZoneInfo(definition.timezone)
    both = [start.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    others = [each for each in both if each.timestamp() != start.timestamp()]
    local = start.replace(tzinfo=None)
    # A time that clocks leave out is none of either.
    shown = [each for each in others if each.astimezone(dt.UTC).astimezone(zone).replace(tzinfo=None) == local]
    return _window_at(definition, shown[0]) if shown else None


def _refuse_rivals(table: Table, column: str, given: list[PartitionKey]) -> None:
    """Raise InvalidRequest if keys, of those of a run and all others of their definition, are one value of a column."""
    data_type = table.schema.field(column).type
    if data_type.is_text or not given or isinstance(given[0].definition, dg.TimeWindowPartitionsDefinition):
        return
    definition, instance = given[0].definition, given[0].instance
    known = {each.text for each in given}
    if instance is not None or isinstance(definition, dg.StaticPartitionsDefinition):
        known.update(definition.get_partition_keys(dynamic_partitions_store=instance))
    keys: dict[Any, list[str]] = defaultdict(list)
    for text in sorted(known):
        try:
            keys[table.partition_values({column: text})[column]].append(text)
        except InvalidRequest:
            # Told when it is run.
            continue
    rivals = {text: texts for texts in keys.values() if len(texts) > 1 for text in texts}
    for each in given:
        same = rivals.get(each.text)
        if same is not None:
            shown = " and ".join(repr(text) for text in same)
            raise InvalidRequest(
                f"Partitions {shown} are one value of column {column!r}, which is {data_type}: each would replace the rows of "
                "the other. Keep one of the keys."
            )


def keys_of(
    definition: dg.PartitionsDefinition[Any],
    column: str | Mapping[str, str],
    key: str,
    instance: dg.DagsterInstance | None,
) -> dict[str, PartitionKey]:
    """The keys of a partition by column; several dimensions have several."""
    if isinstance(column, Mapping):
        assert isinstance(definition, dg.MultiPartitionsDefinition)
        # Read by the definition: a key that was stored is plain text, its dimensions in the order of their names.
        texts = zip(sorted(column), str(key).split("|"), strict=True)
        return {
            column[dimension]: PartitionKey(text, definition.get_partitions_def_for_dimension(dimension), instance)
            for dimension, text in texts
        }
    return {column: PartitionKey(str(key), definition, instance)}
