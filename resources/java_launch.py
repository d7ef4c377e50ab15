"""Start Spark's JVM, and know why if it ends before it can be talked to: the reason stands in what it writes alone."""

import atexit
import os
import re
import select
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from storage import InvalidRequest, hidden

_CAUSED = "Caused by: "
_RAISED = re.compile(r'(?:Exception in thread "[^"]*" )?([\w.$]+(?:Exception|Error)\b.*)')
# What says of a JVM that it runs, or how to ask for help.
_NOTES = re.compile(r"\s|WARNING:|Picked up |Error occurred during init|Using |Run with --help|\d\d[/:-]|at |\.\.\. ")
_WAIT_SECONDS = 10


def launched(conf: SparkConf, advice: str, spark_home: Path | None) -> Any:
    """The gateway to a new JVM, whose output and errors go where this process's go now. `spark_home`: another than its own.

    Raises InvalidRequest with the cause that the JVM shows, and `advice`, if it ends before it has told its port.
    """
    errors, output = _Written(2), _Written(1)
    try:
        with _home(spark_home):
            gateway = launch_gateway(conf, {"stderr": errors.end, "stdout": output.end})  # type: ignore[no-untyped-call]
    except (PySparkRuntimeError, OSError) as error:
        said = cause([*errors.all(), *output.all()]) or str(error)
        raise InvalidRequest(f"Spark's Java ended before it could be used: {hidden(said)}. {advice}") from None
    except BaseException:
        errors.show()
        output.show()
        raise
    errors.show()
    output.show()
    return gateway


@contextmanager
def _home(directory: Path | None) -> Iterator[None]:
    """SPARK_HOME for what is started meanwhile: programs that this one starts later find their own."""
    if directory is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(directory)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def cause(lines: Sequence[str]) -> str:
    """The last cause in what a JVM has written, else its first error, else its first line; empty if it has said nothing."""
    causes = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    raised = [match[1] for line in lines if (match := _RAISED.match(line))]
    others = [line for line in lines if line.strip() and not _NOTES.match(line)]
    return " ".join([*causes[-1:], *raised[:1], *others[:1], ""][0].split()).rstrip(".")


class _Written:
    """What is written to `end` of a pipe: kept until `show` is called, passed on from then on to what `descriptor` is now."""

    def __init__(self, descriptor: int) -> None:
        self._reading, self.end = os.pipe()
        self._target = os.dup(descriptor)
        self._kept: list[bytes] | None = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._pass_on, name="java-output", daemon=True)
        # The thread ends with the program, which may end before it has seen the last.
        atexit.register(self._take)
        self._thread.start()

    def all(self) -> list[str]:
        """The lines, once everybody who writes has ended."""
        os.close(self.end)
        self._thread.join(_WAIT_SECONDS)
        with self._lock:
            return b"".join(self._kept or []).decode(errors="replace").splitlines()

    def show(self) -> None:
        """Write what was kept, and from now on whatever comes."""
        os.close(self.end)
        with self._lock:
            kept, self._kept = self._kept or [], None
            self._write(b"".join(kept))

    def _pass_on(self) -> None:
        while self._take():
            select.select([self._reading], [], [])
        atexit.unregister(self._take)
        with self._lock:
            os.close(self._reading)
            os.close(self._target)
            self._reading = -1

    def _take(self) -> bool:
        """Keep, or pass on, what has been written by now; false once nobody can write any more."""
        with self._lock:
            while self._reading >= 0 and select.select([self._reading], [], [], 0)[0]:
                part = os.read(self._reading, 65536)
                if not part:
                    return False
                if self._kept is None:
                    self._write(part)
                else:
                    self._kept.append(part)
            return self._reading >= 0

    def _write(self, part: bytes) -> None:
        try:
            while part:
                part = part[os.write(self._target, part) :]
        except OSError:
            # Nobody reads: the JVM goes on all the same.
            return
