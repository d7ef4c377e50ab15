"""What file indexes say about a filter: whether any row of a data file can match it.

Rows that an index cannot tell about may match: what is left out is only what the index is sure of.

Follows `docs/format.md`, "File indexes".
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pyroaring import BitMap

from ..data_types import DataField, DataType
from ..errors import CorruptData, NotFound
from ..format.column_stats import ColumnStats
from ..format.file_index.bit_slices import BitSlices
from ..format.file_index.bitmap import Bitmaps
from ..format.file_index.bloom_filter import BloomFilter
from ..format.file_index.container import Section, read_container
from ..format.file_index.keys import is_zero, key_of
from ..format.file_index.range_bitmap import RangeBitmap
from ..format.file_index.wanted import index_file, is_damaged
from ..metadata.manifest import DataFile
from ..metadata.table_store import TableStore
from .predicate import And, Comparison, IsIn, IsNull, Or, Predicate, StartsWith

_KINDS: dict[str, Callable[[bytes, DataType], Any]] = {
    "bloom-filter": BloomFilter,
    "bitmap": Bitmaps,
    "bsi": BitSlices,
    "range-bitmap": RangeBitmap,
}
_READ_AHEAD = 8
_SECOND = 10**9
_T = TypeVar("_T")


class FileIndexes:
    """File indexes of data files of a table, asked about filters that are bound to its schema. `bounds`: what the metadata of a
    file say of some columns; needed to ask.
    """

    def __init__(
        self,
        store: TableStore,
        predicate: Predicate | None = None,
        bounds: Callable[[DataFile, set[str]], Mapping[str, ColumnStats]] | None = None,
    ) -> None:
        self._store = store
        self._predicate = predicate
        self._bounds = bounds
        self._ids = {field.name: field for field in store.schema.fields}
        self._is_used = predicate is not None and store.options.file_index_read_enabled

    def keep(self, items: Sequence[_T], file_of: Callable[[_T], DataFile | None], directory: str) -> list[_T]:
        """Those items whose file in a bucket's directory can hold a matching row, or that have none to be asked about."""

        def keeps(item: _T) -> bool:
            file = file_of(item)
            return file is None or self.may_match(file, directory)

        asked = (
            [file for file in map(file_of, items) if file is not None and index_file(file.extra_files)]
            if self._is_used
            else []
        )
        if len(asked) < 2 or self._store.file_io.is_local:
            return [item for item in items if keeps(item)]
        with ThreadPoolExecutor(min(_READ_AHEAD, len(asked))) as pool:
            return [item for item, kept in zip(items, pool.map(keeps, items), strict=True) if kept]

    def may_match(self, file: DataFile, directory: str) -> bool:
        """False if no row of the file can match. Raises CorruptData that names an index file that is missing or damaged."""
        predicate = self._predicate if self._is_used else None
        if predicate is None:
            return True
        rows = self._told(file, directory, lambda asked: asked.rows(predicate))
        return rows is None or len(rows) > 0

    def refuse_damaged(self, file: DataFile, directory: str) -> None:
        """Raise CorruptData that names the index file of a data file, or its index in the manifest, if it cannot be read."""
        self._told(file, directory, _Asked.open_all)

    def _told(self, file: DataFile, directory: str, ask: Callable[["_Asked"], _T]) -> _T | None:
        """What the indexes of a file are asked; None if there are none."""
        name = index_file(file.extra_files)
        if file.embedded_index is None and name is None:
            return None
        if file.embedded_index is not None:
            data, source = file.embedded_index, f"The index of data file {directory}/{file.name} in its manifest"
        else:
            folder = self._store.data_path(directory, file).rpartition("/")[0]
            source = f"Index file {folder}/{name}"
            data = self._read(f"{folder}/{name}", source)
            if is_damaged(str(name), data):
                raise CorruptData(f"{source} is damaged: its checksum is not the one in its name. {_REMEDY}")
        asked = _Asked(self._columns(file), data, source, file.row_count)
        try:
            return ask(asked)
        except (struct.error, ValueError, LookupError, TypeError, OverflowError, MemoryError) as error:
            raise CorruptData(f"{source} is damaged: {error}. {_REMEDY}") from None

    def _read(self, path: str, source: str) -> bytes:
        try:
            return self._store.file_io.read_bytes(path)
        except NotFound:
            raise CorruptData(f"{source} is missing. {_REMEDY}") from None

    def _columns(self, file: DataFile) -> dict[str, tuple[str, DataType]]:
        """Name in the file and type of each column that has kept its type since the file was written."""
        fields = self._store.schemas.get(file.schema_id).fields
        old = {field.id: field for field in fields}
        return {
            name: (old[field.id].name, field.type)
            for name, field in self._ids.items()
            if field.id in old
            and old[field.id].type.not_null() == field.type.not_null()
            and not self._is_read_otherwise(file, field)
        }

    def _is_read_otherwise(self, file: DataFile, field: DataField) -> bool:
        """Whether times may be read from a file that its indexes do not have: Java writes those of the last second before 1970 so
        that readers of ORC, its own as well, take them for ones of the second after.
        """
        if self._bounds is None or file.format != "orc" or not field.type.is_timestamp:
            return False
        bounds = self._bounds(file, {field.name}).get(field.name)
        return bounds is None or bounds.minimum is None or (bounds.minimum < _SECOND and bounds.maximum >= -_SECOND)


_REMEDY = "With the option 'file-index.read.enabled' = 'false' the table is read without indexes."


class _Asked:
    """One container of indexes, asked about one filter. Rows are those that may match; None: any may."""

    def __init__(self, columns: dict[str, tuple[str, DataType]], data: bytes, source: str, row_count: int) -> None:
        self._columns = columns
        self._data = data
        self._sections = read_container(data, source)
        self._row_count = row_count
        self._open: dict[str, list[Any]] = {}

    def rows(self, predicate: Predicate) -> BitMap | None:
        if isinstance(predicate, And):
            return self._all(predicate.parts)
        if isinstance(predicate, Or):
            matching = BitMap()
            for part in predicate.parts:
                rows = self.rows(part)
                if rows is None:
                    return None
                matching |= rows
            return matching
        if isinstance(predicate, Comparison | IsIn | IsNull | StartsWith):
            return self._leaf(predicate)
        return None

    def open_all(self) -> None:
        """Open the indexes of all columns."""
        for column in self._columns:
            for index in self._indexes(column):
                if not isinstance(index, BloomFilter):
                    index.nulls()

    def _all(self, parts: Sequence[Predicate]) -> BitMap | None:
        matching: BitMap | None = None
        for part in parts:
            rows = self.rows(part)
            if rows is not None:
                matching = rows if matching is None else matching & rows
                if not matching:
                    return matching
        return matching

    def _leaf(self, predicate: Comparison | IsIn | IsNull | StartsWith) -> BitMap | None:
        if predicate.column not in self._columns:
            return None
        _, data_type = self._columns[predicate.column]
        matching: BitMap | None = None
        for index in self._indexes(predicate.column):
            rows = _rows_of(index, predicate, data_type)
            if rows is not None:
                matching = rows if matching is None else matching & rows
        return matching

    def _indexes(self, column: str) -> list[Any]:
        if column not in self._open:
            name, data_type = self._columns[column]
            sections = self._sections.get(name, {})
            self._open[column] = [
                self._read(kind, section, data_type)
                for kind, section in sections.items()
                if kind in _KINDS and section.start >= 0
            ]
        return self._open[column]

    def _read(self, kind: str, section: Section, data_type: DataType) -> Any:
        index = _KINDS[kind](self._data[section.start : section.start + section.length], data_type)
        rows = getattr(index, "row_count", self._row_count)
        if rows != self._row_count:
            raise ValueError(f"index {kind!r} is of {rows} rows, the data file has {self._row_count}")
        return index


def _rows_of(index: Any, predicate: Comparison | IsIn | IsNull | StartsWith, data_type: DataType) -> BitMap | None:
    """The rows that may match, as one index tells; None if it does not."""
    if data_type.is_timestamp and data_type.precision > 6 and not isinstance(index, BloomFilter):
        # It does not tell moments of one microsecond apart.
        return None
    if isinstance(predicate, IsNull):
        return _nulls(index, is_negated=predicate.is_negated)
    if isinstance(predicate, StartsWith):
        has_prefixes = isinstance(index, RangeBitmap) and not predicate.is_negated
        return index.with_prefix(predicate.prefix.encode()) if has_prefixes else None
    if isinstance(predicate, IsIn):
        return _among(index, [each for each in predicate.literals if each is not None], data_type, predicate.is_negated)
    if predicate.literal is None:
        return BitMap()
    if predicate.operator in ("=", "!="):
        return _among(index, [predicate.literal], data_type, predicate.operator == "!=")
    return _compared(index, predicate.operator, predicate.literal, data_type)


def _nulls(index: Any, *, is_negated: bool) -> BitMap | None:
    if isinstance(index, BloomFilter):
        return None
    nulls: BitMap = index.nulls()
    return BitMap(range(index.row_count)) - nulls if is_negated else nulls


def _among(index: Any, values: Sequence[Any], data_type: DataType, is_negated: bool) -> BitMap | None:
    matching = BitMap()
    for value in values:
        keys = [key_of(each, data_type) for each in ((0.0, -0.0) if is_zero(value) else (value,))]
        if isinstance(index, BloomFilter) and data_type.is_timestamp:
            # It holds microseconds, of which several moments may have one.
            keys = [key_of(value - value % 1000, data_type)] if data_type.precision > 6 else keys
        for key in keys:
            rows = None if key is None else index.equal(key)
            if rows is None:
                return None
            matching |= rows
    if not is_negated:
        return matching
    present = _nulls(index, is_negated=True)
    return None if present is None else present - matching


def _compared(index: Any, operator: str, value: Any, data_type: DataType) -> BitMap | None:
    if not isinstance(index, BitSlices | RangeBitmap):
        return None
    or_equal = operator in ("<=", ">=")
    if is_zero(value):
        # The one that takes both in, or neither.
        value = 0.0 if operator in ("<=", ">") else -0.0
    key = key_of(value, data_type)
    if key is None:
        return None
    if operator in ("<", "<="):
        return index.below(key, or_equal=or_equal)
    return index.above(key, or_equal=or_equal)
