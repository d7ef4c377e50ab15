"""`canal-json` and `maxwell-json`: changes as rows after them, with the values that were others before.

A message of Canal holds several rows, and all values as texts; one of Maxwell holds a row. What is written tells updates as
deletes and inserts, since their two halves are separate rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import STRING, DataField, DataType, parse_type
from .change_rows import changes_in_order, kinds_of, of_any
from .json_codec import Fault, JsonCodec, check_json_fields
from .json_format import VALUE_OPTIONS, as_messages, in_order, style_of, without, worded
from .message_format import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Decoded,
    FormatOption,
    Malformed,
    check_metadata,
    read_options,
    texts_of,
)
from .old_values import rows_before

_MOMENT = parse_type("TIMESTAMP_LTZ(3)")
_NAMES = DataType("ARRAY", element=STRING)
_OPTIONS = {**VALUE_OPTIONS, "database.include": FormatOption(""), "table.include": FormatOption("")}


@dataclass(frozen=True)
class CanalJson:
    """Changes in Canal's JSON."""

    fields: tuple[DataField, ...]
    options: Mapping[str, str]
    codec: JsonCodec
    name: ClassVar[str] = "canal-json"
    is_insert_only: ClassVar[bool] = False
    reads_by_name: ClassVar[bool] = True
    readable_metadata: ClassVar[Mapping[str, DataType]] = {
        "database": STRING,
        "table": STRING,
        "sql-type": DataType("MAP", key=STRING.not_null(), element=parse_type("INT")),
        "pk-names": _NAMES,
        "ingestion-timestamp": _MOMENT,
        "event-timestamp": _MOMENT,
    }
    # The field of the message for each key.
    names: ClassVar[Mapping[str, str]] = {
        "database": "database",
        "table": "table",
        "sql-type": "sqlType",
        "pk-names": "pkNames",
        "ingestion-timestamp": "ts",
        "event-timestamp": "es",
    }
    types: ClassVar[tuple[str, str, str]] = ("INSERT", "UPDATE", "DELETE")
    ignored: ClassVar[tuple[str, ...]] = ("CREATE",)
    _values: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        check_json_fields(self.fields, f"Format {self.name!r}")
        object.__setattr__(self, "_values", read_options(self.name, _OPTIONS, self.options))

    def encode(self, rows: pa.Table, kinds: pa.Array | None = None) -> pa.ChunkedArray:
        """See `MessageFormat.encode`."""
        objects = self._wrapped(self.codec.write(rows, self.fields, style_of(self._values)))
        insert, _, delete = self.types
        added = pc.binary_join_element_wise('{"data":', objects, f',"type":"{insert}"}}', "")
        if kinds is None:
            return as_messages(added)
        taken = pc.binary_join_element_wise('{"data":', objects, f',"type":"{delete}"}}', "")
        return as_messages(pc.if_else(pc.is_in(kinds, pa.array([INSERT, UPDATE_AFTER], pa.int8())), added, taken))

    def decode(self, values: pa.Array, metadata: Sequence[str] = ()) -> Decoded:
        """See `MessageFormat.decode`."""
        check_metadata(self.name, self.readable_metadata, metadata)
        lenient = self._values["ignore-parse-errors"]
        style = style_of(self._values, digits_are_booleans=True)
        texts, places, malformed = texts_of(values)
        # Times of the message are numbers; those of its rows are texts.
        envelope = self.codec.read(
            texts, self._envelope(metadata), style_of(self._values, numbers_are_times=True), lenient=True
        )
        message = envelope.rows
        kept = self._kept(message)
        faults = {each.message: each for each in envelope.faults}
        for index, reason in self._contradictions(message, kept):
            faults.setdefault(index, Fault(index, reason))
        good = without(len(texts), [*faults, *pc.indices_nonzero(pc.invert(kept)).to_pylist()])
        of, data, old = self._elements(message.take(good), good)
        read = self.codec.read(data, self.fields, style, lenient=lenient)
        rows, kinds, of_rows, broken = self._rows(message, read.rows, of, old, style, lenient)
        for each in [*read.faults, *broken]:
            index = of[each.message].as_py()
            faults.setdefault(index, Fault(index, each.reason, f"data.{each.field}" if each.field else None))
        if faults:
            stays = pc.invert(pc.is_in(of_rows, pa.array([*faults], pa.int64())))
            rows, kinds, of_rows = rows.filter(stays), kinds.filter(stays), of_rows.filter(stays)
        malformed += [
            Malformed(places[index].as_py(), worded(each.field, each.reason)) for index, each in faults.items()
        ]
        metadata_columns = {key: self._told(message, key).take(of_rows) for key in metadata}
        return Decoded(rows, kinds, places.take(of_rows), metadata_columns, in_order(malformed))

    def _wrapped(self, objects: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise("[", objects, "]", "")

    def _envelope(self, metadata: Sequence[str]) -> list[DataField]:
        keys = dict.fromkeys([*metadata, *(key for key in ("database", "table") if self._values[f"{key}.include"])])
        return [
            *self._of_rows(),
            DataField(0, "type", STRING),
            *(DataField(0, self.names[key], self._held(key)) for key in keys),
        ]

    def _of_rows(self) -> list[DataField]:
        return [DataField(0, "data", _NAMES), DataField(0, "old", _NAMES), DataField(0, "isDdl", parse_type("BOOLEAN"))]

    def _held(self, key: str) -> DataType:
        return self.readable_metadata[key]

    def _told(self, message: pa.Table, key: str) -> pa.ChunkedArray:
        return message.column(self.names[key])

    def _kept(self, message: pa.Table) -> pa.Array:
        """Which messages are about rows of the databases and tables that are included."""
        kept = pc.invert(of_any(message.column("type").combine_chunks(), self.ignored))
        if "isDdl" in message.column_names:
            kept = pc.and_(kept, pc.invert(pc.fill_null(message.column("isDdl").combine_chunks(), False)))
        for key in ("database", "table"):
            if pattern := self._values[f"{key}.include"]:
                matches = pc.match_substring_regex(message.column(self.names[key]).combine_chunks(), f"^(?:{pattern})$")
                kept = pc.and_(kept, pc.fill_null(matches, False))
        return kept

    def _contradictions(self, message: pa.Table, kept: pa.Array) -> list[tuple[int, str]]:
        kind, data, old = (message.column(name).combine_chunks() for name in ("type", "data", "old"))
        insert, update, delete = self.types
        is_unknown = pc.invert(of_any(kind, self.types))
        lacks = pc.or_(pc.is_null(data), pc.and_(of_any(kind, [update]), self._differ(data, old)))
        contradictions = []
        for index in pc.indices_nonzero(pc.and_(kept, pc.or_(is_unknown, lacks))).to_pylist():
            said = kind[index].as_py()
            known = f"{insert}, {update} and {delete} are read."
            reason = f'Unknown "type" {said!r}: {known}' if is_unknown[index].as_py() else self._reason(said)
            contradictions.append((index, reason))
        return contradictions

    def _differ(self, data: pa.Array, old: pa.Array) -> pa.Array:
        return pc.fill_null(pc.not_equal(pc.list_value_length(data), pc.list_value_length(old)), True)

    def _reason(self, said: str) -> str:
        return f'Its "type" is {said}, and "data" is null, or "old" has not as many rows.'

    def _elements(self, message: pa.Table, good: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The rows of messages one by one: their message, the row after the change, and the old values (or null)."""
        data, old = (message.column(name).combine_chunks() for name in ("data", "old"))
        of = good.take(pc.list_parent_indices(data))
        if not old.null_count:
            return of, pc.list_flatten(data), pc.list_flatten(old)
        # Where there are none, as many nulls.
        at = pc.list_parent_indices(data)
        lists = pc.if_else(pc.is_valid(old), old, data)
        return of, pc.list_flatten(data), pc.if_else(pc.is_valid(old).take(at), pc.list_flatten(lists), None)

    def _rows(
        self, message: pa.Table, rows: pa.Table, of: pa.Array, old: pa.Array, style: Any, lenient: bool
    ) -> tuple[pa.Table, pa.Array, pa.Array, list[Fault]]:
        kind = message.column("type").combine_chunks().take(of)
        insert, update, delete = self.types
        updated, taken, added = (
            pc.indices_nonzero(of_any(kind, names)).cast(pa.int64()) for names in ([update], [delete], [insert, update])
        )
        texts = pc.coalesce(old.take(updated), pa.scalar("{}"))
        before, faults = rows_before(rows.take(updated), texts, self.fields, self.codec, style, lenient=lenient)
        gone = pa.concat_tables([before, rows.take(taken)])
        at = pa.concat_arrays([updated, taken])
        order = pc.sort_indices(at)
        before_kinds = pa.concat_arrays([kinds_of(len(updated), UPDATE_BEFORE), kinds_of(len(taken), DELETE)])
        is_update = of_any(kind, [update]).take(added)
        after_kinds = pc.if_else(is_update, kinds_of(len(added), UPDATE_AFTER), kinds_of(len(added), INSERT))
        made, kinds, elements = changes_in_order(
            gone.take(order), at.take(order), before_kinds.take(order), rows.take(added), added, after_kinds
        )
        update_faults = [Fault(updated[each.message].as_py(), each.reason, each.field) for each in faults]
        return made, kinds, of.take(elements), update_faults


@dataclass(frozen=True)
class MaxwellJson(CanalJson):
    """Changes in Maxwell's JSON."""

    name: ClassVar[str] = "maxwell-json"
    readable_metadata: ClassVar[Mapping[str, DataType]] = {
        "database": STRING,
        "table": STRING,
        "primary-key-columns": _NAMES,
        "ingestion-timestamp": _MOMENT,
    }
    names: ClassVar[Mapping[str, str]] = {
        "database": "database",
        "table": "table",
        "primary-key-columns": "primary_key_columns",
        "ingestion-timestamp": "ts",
    }
    types: ClassVar[tuple[str, str, str]] = ("insert", "update", "delete")
    ignored: ClassVar[tuple[str, ...]] = ()

    def _wrapped(self, objects: pa.Array) -> pa.Array:
        return objects

    def _of_rows(self) -> list[DataField]:
        return [DataField(0, "data", STRING), DataField(0, "old", STRING)]

    def _held(self, key: str) -> DataType:
        # Maxwell counts seconds.
        return parse_type("BIGINT") if key == "ingestion-timestamp" else self.readable_metadata[key]

    def _told(self, message: pa.Table, key: str) -> pa.ChunkedArray:
        column = message.column(self.names[key])
        if key != "ingestion-timestamp":
            return column
        return pc.multiply(column, 1000).cast(pa.timestamp("ms")).cast(_MOMENT.to_arrow())

    def _differ(self, data: pa.Array, old: pa.Array) -> pa.Array:
        return pc.is_null(old)

    def _reason(self, said: str) -> str:
        return f'Its "type" is {said}, and "data" is null, or "old" of an update.'

    def _elements(self, message: pa.Table, good: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        return good, message.column("data").combine_chunks(), message.column("old").combine_chunks()
