"""A disk that is full from the nth write on: what is written then ends in ENOSPC, what frees room or gives names goes on."""

import errno
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from storage import file_io, local_write
from storage.file_io import FileIO


class _Full(io.RawIOBase):
    """A file of which no byte is kept."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullDisk:
    """Counts what is written; from the write of a number on, none finds room."""

    def __init__(self, full_from: int | None = None) -> None:
        self.full_from = full_from
        self.writes: list[str] = []

    def is_full(self, path: str) -> bool:
        self.writes.append(path)
        return self.full_from is not None and len(self.writes) > self.full_from

    @contextmanager
    def used(self) -> Iterator[None]:
        """Every local file of this process lies on it."""
        disk, write_file, open_output = self, local_write.write_file, FileIO.open_output

        def written(path: str, data: bytes, directory: int | None = None) -> None:
            if disk.is_full(path):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            write_file(path, data, directory)

        def opened(files: FileIO, path: str) -> pa.NativeFile:
            if disk.is_full(path):
                # A name finds room longer than content does.
                open_output(files, path).close()
                return pa.PythonFile(_Full(), mode="w")
            return open_output(files, path)

        with pytest.MonkeyPatch.context() as patch:
            for module in (local_write, file_io):
                patch.setattr(module, "write_file", written)
            patch.setattr(FileIO, "open_output", opened)
            yield
