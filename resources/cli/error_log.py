"""What this process and the JVM that it starts say on standard error, kept in a file."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def errors_into(log: Path) -> Iterator[None]:
    """Send standard error of this process and of the JVM that it starts into a file."""
    sys.stderr.flush()
    saved = os.dup(2)
    with log.open("wb") as target:
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
