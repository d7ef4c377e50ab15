"""The log of a table as its schema says it: what goes together, and the topic that is made, altered and dropped with the table.

What always holds: the topic is made first, then the table; the table is dropped first, then the topic. Whoever dies in between
leaves a topic that no table names, and no table without its topic.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ..errors import AlreadyExists, InvalidRequest, StorageError, Unsupported
from ..identifier import MAIN_BRANCH, Identifier
from ..log_options import FIXED, NO_LOG, SYSTEM, TOPIC_ID, LogOptions, has_log, is_of_log
from ..metadata.schema import TableSchema
from ..metadata.schema_change import RenameColumn, SchemaChange
from ..metadata.table_store import TableStore
from .log_store import Topic, TopicDefinition
from .log_systems import known_systems, open_log

_log = logging.getLogger(__name__)
UPSERT, ALL = "upsert", "all"
_RETENTION = "log.retention"
# A name of a topic has 249 characters at the most, of which the table's own name at its end takes 33.
_LONGEST_PREFIX = 215


def log_options(schema: TableSchema) -> LogOptions:
    """The options of a table's log."""
    return LogOptions.read(schema.options)


def changelog_mode(schema: TableSchema) -> str:
    """Which changes are sent: `upsert` or `all`."""
    mode = log_options(schema).changelog_mode
    return (UPSERT if schema.primary_keys else ALL) if mode == "auto" else mode


def partition_count(schema: TableSchema) -> int:
    """The partitions of a table's topic: one for each bucket, and one for rows that have no bucket of a fixed number."""
    return max(1, schema.table_options.bucket)


def check_log(schema: TableSchema) -> None:
    """Raise InvalidRequest or Unsupported for a log that a table cannot have."""
    if not has_log(schema.options):
        return
    options, of_table = log_options(schema), schema.table_options
    if options.system not in known_systems():
        raise InvalidRequest(
            f"Option {SYSTEM!r} = {options.system!r} is unknown. There are: none, {', '.join(known_systems())}."
        )
    if options.changelog_mode == UPSERT and not schema.primary_keys:
        raise InvalidRequest(
            "Option 'log.changelog-mode' = 'upsert' is for tables with a primary key: leave it out, or declare one."
        )
    if of_table.bucket == -2:
        raise Unsupported(
            "Options 'log.system' and 'bucket' = -2 do not go together: postponed rows are in no bucket when they are committed."
        )
    if options.partitions not in (None, partition_count(schema)):
        raise InvalidRequest(
            f"Option 'log.system.partitions' = {options.partitions}: a topic has a partition for each bucket, "
            f"{partition_count(schema)} here. Leave it out."
        )
    if not schema.primary_keys:
        return
    tells_all = of_table.changelog_producer != "none"
    if changelog_mode(schema) == ALL and not tells_all:
        raise InvalidRequest(
            "You cannot insert incomplete data into a table that has primary key and declares all changelog mode: option "
            "'log.changelog-mode' = 'all' needs 'changelog-producer' = 'lookup', 'full-compaction' or 'input'."
        )
    merges = of_table.merge_engine in ("partial-update", "aggregation") or bool(of_table.sequence_field)
    if merges and of_table.changelog_producer not in ("lookup", "full-compaction"):
        what = "a 'sequence.field'" if of_table.sequence_field else f"'merge-engine' = {of_table.merge_engine!r}"
        raise InvalidRequest(
            f"A log of a table with {what} needs 'changelog-producer' = 'lookup' or 'full-compaction': rows as they are written "
            "are not what the table holds."
        )


def without_topic(options: Mapping[str, str]) -> dict[str, str]:
    """The options of a table for another one that is to be like it: it gets a topic of its own. Those of a log that the table
    does not have are left out.
    """
    logs = has_log(options)
    return {
        key: value
        for key, value in options.items()
        if key not in ("kafka.topic", TOPIC_ID) and (logs or key == SYSTEM or not is_of_log(key))
    }


@contextmanager
def with_topic(identifier: Identifier, first: TableSchema) -> Iterator[TableSchema]:
    """The first schema of a table, with the topic that was made for it; if the table is not made in the end, the topic goes.

    Raises AlreadyExists if there is a topic of the name that it is to have, InvalidRequest if the id of one is given.
    """
    _refuse_topic_id(first, None)
    if not has_log(first.options):
        yield first
        return
    options, count = log_options(first), partition_count(first)
    own = f"{identifier.database}_{identifier.table}"[:_LONGEST_PREFIX]
    name = options.topic or f"{re.sub(r'[^A-Za-z0-9_-]', '_', own)}_{(first.uuid or '').replace('-', '')}"
    store = open_log(first.options)
    try:
        topic = store.create_topic(TopicDefinition(name, count, options.replication, options.retention_ms))
    except AlreadyExists:
        raise AlreadyExists(
            f"Topic {name!r} of {identifier} exists already: delete the topic, or name another one by 'kafka.topic'."
        ) from None
    known = {"kafka.topic": name, TOPIC_ID: topic.id, "log.system.partitions": str(count)}
    try:
        yield replace(first, options={**first.options, **known})
    except AlreadyExists:
        # Whatever else ends it, the table may be there.
        drop_topic({**first.options, **known}, str(identifier))
        raise


def _refuse_topic_id(new: TableSchema, old: TableSchema | None) -> None:
    """Raise InvalidRequest for a definition that gives the id of a topic, other than that which the table has."""
    given = new.options.get(TOPIC_ID)
    if given is not None and (old is None or given != old.options.get(TOPIC_ID)):
        raise InvalidRequest(
            f"Option {TOPIC_ID!r} = {given!r}: the store keeps it, as the id of the topic that it makes with the table. Leave it "
            "out."
        )


def own_topic(schema: TableSchema, table: str) -> Topic:
    """The topic of a table. Raises InvalidRequest if there is none, or another one of its name by now."""
    options = log_options(schema)
    name = options.topic or ""
    topic = open_log(schema.options).find_topic(name)
    if topic is None:
        raise InvalidRequest(
            f"Topic {name!r} of {table}, id {options.topic_id}, is gone. `snapline log rebuild {table}` makes it anew."
        )
    if topic.id != options.topic_id:
        raise InvalidRequest(
            f"Topic {name!r} of {table} was deleted and made anew: its id is {topic.id}, that of the table {options.topic_id}. "
            f"If it is to be the log from now on: `snapline log rebuild {table}`, or SET ('{TOPIC_ID}' = '{topic.id}')."
        )
    if topic.partitions != partition_count(schema):
        raise InvalidRequest(
            f"Topic {name!r} of {table} has {topic.partitions} partitions, and the table {partition_count(schema)} buckets: "
            "somebody has added some. Delete the topic and let `snapline log rebuild` make it anew."
        )
    return topic


def drop_topic(options: Mapping[str, str], table: str) -> None:
    """Delete the topic of a table that was dropped, or not made. Raises nothing: what is left is logged."""
    if not has_log(options):
        return
    read = LogOptions.read(options)
    try:
        store = open_log(options)
        topic = store.find_topic(read.topic or "")
        if topic is not None and topic.id == read.topic_id:
            store.drop_topic(topic.name)
    except StorageError as error:
        _log.warning("%s: topic %r is left, which no table needs any more: %s", table, read.topic, error)


def alter_topic(store: TableStore, changed: TableSchema) -> None:
    """Let the topic follow a change of main's options, before the schema says it. Raises StoreUnavailable if it cannot,
    InvalidRequest if another topic is named than there is.
    """
    keys = (_RETENTION, TOPIC_ID, "kafka.bootstrap.servers")
    altered = {key for key in keys if store.schema.options.get(key) != changed.options.get(key)}
    if not altered or not has_log(changed.options) or store.identifier.branch != MAIN_BRANCH:
        return
    if altered - {_RETENTION}:
        own_topic(changed, str(store.identifier))
    if _RETENTION not in altered:
        return
    options = log_options(changed)
    open_log(changed.options).set_retention(options.topic or "", options.retention_ms)


def refuse_changed_log(old: TableSchema, new: TableSchema) -> None:
    """Raise InvalidRequest or Unsupported for a change by which the log would not be a copy of the table any more."""
    for key in FIXED:
        before, after = (schema.options.get(key) for schema in (old, new))
        if before != after:
            change = f"{before or 'nothing'!r} cannot become {after or 'nothing'!r}"
            raise InvalidRequest(
                f"Option {key!r} stands as long as the table: {change}. Make another table, and copy the rows."
            )
    if not has_log(new.options):
        return
    if old.table_options.bucket != new.table_options.bucket:
        refuse_rescale(old, "The table")
    if new.options.get(TOPIC_ID) is None:
        raise InvalidRequest(
            f"Option {TOPIC_ID!r} cannot be removed: it tells the topic of the log from others of its name."
        )


def refuse_rescale(schema: TableSchema, table: str) -> None:
    """Raise Unsupported if a table has a log: keys would come to other partitions, and their order be lost."""
    if has_log(schema.options):
        raise Unsupported(
            f"{table} has a log, whose partitions are its {partition_count(schema)} buckets: their number cannot change. Make "
            "another table, and copy the rows."
        )


def refuse_renamed_columns(schema: TableSchema, changes: Sequence[SchemaChange]) -> None:
    """Raise Unsupported if a column of a table with a log is to be renamed: records that are there have its old name."""
    if has_log(schema.options) and any(isinstance(change, RenameColumn) for change in changes):
        raise Unsupported(
            "A column of a table with a log cannot be renamed: the records that are there have its old name. Add a column, or "
            "make another table."
        )


def refuse_redefined(old: TableSchema, new: TableSchema) -> TableSchema:
    """The new definition of a table, which keeps its topic. Raises InvalidRequest if it says another log."""
    _refuse_topic_id(new, old)
    kept = {key: old.options[key] for key in ("kafka.topic", TOPIC_ID, "log.system.partitions") if key in old.options}
    new = replace(new, options={**kept, **new.options}) if has_log(new.options) else new
    refuse_changed_log(old, new)
    return new


def described(schema: TableSchema) -> dict[str, str]:
    """What DESCRIBE says of a table's log, by property."""
    options = log_options(schema)
    if options.system == NO_LOG:
        return {}
    return {
        "log.kafka.bootstrap.servers": options.servers or "",
        "log.kafka.topic": options.topic or "",
        "log.retention": schema.options.get(_RETENTION, "as the broker says"),
        "log.consistency": options.consistency,
        "log.changelog-mode": changelog_mode(schema),
    }
