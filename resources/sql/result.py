"""What a statement gives: rows, or a sentence about what was done."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from storage import InvalidRequest, StorageError
from storage.engines.spark_errors import own_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

# The line behind a traceback of Python, which an error of Spark shows in the middle of its text.
_RAISED = re.compile(r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+(\S.*)$", re.MULTILINE)

# What says that something failed and not what: threads that wait for others, and jobs for their tasks.
_OF_OTHERS = re.compile(r"Exception thrown in awaitResult|Job aborted|Writing job aborted|Task failed while writing")
_LOST_TASK = re.compile(r"^.*most recent failure: Lost task \S+ in stage .*?\(TID \d+\)(?: \([^)]*\))?: ")
_CAUSED = "Caused by: "


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise what Spark, or the JVM below it, says as InvalidRequest in one line; errors of the store inside of it as such."""
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        raise own_error(error) or InvalidRequest(f"Spark cannot run the statement: {_said(error)}") from None


def _said(error: Exception) -> str:
    """The first line of an error that says something; of one that was raised in a task, what it is."""
    raised = _RAISED.search(str(error))
    if raised is not None:
        return raised[1].strip()
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):
        lines = lines[1:]
    if not lines:
        return type(error).__name__
    return _cause(lines) if _OF_OTHERS.search(lines[0]) else lines[0].removeprefix(": ")


def _cause(lines: Sequence[str]) -> str:
    """The first cause, in the lines of an error of the JVM, that says what has failed, with the line below that shows it."""
    causes = [place for place, line in enumerate(lines) if line.startswith(_CAUSED)]
    for place in causes:
        if not _OF_OTHERS.search(lines[place]):
            below = lines[place + 1] if place + 1 < len(lines) else ""
            more = "" if not below or below.startswith(("at ", "... ", _CAUSED)) else f": {below}"
            return lines[place].removeprefix(_CAUSED) + more
    return _LOST_TASK.sub("", lines[causes[-1] if causes else 0]).removeprefix(_CAUSED).removeprefix(": ")


def _stream_failure(error: Exception) -> StorageError:
    """What ended a stream, in a line."""
    return own_error(error) or StorageError(f"The stream failed: {_said(error)}")


@dataclass(frozen=True)
class Result:
    """`rows` are in memory, or come from the Spark DataFrame `frame`; `stream` is a query that goes on running, unless it
    `ends` by itself, with what there is now.
    """

    message: str = ""
    rows: pa.Table | None = None
    frame: "DataFrame | None" = None
    stream: "StreamingQuery | None" = None
    ends: bool = False

    def wait(self) -> None:
        """Return once the stream has ended, or been stopped. Raises StorageError that says what ended it."""
        if self.stream is None:
            return
        try:
            while self.stream.isActive:
                self.stream.awaitTermination(1)
        except Exception as error:
            # Of Spark, which raises here what ended the stream.
            raise _stream_failure(error) from None
        failed = self.stream.exception()
        if failed is not None:
            raise _stream_failure(failed)

    def to_arrow(self) -> pa.Table:
        """The rows in memory; for a statement that gives none, a table with its message."""
        if self.rows is not None:
            return self.rows
        if self.frame is not None:
            # PySpark, which statements on DuckDB do without.
            from storage.engines.spark_types import rows_of_frame

            with spark_errors():
                return rows_of_frame(self.frame)
        return pa.table({"result": [self.message]})


def rows_result(names: list[str], rows: list[tuple[Any, ...]], types: dict[str, pa.DataType] | None = None) -> Result:
    """A result from rows of plain values; columns are text unless `types` says otherwise."""
    columns = [
        pa.array([row[index] for row in rows], (types or {}).get(name, pa.string())) for index, name in enumerate(names)
    ]
    return Result(rows=pa.Table.from_arrays(columns, names))


# What a statement that has been read is about to do.
Act = Callable[[], Result]
