"""Aggregate functions of collections: nested tables (ARRAY of ROW), maps and bitmaps, key by key.

The elements of a column are known by their place in it, so that no value is made anew. The order of a nested table with a key is
that of Java's hash tables, by which its rows are put together there. Source: `docs/format.md`, "Merge engines".
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ..data_types import DataField, DataType
from ..errors import InvalidRequest
from ..format.binary_row import hash_rows
from ..option_texts import parse_names
from ..values import from_arrow
from .key_order import ranks

A = TypeVar("A")
_LEAST_CAPACITY = 16
_LOAD = 0.75
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionOptions:
    """What `fields.<column>.*` says of a collection, and the column's type."""

    type: DataType
    nested_key: tuple[str, ...] = ()
    count_limit: int = _MOST
    time_field: str | None = None


def collection_options(options: Mapping[str, str], name: str, kind: DataType) -> CollectionOptions:
    """What the options of a table say of a column. Raises InvalidRequest for a limit that is no number."""
    limit = options.get(f"fields.{name}.count-limit")
    if limit is not None and not limit.strip().isdecimal():
        raise InvalidRequest(f"Option 'fields.{name}.count-limit' = {limit!r} is no whole number.")
    return CollectionOptions(
        type=kind,
        nested_key=parse_names(options.get(f"fields.{name}.nested-key", "")),
        count_limit=_MOST if limit is None else int(limit),
        time_field=options.get(f"fields.{name}.ts-field"),
    )


@dataclass(frozen=True, slots=True)
class _Fold(Generic[A]):
    """How values become one: `add` and `retract` take what is there and a value, neither of which is null."""

    value: Callable[[int], A]
    add: Callable[[A, A], A]
    retract: Callable[[A, A], A] | None = None

    def over(self, valid: np.ndarray, starts: np.ndarray, retracts: np.ndarray, late: np.ndarray) -> list[A | None]:
        """What becomes of the values of each group. One that comes late is put before what is there."""
        aggregates: list[A | None] = []
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(valid)], strict=True):
            held: A | None = None
            for row in range(start, end):
                if not valid[row]:
                    continue
                if retracts[row]:
                    assert self.retract is not None, "rows that take values back were refused before"
                    held = held if held is None else self.retract(held, self.value(row))
                elif held is None:
                    held = self.value(row)
                else:
                    held = self.add(self.value(row), held) if late[row] else self.add(held, self.value(row))
            aggregates.append(held)
        return aggregates


def aggregate_collections(
    name: str,
    column: pa.Array,
    starts: np.ndarray,
    retracts: np.ndarray,
    late: np.ndarray,
    options: CollectionOptions,
) -> pa.Array:
    """One value for each group of rows; arguments as `Groups` has them."""
    valid = np.asarray(column.is_valid())
    if name == "rbm32":
        fold: _Fold[Any] = _Fold(lambda row: column[row].as_py(), _united)
        return pa.array(fold.over(valid, starts, retracts, late), column.type)
    if name.startswith("merge_map"):
        maps = _Maps(column, options)
        return maps.to_arrow(maps.fold(name).over(valid, starts, retracts, late))
    tables = _NestedTables(column, options)
    return tables.to_arrow(tables.fold(name).over(valid, starts, retracts, late))


def check_collection(name: str, column: str, options: CollectionOptions) -> None:
    """Raise InvalidRequest if a function does not take the type of a column, or lacks an option. As in Paimon's Java library."""
    kind = options.type
    is_table = kind.root == "ARRAY" and kind.element is not None and kind.element.root == "ROW"
    if name in ("nested_update", "nested_partial_update") and not is_table:
        raise _unfit(name, column, kind, "nested tables: ARRAY of ROW")
    if name == "nested_partial_update" and not options.nested_key:
        raise InvalidRequest(f"Column {column!r} is aggregated by {name!r}, which needs 'fields.{column}.nested-key'.")
    if is_table and kind.element is not None:
        for key in options.nested_key:
            _inner(kind.element.fields, key, f"fields.{column}.nested-key")
    if name == "rbm32" and kind.root != "VARBINARY":
        raise _unfit(name, column, kind, "Roaring bitmaps: BYTES or VARBINARY")
    if name.startswith("merge_map") and kind.root != "MAP":
        raise _unfit(name, column, kind, "maps")
    if name == "merge_map_with_keytime":
        value = kind.element
        if value is None or value.root != "ROW" or len(value.fields) < 2:
            raise _unfit(name, column, kind, "maps to ROW with two fields at least")
        time = _time_field(options)
        if not time.type.is_text:
            raise InvalidRequest(
                f"Field {time.name!r} of column {column!r}, which tells the time to {name!r}, has type {time.type}: it must be a "
                "text."
            )


def _unfit(name: str, column: str, kind: DataType, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"Column {column!r} of type {kind} cannot be aggregated by {name!r}, which takes {wanted}.")


def _inner(fields: Sequence[DataField], name: str, option: str) -> DataField:
    for field in fields:
        if field.name == name:
            return field
    raise InvalidRequest(
        f"Option {option!r} names {name!r}, which is no field. Fields: {', '.join(field.name for field in fields)}."
    )


def _time_field(options: CollectionOptions) -> DataField:
    assert options.type.element is not None
    fields = options.type.element.fields
    return fields[-1] if options.time_field is None else _inner(fields, options.time_field, "ts-field")


def _united(held: bytes, value: bytes) -> bytes:
    """The union of two bitmaps, with runs where they are shorter."""
    try:
        union: Any = BitMap.deserialize(held) | BitMap.deserialize(value)
    except (ValueError, MemoryError, OverflowError) as error:
        raise InvalidRequest(f"A value that 'rbm32' takes is no Roaring bitmap of 32 bits: {error}") from None
    union.run_optimize()
    return bytes(union.serialize())


# --- nested tables

# A row of a nested table: an element that has its key, and for each field the element that it is taken from (-1: null). None is a
# row that is null.
_Fields = tuple[int, ...]
_Row = _Fields | None


class _NestedTables:
    """The nested tables of a column."""

    def __init__(self, column: pa.Array, options: CollectionOptions) -> None:
        assert options.type.element is not None
        self._type, self._options = column.type, options
        self._fields = options.type.element.fields
        self._offsets = column.offsets.to_pylist()
        self._elements = column.values
        self._valid = np.asarray(self._elements.is_valid())
        keys = [_inner(self._fields, name, "nested-key") for name in options.nested_key]
        columns = [_field_of(self._elements, key) for key in keys]
        self._hashes = hash_rows(columns, [key.type for key in keys]) if keys else np.empty(0, np.int32)
        # Without a key a row is told by all of its fields.
        self._codes = _codes(columns or [_field_of(self._elements, field) for field in self._fields])
        self._has = [np.asarray(_field_of(self._elements, field).is_valid()) for field in self._fields]

    def fold(self, name: str) -> _Fold[list[_Row]]:
        if name == "nested_partial_update":
            return _Fold(self._rows, self._updated_in_part)
        return _Fold(self._rows, self._updated, self._taken_back)

    def _rows(self, row: int) -> list[_Row]:
        width = len(self._fields)
        places = range(self._offsets[row], self._offsets[row + 1])
        return [(place,) * (1 + width) if self._valid[place] else None for place in places]

    def _updated(self, held: list[_Row], given: list[_Row]) -> list[_Row]:
        if len(held) >= self._options.count_limit:
            return held
        room = self._options.count_limit - len(held)
        rows = [each for each in held if each] + [each for each in given if each][:room]
        return self._in_hash_order({self._key(row): row for row in rows}) if self._options.nested_key else [*rows]

    def _taken_back(self, held: list[_Row], given: list[_Row]) -> list[_Row]:
        rows = [each for each in held if each]
        gone = {self._key(each) for each in given if each}
        if not self._options.nested_key:
            return [row for row in rows if self._key(row) not in gone]
        return self._in_hash_order({self._key(row): row for row in rows}, gone)

    def _updated_in_part(self, held: list[_Row], given: list[_Row]) -> list[_Row]:
        rows: dict[Hashable, _Fields] = {}
        capacity = _LEAST_CAPACITY
        for each in (*held, *given):
            if each is None:
                continue
            # `computeIfAbsent` looks before it adds whether there is room, and puts what is new in front.
            capacity *= 2 if len(rows) > _LOAD * capacity else 1
            fresh = tuple(
                place if place >= 0 and has[place] else -1 for place, has in zip(each[1:], self._has, strict=True)
            )
            before = rows.get(self._key(each))
            if before is not None:
                fresh = tuple(new if new >= 0 else old for new, old in zip(fresh, before[1:], strict=True))
            rows[self._key(each)] = (each[0] if before is None else before[0], *fresh)
        return self._in_slots(list(rows.values())[::-1], capacity)

    def _key(self, row: _Fields) -> Hashable:
        return int(self._codes[row[0]])

    def _in_hash_order(
        self, rows: dict[Hashable, _Fields], gone: set[Hashable] | frozenset[Hashable] = frozenset()
    ) -> list[_Row]:
        """Rows by key as `java.util.HashMap` lists them, which has grown to hold them all before some went."""
        capacity = _LEAST_CAPACITY
        while len(rows) > _LOAD * capacity:
            capacity *= 2
        return self._in_slots([row for key, row in rows.items() if key not in gone], capacity)

    def _in_slots(self, rows: list[_Fields], capacity: int) -> list[_Row]:
        """Rows in the order of the slots of a table of that size; those of one slot stay in their order."""
        slots = {row: int(self._hashes[row[0]]) & 0xFFFFFFFF for row in rows}
        return [*sorted(rows, key=lambda row: (slots[row] ^ (slots[row] >> 16)) & (capacity - 1))]

    def to_arrow(self, tables: list[list[_Row] | None]) -> pa.Array:
        rows = [row for table in tables if table is not None for row in table]
        offsets = np.append(0, np.cumsum([len(table or ()) for table in tables]))
        is_null = np.array([row is None for row in rows], bool)
        children = []
        for number in range(len(self._fields)):
            places = np.array([-1 if row is None else row[1 + number] for row in rows], np.int64)
            children.append(self._elements.field(number).take(pa.array(np.maximum(places, 0), mask=places < 0)))
        mask = pa.array(is_null) if is_null.any() else None
        elements = pa.StructArray.from_arrays(children, fields=list(self._type.value_type), mask=mask)
        nulls = pa.array([table is None for table in tables])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements, type=self._type, mask=nulls)


def _field_of(elements: pa.Array, field: DataField) -> pa.Array:
    return elements.field(elements.type.get_field_index(field.name))


def _codes(columns: Sequence[pa.Array]) -> np.ndarray:
    """Whole numbers that are equal where all columns are."""
    codes = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        known: dict[str, int] = {}
        if pa.types.is_nested(column.type):
            own = np.array([known.setdefault(repr(each), len(known)) for each in column.to_pylist()], np.int64)
        else:
            own = ranks(column)
        _, codes = np.unique(np.stack([codes, own]), axis=1, return_inverse=True)
        codes = codes.reshape(-1)
    return codes


# --- maps

_Entries = dict[Hashable, int]


class _Maps:
    """The maps of a column: by key, the entry that key and value are taken from."""

    def __init__(self, column: pa.Array, options: CollectionOptions) -> None:
        key = options.type.key
        assert key is not None
        self._type = column.type
        self._offsets = column.offsets.to_pylist()
        self._keys, self._items = column.keys, column.items
        self._names = _codes([column.keys]).tolist() if key.is_nested else from_arrow(column.keys, key)
        self._valid = np.asarray(self._items.is_valid())
        self._options = options
        self._times: list[str | None] = []

    def fold(self, name: str) -> _Fold[_Entries]:
        if name == "merge_map":
            return _Fold(self._entries, lambda held, given: {**held, **given}, self._taken_back)
        self._times = _field_of(self._items, _time_field(self._options)).to_pylist()
        return _Fold(self._entries, self._later)

    def _entries(self, row: int) -> _Entries:
        return {self._names[place]: place for place in range(self._offsets[row], self._offsets[row + 1])}

    def _taken_back(self, held: _Entries, given: _Entries) -> _Entries:
        return {key: place for key, place in held.items() if key not in given}

    def _later(self, held: _Entries, given: _Entries) -> _Entries:
        """Of each key the value of the later time; a null takes the key away, one without a time says nothing."""
        merged = dict(held)
        for key, place in given.items():
            if not self._valid[place]:
                merged.pop(key, None)
                continue
            time = self._times[place]
            if time is None:
                continue
            there = merged.get(key)
            before = None if there is None or not self._valid[there] else self._times[there]
            # Java compares texts by their UTF-16 units.
            if before is None or time.encode("utf-16-be") > before.encode("utf-16-be"):
                merged[key] = place
        return merged

    def to_arrow(self, maps: list[_Entries | None]) -> pa.Array:
        entries = [place for mapping in maps if mapping is not None for place in mapping.values()]
        offsets = np.append(0, np.cumsum([len(mapping or ()) for mapping in maps]))
        places = pa.array(entries, pa.int64())
        nulls = pa.array([mapping is None for mapping in maps])
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()),
            self._keys.take(places),
            self._items.take(places),
            type=self._type,
            mask=nulls,
        )
