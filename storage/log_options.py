"""Options of a table's log: declared once, as those of `options` are; and which clients' options a table may hold.

A log is a copy of a table's changes in a system such as Kafka. Keys of the source document that begin with `log.kafka.` mean
those that begin with `kafka.`. Source: FLIP-188, "Options".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .client_properties import PROPERTIES
from .option_declaration import Options, option

NO_LOG = "none"
SYSTEM, TOPIC_ID = "log.system", "log.topic-id"
# What is decided when a table is made, and stands as long as its log.
FIXED = (
    SYSTEM,
    "kafka.topic",
    "log.system.partitions",
    "log.system.replication",
    "log.consistency",
    "log.changelog-mode",
    "log.key.format",
    "log.format",
    "log.ignore-delete",
)
# What a single reading says of itself.
AT_READ = re.compile(r"log\.scan(\..+)?")
# Properties of Kafka's clients that the log decides itself, by which it neither loses nor doubles a record.
_OURS = {"acks", "delivery.timeout.ms", "group.id", "message.timeout.ms", "session.timeout.ms"}
CLIENT_OPTIONS = frozenset(f"kafka.{name}" for name in PROPERTIES - _OURS)


@dataclass(frozen=True, kw_only=True)
class LogOptions(Options):
    """The options of a table's log."""

    system: str = option(SYSTEM, NO_LOG, "Where changes are copied to as they are committed: `none` or `kafka`.")
    servers: str | None = option(
        "kafka.bootstrap.servers", None, "The brokers, `host:port,host:port`; needed with `kafka`."
    )
    topic: str | None = option(
        "kafka.topic", None, "The topic, made with the table; fixed. Default: database, table and a name of its own."
    )
    topic_id: str | None = option(
        TOPIC_ID, None, "The id of that topic, by which it is told from a later one of its name; kept by the store."
    )
    partitions: int | None = option(
        "log.system.partitions", None, "Partitions of the topic: one for each bucket.", "whole number", least=1
    )
    replication: int = option(
        "log.system.replication", "1", "Replicas of each partition.", "whole number", least=1, most=2**15 - 1
    )
    retention_ms: int | None = option(
        "log.retention", None, "How long records stay in the topic. Default: as the broker says.", "duration", least=1
    )
    consistency: str = option(
        "log.consistency",
        "transactional",
        "`transactional`: records are visible once their snapshot is, all of a snapshot at once.",
        choices="transactional eventual",
    )
    changelog_mode: str = option(
        "log.changelog-mode",
        "auto",
        "Which changes are sent: `all`, or `upsert` (without -U; with a primary key). `auto`: `upsert` with a primary key.",
        choices="auto upsert all",
    )
    key_format: str = option("log.key.format", "json", "Format of record keys.", choices="json")
    value_format: str = option("log.format", "debezium-json", "Format of record values.", choices="debezium-json")
    ignore_delete: bool = option("log.ignore-delete", "false", "-U and -D are not sent.", "true or false")


def is_of_log(key: str) -> bool:
    """Whether an option, in any of its spellings, is one of a log."""
    return key.startswith(("log.", "kafka."))


def log_system(options: Mapping[str, str]) -> str:
    """The system that a table's log is in; `none` for a table without one."""
    return options.get(SYSTEM, NO_LOG)


def has_log(options: Mapping[str, str]) -> bool:
    """Whether a table has a log."""
    return log_system(options) != NO_LOG
