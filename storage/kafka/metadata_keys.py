"""The metadata that records of Kafka have, and which key a metadata column means: one of the connector, or one of a format."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..data_types import BYTES, STRING, DataField, DataType, parse_type
from ..messages.message_format import MessageFormat

_HEADER = DataType("ROW", False, fields=(DataField(0, "key", STRING.not_null()), DataField(1, "value", BYTES)))
# In the order in which they are handed over.
CONNECTOR_KEYS: Mapping[str, DataType] = {
    "topic": STRING.not_null(),
    "partition": parse_type("INT NOT NULL"),
    "headers": DataType("MAP", False, key=STRING.not_null(), element=BYTES),
    "header-list": DataType("ARRAY", False, element=_HEADER),
    "leader-epoch": parse_type("INT"),
    "offset": parse_type("BIGINT NOT NULL"),
    "timestamp": parse_type("TIMESTAMP_LTZ(3) NOT NULL"),
    "timestamp-type": STRING.not_null(),
}
WRITABLE = ("headers", "header-list", "timestamp")
CONNECTOR, KEY, VALUE = "connector", "key", "value"


@dataclass(frozen=True, slots=True)
class MetadataKey:
    """Where metadata comes from (`connector`, `key` or `value`), the key there, and its type."""

    side: str
    key: str
    type: DataType

    @property
    def is_writable(self) -> bool:
        """Whether an INSERT can give it."""
        return self.side == CONNECTOR and self.key in WRITABLE


def resolve_key(key: str, value: MessageFormat, of_key: MessageFormat | None) -> MetadataKey | None:
    """What a key means; None if nothing. A format's key comes before the connector's."""
    sides = [(VALUE, value)] if of_key is None else [(KEY, of_key), (VALUE, value)]
    for side, format_ in sides:
        starts = [f"{side}.{format_.name}.", f"{side}."]
        if side == VALUE:
            starts.append(f"{format_.name}.")
        for start in starts:
            inner = key.removeprefix(start)
            if inner != key and inner in format_.readable_metadata:
                return MetadataKey(side, inner, format_.readable_metadata[inner])
    if key in CONNECTOR_KEYS:
        return MetadataKey(CONNECTOR, key, CONNECTOR_KEYS[key])
    return None


def readable_keys(value: MessageFormat, of_key: MessageFormat | None) -> list[str]:
    """All keys that can be read, as they are listed."""
    keys = [] if of_key is None else [f"key.{of_key.name}.{key}" for key in of_key.readable_metadata]
    return [*keys, *(f"{value.name}.{key}" for key in value.readable_metadata), *CONNECTOR_KEYS]
