"""Kafka does what every system of logs has to do."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from storage import StoreUnavailable
from storage.log.kafka_log import KafkaLog
from storage.log.log_store import LogStore
from storage.log.testing import LogStoreContract


class TestKafkaLog(LogStoreContract):
    @pytest.fixture
    def log(self, broker: str) -> LogStore:
        return KafkaLog({"bootstrap.servers": broker})

    @pytest.fixture
    def name(self, topic_name: str) -> str:
        return topic_name


@pytest.mark.parametrize(
    ("cause", "said"), [(KafkaException(KafkaError(KafkaError._TRANSPORT)), "transport"), (None, "gave no reason")]
)
def test_what_stops_a_callback_is_told_as_its_cause(cause: Exception | None, said: str) -> None:
    log = KafkaLog({"bootstrap.servers": "localhost:1"})
    with pytest.raises(StoreUnavailable, match=f"cannot publish: .*{said}"), log._told("publish"):
        raise SystemError("<function> returned a result with an exception set") from cause
