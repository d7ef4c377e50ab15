"""What Kafka's client raises as SystemError is told in words, whatever call it comes from."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from storage.errors import StorageError, StoreUnavailable
from storage.kafka.client import kafka_errors
from storage.log.log_store import SENT, Fenced, Position, Topic

confluent_kafka = pytest.importorskip("confluent_kafka")
KafkaError, KafkaException = confluent_kafka.KafkaError, confluent_kafka.KafkaException
TOPIC = Topic("t", "id", 1)
SERVERS = {"bootstrap.servers": "127.0.0.1:1"}


def without_cause() -> None:
    raise SystemError("<method 'flush' of 'cimpl.Producer' objects> returned NULL without setting an exception")


def behind_two(code: int) -> Callable[[], None]:
    """Raises what a callback was called with, two errors of Python deep."""

    def act() -> None:
        try:
            try:
                raise KafkaException(KafkaError(code, "no more"))
            except KafkaException as error:
                raise SystemError("<function _watch> returned a result with an exception set") from error
        except SystemError as error:
            raise SystemError("<method 'flush'> returned a result with an exception set") from error

    return act


class BreakingProducer:
    """A producer of which one call raises."""

    def __init__(self, call: str, act: Callable[[], None]) -> None:
        self._call, self._act = call, act

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any, **__: Any) -> int:
            if name == self._call:
                self._act()
            return 0

        return call


def publish(call: str, act: Callable[[], None]) -> None:
    from storage.log.kafka_log import KafkaLog

    log = KafkaLog(SERVERS, new_producer=lambda _: BreakingProducer(call, act))
    sent = pa.table([pa.array([0], pa.int32()), [b"k"], [b"v"], ["+I"]], schema=SENT)
    with log.publisher(TOPIC) as publisher:
        publisher.go_on_from(Position(1, "one", (0,)))
        publisher.publish(2, "two", [sent])


@pytest.mark.parametrize("call", ["init_transactions", "begin_transaction", "produce", "flush", "commit_transaction"])
def test_a_publisher_says_what_happened(call: str) -> None:
    with pytest.raises(
        StoreUnavailable, match=r"cannot publish to topic 't': its client broke off .* a broker stops"
    ) as raised:
        publish(call, without_cause)
    assert "cimpl" not in str(raised.value)
    with pytest.raises(StoreUnavailable, match="cannot publish to topic 't': no more"):
        publish(call, behind_two(KafkaError._TRANSPORT))
    with pytest.raises(Fenced):
        publish(call, behind_two(KafkaError._FENCED))


def test_what_cannot_be_aborted_is_left_to_others() -> None:
    def refuse() -> None:
        raise SystemError("<built-in method abort_transaction> returned NULL without setting an exception")

    from storage.log.kafka_log import KafkaLog

    log = KafkaLog(SERVERS, new_producer=lambda _: BreakingProducer("abort_transaction", refuse))

    def breaks_off() -> Any:
        raise StorageError("a file is not there")
        yield

    with pytest.raises(StorageError, match="a file is not there"), log.publisher(TOPIC) as publisher:
        publisher.go_on_from(Position(1, "one", (0,)))
        publisher.publish(2, "two", breaks_off())


def test_clients_of_kafka_tables_say_what_happened() -> None:
    with pytest.raises(StoreUnavailable, match=r"Kafka at 127\.0\.0\.1:1: its client broke off"), kafka_errors(SERVERS):
        without_cause()
    with pytest.raises(StoreUnavailable, match="Another writer"), kafka_errors(SERVERS):
        behind_two(KafkaError._FENCED)()
