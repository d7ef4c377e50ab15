"""Data files: columns of Arrow batches to a file and back, whatever its format.

A reader trusts the manifest for everything but the columns. The suffix of its name tells the format of a file.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from ..errors import InvalidRequest

BATCH_ROWS = 131_072
# Where rows are narrow a batch holds more of them: as many as make up so many bytes.
MOST_BATCH_ROWS = 4 * BATCH_ROWS
BATCH_BYTES = 4 << 20


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
    """Writes one file through a stream, by a writer of pyarrow's."""

    def __init__(self, stream: pa.NativeFile, writer: Any) -> None:
        self._stream = stream
        self._writer = writer

    @property
    def bytes_written(self) -> int:
        return int(self._stream.tell())

    def close(self) -> int:
        self._writer.close()
        size_bytes = self.bytes_written
        self._stream.close()
        return size_bytes

    def abort(self) -> None:
        self._stream.close()


def codec(compression: str, known: Mapping[str, str], file_format: str) -> str:
    """What a format calls a compression. Raises InvalidRequest that lists which it has."""
    if compression not in known:
        raise InvalidRequest(
            f"Option 'file.compression' = {compression!r} is not supported for {file_format}. Supported: {', '.join(known)}."
        )
    return known[compression]


class DataFileReader(ABC):
    """An open file. Close it, or use it as a context manager."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None: ...

    @property
    @abstractmethod
    def column_names(self) -> list[str]:
        """The columns of the file."""

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

    def extremes(self, column: str) -> tuple[Any, Any] | None:
        """Smallest and largest value of a column by the file's own statistics; None if they do not tell."""
        return None
