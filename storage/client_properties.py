"""Properties of Kafka's client that a table may have, and the values that each takes.

They can only make a client slower or faster, or say where and how the brokers are found: others load code, read files or hold
secrets, which no table may ask of those who open it. Source of the ranges: librdkafka's table of properties.
"""

import re
from collections.abc import Sequence

from .errors import InvalidRequest, Unsupported

_BYTES, _ANY_INT = (1, 10**9), 2**31 - 1
_RANGES: dict[str, tuple[int, int]] = {
    "batch.size": (1, _ANY_INT),
    "batch.num.messages": (1, 10**6),
    "compression.level": (-1, 12),
    "delivery.timeout.ms": (0, _ANY_INT),
    "fetch.max.bytes": (0, _ANY_INT - 512),
    "fetch.message.max.bytes": _BYTES,
    "fetch.min.bytes": (1, 10**8),
    "fetch.wait.max.ms": (0, 300_000),
    "max.partition.fetch.bytes": _BYTES,
    "message.max.bytes": (1000, 10**9),
    "message.timeout.ms": (0, _ANY_INT),
    "metadata.max.age.ms": (1, 86_400_000),
    "queue.buffering.max.kbytes": (1, _ANY_INT),
    "queue.buffering.max.messages": (0, _ANY_INT),
    "reconnect.backoff.max.ms": (0, 3_600_000),
    "reconnect.backoff.ms": (0, 3_600_000),
    "request.timeout.ms": (1, 900_000),
    "retry.backoff.max.ms": (1, 300_000),
    "retry.backoff.ms": (1, 300_000),
    "session.timeout.ms": (1, 300_000),
    "socket.connection.setup.timeout.ms": (1000, _ANY_INT),
    "socket.timeout.ms": (10, 300_000),
    "transaction.timeout.ms": (1000, _ANY_INT),
}
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_CHOICES: dict[str, tuple[str, ...]] = {
    "acks": ("0", "1", "all", "-1"),
    "broker.address.family": ("any", "v4", "v6"),
    "compression.codec": _CODECS,
    "compression.type": _CODECS,
    "socket.keepalive.enable": ("true", "false", "t", "f", "1", "0"),
}
_LONGEST_LINGER_MS = 900_000
_TEXTS = ("bootstrap.servers", "client.id", "client.rack", "group.id", "security.protocol")
PROPERTIES = frozenset([*_RANGES, *_CHOICES, *_TEXTS, "linger.ms"])
_SERVER = re.compile(r"(?:\w+://)?(?:\[[0-9A-Fa-f:.]+\]|[^\s:,/\[\]]+)(?::(\d{1,5}))?")


def check_property(key: str, name: str, value: str) -> None:
    """Raise InvalidRequest for a value that a property does not take. `key`: the option's name, as it was given."""
    if name in _RANGES:
        least, most = _RANGES[name]
        if not re.fullmatch(r"-?[0-9]{1,10}", value) or not least <= int(value) <= most:
            raise InvalidRequest(f"Option {key!r} = {value!r} is no whole number from {least} to {most}.")
    elif name == "linger.ms":
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", value) or float(value) > _LONGEST_LINGER_MS:
            raise InvalidRequest(f"Option {key!r} = {value!r} is no number from 0 to {_LONGEST_LINGER_MS}.")
    elif name in _CHOICES:
        if value.lower() not in _CHOICES[name]:
            raise InvalidRequest(f"Option {key!r} = {value!r}. Supported: {', '.join(_CHOICES[name])}.")
    elif name == "bootstrap.servers":
        _check_servers(key, value)
    elif name == "security.protocol":
        _check_protocol(key, value)
    elif name == "group.id" and not value.strip():
        raise InvalidRequest(f"Option {key!r} is empty. Give it a value, or leave it out.")


def _check_protocol(key: str, value: str) -> None:
    """Raise Unsupported for brokers that need a password, or a client's certificate."""
    if value.upper() not in ("PLAINTEXT", "SSL"):
        raise Unsupported(
            f"Option {key!r} = {value!r}: 'PLAINTEXT' and 'SSL' are supported. A password would be seen by all who read the "
            "definition."
        )


def _check_servers(key: str, value: str) -> None:
    # The client passes over what is empty.
    servers: Sequence[str] = [part.strip() for part in value.split(",") if part.strip()]
    for server in servers or [value]:
        match = _SERVER.fullmatch(server)
        if match is None or not 1 <= int(match[1] or 9092) <= 65535:
            raise InvalidRequest(
                f"Option {key!r} = {value!r}: {server!r} is no host:port. Several are separated by commas."
            )
