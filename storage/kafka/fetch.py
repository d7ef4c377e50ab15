"""Records of some ranges, a batch at a time: of each record only what is asked for becomes a column."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..errors import StoreUnavailable
from .client import consumer, kafka
from .metadata_keys import CONNECTOR_KEYS
from .options import KafkaOptions
from .ranges import OffsetRange

_BATCH = 10_000
# Without a record for so long, something is wrong.
_PATIENCE_SECONDS = 60.0
_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


@dataclass(frozen=True)
class Records:
    """Records in the order of their partitions. `keys`: None where nobody needs them."""

    messages: Sequence[Any]
    keys: pa.Array | None
    values: pa.Array
    metadata: Mapping[str, pa.Array]

    def place(self, index: int) -> str:
        """Where a record stands."""
        message = self.messages[index]
        return f"partition {message.partition()} of {message.topic()!r}, offset {message.offset()}"


def fetch(
    options: KafkaOptions, ranges: Sequence[OffsetRange], *, keys: bool, metadata: Sequence[str]
) -> Iterator[Records]:
    """Read ranges. `metadata`: the keys of the connector that are wanted. Raises StoreUnavailable if records do not come."""
    left = {(each.topic, each.partition): each for each in ranges if each.start < each.end}
    if not left:
        return
    with consumer(options.client, options.isolation) as client:
        make = kafka().TopicPartition
        client.assign([make(each.topic, each.partition, each.start) for each in left.values()])
        waited_since = time.monotonic()
        while left:
            messages = []
            for message in client.consume(_BATCH, 1.0):
                if message.error() is not None:
                    raise kafka().KafkaException(message.error())
                place = left.get((message.topic(), message.partition()))
                if place is not None and message.offset() < place.end:
                    messages.append(message)
            if messages:
                waited_since = time.monotonic()
                yield _records(messages, keys, metadata)
            # Offsets have gaps, where transactions end: what counts is how far the reader has come.
            for each in client.position([make(*place) for place in left]):
                if each.offset >= left[each.topic, each.partition].end:
                    del left[each.topic, each.partition]
            if left and time.monotonic() - waited_since > _PATIENCE_SECONDS:
                stuck = min(left.values())
                raise StoreUnavailable(
                    f"No record came for {_PATIENCE_SECONDS:.0f} s: partition {stuck.partition} of {stuck.topic!r} was to be "
                    f"read up to offset {stuck.end}. Is the topic still there?"
                )


def _records(messages: Sequence[Any], keys: bool, metadata: Sequence[str]) -> Records:
    return Records(
        messages,
        pa.array([message.key() for message in messages], pa.binary()) if keys else None,
        pa.array([message.value() for message in messages], pa.binary()),
        {key: pa.array(_COLUMNS[key](messages), CONNECTOR_KEYS[key].to_arrow()) for key in metadata},
    )


def _timestamps(messages: Sequence[Any]) -> list[int]:
    return [message.timestamp()[1] for message in messages]


def _headers(messages: Sequence[Any]) -> list[list[tuple[str, bytes | None]]]:
    # Of several with one name the last counts.
    return [list(dict(message.headers() or ()).items()) for message in messages]


def _header_list(messages: Sequence[Any]) -> list[list[dict[str, Any]]]:
    return [[{"key": key, "value": value} for key, value in message.headers() or ()] for message in messages]


_COLUMNS: dict[str, Callable[[Sequence[Any]], list[Any]]] = {
    "topic": lambda messages: [message.topic() for message in messages],
    "partition": lambda messages: [message.partition() for message in messages],
    "headers": _headers,
    "header-list": _header_list,
    "leader-epoch": lambda messages: [message.leader_epoch() for message in messages],
    "offset": lambda messages: [message.offset() for message in messages],
    "timestamp": _timestamps,
    "timestamp-type": lambda messages: [_TIMESTAMP_TYPES[message.timestamp()[0]] for message in messages],
}
