"""A real broker for all tests of a worker, and topics of their own for each test."""

import os
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.kafka.broker_process import BrokerProcess, why_missing


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`bootstrap.servers` of a broker: the one that SNAPLINE_TEST_KAFKA names, else one that is started here.

    A test that kills or pauses the broker takes `own_broker`.
    """
    if address := os.environ.get("SNAPLINE_TEST_KAFKA"):
        yield address
        return
    process = _started(tmp_path_factory)
    yield process.address
    process.kill()


@pytest.fixture
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that the test may stop, kill, pause and start again."""
    process = _started(tmp_path_factory)
    yield process
    process.kill()


@pytest.fixture
def topic_name() -> str:
    """A name that no other test uses."""
    return f"topic_{uuid.uuid4().hex}"


def _started(tmp_path_factory: pytest.TempPathFactory) -> BrokerProcess:
    if missing := why_missing():
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    process = BrokerProcess(tmp_path_factory.mktemp("kafka"))
    try:
        process.start()
    except TimeoutError:
        # Somebody else may have taken its port.
        process = BrokerProcess(tmp_path_factory.mktemp("kafka"))
        process.start()
    # The first transaction waits until the broker has made its own topics.
    Producer({"bootstrap.servers": process.address, "transactional.id": "warm-up"}).init_transactions(60)
    return process
