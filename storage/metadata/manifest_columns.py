"""Manifests as columns: what they say of partitions and buckets is known before an object is made for a file.

Everything that is checked of the entries of a manifest is checked here of the columns; a manifest that does not pass is read
entry by entry, which says what is wrong with it.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..document import file_name, text
from ..errors import StorageError
from ..file_io import FileIO
from ..format.avro import read_array, read_blocks
from ..format.avro_columns import Column, Columns, Unusual, read_columns
from .manifest_schemas import MANIFEST_TYPES

KIND, BUCKET, TOTAL_BUCKETS, PARTITION = "_KIND", "_BUCKET", "_TOTAL_BUCKETS", "_PARTITION"
NAME, SIZE, ROWS = "_FILE._FILE_NAME", "_FILE._FILE_SIZE", "_FILE._ROW_COUNT"
MIN_KEY, MAX_KEY = "_FILE._MIN_KEY", "_FILE._MAX_KEY"
KEY_STATS, VALUE_STATS = "_FILE._KEY_STATS", "_FILE._VALUE_STATS"
MINIMUMS, MAXIMUMS, NULL_COUNTS = "._MIN_VALUES", "._MAX_VALUES", "._NULL_COUNTS"
MIN_SEQUENCE, MAX_SEQUENCE = "_FILE._MIN_SEQUENCE_NUMBER", "_FILE._MAX_SEQUENCE_NUMBER"
SCHEMA_ID, LEVEL, CREATED = "_FILE._SCHEMA_ID", "_FILE._LEVEL", "_FILE._CREATION_TIME"
EXTRA_FILES, DELETED_ROWS, INDEX = "_FILE._EXTRA_FILES", "_FILE._DELETE_ROW_COUNT", "_FILE._EMBEDDED_FILE_INDEX"
SOURCE, STATS_COLUMNS, EXTERNAL_PATH = "_FILE._FILE_SOURCE", "_FILE._VALUE_STATS_COLS", "_FILE._EXTERNAL_PATH"
FIRST_ROW_ID, WRITE_COLUMNS = "_FILE._FIRST_ROW_ID", "_FILE._WRITE_COLS"

_NEVER_NULL = (
    *(
        KIND,
        PARTITION,
        BUCKET,
        TOTAL_BUCKETS,
        NAME,
        SIZE,
        ROWS,
        MIN_KEY,
        MAX_KEY,
        MIN_SEQUENCE,
        MAX_SEQUENCE,
        SCHEMA_ID,
        LEVEL,
    ),
    *(f"{stats}{end}" for stats in (KEY_STATS, VALUE_STATS) for end in (MINIMUMS, MAXIMUMS)),
)
_NULL_COUNTS = (f"{KEY_STATS}{NULL_COUNTS}", f"{VALUE_STATS}{NULL_COUNTS}")
_MAY_BE_MISSING = (CREATED, DELETED_ROWS, INDEX, SOURCE, STATS_COLUMNS, EXTERNAL_PATH, FIRST_ROW_ID, WRITE_COLUMNS)
_WANTED = (*_NEVER_NULL, *_NULL_COUNTS, EXTRA_FILES, *_MAY_BE_MISSING)
# The times that Python knows, in milliseconds since 1970.
_EARLIEST_MS, _LATEST_MS = -62135596800000, 253402300799999
# Names of so few characters may lead elsewhere.
_SHORTEST_NAME = 3
_LONGEST_NAME = 255


class FilePlace(NamedTuple):
    """Where a file lies, and by which schema it was written."""

    partition: bytes
    bucket: int
    total_buckets: int
    schema_id: int

    @property
    def place(self) -> tuple[bytes, int]:
        """Partition and bucket."""
        return self.partition, self.bucket


# Whether the files of a place are wanted.
KeepPlace = Callable[[FilePlace], bool]


def read_manifests(files: Sequence[tuple[bytes, str]], file_io: FileIO) -> "list[ManifestColumns | None]":
    """Manifests, each given as its content and its path; None for those that must be read entry by entry."""
    read = read_columns([read_blocks(data, path, MANIFEST_TYPES) for data, path in files], _WANTED)
    return [
        None if each is None else _checked(each, file_io, path) for each, (_, path) in zip(read, files, strict=True)
    ]


def _checked(columns: Columns, file_io: FileIO, path: str) -> "ManifestColumns | None":
    try:
        return ManifestColumns(columns, file_io, path)
    except (Unusual, StorageError, LookupError, ValueError):
        return None


class ManifestColumns:
    """The entries of a manifest. Raises Unusual, CorruptData or ValueError for what `manifest` may know an error for."""

    def __init__(self, columns: Columns, file_io: FileIO, path: str) -> None:
        self._data = columns.data
        self._columns = columns.columns
        self._row_count = columns.row_count
        self._arrays: dict[tuple[bytes, str], tuple[Any, ...]] = {}
        for each in _NEVER_NULL:
            if self._columns[each].is_null is not None:
                raise Unusual
        for each in (*_NULL_COUNTS, EXTRA_FILES):
            if each not in self._columns:
                raise Unusual
        if self._row_count and self._columns[LEVEL].starts.min() < 0:
            raise Unusual
        self._check_times()
        self.names = self._checked_names()
        self._check_paths(file_io, path)
        self._check_extra_files(path)
        for each in (STATS_COLUMNS, WRITE_COLUMNS):
            # What is no text is found here.
            self.arrays(each, None)
        # The places of files, and which of them each entry has.
        self._places, self._place_of = self._factored_places()

    def __len__(self) -> int:
        return self._row_count

    def _check_times(self) -> None:
        column = self._columns.get(CREATED)
        if column is not None and column.kind == "timestamp-millis":
            times = column.starts
            if times.min() < _EARLIEST_MS or times.max() > _LATEST_MS:
                raise Unusual

    def _checked_names(self) -> list[str]:
        column = self._columns[NAME]
        starts, ends = self._bounds(column, None)
        names = self._slices(column, None)
        joined = b"/".join(names)
        is_plain = joined.isascii() and b"\\" not in joined and b"\0" not in joined
        if is_plain and joined.count(b"/") == len(names) - 1 and _fit(ends - starts):
            return joined.decode().split("/")
        return [file_name(name.decode(), "", NAME) for name in names]

    def _check_paths(self, file_io: FileIO, path: str) -> None:
        for external in self.texts(EXTERNAL_PATH, None):
            if external:
                file_io.external_path(text(external, path, EXTERNAL_PATH), path)

    def _check_extra_files(self, path: str) -> None:
        for names in set(self.arrays(EXTRA_FILES, None)):
            for name in names or ():
                file_name(name, path, EXTRA_FILES)

    def _factored_places(self) -> tuple[list[FilePlace], np.ndarray]:
        places: dict[tuple[Any, ...], int] = {}
        numbers = (self.numbers(each, None) for each in (BUCKET, TOTAL_BUCKETS, SCHEMA_ID))
        keys = zip(self._slices(self._columns[PARTITION], None), *numbers, strict=True)
        numbered = [places.setdefault(key, len(places)) for key in keys]
        return [FilePlace(*key) for key in places], np.array(numbered, np.int32)

    def rows_of(self, keep: KeepPlace) -> np.ndarray:
        """The entries of wanted places, in order."""
        wanted = np.fromiter(map(keep, self._places), bool, len(self._places))
        return np.flatnonzero(wanted[self._place_of])

    def is_named(self, names: Collection[str]) -> np.ndarray:
        """For each entry whether its file has one of some names."""
        return np.fromiter(map(names.__contains__, self.names), bool, self._row_count)

    def names_of(self, rows: np.ndarray | None) -> list[str]:
        """The name of the file of each entry."""
        return self.names if rows is None else [self.names[row] for row in rows.tolist()]

    def highest(self, rows: np.ndarray) -> list[tuple[FilePlace, int]]:
        """The places of some entries, each with the highest sequence number of its files."""
        if not len(rows):
            return []
        place_of = self._place_of[rows]
        numbers = np.full(len(self._places), np.iinfo(np.int64).min)
        np.maximum.at(numbers, place_of, self._columns[MAX_SEQUENCE].starts[rows])
        return [(self._places[place], int(numbers[place])) for place in np.unique(place_of).tolist()]

    @property
    def deleted_names(self) -> list[str]:
        """The names of the files that entries take away."""
        return [self.names[row] for row in np.flatnonzero(self._columns[KIND].starts).tolist()]

    def partitions(self, rows: np.ndarray | None) -> list[bytes]:
        """The partition of each entry; equal ones are the same object."""
        chosen = self._place_of if rows is None else self._place_of[rows]
        partitions = [place.partition for place in self._places]
        return [partitions[place] for place in chosen.tolist()]

    def numbers(self, path: str, rows: np.ndarray | None) -> Sequence[Any]:
        """A column of whole numbers, None where there is none."""
        column = self._columns.get(path)
        if column is None:
            return self._nothing(rows)
        chosen = column.starts if rows is None else column.starts[rows]
        return _with_nulls(chosen.tolist(), column, rows)

    def bytes_of(self, path: str, rows: np.ndarray | None) -> Sequence[Any]:
        """A column of bytes, None where there are none."""
        column = self._columns.get(path)
        if column is None or _is_all_null(column, rows):
            return self._nothing(rows)
        return _with_nulls(self._slices(column, rows), column, rows)

    def texts(self, path: str, rows: np.ndarray | None) -> Sequence[Any]:
        """A column of texts, None where there is none."""
        return [None if value is None else value.decode() for value in self.bytes_of(path, rows)]

    def arrays(self, path: str, rows: np.ndarray | None) -> Sequence[Any]:
        """A column of arrays, as tuples, None where there is none; equal ones are the same object."""
        column = self._columns.get(path)
        if column is None or _is_all_null(column, rows):
            return self._nothing(rows)
        starts, ends = self._bounds(column, rows)
        lengths = ends - starts
        if lengths.max(initial=0) <= 1:
            # The end of an array takes one byte, and nothing none.
            return [() if length else None for length in lengths.tolist()]
        known, items = self._arrays, column.items
        encoded = self._slices(column, rows)
        for each in set(encoded):
            if (each, items) not in known and each:
                known[each, items] = tuple(read_array(each, items))
        return [known[each, items] if each else None for each in encoded]

    def _slices(self, column: Column, rows: np.ndarray | None) -> list[bytes]:
        starts, ends = self._bounds(column, rows)
        data = self._data
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    @staticmethod
    def _bounds(column: Column, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        assert column.ends is not None
        return (column.starts, column.ends) if rows is None else (column.starts[rows], column.ends[rows])

    def _nothing(self, rows: np.ndarray | None) -> Sequence[Any]:
        return [None] * (self._row_count if rows is None else len(rows))


def _fit(lengths: np.ndarray) -> bool:
    """Whether names are long and short enough."""
    return bool(lengths.min() >= _SHORTEST_NAME and lengths.max() <= _LONGEST_NAME)


def _is_all_null(column: Column, rows: np.ndarray | None) -> bool:
    if column.is_null is None:
        return False
    return bool((column.is_null if rows is None else column.is_null[rows]).all())


def _with_nulls(values: list[Any], column: Column, rows: np.ndarray | None) -> list[Any]:
    if column.is_null is None:
        return values
    is_null = column.is_null if rows is None else column.is_null[rows]
    return [None if null else value for value, null in zip(values, is_null.tolist(), strict=True)]
