"""Logs in Kafka: one transaction for each snapshot, by which its records and the position become visible together.

The position lies with the offsets of the consumer group `snapline.<topic>`: for each partition the number of the snapshot, and as
metadata its identity, the offset behind the partition's records, and the id of the topic. `transactional.id` is the same name, so
that Kafka itself lets one publisher at a time through.

Loaded when a table with `log.system` = `kafka` is opened for its log, and needs the extra `kafka`.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from ..client_errors import NO_REASON, client_error
from ..errors import AlreadyExists, InvalidRequest, NotFound, StorageError, StoreUnavailable
from ..log_options import CLIENT_OPTIONS
from .kafka_publisher import (
    KIND_HEADER,
    RESET_HEADER,
    SNAPSHOT_HEADER,
    VOID_HEADER,
    KafkaPublisher,
    group_of,
    position_of,
)
from .log_store import READ, Fenced, Position, Publisher, Topic, TopicDefinition

# How long an answer is waited for: whoever commits waits no longer for a broker that is down.
PATIENCE_SECONDS = 5.0
_TRANSACTION_TIMEOUT_MS = 60_000
_AT_ONCE = 10_000
# What librdkafka says by itself while it tries again; what fails in the end is an error.
_clients_log = logging.getLogger(f"{__name__}.clients")
_clients_log.setLevel(logging.CRITICAL + 1)
_opened: dict[tuple[int, tuple[tuple[str, str], ...]], "KafkaLog"] = {}
_OTHER_LEADER = {
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
}
_FENCING = {
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_TXN_STATE,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}
# What a broker answers, or its client, to what will be no better when it is asked again.
_REFUSED = {
    KafkaError._INVALID_ARG,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_TRANSACTION_TIMEOUT,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.POLICY_VIOLATION,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def open_kafka_log(options: Mapping[str, str]) -> "KafkaLog":
    """The log of a table with these options."""
    clients = {key.removeprefix("kafka."): value for key, value in options.items() if key in CLIENT_OPTIONS}
    # Of a process of its own: what a forked one has of its parent's clients is dead.
    own = os.getpid(), tuple(sorted(clients.items()))
    if own not in _opened:
        _opened[own] = KafkaLog(clients)
    return _opened[own]


class KafkaLog:
    """The topics of a Kafka cluster. `clients`: options of its clients. `new_producer`: another one than Kafka's, for tests."""

    def __init__(
        self, clients: Mapping[str, str], *, new_producer: Callable[[dict[str, Any]], Producer] = Producer
    ) -> None:
        if not clients.get("bootstrap.servers"):
            raise InvalidRequest(
                "Option 'kafka.bootstrap.servers' is missing: name the brokers, 'host:port,host:port'."
            )
        self._servers = clients["bootstrap.servers"]
        self._clients = dict(clients)
        self._new_producer = new_producer
        self._patience = PATIENCE_SECONDS
        self._made: AdminClient | None = None

    # --- topics

    def create_topic(self, topic: TopicDefinition) -> Topic:
        config = {} if topic.retention_ms is None else {"retention.ms": str(topic.retention_ms)}
        new = NewTopic(topic.name, topic.partitions, topic.replication, config=config)
        with self._told(f"make topic {topic.name!r}"):
            self._done(self._admin.create_topics([new], request_timeout=self._patience)[topic.name])
        return self._await(topic)

    def _await(self, topic: TopicDefinition) -> Topic:
        """A topic that was made, once the broker shows it."""
        deadline = time.monotonic() + self._patience
        while True:
            existing = self.find_topic(topic.name)
            if existing is not None and existing.partitions == topic.partitions:
                return existing
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"Topic {topic.name!r} was made, and {self._servers} does not show it yet.")
            time.sleep(0.02)

    def find_topic(self, name: str) -> Topic | None:
        with self._told(f"look for topic {name!r}"):
            try:
                asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=self._patience)
                described = self._done(asked[name])
                return Topic(name, str(described.topic_id), len(described.partitions), self._retention(name))
            except KafkaException as error:
                # Also between the two questions: another one may delete it.
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise

    def _retention(self, name: str) -> int | None:
        resource = ConfigResource(ResourceType.TOPIC, name)
        entries = self._done(self._admin.describe_configs([resource], request_timeout=self._patience)[resource])
        entry = entries.get("retention.ms")
        is_own = entry is not None and entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return int(entry.value) if is_own else None

    def set_retention(self, name: str, retention_ms: int | None) -> None:
        operation = AlterConfigOpType.DELETE if retention_ms is None else AlterConfigOpType.SET
        value = "" if retention_ms is None else str(retention_ms)
        entry = ConfigEntry("retention.ms", value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        with self._told(f"alter topic {name!r}"):
            asked = self._admin.incremental_alter_configs([resource], request_timeout=self._patience)
            self._done(asked[resource])
            # Whoever looks next would see the former one; one that is still shown when patience ends is another all the same.
            deadline = time.monotonic() + self._patience
            while self._retention(name) != retention_ms and time.monotonic() < deadline:
                time.sleep(0.02)

    def drop_topic(self, name: str) -> bool:
        with self._told(f"delete topic {name!r}"):
            try:
                self._done(self._admin.delete_topics([name], request_timeout=self._patience)[name])
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return False
                raise
        self._await_gone(name)
        return True

    def _await_gone(self, name: str) -> None:
        """Wait until the broker shows a deleted topic no more: a table made anew would take it for its own.

        One that is still shown when patience ends is deleted all the same.
        """
        deadline = time.monotonic() + self._patience
        while self.find_topic(name) is not None and time.monotonic() < deadline:
            time.sleep(0.02)

    # --- where a topic stands

    def position(self, topic: Topic) -> Position | None:
        # What a publisher that has died was about to commit is not waited for: what was committed before stands until then.
        waits_for_none = self._consumer(topic, isolation="read_uncommitted")
        with self._told(f"read the position of topic {topic.name!r}"), waits_for_none as consumer:
            return position_of(topic, consumer, self._patience)

    def end_offsets(self, topic: Topic, *, committed: bool) -> tuple[int, ...]:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(topic, latest, level)

    def first_offsets(self, topic: Topic) -> tuple[int, ...]:
        earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        return self._offsets(topic, earliest, IsolationLevel.READ_UNCOMMITTED)

    def _offsets(self, topic: Topic, where: OffsetSpec, level: IsolationLevel) -> tuple[int, ...]:
        asked = {TopicPartition(topic.name, number): where for number in range(topic.partitions)}
        deadline = time.monotonic() + self._patience
        with self._told(f"read offsets of topic {topic.name!r}"):
            while True:
                try:
                    answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=self._patience)
                    offsets = {partition.partition: self._done(answer).offset for partition, answer in answers.items()}
                    return tuple(offsets[number] for number in range(topic.partitions))
                except KafkaException as error:
                    # The client learns of who leads a partition by now while it is told that it is another one.
                    if error.args[0].code() not in _OTHER_LEADER or time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)

    # --- reading

    def read(self, topic: Topic, start: Sequence[int], end: Sequence[int]) -> Iterator[pa.Table]:
        left = {number: end[number] for number in range(topic.partitions) if start[number] < end[number]}
        if not left:
            return
        first = self.first_offsets(topic)
        for number in left:
            if start[number] < first[number]:
                raise NotFound(
                    f"Records of topic {topic.name!r}, partition {number}, from offset {start[number]} on are gone: retention "
                    f"has left those from {first[number]} on."
                )
        with self._told(f"read topic {topic.name!r}"), self._consumer(topic) as consumer:
            consumer.assign([TopicPartition(topic.name, number, start[number]) for number in left])
            heard = time.monotonic()
            # Held until the end: a record may say that some of those before it do not count.
            parts: list[pa.Table] = []
            voids: list[tuple[int, int, int]] = []
            while left:
                messages = consumer.consume(_AT_ONCE, 0.1)
                for message in messages:
                    if (failure := message.error()) is not None:
                        raise KafkaException(failure)
                if messages:
                    heard = time.monotonic()
                    wanted = [each for each in messages if (each.offset() or 0) < end[each.partition() or 0]]
                    voids += [void for each in wanted if (void := _void(each)) is not None]
                    parts.append(_read_form([each for each in wanted if _void(each) is None]))
                for asked in consumer.position([TopicPartition(topic.name, number) for number in left]):
                    if asked.offset >= left[asked.partition]:
                        del left[asked.partition]
                        consumer.incremental_unassign([TopicPartition(topic.name, asked.partition)])
                if left and time.monotonic() > heard + 4 * self._patience:
                    raise StoreUnavailable(
                        f"Topic {topic.name!r} gives no records of partitions {sorted(left)} up to offset "
                        f"{[left[number] for number in sorted(left)]}: look at the brokers {self._servers}."
                    )
        yield from (part for each in parts if (part := _counting(each, voids)).num_rows)

    @contextmanager
    def _consumer(self, topic: Topic, *, isolation: str = "read_committed") -> Iterator[Consumer]:
        consumer = Consumer(
            {
                **self._clients_of(Consumer),
                "group.id": group_of(topic),
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            },
            logger=_clients_log,
        )
        try:
            yield consumer
        finally:
            consumer.close()

    # --- writing

    @contextmanager
    def publisher(self, topic: Topic) -> Iterator[Publisher]:
        settings = {
            "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
            "linger.ms": 5,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 1_000_000,
            **self._clients_of(Producer),
            "transactional.id": group_of(topic),
            "enable.idempotence": True,
            "logger": _clients_log,
        }
        errors_named = partial(self._told, f"publish to topic {topic.name!r}")
        with ExitStack() as stack:
            with errors_named():
                consumer = stack.enter_context(self._consumer(topic))
                producer = self._new_producer(settings)
                producer.init_transactions(self._patience)
            publisher = KafkaPublisher(self, topic, producer, consumer, self._patience, errors_named)
            stack.callback(publisher.close)
            yield publisher

    # --- clients

    def _clients_of(self, kind: type[Producer] | type[Consumer]) -> dict[str, Any]:
        """The options for one kind of client: what is another's would be told as an error of the configuration."""
        others = _OF_CONSUMERS if kind is Producer else _OF_PRODUCERS
        return {key: value for key, value in self._clients.items() if key not in others}

    @property
    def _admin(self) -> AdminClient:
        if self._made is None:
            admin: dict[str, Any] = {
                key: value for key, value in self._clients.items() if key not in _OF_CONSUMERS | _OF_PRODUCERS
            }
            self._made = AdminClient(admin, logger=_clients_log)
        return self._made

    def _done(self, future: Any) -> Any:
        return future.result(2 * self._patience)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Errors of the client as those that callers act on."""
        try:
            yield
        except KafkaException as error:
            raise self._as_own(error.args[0], what) from None
        except SystemError as error:
            # Of a callback that was called while the client was about to raise: what it was about to raise is the cause.
            if (cause := client_error(error, KafkaException)) is not None:
                raise self._as_own(cause.args[0], what) from error
            raise StoreUnavailable(f"Kafka at {self._servers} cannot {what}: {NO_REASON}.") from error
        except TimeoutError:
            raise StoreUnavailable(f"Kafka at {self._servers} does not answer: cannot {what}.") from None

    def _as_own(self, error: KafkaError, what: str) -> StorageError:
        said = f"Kafka at {self._servers} cannot {what}: {error.str()}."
        if error.code() in _FENCING:
            return Fenced(said)
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return AlreadyExists(said)
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return NotFound(said)
        if error.code() in _REFUSED:
            return InvalidRequest(said)
        return StoreUnavailable(said)


_OF_PRODUCERS = frozenset(
    [
        "linger.ms",
        "batch.size",
        "batch.num.messages",
        "queue.buffering.max.messages",
        "queue.buffering.max.kbytes",
        "request.timeout.ms",
        "transaction.timeout.ms",
        "compression.type",
        "compression.codec",
        "compression.level",
    ]
)
_OF_CONSUMERS = frozenset(
    ["fetch.min.bytes", "fetch.max.bytes", "fetch.message.max.bytes", "max.partition.fetch.bytes", "fetch.wait.max.ms"]
)


def _read_form(messages: Sequence[Message]) -> pa.Table:
    """Messages as records (`READ`)."""
    headers = [dict(message.headers() or ()) for message in messages]
    return pa.table(
        [
            pa.array([message.partition() for message in messages], pa.int32()),
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            pa.array([_text(each.get(KIND_HEADER)) for each in headers], pa.string()),
            pa.array([_number(each.get(SNAPSHOT_HEADER)) for each in headers], pa.int64()),
            pa.array([_text(each.get(RESET_HEADER)) for each in headers], pa.string()),
        ],
        schema=READ,
    )


def _void(message: Message) -> tuple[int, int, int] | None:
    """Partition and offset of a record that says which of those before it count, and the last snapshot of which they do."""
    headers = dict(message.headers() or ())
    if VOID_HEADER not in headers:
        return None
    return message.partition() or 0, message.offset() or 0, _number(headers.get(SNAPSHOT_HEADER)) or 0


def _counting(read: pa.Table, voids: Sequence[tuple[int, int, int]]) -> pa.Table:
    """Records but for those that do not count."""
    for partition, offset, snapshot_id in voids:
        before = pc.and_(pc.equal(read["partition"], partition), pc.less(read["offset"], offset))
        later = pc.fill_null(pc.greater(read["snapshot_id"], snapshot_id), False)
        read = read.filter(pc.invert(pc.and_(before, later)))
    return read


def _text(header: Any) -> str | None:
    return header.decode(errors="replace") if isinstance(header, bytes) else None


def _number(header: Any) -> int | None:
    return int(header) if isinstance(header, bytes) and header.isdigit() and len(header) < 19 else None
