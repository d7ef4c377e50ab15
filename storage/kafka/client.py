"""The one place that imports the client of Kafka, and says what its errors mean."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..client_errors import NO_REASON, client_error
from ..errors import InvalidRequest, NotFound, StoreUnavailable

_log = logging.getLogger("snapline.kafka")
# How long the broker may take to answer, in seconds.
ANSWER_SECONDS = 30.0
_OF_ADMIN = ("bootstrap.servers", "client.id", "security.protocol", "socket.timeout.ms", "broker.address.family")


def kafka() -> Any:
    """The module of the client. Raises InvalidRequest where it is not installed."""
    try:
        # Only those who use topics have it installed, and wait for it.
        import confluent_kafka
    except ImportError:
        raise InvalidRequest("Kafka tables need the extra `kafka`: install snapline[kafka].") from None
    return confluent_kafka


@contextmanager
def consumer(client: Mapping[str, str], isolation: str) -> Iterator[Any]:
    """A consumer that commits nothing and never jumps over what is gone."""
    given = {
        "group.id": "snapline",
        **client,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": isolation,
        "client.id": client.get("client.id", "snapline"),
        "logger": _log,
    }
    with kafka_errors(client):
        opened = kafka().Consumer(given)
        try:
            yield opened
        finally:
            opened.close()


def topic_ids(client: Mapping[str, str], topics: Sequence[str]) -> dict[str, str]:
    """What tells each topic from one that is made under its name later. Raises NotFound for one that is not there."""
    kafka()
    # Whoever reads a topic once does without it.
    from confluent_kafka.admin import AdminClient

    given: dict[str, Any] = {key: value for key, value in client.items() if key in _OF_ADMIN}
    with kafka_errors(client):
        given["logger"] = _log
        admin = AdminClient(given)
        asked = admin.describe_topics(kafka().TopicCollection(list(topics)), request_timeout=ANSWER_SECONDS)
        return {topic: str(answer.result(ANSWER_SECONDS).topic_id) for topic, answer in asked.items()}


@contextmanager
def kafka_errors(client: Mapping[str, str]) -> Iterator[None]:
    """Errors of the client as errors of the store. Raises NotFound, InvalidRequest or StoreUnavailable."""
    module, where = kafka(), client.get("bootstrap.servers", "")
    try:
        yield
    except module.KafkaException as error:
        raise _told(error.args[0], client) from error
    except SystemError as error:
        if (cause := client_error(error, module.KafkaException)) is not None:
            raise _told(cause.args[0], client) from error
        raise StoreUnavailable(f"Kafka at {where}: {NO_REASON}. Look at the broker, then repeat.") from error


def _told(error: Any, client: Mapping[str, str]) -> Exception:
    codes, where = kafka().KafkaError, client.get("bootstrap.servers", "")
    if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION):
        return NotFound(
            f"Kafka at {where} has no such topic or partition: {error.str()}. Create the topic, or name another."
        )
    if error.code() == codes._INVALID_ARG:
        return InvalidRequest(f"Kafka's client does not take the options: {error.str()}")
    if error.code() in (codes._FENCED, codes.INVALID_PRODUCER_EPOCH):
        return StoreUnavailable(
            f"Another writer with the same 'sink.transactional-id-prefix' has begun since: {error.str()}. Nothing of this "
            "statement is in the topic."
        )
    return StoreUnavailable(f"Kafka at {where}: {error.str()}. Look at the broker, then repeat.")
