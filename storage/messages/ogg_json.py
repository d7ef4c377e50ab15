"""`ogg-json`: changes as Oracle GoldenGate tells them: the row before, the row after, and `op_type` I, U or D."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from ..data_types import STRING, DataField, DataType, parse_type
from .debezium_json import DebeziumJson, nullable
from .json_format import VALUE_OPTIONS
from .message_format import FormatOption

_LOCAL = parse_type("TIMESTAMP(6)")
_MOMENT = parse_type("TIMESTAMP_LTZ(6)")
_NAMES = DataType("ARRAY", element=STRING)
# The field of the message, and its type there: its times have no zone, and are those of UTC.
_FIELDS = {
    "table": ("table", STRING),
    "primary-keys": ("primary_keys", _NAMES),
    "ingestion-timestamp": ("current_ts", _LOCAL),
    "event-timestamp": ("op_ts", _LOCAL),
}


@dataclass(frozen=True)
class OggJson(DebeziumJson):
    """Changes in GoldenGate's JSON."""

    name: ClassVar[str] = "ogg-json"
    readable_metadata: ClassVar[Mapping[str, DataType]] = {
        "table": STRING,
        "primary-keys": _NAMES,
        "ingestion-timestamp": _MOMENT,
        "event-timestamp": _MOMENT,
    }
    op_name: ClassVar[str] = "op_type"
    inserts: ClassVar[tuple[str, ...]] = ("I",)
    update: ClassVar[str] = "U"
    delete: ClassVar[str] = "D"
    own_options: ClassVar[Mapping[str, FormatOption]] = VALUE_OPTIONS

    def _envelope(self, metadata: Sequence[str]) -> list[DataField]:
        before = tuple(nullable(each) for each in self.fields)
        return [
            DataField(0, "before", DataType("ROW", fields=before)),
            DataField(0, "after", DataType("ROW", fields=self.fields)),
            DataField(0, self.op_name, STRING),
            *(DataField(0, *_FIELDS[key]) for key in metadata),
        ]

    def _metadata(self, whole: pa.Table, message: pa.Table, keys: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        return {key: message.column(_FIELDS[key][0]).cast(self.readable_metadata[key].to_arrow()) for key in keys}
