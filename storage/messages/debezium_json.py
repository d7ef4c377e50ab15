"""`debezium-json`: changes as Debezium tells them, `{"before": …, "after": …, "op": …}`.

An update that is written is a delete and an insert, since its two halves are separate rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import STRING, DataField, DataType, parse_type
from ..errors import InvalidRequest
from .change_rows import changes_in_order, columns_of, kinds_of, of_any
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

OPTIONS = {
    **VALUE_OPTIONS,
    "schema-include": FormatOption("false", "true or false"),
    "decimal": FormatOption("number", choices=("number", "base64")),
}
_MOMENT = parse_type("TIMESTAMP_LTZ(3)")
_PROPERTIES = DataType("MAP", key=STRING.not_null(), element=STRING)
_METADATA = {
    "schema": STRING,
    "ingestion-timestamp": _MOMENT,
    "source.timestamp": _MOMENT,
    "source.database": STRING,
    "source.schema": STRING,
    "source.table": STRING,
    "source.properties": _PROPERTIES,
}
_NO_BEFORE = (
    'The "before" field of the {kind} message is null. '
    "If it comes from PostgreSQL, set REPLICA IDENTITY FULL on the table there."
)


@dataclass(frozen=True)
class DebeziumJson:
    """Changes in Debezium's JSON.

    `is_upsert`: rows before an update are not needed, so that they may be missing, and none are handed over.
    """

    fields: tuple[DataField, ...]
    options: Mapping[str, str]
    codec: JsonCodec
    is_upsert: bool = False
    name: ClassVar[str] = "debezium-json"
    is_insert_only: ClassVar[bool] = False
    reads_by_name: ClassVar[bool] = True
    readable_metadata: ClassVar[Mapping[str, DataType]] = _METADATA
    # What the envelope calls its kinds, and where.
    op_name: ClassVar[str] = "op"
    inserts: ClassVar[tuple[str, ...]] = ("c", "r")
    update: ClassVar[str] = "u"
    delete: ClassVar[str] = "d"
    own_options: ClassVar[Mapping[str, FormatOption]] = OPTIONS
    _values: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        check_json_fields(self.fields, f"Format {self.name!r}")
        object.__setattr__(self, "_values", read_options(self.name, self.own_options, self.options))

    def encode(self, rows: pa.Table, kinds: pa.Array | None = None) -> pa.ChunkedArray:
        """See `MessageFormat.encode`."""
        if self._values.get("schema-include"):
            raise InvalidRequest(
                f"Messages are written without a schema, and '{self.name}.schema-include' = 'true' is for those that have one: "
                "write them by a table without the option."
            )
        objects = self.codec.write(rows, self.fields, style_of(self._values))
        op = f'"{self.op_name}"'
        added = pc.binary_join_element_wise('{"before":null,"after":', objects, f',{op}:"{self.inserts[0]}"}}', "")
        if kinds is None:
            return as_messages(added)
        taken = pc.binary_join_element_wise('{"before":', objects, f',"after":null,{op}:"{self.delete}"}}', "")
        return as_messages(pc.if_else(pc.is_in(kinds, pa.array([INSERT, UPDATE_AFTER], pa.int8())), added, taken))

    def decode(self, values: pa.Array, metadata: Sequence[str] = ()) -> Decoded:
        """See `MessageFormat.decode`."""
        check_metadata(self.name, self.readable_metadata, metadata)
        lenient = self._values["ignore-parse-errors"]
        texts, places, malformed = texts_of(values)
        style = style_of(
            self._values, numbers_are_times=True, decimal_is_base64=self._values.get("decimal") == "base64"
        )
        read = self.codec.read(texts, self._envelope(metadata), style, lenient=lenient)
        message = self._payload(read.rows)
        faults = [*read.faults, *self._contradictions(message, {each.message for each in read.faults})]
        if faults:
            malformed += [Malformed(places[each.message].as_py(), worded(each.field, each.reason)) for each in faults]
            good = without(len(texts), [each.message for each in faults])
            message, places, whole = message.take(good), places.take(good), read.rows.take(good)
        else:
            whole = read.rows
        rows, kinds, of = self._rows(message)
        metadata_columns = {key: column.take(of) for key, column in self._metadata(whole, message, metadata).items()}
        return Decoded(rows, kinds, places.take(of), metadata_columns, in_order(malformed))

    def _envelope(self, metadata: Sequence[str]) -> list[DataField]:
        """The message as columns: only what rows and the given keys need."""
        before = tuple(nullable(each) for each in self.fields)
        inside = [
            DataField(0, "before", DataType("ROW", fields=before)),
            DataField(0, "after", DataType("ROW", fields=self.fields)),
            DataField(0, self.op_name, STRING),
        ]
        if "ingestion-timestamp" in metadata:
            inside.append(DataField(0, "ts_ms", _MOMENT))
        if any(key.startswith("source.") for key in metadata):
            inside.append(DataField(0, "source", _PROPERTIES))
        if not self._values.get("schema-include"):
            return inside
        envelope = [DataField(0, "payload", DataType("ROW", fields=tuple(inside)))]
        return [*envelope, DataField(0, "schema", STRING)] if "schema" in metadata else envelope

    def _payload(self, rows: pa.Table) -> pa.Table:
        if not self._values.get("schema-include"):
            return rows
        payload = rows.column("payload").combine_chunks()
        return pa.Table.from_arrays(payload.flatten(), schema=pa.schema(list(payload.type)))

    def _contradictions(self, message: pa.Table, known: set[int]) -> list[Fault]:
        """Messages whose parts do not fit together."""
        op, before, after = (message.column(name).combine_chunks() for name in (self.op_name, "before", "after"))
        known_ops = [*self.inserts, self.update, self.delete]
        is_unknown = pc.invert(of_any(op, known_ops))
        lacks_after = pc.and_(of_any(op, known_ops[:-1]), pc.is_null(after))
        needing = [self.delete] if self.is_upsert else [self.update, self.delete]
        lacks_before = pc.and_(of_any(op, needing), pc.is_null(before))
        contradictions: dict[int, Fault] = {}
        for index in pc.indices_nonzero(pc.or_(is_unknown, pc.or_(lacks_after, lacks_before))).to_pylist():
            letter = op[index].as_py()
            if is_unknown[index].as_py():
                read = f"{', '.join(known_ops[:-1])} and {self.delete} are read."
                reason = f'Unknown "{self.op_name}" {letter!r}: {read}' if letter else f'It has no "{self.op_name}".'
            elif lacks_after[index].as_py():
                reason = f'Its "{self.op_name}" is {letter!r}, and "after" is null.'
            else:
                reason = _NO_BEFORE.format(kind="UPDATE" if letter == self.update else "DELETE")
            contradictions[index] = Fault(index, reason)
        return [fault for index, fault in contradictions.items() if index not in known]

    def _rows(self, message: pa.Table) -> tuple[pa.Table, pa.Array, pa.Array]:
        op, before, after = (message.column(name).combine_chunks() for name in (self.op_name, "before", "after"))
        is_update = of_any(op, [self.update])
        takes = of_any(op, [self.delete] if self.is_upsert else [self.update, self.delete])
        taken, added = (
            pc.indices_nonzero(mask).cast(pa.int64()) for mask in (takes, of_any(op, [*self.inserts, self.update]))
        )
        before_kinds = pc.if_else(
            is_update.take(taken), kinds_of(len(taken), UPDATE_BEFORE), kinds_of(len(taken), DELETE)
        )
        after_kinds = pc.if_else(
            is_update.take(added), kinds_of(len(added), UPDATE_AFTER), kinds_of(len(added), INSERT)
        )
        return changes_in_order(
            columns_of(before, taken), taken, before_kinds, columns_of(after, added), added, after_kinds
        )

    def _metadata(self, whole: pa.Table, message: pa.Table, keys: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        columns: dict[str, pa.ChunkedArray] = {}
        for key in keys:
            arrow = _METADATA[key].to_arrow()
            if key == "schema":
                has = self._values["schema-include"]
                columns[key] = whole.column("schema") if has else _chunked(pa.nulls(len(whole), arrow))
            elif key == "ingestion-timestamp":
                columns[key] = message.column("ts_ms")
            elif key == "source.properties":
                columns[key] = message.column("source")
            else:
                columns[key] = _chunked(_of_source(message.column("source").combine_chunks(), key))
        return columns


def _chunked(column: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([column])


def _of_source(source: pa.Array, key: str) -> pa.Array:
    def value(name: str) -> pa.Array:
        return pc.map_lookup(source, pa.scalar(name), "first")

    match key:
        case "source.timestamp":
            text = value("ts_ms")
            number = pc.if_else(pc.match_substring_regex(text, "^-?[0-9]{1,18}$"), text, None).cast(pa.int64())
            return number.cast(pa.timestamp("ms")).cast(_MOMENT.to_arrow())
        case "source.database":
            return value("db")
        case "source.table":
            return pc.coalesce(value("table"), value("collection"))
    return value(key.removeprefix("source."))


def nullable(column: DataField) -> DataField:
    """The column, where null is allowed."""
    return replace(column, type=replace(column.type, nullable=True))
