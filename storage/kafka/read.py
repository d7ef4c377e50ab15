"""Read a Kafka table in Arrow: the columns and the metadata that somebody needs, and nothing else."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from ..data_types import DataField
from ..errors import CorruptData, InvalidRequest
from ..messages.change_rows import changes_in_order, kinds_of
from ..messages.json_codec import JsonCodec
from ..messages.message_format import DELETE, UPDATE_AFTER, Decoded, MessageFormat, reads_by_name
from ..messages.registry import message_format
from .definition import KafkaColumn, KafkaTable
from .fetch import Records, fetch
from .metadata_casts import cast_metadata
from .metadata_keys import CONNECTOR, CONNECTOR_KEYS, KEY, VALUE
from .options import KafkaOptions
from .ranges import OffsetRange
from .table_checks import CheckedTable, check_table

_log = logging.getLogger(__name__)
_LONGEST_SHOWN = 200
ROW_KIND = "rowkind"


@dataclass
class KafkaScan:
    """A read of some columns of a table. `skipped` counts the malformed records that were passed over, so far."""

    checked: CheckedTable
    codec: JsonCodec
    columns: tuple[KafkaColumn, ...]
    skipped: int = field(default=0, init=False)

    @classmethod
    def of(cls, table: KafkaTable, codec: JsonCodec, columns: Sequence[str] | None = None) -> "KafkaScan":
        """A read of the named columns, in that order; by default of all. Raises NotFound for an unknown one."""
        names = [column.name for column in table.columns] if columns is None else columns
        return cls(check_table(table, codec), codec, tuple(table.column(name) for name in names))

    def __post_init__(self) -> None:
        wanted = {column.name for column in self.columns}
        self._keys_of_rows = self.checked.table.primary_key if self.has_changes else ()
        wanted |= set(self._keys_of_rows)
        options = self.checked.options
        in_value = [column for column in self.checked.value_columns if column.name in wanted]
        checks_key = options.verify_integrity
        if checks_key:
            in_value += [column for column in self.checked.key_columns if column not in in_value]
        in_key = [column for column in self.checked.key_columns if column.name in wanted or checks_key]
        # With the value in hand, what the key says of a field does not count.
        self._reads_key = bool(
            self.requested(KEY) or options.is_upsert or checks_key or (options.except_key and in_key)
        )
        if not reads_by_name(self.checked.value_format):
            in_value = list(self.checked.value_columns)
        self._value = _narrow(self.checked.value_format, in_value, options.value_options, self.codec)
        prefix = options.key_prefix
        self._in_key = in_key if self._reads_key else []
        self._key = None
        if self._reads_key and self.checked.key_format is not None:
            if not reads_by_name(self.checked.key_format):
                in_key = list(self.checked.key_columns)
            inner = [KafkaColumn(column.name.removeprefix(prefix), column.type) for column in in_key]
            self._key = _narrow(self.checked.key_format, inner, options.key_options, self.codec)

    @property
    def has_changes(self) -> bool:
        """Whether rows come with kinds of their own: records are changes, or replace the rows of their keys."""
        return self.checked.options.is_upsert or not self.checked.value_format.is_insert_only

    def requested(self, side: str) -> tuple[str, ...]:
        """The metadata keys of a side (`connector`, `key`, `value`) that the columns need, in the order of their listing."""
        keys = self.checked.keys
        needed = {
            keys[column.name].key for column in self.columns if column.metadata and keys[column.name].side == side
        }
        return tuple(key for key in self._listed(side) if key in needed)

    def _listed(self, side: str) -> Sequence[str]:
        if side == CONNECTOR:
            return list(CONNECTOR_KEYS)
        format_ = self.checked.value_format if side == VALUE else self.checked.key_format
        return [] if format_ is None else list(format_.readable_metadata)

    @property
    def schema(self) -> pa.Schema:
        """What is read."""
        return pa.schema([column.field.to_arrow() for column in self.columns])

    def changes(self, ranges: Sequence[OffsetRange]) -> Iterator[tuple[pa.Table, pa.Array]]:
        """Rows of ranges with their kinds, in the order of the records of each partition.

        Raises CorruptData that says where, for a record that cannot be read; with `ignore-parse-errors` it is counted.
        """
        for records in fetch(self.checked.options, ranges, keys=self._reads_key, metadata=self.requested(CONNECTOR)):
            yield self.rows_of(records)

    def to_arrow(self, ranges: Sequence[OffsetRange]) -> pa.Table:
        """The rows of ranges: of a table of changes, those that are there after all of them, by its PRIMARY KEY.

        Raises InvalidRequest for changes without a key.
        """
        if self.has_changes and not self._keys_of_rows:
            raise InvalidRequest(
                f"{self.checked.table.identifier} holds changes ({self.checked.value_format.name}): which rows are there after "
                "them is known by a PRIMARY KEY (…) NOT ENFORCED. Declare one."
            )
        parts = list(self.changes(ranges))
        if self.skipped:
            _log.warning("%s: %d malformed records were left out.", self.checked.table.identifier, self.skipped)
        names = [column.name for column in self.columns]
        read = _with_keys(self)
        rows = pa.concat_tables([part for part, _ in parts]) if parts else read.empty_table()
        if self.has_changes and rows.num_rows:
            rows = _latest(rows, pa.concat_arrays([kinds for _, kinds in parts]), self._keys_of_rows)
        return rows.select(names).cast(self.schema)

    def rows_of(self, records: Records) -> tuple[pa.Table, pa.Array]:
        """The rows of records, and their kinds."""
        value = self._decoded(self._value, VALUE, records, records.values, self.requested(VALUE))
        key = None
        if self._key is not None and records.keys is not None:
            key = self._decoded(self._key, KEY, records, records.keys, self.requested(KEY))
        rows, kinds, messages = self._with_tombstones(value, records)
        if key is not None and key.malformed:
            # Whose key cannot be read is left out whole.
            broken = pa.array([each.message for each in key.malformed], messages.type)
            kept = pc.invert(pc.is_in(messages, broken))
            rows, kinds, messages = rows.filter(kept), kinds.filter(kept), messages.filter(kept)
        key_at = _places(key, messages, len(records.values)) if key is not None else None
        if self.checked.options.verify_integrity and key is not None and key_at is not None:
            self._verify(rows, key, key_at, messages, records)
        columns = {}
        needed = [*self.columns, *(self._key_column(name) for name in self._keys_of_rows)]
        for column in {each.name: each for each in needed}.values():
            columns[column.name] = self._column(column, rows, key, key_at, messages, value, records)
        read = pa.table(columns)
        return self._of_a_key(read, kinds, messages, records) if self._keys_of_rows and len(kinds) else (read, kinds)

    def _key_column(self, name: str) -> KafkaColumn:
        return self.checked.table.column(name)

    def _with_tombstones(self, value: Decoded, records: Records) -> tuple[pa.Table, pa.Array, pa.Array]:
        """Rows with those that the records without a value delete, in an upsert table."""
        if not self.checked.options.is_upsert:
            return value.rows, value.kinds, value.messages
        assert records.keys is not None
        for index in pc.indices_nonzero(pc.is_null(records.keys)).to_pylist():
            raise CorruptData(f"The record at {records.place(index)} has no key, which is its row's in 'upsert-kafka'.")
        gone = pc.indices_nonzero(pc.is_null(records.values)).cast(pa.int64())
        empty = value.rows.schema.empty_table()
        nulls = pa.table({name: pa.nulls(len(gone), empty.schema.field(name).type) for name in empty.column_names})
        after = kinds_of(len(value.messages), UPDATE_AFTER)
        return changes_in_order(nulls, gone, kinds_of(len(gone), DELETE), value.rows, value.messages, after)

    def _column(
        self,
        column: KafkaColumn,
        rows: pa.Table,
        key: Decoded | None,
        key_at: pa.Array | None,
        messages: pa.Array,
        value: Decoded,
        records: Records,
    ) -> pa.ChunkedArray | pa.Array:
        if column.metadata is not None:
            metadata_key = self.checked.keys[column.name]
            if metadata_key.side == CONNECTOR:
                values = records.metadata[metadata_key.key].take(messages)
            elif metadata_key.side == VALUE:
                # A tombstone tells nothing.
                values = value.metadata[metadata_key.key].take(_places(value, messages, len(records.values)))
            else:
                assert key is not None
                values = key.metadata[metadata_key.key].take(key_at)
            return cast_metadata(values, metadata_key.type, column.type, column.name)
        is_key = column in self._in_key
        if key is None or not is_key:
            return rows.column(column.name)
        from_key = key.rows.column(column.name.removeprefix(self.checked.options.key_prefix)).take(key_at)
        if self.checked.options.except_key:
            return from_key
        if column.name not in rows.column_names:
            return from_key
        # The value wins, also by a field that it lacks: whatever else the key is read for changes no row. A tombstone has none.
        in_value = rows.column(column.name)
        return pc.coalesce(in_value, from_key) if self.checked.options.is_upsert else in_value

    def _decoded(
        self, format_: MessageFormat, side: str, records: Records, values: pa.Array, metadata: Sequence[str]
    ) -> Decoded:
        decoded = format_.decode(values, metadata)
        if decoded.malformed:
            self._tell(decoded, side, records, values)
        return decoded

    def _tell(self, decoded: Decoded, side: str, records: Records, values: pa.Array) -> None:
        options: KafkaOptions = self.checked.options
        if self._is_lenient(side):
            self.skipped += len(decoded.malformed)
            return
        first = decoded.malformed[0]
        raw = values[first.message].as_py()
        shown = repr(raw[:_LONGEST_SHOWN]) + ("…" if len(raw) > _LONGEST_SHOWN else "")
        name = options.value_format if side == VALUE else options.key_format
        option = f"'{side}.{name}.ignore-parse-errors' = 'true'"
        way_out = (
            f"With {option} of the table, or in OPTIONS(…) of the query, a field that cannot be read is NULL, and any other such "
            "record is left out."
        )
        if name == "raw":
            way_out = "Read the column as BYTES."
        raise CorruptData(
            f"The {side} of the record at {records.place(first.message)} is no {name}: {first.reason} It is {shown}. {way_out}"
        )

    def _is_lenient(self, side: str) -> bool:
        options: KafkaOptions = self.checked.options
        given = options.value_options if side == VALUE else options.key_options
        return given.get("ignore-parse-errors", "false").lower() == "true"

    def _of_a_key(
        self, rows: pa.Table, kinds: pa.Array, messages: pa.Array, records: Records
    ) -> tuple[pa.Table, pa.Array]:
        """Changes that say whose row they change. Raises CorruptData for others, which are left out where fields may be NULL
        because they cannot be read.
        """
        lacking = [rows.column(name).is_null().combine_chunks() for name in self._keys_of_rows]
        kept = pc.invert(reduce(pc.or_, lacking))
        if pc.all(kept).as_py():
            return rows, kinds
        if not self._is_lenient(KEY if self.checked.options.is_upsert else VALUE):
            at = pc.index(kept, pa.scalar(False)).as_py()
            name = next(name for name, nulls in zip(self._keys_of_rows, lacking, strict=True) if nulls[at].as_py())
            raise CorruptData(
                f"The record at {records.place(messages[at].as_py())} changes a row whose {name!r} is NULL, and that is in the "
                f"PRIMARY KEY of {self.checked.table.identifier}: rows of a table have their key."
            )
        self.skipped += len(pc.unique(messages.filter(pc.invert(kept))))
        return rows.filter(kept), kinds.filter(kept)

    def _verify(self, rows: pa.Table, key: Decoded, key_at: pa.Array, messages: pa.Array, records: Records) -> None:
        for column in self.checked.key_columns:
            in_key = key.rows.column(column.name).combine_chunks().take(key_at)
            in_value = rows.column(column.name).combine_chunks()
            differs = pc.fill_null(pc.not_equal(in_key, in_value), False)
            at = pc.index(differs, pa.scalar(True)).as_py()
            if at >= 0:
                raise CorruptData(
                    f"Field {column.name!r} of the record at {records.place(messages[at].as_py())} is {in_key[at]} in the key "
                    f"and {in_value[at]} in the value ('fields.verify-integrity')."
                )


def _narrow(
    format_: MessageFormat, columns: Sequence[KafkaColumn], options: Mapping[str, str], codec: JsonCodec
) -> MessageFormat:
    fields: list[DataField] = [column.field for column in columns]
    return message_format(format_.name, fields, options, codec)


def _places(decoded: Decoded, messages: pa.Array, total: int) -> pa.Array:
    """For each message the place of its row in what was decoded, null where it has none."""
    if len(decoded.messages) == total == len(messages) and decoded.messages.equals(messages):
        return pa.array(range(total), pa.int64())
    return pc.index_in(messages, decoded.messages)


def _with_keys(scan: KafkaScan) -> pa.Schema:
    names = dict.fromkeys([*(column.name for column in scan.columns), *scan._keys_of_rows])
    return pa.schema([scan.checked.table.column(name).field.to_arrow() for name in names])


def _latest(rows: pa.Table, kinds: pa.Array, keys: Sequence[str]) -> pa.Table:
    """The last row of each key, unless it was taken away."""
    order = pa.array(range(rows.num_rows), pa.int64())
    last = rows.select(list(keys)).append_column("__order", order).group_by(list(keys)).aggregate([("__order", "max")])
    at = last.column("__order_max").combine_chunks().sort()
    stays = pc.is_in(kinds.take(at), pa.array([0, UPDATE_AFTER], pa.int8()))
    return rows.take(at.filter(stays))
