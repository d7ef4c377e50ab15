"""`json`: each message is one object, and inserts one row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataField, DataType
from ..errors import InvalidRequest
from .json_codec import JsonCodec, JsonStyle, check_json_fields
from .message_format import (
    Decoded,
    FormatOption,
    Malformed,
    check_metadata,
    inserted,
    read_options,
    refuse_other_kinds,
    texts_of,
)

_SWITCH = FormatOption("false", "true or false")
# Options of all formats that stand on JSON.
VALUE_OPTIONS = {
    "ignore-parse-errors": _SWITCH,
    "timestamp-format.standard": FormatOption("SQL", choices=("SQL", "ISO-8601")),
    "encode.ignore-null-fields": _SWITCH,
    # Numbers are written in full: Flink's default, with an exponent, is not built.
    "encode.decimal-as-plain-number": FormatOption("true", choices=("true",)),
    "zero-timestamp.behavior": FormatOption("FAIL", choices=("FAIL", "CONVERT_TO_NULL")),
    # Keys of a map in Arrow are never null.
    "map-null-key.mode": FormatOption("FAIL", choices=("FAIL", "DROP", "LITERAL")),
    "map-null-key.literal": FormatOption("null", only_with=("map-null-key.mode", "LITERAL")),
}
OPTIONS = {**VALUE_OPTIONS, "fail-on-missing-field": _SWITCH}


@dataclass(frozen=True)
class JsonFormat:
    """Rows as JSON objects."""

    fields: tuple[DataField, ...]
    options: Mapping[str, str]
    codec: JsonCodec
    name: ClassVar[str] = "json"
    is_insert_only: ClassVar[bool] = True
    reads_by_name: ClassVar[bool] = True
    readable_metadata: ClassVar[Mapping[str, DataType]] = {}
    _values: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        check_json_fields(self.fields, f"Format {self.name!r}")
        values = read_options(self.name, OPTIONS, self.options)
        if values["fail-on-missing-field"] and values["ignore-parse-errors"]:
            raise InvalidRequest(
                f"'{self.name}.fail-on-missing-field' and '{self.name}.ignore-parse-errors' are both true. Leave one out."
            )
        object.__setattr__(self, "_values", values)

    def encode(self, rows: pa.Table, kinds: pa.Array | None = None) -> pa.ChunkedArray:
        """See `MessageFormat.encode`."""
        refuse_other_kinds(self.name, kinds)
        return as_messages(self.codec.write(rows, self.fields, style_of(self._values)))

    def decode(self, values: pa.Array, metadata: Sequence[str] = ()) -> Decoded:
        """See `MessageFormat.decode`."""
        check_metadata(self.name, self.readable_metadata, metadata)
        texts, places, malformed = texts_of(values, keeps_empty=True)
        read = self.codec.read(texts, self.fields, style_of(self._values), lenient=self._values["ignore-parse-errors"])
        rows = read.rows
        if read.faults:
            malformed += [
                Malformed(places[each.message].as_py(), worded(each.field, each.reason)) for each in read.faults
            ]
            good = without(len(texts), [each.message for each in read.faults])
            rows, places = rows.take(good), places.take(good)
        return Decoded(rows, inserted(len(places)), places, {}, in_order(malformed))


def style_of(values: Mapping[str, Any], **more: Any) -> JsonStyle:
    """How values are written, by the options of a format."""
    return JsonStyle(
        timestamp_format=values["timestamp-format.standard"],
        ignore_null_fields=values["encode.ignore-null-fields"],
        zero_timestamp_is_null=values["zero-timestamp.behavior"] == "CONVERT_TO_NULL",
        fail_on_missing_field=values.get("fail-on-missing-field", False),
        **more,
    )


def as_messages(texts: pa.Array) -> pa.ChunkedArray:
    """Texts as the bytes of messages."""
    return pa.chunked_array([texts.cast(pa.binary())], pa.binary())


def worded(path: str | None, reason: str) -> str:
    """A reason that says which field it is about."""
    return reason if path is None else f"Field '{path}': {reason}"


def without(count: int, left_out: Sequence[int]) -> pa.Array:
    """The places from 0 to `count` without some of them."""
    every: pa.Array = pa.array(range(count), pa.int64())
    return every.filter(pc.invert(pc.is_in(every, pa.array(left_out, pa.int64()))))


def in_order(malformed: Sequence[Malformed]) -> tuple[Malformed, ...]:
    """Malformed messages in the order of the messages."""
    return tuple(sorted(malformed, key=lambda each: each.message))
