"""Which records a query reads: for each partition the offset to begin with, and the one to end before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidRequest, NotFound
from .client import ANSWER_SECONDS, consumer, kafka
from .options import KafkaOptions


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Records of a partition from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int


def bounded_ranges(options: KafkaOptions, name: str) -> list[OffsetRange]:
    """What a batch query reads. Raises InvalidRequest for a table without an end, and for offsets that are gone."""
    if options.bounded[0] == "unbounded":
        raise InvalidRequest(
            f"{name} has no end: a query needs 'scan.bounded.mode' = 'latest-offset', 'timestamp' or 'specific-offsets', in the "
            "table or in OPTIONS(…)."
        )
    with consumer(options.client, options.isolation) as client:
        ranges = []
        for topic in options.topics:
            for partition in _partitions(client, topic):
                low, high = client.get_watermark_offsets(
                    kafka().TopicPartition(topic, partition), timeout=ANSWER_SECONDS
                )
                bounds = (low, high)
                end = min(high, _place(client, options, "bounded", topic, partition, bounds))
                start = _place(client, options, "startup", topic, partition, bounds)
                _refuse_gone(name, topic, partition, start, bounds)
                ranges.append(OffsetRange(topic, partition, min(start, max(end, low)), max(end, low)))
        return sorted(ranges)


def _partitions(client: Any, topic: str) -> list[int]:
    described = client.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
    if described.error is not None:
        raise NotFound(f"There is no topic {topic!r}: {described.error.str()}. Create it, or name another.")
    return sorted(described.partitions)


def _place(client: Any, options: KafkaOptions, side: str, topic: str, partition: int, bounds: tuple[int, int]) -> int:
    """The offset that a mode means in a partition. `side`: `startup` or `bounded`."""
    mode, given = options.startup if side == "startup" else options.bounded
    low, high = bounds
    if mode == "earliest-offset":
        return low
    if mode == "latest-offset":
        return high
    if mode == "timestamp":
        [answer] = client.offsets_for_times([kafka().TopicPartition(topic, partition, given)], timeout=ANSWER_SECONDS)
        return int(answer.offset) if answer.offset >= 0 else high
    if mode == "specific-offsets":
        return _specific(given, f"scan.{side}.specific-offsets", partition, options.topics)
    return _committed(client, options.client, topic, partition)


def _specific(given: Mapping[int, int], key: str, partition: int, topics: tuple[str, ...]) -> int:
    if len(topics) > 1:
        raise InvalidRequest(f"{key!r} says offsets of one topic, and the table reads {', '.join(topics)}.")
    if partition not in given:
        raise InvalidRequest(
            f"{key!r} says nothing of partition {partition} of topic {topics[0]!r}. Give it an offset."
        )
    return given[partition]


def _committed(client: Any, given: Mapping[str, str], topic: str, partition: int) -> int:
    if "group.id" not in given:
        raise InvalidRequest(
            "'scan.startup.mode' = 'group-offsets' begins where a group has come to: it needs 'properties.group.id'. Or begin "
            "with 'earliest-offset'."
        )
    [committed] = client.committed([kafka().TopicPartition(topic, partition)], timeout=ANSWER_SECONDS)
    if committed.offset < 0:
        raise InvalidRequest(
            f"Group {given['group.id']!r} has committed no offset of partition {partition} of {topic!r}, so that it is not known "
            "where to begin: 'scan.startup.mode' = 'earliest-offset', for example."
        )
    return int(committed.offset)


def _refuse_gone(name: str, topic: str, partition: int, start: int, bounds: tuple[int, int]) -> None:
    low, high = bounds
    if start < low:
        raise InvalidRequest(
            f"{name} is to be read from offset {start} of partition {partition} of {topic!r}, and what is before {low} is gone "
            "(retention). Begin later, or with 'earliest-offset'."
        )
    if start > high:
        raise InvalidRequest(
            f"{name} is to be read from offset {start} of partition {partition} of {topic!r}, which ends at {high}. Was the "
            "topic deleted and made again?"
        )
