"""A log in the memory of this process: for tests, and as the smallest example of a log system.

Offsets have gaps where a publication failed or was committed, as those of Kafka have.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from ..errors import AlreadyExists, NotFound
from .log_store import READ, SENT, Fenced, Position, Publisher, Topic, TopicDefinition


@dataclass
class _Partition:
    records: pa.Table = field(default_factory=READ.empty_table)
    first: int = 0
    end: int = 0


@dataclass
class _Held:
    topic: Topic
    partitions: list[_Partition]
    position: Position | None = None
    epoch: int = 0


class MemoryLog:
    """All topics of one log. Threads may share it."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._count = 0
        self._lock = threading.RLock()

    def create_topic(self, topic: TopicDefinition) -> Topic:
        with self._lock:
            if topic.name in self._held:
                raise AlreadyExists(f"Topic {topic.name!r} exists.")
            self._count += 1
            made = Topic(topic.name, f"{topic.name} {self._count}", topic.partitions, topic.retention_ms)
            self._held[topic.name] = _Held(made, [_Partition() for _ in range(topic.partitions)])
            return made

    def find_topic(self, name: str) -> Topic | None:
        held = self._held.get(name)
        return None if held is None else held.topic

    def set_retention(self, name: str, retention_ms: int | None) -> None:
        with self._lock:
            held = self._get(name)
            held.topic = Topic(name, held.topic.id, held.topic.partitions, retention_ms)

    def drop_topic(self, name: str) -> bool:
        return self._held.pop(name, None) is not None

    @contextmanager
    def publisher(self, topic: Topic) -> Iterator[Publisher]:
        with self._lock:
            held = self._get(topic.name)
            held.epoch += 1
            publisher = _MemoryPublisher(self, held, held.epoch)
        yield publisher

    def position(self, topic: Topic) -> Position | None:
        return self._get(topic.name).position

    def end_offsets(self, topic: Topic, *, committed: bool) -> tuple[int, ...]:
        return tuple(each.end for each in self._get(topic.name).partitions)

    def first_offsets(self, topic: Topic) -> tuple[int, ...]:
        return tuple(each.first for each in self._get(topic.name).partitions)

    def read(self, topic: Topic, start: Sequence[int], end: Sequence[int]) -> Iterator[pa.Table]:
        with self._lock:
            parts = []
            for number, partition in enumerate(self._get(topic.name).partitions):
                if start[number] < min(end[number], partition.first):
                    raise NotFound(f"Records of {topic.name!r} from offset {start[number]} on are gone.")
                offsets = partition.records["offset"].to_numpy()
                parts.append(partition.records.filter(pa.array((offsets >= start[number]) & (offsets < end[number]))))
        yield from (part for part in parts if part.num_rows)

    # --- what only tests do

    def let_go(self, topic: Topic) -> None:
        """Let retention pass all that there is."""
        for partition in self._get(topic.name).partitions:
            partition.records, partition.first = READ.empty_table(), partition.end

    def forget_position(self, topic: Topic) -> None:
        """Lose the position, as Kafka does of groups that nobody uses."""
        self._get(topic.name).position = None

    def _get(self, name: str) -> _Held:
        if name not in self._held:
            raise NotFound(f"Topic {name!r} does not exist.")
        return self._held[name]

    def append(
        self, held: _Held, epoch: int, position: Position, records: Sequence[pa.Table], before: Position | None
    ) -> Position:
        """What a publisher does at the end, in one step."""
        with self._lock:
            if held.epoch != epoch or self._held.get(held.topic.name) is not held:
                raise Fenced(f"Somebody else publishes to {held.topic.name!r} since.")
            before = before or held.position
            ends = list(before.ends) if before else [0] * len(held.partitions)
            for number, partition in enumerate(held.partitions):
                for table in records:
                    own = table.filter(pa.array(table["partition"].to_numpy() == number))
                    offsets = pa.array(range(partition.end, partition.end + own.num_rows), pa.int64())
                    own = own.set_column(READ.get_field_index("offset"), READ.field("offset"), offsets)
                    partition.records = pa.concat_tables([partition.records, own.cast(READ)])
                    partition.end += own.num_rows
                    if own.num_rows:
                        ends[number] = partition.end
                # Whoever commits leaves a mark.
                partition.end += 1
            held.position = Position(position.snapshot_id, position.identity, tuple(ends))
            return held.position

    def leave_gap(self, held: _Held, count: int) -> None:
        """Offsets that records of a failed publication have taken."""
        with self._lock:
            for partition in held.partitions:
                partition.end += count + 1


class _MemoryPublisher:
    def __init__(self, log: MemoryLog, held: _Held, epoch: int) -> None:
        self._log, self._held, self._epoch = log, held, epoch
        self._before: Position | None = None

    def position(self) -> Position | None:
        if self._held.epoch != self._epoch:
            raise Fenced(f"Somebody else publishes to {self._held.topic.name!r} since.")
        return self._held.position

    def go_on_from(self, position: Position) -> None:
        self._before = position

    def publish(self, snapshot_id: int, identity: str, records: Iterable[pa.Table]) -> Position:
        tables: list[pa.Table] = []
        try:
            tables.extend(_read_form(table, snapshot_id, None) for table in records)
        except BaseException:
            self._log.leave_gap(self._held, sum(table.num_rows for table in tables))
            raise
        return self._append(Position(snapshot_id, identity, ()), tables)

    def reset(self, snapshot_id: int, identity: str) -> Position:
        count = len(self._held.partitions)
        nulls = pa.nulls(count, pa.binary())
        sent = pa.table([pa.array(range(count), pa.int32()), nulls, nulls, pa.array([""] * count)], schema=SENT)
        return self._append(Position(snapshot_id, identity, ()), [_read_form(sent, snapshot_id, identity)])

    def _append(self, position: Position, tables: Sequence[pa.Table]) -> Position:
        appended = self._log.append(self._held, self._epoch, position, tables, self._before)
        self._before = None
        return appended


def _read_form(sent: pa.Table, snapshot_id: int, reset: str | None) -> pa.Table:
    """Records as they will be read, but for their offsets."""
    count = sent.num_rows
    return pa.table(
        [
            sent["partition"],
            pa.array([0] * count, pa.int64()),
            sent["key"],
            sent["value"],
            sent["kind"],
            pa.array([snapshot_id] * count, pa.int64()),
            pa.array([reset] * count, pa.string()),
        ],
        schema=READ,
    )
