"""What the protocol of the log rests on, tried on the broker itself."""

import time

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.broker_process import BrokerProcess


@pytest.fixture
def topic(broker: str, topic_name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic_name, 2, 1)])[topic_name].result(30)
    return topic_name


def test_a_later_producer_of_the_same_transactional_id_fences_the_earlier_one(broker: str, topic: str) -> None:
    first, second = _producer(broker, topic), _producer(broker, topic)
    first.init_transactions(30)
    first.begin_transaction()
    first.produce(topic, b"first", partition=0)
    first.flush(30)
    second.init_transactions(30)
    second.begin_transaction()
    second.produce(topic, b"second", partition=0)
    second.commit_transaction(30)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(30)
    assert fenced.value.args[0].fatal()
    assert _values(broker, topic, 1) == [b"second"]


def test_records_survive_a_broker_that_is_killed(own_broker: BrokerProcess, topic_name: str) -> None:
    admin = AdminClient({"bootstrap.servers": own_broker.address})
    admin.create_topics([NewTopic(topic_name, 1, 1)])[topic_name].result(30)
    producer = _producer(own_broker.address, topic_name)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic_name, b"kept", partition=0)
    producer.commit_transaction(30)
    # What is acknowledged and not yet visible hangs if all brokers die in this moment, until the next transaction of the id.
    assert _values(own_broker.address, topic_name, 1) == [b"kept"]
    own_broker.kill()
    own_broker.start()
    assert _values(own_broker.address, topic_name, 1) == [b"kept"]


def _producer(broker: str, topic: str) -> Producer:
    return Producer({"bootstrap.servers": broker, "transactional.id": f"snapline.{topic}"})


def _values(broker: str, topic: str, count: int) -> list[bytes | None]:
    """The first committed values of partition 0.

    A commit is acknowledged before its end is written into the partition: readers may have to wait for it.
    """
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "test", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes | None] = []
    deadline = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(100, 1.0) if message.error() is None]
    consumer.close()
    return values
