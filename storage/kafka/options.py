"""The options of a Kafka table: each checked, and what they mean together. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..client_properties import PROPERTIES, check_property
from ..errors import InvalidRequest, Unsupported
from ..option_texts import parse_boolean

# Properties of the client that the connector sets itself.
_OURS = ("auto.offset.reset", "enable.auto.commit", "isolation.level", "enable.partition.eof", "transactional.id")
_CHOICES = {
    "connector": ("kafka", "upsert-kafka"),
    "value.fields-include": ("ALL", "EXCEPT_KEY"),
    "scan.startup.mode": ("group-offsets", "earliest-offset", "latest-offset", "timestamp", "specific-offsets"),
    "scan.bounded.mode": ("unbounded", "latest-offset", "timestamp", "specific-offsets"),
    "scan.isolation": ("read_committed", "read_uncommitted"),
    "sink.delivery-guarantee": ("at-least-once", "exactly-once", "none"),
}
_DEFAULTS = {
    "value.fields-include": "ALL",
    "scan.startup.mode": "group-offsets",
    "scan.bounded.mode": "unbounded",
    "scan.isolation": "read_committed",
    "sink.delivery-guarantee": "at-least-once",
}
_PLAIN = (
    *("topic", "topic-pattern", "format", "value.format", "key.format", "key.fields", "key.fields-prefix"),
    *("fields.verify-integrity", "scan.startup.timestamp-millis", "scan.startup.specific-offsets"),
    *("scan.bounded.timestamp-millis", "scan.bounded.specific-offsets", "sink.transactional-id-prefix"),
)
# What a query may say for itself, in OPTIONS(…).
READ_OPTIONS = (
    *("scan.startup.mode", "scan.startup.timestamp-millis", "scan.startup.specific-offsets", "scan.bounded.mode"),
    *("scan.bounded.timestamp-millis", "scan.bounded.specific-offsets", "scan.isolation", "properties.group.id"),
)
_IGNORES = "ignore-parse-errors"
_UNBUILT = {
    "topic-pattern": "Name the topics: 'topic' = 'a;b'.",
    "sink.partitioner": "Records go where the client puts those of their key.",
    "sink.parallelism": "One producer writes a statement's rows.",
    "sink.buffer-flush.max-rows": "Every row of a statement is sent.",
    "sink.buffer-flush.interval": "Every row of a statement is sent.",
    "scan.topic-partition-discovery.interval": "Partitions are looked up when a query begins.",
    "scan.watermark.emit.strategy": "Leave it out.",
}


@dataclass(frozen=True)
class KafkaOptions:
    """The options of a table, read."""

    connector: str
    topics: tuple[str, ...]
    client: Mapping[str, str]
    value_format: str
    value_options: Mapping[str, str]
    key_format: str | None
    key_options: Mapping[str, str]
    key_fields: tuple[str, ...]
    key_prefix: str
    except_key: bool
    verify_integrity: bool
    startup: tuple[str, Any]
    bounded: tuple[str, Any]
    isolation: str
    guarantee: str
    transactional_id: str | None

    @property
    def is_upsert(self) -> bool:
        """Whether a record replaces the row of its key."""
        return self.connector == "upsert-kafka"


def options_of_reads(given: Mapping[str, str]) -> tuple[str, ...]:
    """What a query may say for itself of a table with these options."""
    sides = {"value": given.get("value.format") or given.get("format"), "key": given.get("key.format")}
    known = [f"{side}.{name}.{_IGNORES}" for side, name in sides.items() if name not in (None, "raw")]
    return (*READ_OPTIONS, *known)


def read_options(given: Mapping[str, str]) -> KafkaOptions:
    """Read the options of a Kafka table. Raises InvalidRequest or Unsupported that names the option."""
    options = {**_DEFAULTS, **given}
    for key, choices in _CHOICES.items():
        matches = [choice for choice in choices if choice.lower() == options[key].lower()]
        if not matches:
            raise InvalidRequest(f"Option {key!r} = {options[key]!r}. Supported: {', '.join(choices)}.")
        options[key] = matches[0]
    value_format = _value_format(options)
    key_format = options.get("key.format")
    _refuse_unknown(options, value_format, key_format)
    is_upsert = options["connector"] == "upsert-kafka"
    if is_upsert and given.keys() & {"scan.startup.mode", "key.fields"}:
        wrong = next(key for key in ("scan.startup.mode", "key.fields") if key in given)
        raise InvalidRequest(
            f"'upsert-kafka' has no option {wrong!r}: it reads from the start, and its key is the PRIMARY KEY."
        )
    guarantee, prefix = options["sink.delivery-guarantee"], options.get("sink.transactional-id-prefix")
    if prefix is not None and guarantee != "exactly-once":
        raise InvalidRequest(
            "Option 'sink.transactional-id-prefix' goes with 'sink.delivery-guarantee' = 'exactly-once', and that is "
            f"{guarantee!r}."
        )
    if guarantee == "exactly-once" and not prefix:
        raise InvalidRequest("'sink.delivery-guarantee' = 'exactly-once' needs 'sink.transactional-id-prefix'.")
    return KafkaOptions(
        connector=options["connector"],
        topics=_topics(options),
        client=_client(options),
        value_format=value_format,
        value_options=_of_format(options, value_format, "value."),
        key_format=key_format,
        key_options=_of_format(options, key_format, "key.") if key_format else {},
        # FLIP-107 separates them by commas, Flink by semicolons.
        key_fields=tuple(filter(None, (name.strip() for name in re.split("[;,]", options.get("key.fields", ""))))),
        key_prefix=options.get("key.fields-prefix", ""),
        except_key=options["value.fields-include"] == "EXCEPT_KEY",
        verify_integrity=_boolean(options, "fields.verify-integrity"),
        startup=("earliest-offset", None) if is_upsert else _position(options, "scan.startup"),
        bounded=_position(options, "scan.bounded"),
        isolation=options["scan.isolation"],
        guarantee=guarantee,
        transactional_id=prefix,
    )


def _value_format(options: Mapping[str, str]) -> str:
    short, long = options.get("format"), options.get("value.format")
    if short is not None and long is not None and short != long:
        raise InvalidRequest(f"'format' = {short!r} and 'value.format' = {long!r} are one option: give one.")
    value_format = long or short
    if not value_format:
        raise InvalidRequest(
            "A table with 'connector' = 'kafka' needs a format of its values: 'format' = 'json', for example."
        )
    return value_format


def _refuse_unknown(options: Mapping[str, str], value_format: str, key_format: str | None) -> None:
    starts = (
        "properties.",
        f"{value_format}.",
        f"value.{value_format}.",
        *([f"key.{key_format}."] if key_format else []),
    )
    for key in options:
        if key in _UNBUILT:
            raise Unsupported(f"Option {key!r} is not supported here. {_UNBUILT[key]}")
        if key not in _CHOICES and key not in _PLAIN and not key.startswith(starts):
            known = ", ".join(sorted([*_CHOICES, *_PLAIN]))
            raise InvalidRequest(
                f"Option {key!r} is none of a Kafka table. Options: {known}, properties.*, and those of formats."
            )


def _of_format(options: Mapping[str, str], name: str, side: str) -> dict[str, str]:
    """The options of a format; those that name the side come before those that do not."""
    format_options: dict[str, str] = {}
    for start in (f"{name}.", f"{side}{name}."):
        if start == f"{name}." and side == "key.":
            continue
        format_options |= {key.removeprefix(start): value for key, value in options.items() if key.startswith(start)}
    return format_options


def _topics(options: Mapping[str, str]) -> tuple[str, ...]:
    topics = tuple(name.strip() for name in options.get("topic", "").split(";") if name.strip())
    if not topics:
        raise InvalidRequest("A Kafka table needs 'topic': a name, or several separated by ';'.")
    if len(set(topics)) < len(topics):
        raise InvalidRequest(f"'topic' = {options['topic']!r} names a topic twice.")
    return topics


def _client(options: Mapping[str, str]) -> dict[str, str]:
    client = {key.removeprefix("properties."): value for key, value in options.items() if key.startswith("properties.")}
    if not client.get("bootstrap.servers"):
        raise InvalidRequest(
            "A Kafka table needs 'properties.bootstrap.servers': host:port, several separated by commas."
        )
    for key in _OURS:
        if key in client:
            instead = {"isolation.level": "'scan.isolation'", "transactional.id": "'sink.transactional-id-prefix'"}
            said = instead.get(key, "'scan.startup.mode'")
            raise InvalidRequest(
                f"Option 'properties.{key}' is set by the connector. What it is for is said by {said}."
            )
    for key, value in client.items():
        if key not in PROPERTIES:
            raise Unsupported(
                f"Option 'properties.{key}' cannot be set in a table. Those that can: {', '.join(sorted(PROPERTIES))}."
            )
        check_property(f"properties.{key}", key, value)
    if client.get("acks", "all").lower() not in ("all", "-1") and options["sink.delivery-guarantee"] != "none":
        raise InvalidRequest(
            f"Option 'properties.acks' = {client['acks']!r} goes with 'sink.delivery-guarantee' = 'none': else all replicas have "
            "a record before it counts as sent."
        )
    return client


def _boolean(options: Mapping[str, str], key: str) -> bool:
    try:
        return parse_boolean(options.get(key, "false"))
    except InvalidRequest as error:
        raise InvalidRequest(f"Option {key!r}: {error}") from None


def _position(options: Mapping[str, str], start: str) -> tuple[str, Any]:
    """A mode, and the time or the offsets that go with it."""
    mode = options[f"{start}.mode"]
    extras = {"timestamp": f"{start}.timestamp-millis", "specific-offsets": f"{start}.specific-offsets"}
    for of_mode, key in extras.items():
        if key in options and of_mode != mode:
            raise InvalidRequest(f"Option {key!r} goes with '{start}.mode' = '{of_mode}', and that is {mode!r}.")
    if mode not in extras:
        return mode, None
    key = extras[mode]
    if key not in options:
        raise InvalidRequest(f"'{start}.mode' = {mode!r} needs {key!r}.")
    if mode == "specific-offsets":
        return mode, _offsets(key, options[key])
    if not _is_long(options[key]):
        raise InvalidRequest(f"Option {key!r} = {options[key]!r} is no time in milliseconds since 1970.")
    return mode, int(options[key])


def _is_long(text: str) -> bool:
    return re.fullmatch("[0-9]{1,19}", text) is not None and int(text) < 2**63


def _offsets(key: str, text: str) -> dict[int, int]:
    offsets: dict[int, int] = {}
    for part in filter(None, text.split(";")):
        pairs: Sequence[tuple[str, str, str]] = [each.strip().partition(":") for each in part.split(",")]
        values = {name: value for name, _, value in pairs if _is_long(value)}
        if set(values) != {"partition", "offset"} or len(pairs) != 2 or int(values["partition"]) in offsets:
            raise InvalidRequest(
                f"Option {key!r} = {text!r} is not of the form 'partition:0,offset:42;partition:1,offset:300'."
            )
        offsets[int(values["partition"])] = int(values["offset"])
    return offsets
