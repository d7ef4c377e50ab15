"""Avro container files as columns: what `avro.read_records` reads, without an object for each value.

Where a value lies in a file is known only once everything before it has been read, but each block begins at a known place. So
the blocks of many files are read side by side: the first record of each of them, then the second, with one NumPy operation for
a field of all. Only what is plainly in order is read: for anything else the answer is None, and `avro.read_records`, which is the
specification, says what it is.
"""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .avro import Blocks

# Files are read together up to this many bytes.
_MOST_BYTES = 1 << 26
# With fewer blocks of this many bytes for each operation, reading record by record is faster.
_LEAST_BLOCKS = 16
_BYTES_FOR_EACH_READ = 2 * _LEAST_BLOCKS
_READS_AT_LEAST = 1000
_MOST_ITEMS = 10_000
_LEAST_RECORD_BYTES = 32
# What a byte stands for that is a whole number by itself.
_SHORT = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(256)], np.int64)


class Unusual(Exception):
    """A file, or a schema, that is left to `avro.read_records`."""


@dataclass(slots=True)
class Column:
    """A field of all records of a file. `kind`: `long`, `timestamp-millis`, `bytes`, `string` or `array`.

    `starts`: numbers; of other kinds, where the values begin in the bytes of the blocks, and `ends` where they end. `is_null` is
    None where nothing is. `items`: the type of the items of an array, as JSON text.
    """

    kind: str
    starts: np.ndarray
    ends: np.ndarray | None
    is_null: np.ndarray | None
    items: str = ""


@dataclass(slots=True)
class Columns:
    """The columns of a file, by the names of their fields from the outermost on, with dots between them."""

    row_count: int
    data: bytes
    columns: dict[str, Column]


def read_columns(files: Sequence[Blocks | None], wanted: Collection[str]) -> list[Columns | None]:
    """The wanted fields of the records of files; None for a file that has to be read by `avro.read_records`."""
    result: list[Columns | None] = [None] * len(files)
    for numbers in _together(files):
        group = [each for each in (files[number] for number in numbers) if each is not None]
        for number, columns in zip(numbers, _read(group[0].schema, group, wanted), strict=True):
            result[number] = columns
    return result


def _together(files: Sequence[Blocks | None]) -> list[list[int]]:
    """The numbers of files that are read together: those of one schema, up to a number of bytes."""
    groups: list[list[int]] = []
    # The last group of each schema, and its bytes.
    last: dict[str, tuple[list[int], int]] = {}
    for number, blocks in enumerate(files):
        if blocks is None:
            continue
        own = sum(map(len, blocks.blocks))
        group, size = last.get(blocks.schema, ([], _MOST_BYTES))
        if size + own > _MOST_BYTES:
            group, size = [], 0
            groups.append(group)
        group.append(number)
        last[blocks.schema] = group, size + own
    return groups


def _read(schema: str, files: Sequence[Blocks], wanted: Collection[str]) -> Sequence[Columns | None]:
    """The columns of files of one schema; if those of several cannot be read, of each alone."""
    try:
        return _side_by_side(schema, files, wanted)
    except (Unusual, IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return [None] if len(files) == 1 else [_read(schema, [each], wanted)[0] for each in files]


def _side_by_side(schema: str, files: Sequence[Blocks], wanted: Collection[str]) -> list[Columns | None]:
    counts = np.array([count for file in files for count in file.counts], np.int64)
    sizes = np.array([len(block) for file in files for block in file.blocks], np.int64)
    # More cannot be there, and columns of so many would take all memory.
    if not len(counts) or counts.min() < 0 or (counts > sizes // _LEAST_RECORD_BYTES).any():
        raise Unusual
    if counts.sum() < _LEAST_BLOCKS * counts.max():
        raise Unusual
    contents = [b"".join(file.blocks) for file in files]
    data = b"".join(contents)
    source = _Source(data, int(counts.sum()))
    plan = _planned(schema, tuple(wanted))
    plan.prepare(source)
    ends = np.cumsum(sizes)
    first_rows = np.cumsum(counts) - counts
    # The longest first, so that those that still have a record are always the first ones.
    order = np.argsort(-counts, kind="stable")
    at = np.concatenate([[0], ends[:-1]])[order]
    going = np.searchsorted(-counts[order], -np.arange(counts.max()), side="left")
    first_rows = first_rows[order]
    for record, blocks in enumerate(going.tolist()):
        plan.read(source, at[:blocks], first_rows[:blocks] + record)
    if not np.array_equal(at, ends[order]):
        raise Unusual
    result: list[Columns | None] = []
    first_row = first_byte = 0
    for file, content in zip(files, contents, strict=True):
        rows = slice(first_row, first_row + sum(file.counts))
        columns = {path: _cut(column, rows, first_byte, len(content)) for path, column in source.columns.items()}
        result.append(Columns(rows.stop - rows.start, content, columns))
        first_row, first_byte = rows.stop, first_byte + len(content)
    return result


def _cut(column: Column, rows: slice, first_byte: int, size: int) -> Column:
    """The rows of a file, with places in its own bytes."""
    is_null = None if column.is_null is None or not column.is_null[rows].any() else column.is_null[rows].copy()
    if column.ends is None:
        return Column(column.kind, column.starts[rows].copy(), None, is_null)
    dtype = np.int32 if size < 1 << 31 else np.int64
    # Where there is nothing, both are 0.
    starts, ends = (np.maximum(each[rows] - first_byte, 0).astype(dtype) for each in (column.starts, column.ends))
    return Column(column.kind, starts, ends, is_null, column.items)


class _Source:
    """The bytes of blocks, and the columns that are being read from them."""

    def __init__(self, data: bytes, row_count: int) -> None:
        self._data = np.frombuffer(data, np.uint8)
        self._reads_left = _READS_AT_LEAST + len(data) // _BYTES_FOR_EACH_READ
        self.size = len(data)
        self.row_count = row_count
        self.columns: dict[str, Column] = {}

    def add(self, path: str, kind: str, items: str = "") -> None:
        """A column of which no value is known yet."""
        if path in self.columns:
            raise Unusual
        starts = np.zeros(self.row_count, np.int64)
        ends = np.zeros(self.row_count, np.int64) if kind in ("bytes", "string", "array") else None
        self.columns[path] = Column(kind, starts, ends, None, items)

    def long(self, at: np.ndarray) -> np.ndarray:
        """The whole numbers at some places, which go on behind them."""
        self._reads_left -= 1
        if self._reads_left < 0:
            raise Unusual
        first = self._data.take(at)
        at += 1
        if first.max() < 128:
            return _SHORT.take(first)
        numbers = (first & 127).astype(np.int64)
        longer = np.flatnonzero(first > 127)
        places, shift = at[longer], 7
        while True:
            byte = self._data.take(places).astype(np.int64)
            places += 1
            numbers[longer] |= (byte & 127) << shift
            at[longer] = places
            more = byte > 127
            if not more.any():
                return (numbers >> 1) ^ -(numbers & 1)
            longer, places, shift = longer[more], places[more], shift + 7
            if shift > 56:
                raise Unusual


class _Long:
    def __init__(self, path: str | None, kind: str = "long") -> None:
        self.path, self._kind = path, kind

    def prepare(self, source: _Source) -> None:
        if self.path is not None:
            source.add(self.path, self._kind)

    def read(self, source: _Source, at: np.ndarray, rows: np.ndarray) -> None:
        numbers = source.long(at)
        if self.path is not None:
            source.columns[self.path].starts[rows] = numbers


class _Bytes:
    def __init__(self, path: str | None, kind: str) -> None:
        self.path, self._kind = path, kind

    def prepare(self, source: _Source) -> None:
        if self.path is not None:
            source.add(self.path, self._kind)

    def read(self, source: _Source, at: np.ndarray, rows: np.ndarray) -> None:
        lengths = source.long(at)
        if lengths.min() < 0 or lengths.max() > source.size:
            raise Unusual
        if self.path is not None:
            column = source.columns[self.path]
            column.starts[rows] = at
            at += lengths
            column.ends[rows] = at  # type: ignore[index]
        else:
            at += lengths


class _Array:
    """An array of one block of items at most, as all writers write it."""

    def __init__(self, path: str | None, item: "_Step", items: str) -> None:
        self.path, self._item, self._items = path, item, items

    def prepare(self, source: _Source) -> None:
        if self.path is not None:
            source.add(self.path, "array", self._items)

    def read(self, source: _Source, at: np.ndarray, rows: np.ndarray) -> None:
        if self.path is not None:
            source.columns[self.path].starts[rows] = at
        counts = source.long(at)
        least, most = int(counts.min()), int(counts.max())
        if least < 0 or most > _MOST_ITEMS:
            raise Unusual
        for number in range(most):
            _of_some(counts > number, self._item, source, at, rows)
        _of_some(counts > 0, _END, source, at, rows)
        if self.path is not None:
            source.columns[self.path].ends[rows] = at  # type: ignore[index]


class _End:
    """The end of an array that is not empty."""

    path: str | None = None

    def prepare(self, source: _Source) -> None: ...

    def read(self, source: _Source, at: np.ndarray, rows: np.ndarray) -> None:
        if source.long(at).any():
            raise Unusual


class _Nullable:
    """A union of null and one other type."""

    def __init__(self, step: "_Step", null: int) -> None:
        self.path: str | None = step.path
        self._step, self._null = step, null

    def prepare(self, source: _Source) -> None:
        self._step.prepare(source)
        if self.path is not None:
            source.columns[self.path].is_null = np.zeros(source.row_count, bool)

    def read(self, source: _Source, at: np.ndarray, rows: np.ndarray) -> None:
        branches = source.long(at)
        if branches.min() < 0 or branches.max() > 1:
            raise Unusual
        is_there = branches != self._null
        if self.path is not None:
            source.columns[self.path].is_null[rows] = ~is_there  # type: ignore[index]
        elif isinstance(self._step, _Record) and not is_there.all():
            raise Unusual
        _of_some(is_there, self._step, source, at, rows)


class _Record:
    path: str | None = None

    def __init__(self, steps: "Sequence[_Step]") -> None:
        self._steps = steps

    def prepare(self, source: _Source) -> None:
        for step in self._steps:
            step.prepare(source)

    def read(self, source: _Source, at: np.ndarray, rows: np.ndarray) -> None:
        for step in self._steps:
            step.read(source, at, rows)


_Step = _Long | _Bytes | _Array | _End | _Nullable | _Record
_END = _End()


def _of_some(chosen: np.ndarray, step: _Step, source: _Source, at: np.ndarray, rows: np.ndarray) -> None:
    """Read a step of some of the records."""
    if chosen.all():
        step.read(source, at, rows)
    elif chosen.any():
        own = np.flatnonzero(chosen)
        places = at[own]
        step.read(source, places, rows[own])
        at[own] = places


@lru_cache(maxsize=64)
def _planned(schema: str, wanted: tuple[str, ...]) -> _Step:
    """How to read a record of a schema. Raises Unusual for one that is left to others."""
    return _step(json.loads(schema), "", frozenset(wanted))


def _step(kind: Any, path: str, wanted: frozenset[str]) -> _Step:
    own = path if path in wanted else None
    if isinstance(kind, list):
        if len(kind) != 2 or kind.count("null") != 1:
            raise Unusual
        null = kind.index("null")
        return _Nullable(_step(kind[1 - null], path, wanted), null)
    name = kind["type"] if isinstance(kind, dict) else kind
    if isinstance(kind, dict) and "logicalType" in kind:
        if name != "long" or kind["logicalType"] != "timestamp-millis":
            raise Unusual
        return _Long(own, "timestamp-millis")
    plain: dict[str, Callable[[], _Step]] = {
        "int": lambda: _Long(own),
        "long": lambda: _Long(own),
        "bytes": lambda: _Bytes(own, "bytes"),
        "string": lambda: _Bytes(own, "string"),
    }
    if name == "record":
        return _Record(
            [_step(each["type"], f"{path}.{each['name']}" if path else each["name"], wanted) for each in kind["fields"]]
        )
    if name == "array":
        # Nothing inside of an array is a column of its own.
        return _Array(own, _step(kind["items"], "", frozenset()), json.dumps(kind["items"]))
    if isinstance(name, str) and name in plain:
        return plain[name]()
    raise Unusual
