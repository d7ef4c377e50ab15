"""Data files: columns of Arrow batches to a file and back, whatever its format.

The suffix of its name tells the format of a file. What a reader finds is compared with what the manifest says; every
damaged file gives CorruptData that names it (`docs/damage.md`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from ..errors import CorruptData, InvalidRequest, Unsupported
from .seal import Sealing

BATCH_ROWS = 131_072
# Where rows are narrow a batch holds more of them: as many as make up so many bytes.
MOST_BATCH_ROWS = 4 * BATCH_ROWS
BATCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """What a manifest says of a data file, to be compared with the file. None: unknown.

    `types`: the columns that the file may have and their Arrow types. `whole`: look at every byte of it.
    """

    row_count: int | None = None
    size_bytes: int | None = None
    types: Mapping[str, pa.DataType] | None = None
    whole: bool = False

    def check_size(self, path: str, size_bytes: int) -> None:
        """Raise CorruptData if the file has another size."""
        if self.size_bytes is not None and self.size_bytes != size_bytes:
            raise CorruptData(
                f"Data file {path} is damaged: it has {size_bytes} bytes, its manifest says {self.size_bytes}."
            )

    def check_rows(self, path: str, row_count: int) -> None:
        """Raise CorruptData if the file has another number of rows."""
        if self.row_count is not None and self.row_count != row_count:
            raise CorruptData(
                f"Data file {path} is damaged: it holds {row_count} rows, its manifest says {self.row_count}."
            )


# What Arrow says of a Parquet file with a map whose keys may be null.
_NULLABLE_KEYS = "Map keys must be annotated as required"


@contextmanager
def damage_named(path: str) -> Iterator[None]:
    """Turn whatever a library says of bytes that make no sense into CorruptData that names the file.

    Failures of the storage, which have a number or a kind of their own, are not of that sort.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None or type(error) is not OSError:
            raise
        raise CorruptData(f"Data file {path} cannot be read: {error}") from None
    except (
        pa.ArrowException,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        MemoryError,
        RecursionError,
        EOFError,
        NotImplementedError,
    ) as error:
        if _NULLABLE_KEYS in str(error):
            raise Unsupported(
                f"Data file {path} has a MAP column whose keys may be null, as Paimon 0.8 writes them to Parquet: no column of "
                "such a file is read here. Have Java write the rows anew, by Paimon 1.0 or later."
            ) from None
        raise CorruptData(f"Data file {path} cannot be read: {type(error).__name__}: {error}") from None


@dataclass(frozen=True, slots=True)
class RowRange:
    """Comparable bounds of one column, used to skip row groups. A bound of None is open."""

    column: str
    low: Any
    high: Any


class DataFileWriter(ABC):
    """Writes one file."""

    @abstractmethod
    def write(self, table: pa.Table) -> None:
        """Take rows."""

    @property
    @abstractmethod
    def bytes_written(self) -> int:
        """About how large the file is by now."""

    @abstractmethod
    def close(self) -> int:
        """Finish the file; returns its size in bytes."""

    @abstractmethod
    def abort(self) -> None:
        """Close without caring for the content; the caller deletes the file."""


class StreamWriter(DataFileWriter):
    """Writes one file through a stream, by a writer of pyarrow's, and a checksum of it into its end."""

    def __init__(self, stream: pa.NativeFile, path: str) -> None:
        self._stream = stream
        self._sealing = Sealing(stream, path)
        self._sink = pa.PythonFile(self._sealing, mode="w")

    @property
    def bytes_written(self) -> int:
        return self._sealing.tell()

    def close(self) -> int:
        self._sealing.hold_end()
        size_bytes = self._finish()
        self._stream.close()
        return size_bytes

    @abstractmethod
    def _finish(self) -> int:
        """Write what is left; returns the size of the file."""

    def abort(self) -> None:
        self._stream.close()


def codec(compression: str, known: Mapping[str, str], file_format: str) -> str:
    """What a format calls a compression. Raises InvalidRequest that lists which it has."""
    if compression not in known:
        raise InvalidRequest(
            f"Option 'file.compression' = {compression!r} is not supported for {file_format}. Supported: {', '.join(known)}."
        )
    return known[compression]


def check_types(schema: pa.Schema, expected: ExpectedFile, path: str) -> None:
    """Raise CorruptData if a file has a column of another kind of type than the table's schema says."""
    for field in schema if expected.types is not None else ():
        wanted = (expected.types or {}).get(field.name)
        if wanted is not None and _kind(wanted) != _kind(field.type):
            raise CorruptData(f"Data file {path} is damaged: its column {field.name!r} is {field.type}, not {wanted}.")


def _kind(arrow_type: pa.DataType) -> tuple[object, ...]:
    """What different spellings of a type have in common: what other writers may choose is left out."""
    types = pa.types
    if types.is_dictionary(arrow_type):
        return _kind(arrow_type.value_type)
    if types.is_integer(arrow_type) or types.is_time(arrow_type) or types.is_date(arrow_type):
        return ("whole number",)
    if types.is_decimal(arrow_type):
        return ("decimal", arrow_type.scale)
    if (
        types.is_string(arrow_type)
        or types.is_large_string(arrow_type)
        or types.is_binary(arrow_type)
        or types.is_fixed_size_binary(arrow_type)
    ):
        return ("bytes",)
    return (arrow_type.id,)


class DataFileReader(ABC):
    """An open file. Close it, or use it as a context manager."""

    # Whether blanks at the end of a CHAR are no part of it, as Java reads the format.
    trims_char = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...

    @property
    def outdated_columns(self) -> list[str]:
        """Columns in a form that Paimon's Java library does not read rightly, nested ones by their path."""
        return []

    @property
    @abstractmethod
    def column_names(self) -> list[str]:
        """The columns of the file."""

    @property
    @abstractmethod
    def is_of_java(self) -> bool:
        """Whether Paimon's Java library has written the file."""

    @abstractmethod
    def row_groups(self, ranges: Sequence[RowRange]) -> list[int]:
        """Row groups that can hold rows within all of the ranges, as far as the file itself can tell."""

    @abstractmethod
    def read_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Batches of the given row groups, of at most MOST_BATCH_ROWS rows, in file order.

        `use_threads` decodes columns in parallel, which only disturbs a caller that reads several files at once.
        """

    @property
    def group_starts(self) -> list[int] | None:
        """The number of the first row of each row group, and the number of rows of the file; None if that is not known."""
        return None

    def group_extremes(self, column: str) -> list[tuple[Any, Any] | None] | None:
        """Smallest and largest value of a column in each row group, None where that is not known; None for all of them."""
        return None

    @property
    def has_constant_beside_nulls(self) -> bool:
        """Whether a row group holds nulls, and of texts or bytes one value beside them, without a dictionary: DuckDB 2.0
        takes all rows of such a column for nulls where a condition asks for them (decision 0041).
        """
        return False

    def extremes(self, column: str) -> tuple[Any, Any] | None:
        """Smallest and largest value of a column by the file's own statistics; None if they do not tell."""
        return None
