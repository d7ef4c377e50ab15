"""Catalog locks: for stores that cannot create a file on condition that there is none.

Where the store can (local files, S3, Google Cloud Storage, Azure), no lock is needed and none is taken.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import IO, Protocol

from .errors import StoreUnavailable

# In seconds: how long somebody may hold a lock, which calls hold for milliseconds, and how often it is asked for.
_MOST_SECONDS = 60
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01


class CatalogLock(Protocol):
    """Held while a commit looks whether its snapshot is there and writes it. Must pickle, to travel to tasks."""

    def hold(self, path: str) -> AbstractContextManager[None]:
        """Wait until nobody else holds the lock for a path, and hold it."""
        ...


@dataclass(frozen=True)
class FileLock:
    """A lock between all processes that see one directory, on this machine or on a shared file system with `flock`."""

    directory: str

    @contextmanager
    def hold(self, path: str) -> Iterator[None]:
        """Hold the lock of a path for as long as the block runs."""
        os.makedirs(self.directory, exist_ok=True)
        name = hashlib.sha256(os.path.dirname(path).encode()).hexdigest()[:32]
        with open(f"{self.directory}/{name}.lock", "w") as file:
            take_lock(file, file.name, fcntl.LOCK_EX)
            yield


def take_lock(file: IO[str] | int, path: str, kind: int) -> None:
    """Take an advisory lock (`flock`) of an open file. Raises StoreUnavailable if somebody holds it much longer than calls do:
    who is stopped in one stops nobody for good.
    """
    until, pause = time.monotonic() + _MOST_SECONDS, _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"{path} has been locked by another process for {_MOST_SECONDS} s. That is stopped, or its disk hangs: let "
                    "it go on, or end it; `lsof` names it."
                ) from None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
