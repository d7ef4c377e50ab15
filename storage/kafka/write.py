"""Write rows into the topic of a Kafka table: keys, values, timestamps and headers."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidRequest, StoreUnavailable
from ..messages.message_format import DELETE, UPDATE_BEFORE
from .client import ANSWER_SECONDS, kafka, kafka_errors
from .metadata_casts import cast_metadata
from .options import KafkaOptions
from .table_checks import CheckedTable, check_writable

_log = logging.getLogger("snapline.kafka")
_POLL_EVERY = 10_000
_SEND_SECONDS = 120.0


def write_rows(checked: CheckedTable, batches: Iterable[pa.Table], kinds: Iterable[pa.Array] | None = None) -> int:
    """Send rows whose columns are those that the table takes (`KafkaTable.written`), in its types; says how many.

    `kinds`: int8 for each batch; by default all rows are inserted. With 'exactly-once' all rows are there, or none. Raises
    InvalidRequest for a table that cannot be written and for a row that has no message, StoreUnavailable if not all arrived.
    """
    check_writable(checked)
    of_batches = iter(kinds) if kinds is not None else None
    count = 0
    with _producer(checked.options) as producer:
        for rows in batches:
            of_rows = next(of_batches) if of_batches is not None else None
            count += _send(producer, checked, rows, of_rows)
    return count


class _Producer:
    """A producer that remembers what could not be delivered."""

    def __init__(self, client: Any, topic: str) -> None:
        self._client, self._topic = client, topic
        self._failed: Any = None

    def send(self, value: bytes | None, key: bytes | None, timestamp: int, headers: list[Any] | None) -> None:
        while True:
            try:
                self._client.produce(
                    self._topic, value, key, timestamp=timestamp, headers=headers, on_delivery=self._delivered
                )
                return
            except BufferError:
                self._client.poll(0.1)
            self.refuse_failed()

    def poll(self) -> None:
        self._client.poll(0)
        self.refuse_failed()

    def finish(self) -> None:
        """Wait until everything has arrived."""
        if left := self._client.flush(_SEND_SECONDS):
            raise StoreUnavailable(
                f"{left} records of topic {self._topic!r} were not taken within {_SEND_SECONDS:.0f} s."
            )
        self.refuse_failed()

    def refuse_failed(self) -> None:
        if self._failed is not None:
            raise kafka().KafkaException(self._failed)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None and self._failed is None:
            self._failed = error


@contextmanager
def _producer(options: KafkaOptions) -> Iterator[_Producer]:
    given: dict[str, Any] = {
        "enable.idempotence": options.guarantee != "none",
        # As the Java client, so that rows of one key are in one partition whoever writes them.
        "partitioner": "murmur2_random",
        "linger.ms": 20,
        "queue.buffering.max.messages": 500_000,
        **options.client,
        "logger": _log,
    }
    given.pop("group.id", None)
    exactly_once = options.guarantee == "exactly-once"
    if exactly_once:
        given["transactional.id"] = options.transactional_id
    with kafka_errors(options.client):
        client = kafka().Producer(given)
        producer = _Producer(client, options.topics[0])
        _refuse_missing(client, options)
        if not exactly_once:
            yield producer
            producer.finish()
            return
        client.init_transactions(ANSWER_SECONDS)
        client.begin_transaction()
        try:
            yield producer
            producer.finish()
        except BaseException:
            client.abort_transaction(ANSWER_SECONDS)
            raise
        client.commit_transaction(ANSWER_SECONDS)


def _refuse_missing(client: Any, options: KafkaOptions) -> None:
    error = client.list_topics(options.topics[0], timeout=ANSWER_SECONDS).topics[options.topics[0]].error
    if error is not None:
        raise kafka().KafkaException(error)


def _send(producer: _Producer, checked: CheckedTable, rows: pa.Table, kinds: pa.Array | None) -> int:
    values = _values(checked, rows, kinds)
    keys = _keys(checked, rows)
    timestamps, headers = _timestamps(checked, rows), _headers(checked, rows)
    for index, value in enumerate(values):
        producer.send(value, keys[index], timestamps[index], headers[index])
        if index % _POLL_EVERY == 0:
            producer.poll()
    producer.poll()
    return len(values)


def _values(checked: CheckedTable, rows: pa.Table, kinds: pa.Array | None) -> list[bytes | None]:
    picked = _physical(rows, [column.name for column in checked.value_columns])
    if not checked.options.is_upsert or kinds is None:
        messages = checked.value_format.encode(picked, kinds)
    else:
        values = checked.value_format.encode(picked).combine_chunks()
        gone = pc.is_in(kinds, pa.array([UPDATE_BEFORE, DELETE], pa.int8()))
        messages = pc.if_else(gone, pa.scalar(None, pa.binary()), values)
    encoded: list[bytes | None] = messages.to_pylist()
    return encoded


def _keys(checked: CheckedTable, rows: pa.Table) -> list[bytes | None]:
    if checked.key_format is None:
        return [None] * rows.num_rows
    prefix = checked.options.key_prefix
    picked = _physical(rows, [column.name for column in checked.key_columns])
    named = picked.rename_columns([name.removeprefix(prefix) for name in picked.column_names])
    encoded: list[bytes | None] = checked.key_format.encode(named).to_pylist()
    return encoded


def _physical(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    return rows.select(list(names)).combine_chunks()


def _metadata(checked: CheckedTable, rows: pa.Table, key: str) -> list[Any] | None:
    """The values of the column that writes a key, in the key's type; None if no column does."""
    for column in checked.table.metadata:
        if not column.is_virtual and checked.keys[column.name].key == key:
            values = rows.column(column.name).combine_chunks()
            cast = cast_metadata(values, column.type, checked.keys[column.name].type, column.name)
            python_values: list[Any] = (cast.cast(pa.int64()) if key == "timestamp" else cast).to_pylist()
            return python_values
    return None


def _timestamps(checked: CheckedTable, rows: pa.Table) -> list[int]:
    given = _metadata(checked, rows, "timestamp")
    if given is None:
        return [0] * rows.num_rows
    for value in given:
        if value is not None and value <= 0:
            raise InvalidRequest(
                f"A record's timestamp is {value} ms: the client of Kafka takes those after 1970 only."
            )
    # 0 is the producer's own clock.
    return [value or 0 for value in given]


def _headers(checked: CheckedTable, rows: pa.Table) -> list[list[Any] | None]:
    given = _metadata(checked, rows, "headers")
    if given is not None:
        return given
    listed = _metadata(checked, rows, "header-list")
    if listed is None:
        return [None] * rows.num_rows
    return [None if each is None else [(header["key"], header["value"]) for header in each] for each in listed]
