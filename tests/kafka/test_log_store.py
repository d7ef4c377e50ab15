"""Kafka does what every system of logs has to do."""

import pytest

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
