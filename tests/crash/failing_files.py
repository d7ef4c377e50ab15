"""A file system of which the nth call fails: before it does anything, after it is done, or half-way."""

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from storage import StoreUnavailable
from storage.directory_lock import Witness
from storage.file_io import FileInfo, FileIO

BEFORE, AFTER, TORN = "before", "after", "torn"
MODES = (BEFORE, AFTER, TORN)


class Injected(OSError):
    """The failure that was asked for."""


class FailingFileIO(FileIO):
    """Counts its calls; the one with number `fails_at` fails. None: it only counts."""

    def __init__(self, fails_at: int | None = None, mode: str = BEFORE, url: str = "file://") -> None:
        super().__init__(url)
        self.fails_at = fails_at
        self.mode = mode
        self.calls: list[str] = []

    def _call(self, name: str, path: str, act: Callable[[], Any], torn: Callable[[], Any] | None = None) -> Any:
        number = len(self.calls)
        self.calls.append(f"{name} {path}")
        if number != self.fails_at:
            return act()
        if self.mode == AFTER:
            act()
        elif self.mode == TORN and torn is not None:
            torn()
        # As each call of FileIO does with what its file system raises.
        raise StoreUnavailable(f"{name} of {path} failed {self.mode}.") from Injected()

    def read_bytes(self, path: str) -> bytes:
        return bytes(self._call("read", path, lambda: super(FailingFileIO, self).read_bytes(path)))

    def exists(self, path: str) -> bool:
        return bool(self._call("exists", path, lambda: super(FailingFileIO, self).exists(path)))

    def list_files(self, path: str, *, or_in_place: bool = False) -> list[FileInfo]:
        act = super().list_files
        return list(self._call("list", path, lambda: act(path, or_in_place=or_in_place)))

    def list_directories(self, path: str) -> list[str]:
        return list(self._call("list", path, lambda: super(FailingFileIO, self).list_directories(path)))

    def create_exclusively(self, path: str, data: bytes, *, of: Witness | None = None) -> bool:
        half = f"{os.path.dirname(path)}/.{os.path.basename(path)}.half.tmp"
        create = super().create_exclusively
        write = super().write_bytes

        def act() -> bool:
            return create(path, data, of=of)

        return bool(self._call("create", path, act, lambda: write(half, data[: len(data) // 2])))

    def write_bytes(self, path: str, data: bytes) -> None:
        write = super().write_bytes
        self._call("write", path, lambda: write(path, data), lambda: write(path, data[: len(data) // 2]))

    def overwrite(self, path: str, data: bytes, *, of: Witness | None = None) -> None:
        replace = super().overwrite
        self._call("replace", path, lambda: replace(path, data, of=of))

    def raise_number(self, path: str, number: int, *, of: Witness | None = None) -> int:
        raise_number, write = super().raise_number, super().write_bytes
        half = str(number).encode()[: len(str(number)) // 2]
        return int(self._call("raise", path, lambda: raise_number(path, number, of=of), lambda: write(path, half)))

    def read_number(self, path: str) -> int | None:
        read = super().read_number
        number: int | None = self._call("read", path, lambda: read(path))
        return number

    def delete_if(self, path: str, expected: bytes) -> bool:
        delete = super().delete_if
        return bool(self._call("delete", path, lambda: delete(path, expected)))

    def replace_if(self, path: str, expected: bytes | None, data: bytes, *, of: Witness | None = None) -> bool:
        replace = super().replace_if
        return bool(self._call("replace", path, lambda: replace(path, expected, data, of=of)))

    def rename_if(self, path: str, target: str, expected: bytes) -> bool:
        rename = super().rename_if
        return bool(self._call("rename", path, lambda: rename(path, target, expected)))

    def _move_directory(self, path: str, target: str) -> None:
        move = super()._move_directory
        self._call("move", path, lambda: move(path, target))

    def delete(self, path: str) -> None:
        delete = super().delete
        self._call("delete", path, lambda: delete(path))

    def delete_directory(self, path: str) -> None:
        delete = super().delete_directory
        # Files go one by one, so that half of them may be gone.
        files = super().list_files
        directories = super().list_directories

        def some() -> None:
            for name in directories(path)[:1]:
                delete(f"{path}/{name}")
            for file in files(path)[:1]:
                FileIO.delete(self, f"{path}/{file.name}")

        self._call("delete directory", path, lambda: delete(path), some)

    def open_output(self, path: str) -> pa.NativeFile:
        opened = super().open_output
        return self._call("open for writing", path, lambda: opened(path), lambda: opened(path).close())
