"""Who appends to a topic of Kafka: one transaction for each snapshot.

A commit is acknowledged by Kafka before its end is written into the partitions. If all brokers die in this moment, the end may
never be written: then neither the records nor the position are decided until the next transaction of the same id ends them.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ..errors import CorruptData, InvalidRequest, StoreUnavailable
from .log_store import LogStore, Position, Topic, Undecided

SNAPSHOT_HEADER, KIND_HEADER, RESET_HEADER = "snapline.snapshot", "snapline.kind", "snapline.reset"
# Of a record that says: those before it in its partition that are of later snapshots than its own do not count.
VOID_HEADER = "snapline.void"
# So long it is waited for records of a transaction that is to be aborted.
_UNTIL_ADDED_SECONDS = 2.0
_log = logging.getLogger(__name__)
_Headers = list[tuple[str, str | bytes | None]]


class KafkaPublisher:
    """One publisher, from `init_transactions` on."""

    def __init__(
        self,
        log: LogStore,
        topic: Topic,
        producer: Producer,
        consumer: Consumer,
        patience: float,
        errors_named: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._log = log
        self._topic = topic
        self._producer = producer
        self._consumer = consumer
        self._patience = patience
        self._told = errors_named
        self._is_open = False
        self._ends: list[int] | None = None
        self._failed: KafkaError | None = None

    def position(self) -> Position | None:
        # Only now: what an earlier publisher was committing is decided, or will never be by itself.
        try:
            with self._told():
                committed_position = position_of(self._topic, self._consumer, self._patience)
        except StoreUnavailable:
            # The same without waiting for what is being committed: who does not answer this either is not there.
            return self._end_undecided(self._log.position(self._topic))
        if committed_position is not None and not self._are_readable(committed_position.ends):
            return self._end_undecided(committed_position)
        self._ends = list(committed_position.ends) if committed_position else [0] * self._topic.partitions
        return committed_position

    def _end_undecided(self, decided: Position | None) -> Position:
        """Commit a transaction by which Kafka ends what hangs; a record in each partition says that what hung does not count,
        unless the position that was decided has it.
        """
        self._ends = list(self._log.end_offsets(self._topic, committed=False))
        if decided is None:
            if self._log.end_offsets(self._topic, committed=True) != self._log.first_offsets(self._topic):
                raise Undecided(f"Topic {self._topic.name!r} has a transaction that hangs, and its position is lost.")
            decided = Position(0, "", ())
        headers: _Headers = [(SNAPSHOT_HEADER, str(decided.snapshot_id).encode()), (VOID_HEADER, b"")]

        def produce(ends: list[int]) -> None:
            for partition in range(self._topic.partitions):
                self._produce(partition, None, None, headers, self._watching(ends))

        _log.warning(
            "Topic %s has a transaction that hangs, since all brokers died in the moment of its end: it is ended.",
            self._topic.name,
        )
        return self._transaction(decided.snapshot_id, decided.identity, produce)

    def _are_readable(self, ends: Sequence[int]) -> bool:
        """Whether readers get all records up to some offsets, or do in a while."""
        deadline = time.monotonic() + self._patience
        while True:
            readable = self._log.end_offsets(self._topic, committed=True)
            if all(reached >= end for reached, end in zip(readable, ends, strict=True)):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)

    def go_on_from(self, position: Position) -> None:
        self._ends = list(position.ends)

    def publish(self, snapshot_id: int, identity: str, records: Iterable[pa.Table]) -> Position:
        number = str(snapshot_id).encode()

        def produce(ends: list[int]) -> None:
            for table in records:
                last = {partition: place for place, partition in enumerate(table["partition"].to_pylist())}
                places = set(last.values())
                columns = (table[name].to_pylist() for name in ("partition", "key", "value", "kind"))
                for place, (partition, key, value, kind) in enumerate(zip(*columns, strict=True)):
                    headers: _Headers = [(SNAPSHOT_HEADER, number), (KIND_HEADER, kind.encode())]
                    self._produce(partition, key, value, headers, self._watching(ends) if place in places else None)

        return self._transaction(snapshot_id, identity, produce)

    def reset(self, snapshot_id: int, identity: str) -> Position:
        headers: _Headers = [(SNAPSHOT_HEADER, str(snapshot_id).encode()), (RESET_HEADER, identity.encode())]

        def produce(ends: list[int]) -> None:
            for partition in range(self._topic.partitions):
                self._produce(partition, None, None, headers, self._watching(ends))

        return self._transaction(snapshot_id, identity, produce)

    def _transaction(self, snapshot_id: int, identity: str, produce: Callable[[list[int]], None]) -> Position:
        try:
            with self._told():
                return self._committed(snapshot_id, identity, produce)
        except BaseException:
            # Whatever `produce` raised, nothing of it is ever read.
            self.close()
            raise

    def _committed(self, snapshot_id: int, identity: str, produce: Callable[[list[int]], None]) -> Position:
        if self._ends is None:
            self.position()
        ends = list(self._ends or ())
        self._failed = None
        self._producer.begin_transaction()
        self._is_open = True
        produce(ends)
        deadline = time.monotonic() + 6 * self._patience
        while self._producer.flush(0.5):
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"Kafka takes no records of topic {self._topic.name!r}.")
        if self._failed is not None:
            raise KafkaException(self._failed)
        group = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(
            _positions(self._topic, Position(snapshot_id, identity, tuple(ends))), group, self._patience
        )
        self._producer.commit_transaction(self._patience)
        self._is_open, self._ends = False, ends
        return Position(snapshot_id, identity, tuple(ends))

    def _produce(
        self,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: _Headers,
        on_delivery: Callable[[KafkaError | None, Message], None] | None,
    ) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic.name, value, key, partition, on_delivery=on_delivery or self._watch, headers=headers
                )
                return
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                    raise InvalidRequest(
                        f"A row of {len(value or b'')} bytes is too large for topic {self._topic.name!r}, key {key!r}: raise "
                        "'kafka.message.max.bytes' of the table, and 'max.message.bytes' of the topic."
                    ) from None
                raise

    def _watch(self, error: KafkaError | None, _: Message) -> None:
        self._failed = self._failed or error

    def _watching(self, ends: list[int]) -> Callable[[KafkaError | None, Message], None]:
        """Notes the offset behind a record."""

        def note_offset(error: KafkaError | None, message: Message) -> None:
            self._watch(error, message)
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                ends[partition] = max(ends[partition], offset + 1)

        return note_offset

    def close(self) -> None:
        """End what is under way. Whoever cannot leaves it to the next publisher."""
        if self._is_open:
            self._is_open = False
            try:
                # A transaction that is aborted while its partitions are being added may leave the client and the broker in
                # different states (librdkafka #4849): the records go first, and are never read.
                self._producer.flush(_UNTIL_ADDED_SECONDS)
                self._producer.abort_transaction(self._patience)
            except (KafkaException, SystemError) as error:
                _log.debug("the transaction of %s is left to others: %s", self._topic.name, error)


def group_of(topic: Topic) -> str:
    """The consumer group that keeps the position of a topic."""
    return f"snapline.{topic.name}"


def _positions(topic: Topic, position: Position) -> list[TopicPartition]:
    """A position as offsets of a group."""
    return [
        TopicPartition(
            topic.name,
            number,
            position.snapshot_id,
            metadata=json.dumps({"uuid": position.identity, "end": position.ends[number], "topic": topic.id}),
        )
        for number in range(topic.partitions)
    ]


_NOT_YET = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def position_of(topic: Topic, consumer: Consumer, patience: float) -> Position | None:
    """The position that a consumer group keeps of a topic; None if it keeps none, or one of an earlier topic of the name."""
    asked = [TopicPartition(topic.name, number) for number in range(topic.partitions)]
    deadline = time.monotonic() + patience
    while True:
        try:
            committed = consumer.committed(asked, timeout=patience)
            break
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.GROUP_ID_NOT_FOUND:
                return None
            # A broker that has just started, or taken over, is looking for who keeps the group.
            if code not in _NOT_YET or time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    if any(each.offset < 0 or not each.metadata for each in committed):
        return None
    try:
        said = [json.loads(each.metadata or "") for each in committed]
        if any(each["topic"] != topic.id for each in said):
            # Of a topic of the same name, which was deleted.
            return None
        ends = tuple(int(each["end"]) for each in said)
        identities = {(each.offset, value["uuid"]) for each, value in zip(committed, said, strict=True)}
        ((snapshot_id, identity),) = identities
    except (ValueError, LookupError, TypeError) as error:
        raise CorruptData(
            f"The offsets of group {group_of(topic)!r} are no position of a log ({error}): delete the group, or let "
            "`log rebuild` begin anew."
        ) from None
    return Position(snapshot_id, identity, ends)
