"""Which records a query reads: for each partition the offset to begin with, and the one to end before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidRequest, NotFound
from .client import ANSWER_SECONDS, consumer, kafka, topic_ids
from .options import KafkaOptions


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Records of a partition from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int


# Topic and partition.
Offsets = dict[tuple[str, int], int]
# What helps whoever begins, and whoever goes on from a position that is lost.
_BEGIN_ELSEWHERE = "Begin later, or with 'earliest-offset'."
BEGIN_ANEW = "Begin anew, under another name."


def bounded_ranges(options: KafkaOptions, name: str) -> list[OffsetRange]:
    """What a batch query reads. Raises InvalidRequest for a table without an end, and for offsets that are gone."""
    if options.bounded[0] == "unbounded":
        raise InvalidRequest(
            f"{name} has no end: a query needs 'scan.bounded.mode' = 'latest-offset', 'timestamp' or 'specific-offsets', in the "
            "table or in OPTIONS(…)."
        )
    with consumer(options.client, options.isolation) as client:
        ranges = []
        for (topic, partition), (low, high) in _bounds(client, options.topics).items():
            bounds = (low, high)
            end = min(high, _place(client, options, "bounded", topic, partition, bounds))
            start = _place(client, options, "startup", topic, partition, bounds)
            _refuse_gone(name, topic, partition, start, bounds)
            ranges.append(OffsetRange(topic, partition, min(start, max(end, low)), max(end, low)))
        return sorted(ranges)


def first_offsets(options: KafkaOptions, name: str) -> Offsets:
    """Where a read begins that goes on. Raises InvalidRequest for offsets that are gone, NotFound without the topic."""
    starts: Offsets = {}
    with consumer(options.client, options.isolation) as client:
        for (topic, partition), bounds in _bounds(client, options.topics).items():
            starts[topic, partition] = _place(client, options, "startup", topic, partition, bounds)
            _refuse_gone(name, topic, partition, starts[topic, partition], bounds)
    return starts


def bound_offsets(options: KafkaOptions) -> Offsets | None:
    """Where a read that goes on is to end; None if it has no end. Offsets may be yet to come."""
    if options.bounded[0] == "unbounded":
        return None
    with consumer(options.client, options.isolation) as client:
        return {
            (topic, partition): _place(client, options, "bounded", topic, partition, bounds)
            for (topic, partition), bounds in _bounds(client, options.topics).items()
        }


def ranges_after(options: KafkaOptions, name: str, position: Offsets, *, advice: str = BEGIN_ANEW) -> list[OffsetRange]:
    """What has come since a position, up to the bound if there is one; a partition that is new, from its first record on. Raises
    InvalidRequest for what is gone, with an `advice`.
    """
    ends, bound = end_offsets(options), bound_offsets(options)
    if bound is not None:
        ends = {place: min(end, bound[place]) for place, end in ends.items()}
    begun = {place: position.get(place, 0) for place in ends}
    ranges = sorted(OffsetRange(*place, start, max(start, ends[place])) for place, start in begun.items())
    refuse_gone(options, name, ranges, advice=advice)
    return ranges


def end_offsets(options: KafkaOptions) -> Offsets:
    """Behind the last record of each partition that can be read now: of a transaction that is open none can."""
    with consumer(options.client, options.isolation) as client:
        return {place: high for place, (_, high) in _bounds(client, options.topics).items()}


def refuse_gone(options: KafkaOptions, name: str, ranges: Iterable[OffsetRange], *, advice: str = BEGIN_ANEW) -> None:
    """Raise InvalidRequest for records that retention has deleted, or that never were: whoever goes on there gets an `advice`."""
    with consumer(options.client, options.isolation) as client:
        bounds = _bounds(client, options.topics)
        for each in ranges:
            place = each.topic, each.partition
            if place not in bounds:
                raise NotFound(
                    f"Topic {each.topic!r} has no partition {each.partition} any more: it was made again. {advice}"
                )
            _refuse_gone(name, *place, each.start, bounds[place], advice)
            _refuse_gone(name, *place, max(each.end, each.start), (0, bounds[place][1]), advice)


def refuse_other_topics(
    options: KafkaOptions, name: str, known: Mapping[str, str], *, advice: str = BEGIN_ANEW
) -> dict[str, str]:
    """The ids of the topics of now. Raises InvalidRequest, with an `advice`, if one of those that are `known`, by name, is
    another one by now, or is none of the table's.
    """
    ids = topic_ids(options.client, options.topics)
    for topic, topic_id in known.items():
        if topic not in ids:
            raise InvalidRequest(
                f"{name} reads {', '.join(ids)} by now, and what goes on here has read {topic!r}. {advice}"
            )
        if ids[topic] != topic_id:
            raise InvalidRequest(
                f"Topic {topic!r} of {name} was deleted and made again since it was read: its offsets count other records now, "
                f"and nothing is read. {advice}"
            )
    return ids


def _bounds(client: Any, topics: Iterable[str]) -> dict[tuple[str, int], tuple[int, int]]:
    return {
        (topic, partition): client.get_watermark_offsets(
            kafka().TopicPartition(topic, partition), timeout=ANSWER_SECONDS
        )
        for topic in topics
        for partition in _partitions(client, topic)
    }


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


def _refuse_gone(name: str, topic: str, partition: int, start: int, bounds: tuple[int, int], advice: str = "") -> None:
    low, high = bounds
    if start < low:
        raise InvalidRequest(
            f"{name} is to be read from offset {start} of partition {partition} of {topic!r}, and what is before {low} is gone "
            f"(retention). {advice or _BEGIN_ELSEWHERE}"
        )
    if start > high:
        raise InvalidRequest(
            f"{name} is to be read from offset {start} of partition {partition} of {topic!r}, which ends at {high}. Was the "
            f"topic deleted and made again? {advice}".rstrip()
        )
