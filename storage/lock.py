"""Catalog locks: for stores that cannot create a file on condition that there is none.

Where the store can (local files, S3, Google Cloud Storage, Azure), no lock is needed and none is taken.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol


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
        os.makedirs(self.directory, exist_ok=True)
        name = hashlib.sha256(os.path.dirname(path).encode()).hexdigest()[:32]
        with open(f"{self.directory}/{name}.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
