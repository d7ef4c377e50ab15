"""Files of a warehouse through fsspec: whole small files, streams for data, and creation that only one can win.

Every path is absolute within its file system, without protocol. What always holds: a file that `create_exclusively`
made is complete or absent, never half there, and of several callers exactly one succeeds.
"""

import contextlib
import datetime as dt
import errno
import fcntl
import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from .clock import Clock
from .errors import AlreadyExists, CorruptData, NotFound, StorageError, StoreUnavailable, Unsupported
from .lock import CatalogLock
from .store_errors import NO_HARD_LINKS, is_missing_bucket, store_call

# With it, fsspec takes a file that is in no listing of its own for one that does not exist.
_LISTINGS = "use_listings_cache"
# File systems that create a file on condition that there is none, as one step.
_CONDITIONAL_PUT = ("memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file in a listing: its name without directory, its size, and when it was last written."""

    name: str
    size_bytes: int
    modified_ms: int | None = None


class FileIO:
    """One file system. Pickles as its URL and storage options, so that it can travel to a Spark task."""

    def __init__(
        self,
        url: str,
        storage_options: dict[str, Any] | None = None,
        clock: Clock | None = None,
        lock: CatalogLock | None = None,
    ) -> None:
        """`url` is any fsspec URL or a local path; the path part is ignored. `lock` is for file systems that cannot
        create a file on condition that there is none.
        """
        self.lock = lock
        self.protocol = urlsplit(url).scheme if "://" in url else "file"
        self.storage_options = storage_options or {}
        if self.storage_options.get(_LISTINGS):
            raise Unsupported(
                f"Storage option {_LISTINGS!r} lets a process miss the files that others have written since. Leave it out."
            )
        self._fs = fsspec.filesystem(self.protocol, **{**self.storage_options, _LISTINGS: False})
        self._local = isinstance(self._fs, LocalFileSystem)
        self._clock = clock or Clock()

    def __reduce__(self) -> tuple[Any, ...]:
        return FileIO, (f"{self.protocol}://", self.storage_options, None, self.lock)

    @property
    def is_local(self) -> bool:
        return self._local

    def url(self, path: str) -> str:
        """The path as other engines take it."""
        return f"file://{path}" if self._local else str(self._fs.unstrip_protocol(path))

    @store_call("read")
    def read_bytes(self, path: str) -> bytes:
        """The whole file. Raises NotFound if there is none."""
        try:
            if self._local:
                with open(path, "rb", buffering=0) as file:
                    return file.read()
            return bytes(self._fs.cat_file(path))
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise
            raise NotFound(f"File {path} does not exist.") from None

    def read_bytes_or_none(self, path: str) -> bytes | None:
        """The whole file, or None if there is none."""
        try:
            return self.read_bytes(path)
        except NotFound:
            return None

    def read_text_or_none(self, path: str) -> str | None:
        """The whole file as text, or None if there is none. Raises CorruptData for what is no text."""
        content = self.read_bytes_or_none(path)
        try:
            return None if content is None else content.decode()
        except UnicodeDecodeError as error:
            raise CorruptData(f"File {path} is damaged: it is no text: {error}") from None

    @store_call("create")
    def create_exclusively(self, path: str, data: bytes, *, in_existing: bool = False) -> bool:
        """Create a file that does not exist yet; return False if it does. Readers see all of it or nothing.

        `in_existing`: raise NotFound if its directory is not there, where there are directories.
        """
        if self._local:
            return self._link_exclusively(path, data, in_existing=in_existing)
        self._make_parent(path)
        if self.protocol not in _CONDITIONAL_PUT:
            return self._create_under_lock(path, data)
        try:
            # On object stores this is the conditional put (If-None-Match and its relatives).
            self._fs.pipe_file(path, data, mode="create")
        except FileExistsError:
            return self._is_ours(path, data)
        except OSError as error:
            if not _says_that_it_exists(error):
                raise
            return self._is_ours(path, data)
        return True

    def _is_ours(self, path: str, data: bytes) -> bool:
        # An answer that was lost is asked for again by the client library, which then meets its own file.
        try:
            return self.read_bytes(path) == data
        except NotFound:
            # It was there a moment ago: whose it was cannot be told.
            raise StoreUnavailable(f"Creating {path} was refused since it exists, and it does not exist.") from None

    def _create_under_lock(self, path: str, data: bytes) -> bool:
        if self.lock is None:
            raise Unsupported(
                f"The file system {self.protocol!r} cannot create a file on condition that there is none, so that two "
                "commits could overwrite each other. Give the catalog a lock: Catalog(…, lock=FileLock(directory))."
            )
        with self.lock.hold(path):
            self._fs.invalidate_cache(posixpath.dirname(path))
            if self._fs.exists(path):
                return False
            self._fs.pipe_file(path, data)
        return True

    def _link_exclusively(self, path: str, data: bytes, *, in_existing: bool) -> bool:
        # A link is the one local call that is atomic, refuses an existing target and never shows half a file.
        temporary = posixpath.join(
            posixpath.dirname(path), f".{posixpath.basename(path)}.{self._clock.unique_name()}.tmp"
        )
        try:
            self._write_local(temporary, data, in_existing=in_existing)
            os.link(temporary, path)
        except FileExistsError:
            # Of a network file system whose answer was lost the client asks again, and meets its own link.
            return _is_same_file(temporary, path)
        except FileNotFoundError:
            # Between the two calls somebody may have moved the directory away.
            raise NotFound(f"Directory {posixpath.dirname(path)} does not exist (any more).") from None
        except OSError as error:
            if self.lock is None or error.errno not in NO_HARD_LINKS:
                raise
            with self.lock.hold(path):
                if os.path.exists(path):
                    return False
                os.replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return True

    @store_call("write")
    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a new file under a name nobody else uses."""
        if self._local:
            self._write_local(path, data)
        else:
            self._make_parent(path)
            self._fs.pipe_file(path, data)

    @store_call("replace")
    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a file; readers see the old or the new content."""
        if self._local:
            temporary = f"{posixpath.dirname(path)}/.{posixpath.basename(path)}.{self._clock.unique_name()}.tmp"
            self._write_local(temporary, data)
            try:
                os.replace(temporary, path)
            except OSError:
                self.delete_quietly([temporary])
                raise
        else:
            self.write_bytes(path, data)

    @store_call("read")
    def read_number(self, path: str) -> int | None:
        """The number in a file that `raise_number` writes; None if there is none, or something else."""
        try:
            if not self._local:
                text = self.read_bytes(path)
            else:
                with open(path, "rb", buffering=0) as file, _locked(file.fileno(), fcntl.LOCK_SH):
                    text = file.read()
        except (NotFound, FileNotFoundError):
            return None
        return int(text) if text.strip().isdigit() and len(text) < 20 else None

    @store_call("write")
    def raise_number(self, path: str, number: int) -> int:
        """Write a number into a small file, or leave it if it holds a higher one; returns what it holds then.

        On local disks this is one step, and many times faster than to create a file. On object stores somebody else may
        write between the look and the write.
        """
        if not self._local:
            held = self.read_number(path) or 0
            if held < number:
                self.write_bytes(path, str(number).encode())
            return max(held, number)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            raise NotFound(f"Directory {posixpath.dirname(path)} does not exist (any more).") from None
        try:
            with _locked(file, fcntl.LOCK_EX):
                text = os.pread(file, 32, 0)
                known = text.strip().isdigit() and len(text) < 20
                if known and int(text) >= number:
                    return int(text)
                if not known or len(text) > len(str(number)):
                    os.ftruncate(file, 0)
                os.pwrite(file, str(number).encode(), 0)
                return number
        finally:
            os.close(file)

    @store_call("delete")
    def delete_if(self, path: str, expected: bytes) -> bool:
        """Delete a file if it still holds some bytes; says whether it did.

        On local disks this is one step among all who do it so; on object stores a read and a delete.
        """
        with self._directory_locked(path):
            if self.read_bytes_or_none(path) != expected:
                return False
            self.delete(path)
            return True

    @store_call("replace")
    def replace_if(self, path: str, expected: bytes | None, data: bytes) -> bool:
        """Replace a file if it still holds some bytes, or create it if there is to be none (None); says whether it did. As
        atomic as `delete_if`.
        """
        if expected is None and self._local:
            # A directory that is not there has no lock.
            os.makedirs(posixpath.dirname(path), exist_ok=True)
        with self._directory_locked(path):
            if expected is None:
                return self.create_exclusively(path, data)
            if self.read_bytes_or_none(path) != expected:
                return False
            self.overwrite(path, data)
            return True

    @store_call("rename")
    def rename_if(self, path: str, target: str, expected: bytes) -> bool:
        """Give a file another name in its directory if it still holds some bytes; says whether it did. Local disks only: one
        step among all who create files there by `replace_if`. Raises AlreadyExists if the name is taken.
        """
        with self._directory_locked(path):
            if self.read_bytes_or_none(path) != expected:
                return False
            if os.path.exists(target):
                raise AlreadyExists(f"File {target} exists.")
            os.rename(path, target)
            return True

    @contextlib.contextmanager
    def _directory_locked(self, path: str) -> Iterator[None]:
        """Keep others who compare and change files of a directory out, where there is such a lock."""
        if not self._local:
            yield
            return
        try:
            directory = os.open(posixpath.dirname(path), os.O_RDONLY)
        except FileNotFoundError:
            yield
            return
        try:
            with _locked(directory, fcntl.LOCK_EX):
                yield
        finally:
            os.close(directory)

    def _write_local(self, path: str, data: bytes, *, in_existing: bool = False) -> None:
        try:
            file = open(path, "wb", buffering=0)  # noqa: SIM115
        except FileNotFoundError:
            if in_existing:
                raise
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = open(path, "wb", buffering=0)  # noqa: SIM115
        try:
            with file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
        except OSError:
            # Half a file is of no use, and a full disk is when every byte counts.
            self.delete_quietly([path])
            raise

    def _make_parent(self, path: str) -> None:
        # Object stores have no directories, and asking for one would create a bucket; the memory file system needs them.
        if isinstance(self._fs, MemoryFileSystem):
            self._fs.makedirs(posixpath.dirname(path), exist_ok=True)

    @store_call("create the directory")
    def make_directory(self, path: str) -> None:
        self._fs.makedirs(path, exist_ok=True)

    @store_call("look for")
    def exists(self, path: str) -> bool:
        return os.path.exists(path) if self._local else bool(self._fs.exists(path))

    @store_call("list")
    def list_files(self, path: str) -> list[FileInfo]:
        """Files directly in a directory, unordered; none if it does not exist."""
        return [FileInfo(name, size, time_ms) for name, size, kind, time_ms in self._list(path) if kind == "file"]

    @store_call("list")
    def list_directories(self, path: str) -> list[str]:
        """Names of the directories directly in a directory, unordered; none if it does not exist."""
        return [name for name, _, kind, _ in self._list(path) if kind == "directory"]

    def _list(self, path: str) -> Iterator[tuple[str, int, str, int | None]]:
        try:
            if self._local:
                with os.scandir(path) as entries:
                    for entry in entries:
                        with contextlib.suppress(FileNotFoundError):
                            found = entry.stat()
                            kind = "directory" if entry.is_dir() else "file"
                            yield entry.name, found.st_size, kind, found.st_mtime_ns // 1_000_000
                return
            self._fs.invalidate_cache(path)
            for info in self._fs.ls(path, detail=True):
                name = posixpath.basename(str(info["name"]).rstrip("/"))
                if name and str(info["name"]).rstrip("/").lstrip("/") != path.strip("/"):
                    yield name, info.get("size") or 0, info["type"], _modified_ms(info)
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise

    @store_call("delete")
    def delete(self, path: str) -> None:
        """Delete a file; no error if it is gone already."""
        with contextlib.suppress(FileNotFoundError):
            if self._local:
                os.unlink(path)
            else:
                self._fs.rm_file(path)

    @store_call("delete the directory")
    def delete_directory(self, path: str) -> None:
        """Delete a directory and all that is in it; no error if it is gone already."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm(path, recursive=True)

    @property
    def moves_at_once(self) -> bool:
        """Whether a directory gets another name in one step, rather than file by file."""
        return self.is_local

    @store_call("move the directory")
    def move_directory_if_absent(self, path: str, target: str) -> bool:
        """Give a directory another name unless there is one of that name with something in it; says whether it has it."""
        try:
            self._move_directory(path, target)
        except FileNotFoundError:
            raise NotFound(f"Directory {path} does not exist (any more).") from None
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        return True

    @store_call("move the directory")
    def move_directory_if(self, path: str, target: str, witness: str, expected: bytes) -> bool:
        """Give a directory another name if a file in it still holds some bytes; says whether it did. As atomic as
        `delete_if`. Raises AlreadyExists if there is one of that name with something in it.
        """
        with self._directory_locked(path):
            if self.read_bytes_or_none(witness) != expected:
                return False
            if not self.move_directory_if_absent(path, target):
                raise AlreadyExists(f"Directory {target} exists.")
            return True

    @store_call("move the directory")
    def move_directory(self, path: str, target: str) -> None:
        """Give a directory another name; the target must not be there."""
        self._move_directory(path, target)

    def _move_directory(self, path: str, target: str) -> None:
        if self._local:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(path, target)
        else:
            self._fs.mv(path, target, recursive=True)

    def delete_quietly(self, paths: list[str]) -> None:
        """Delete what can be deleted: used to clean up after another error, which must not be hidden."""
        for path in paths:
            with contextlib.suppress(OSError, StorageError):
                self.delete(path)

    @store_call("open")
    def open_input(self, path: str) -> pa.NativeFile:
        """A random-access file for pyarrow. Raises NotFound if there is none."""
        try:
            if self._local:
                return pa.memory_map(path)
            return pa.PythonFile(self._fs.open(path, "rb"), mode="r")
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise
            raise NotFound(
                f"Data file {path} does not exist. The snapshot that names it may have expired: read a newer one."
            ) from None

    @store_call("write")
    def open_output(self, path: str) -> pa.NativeFile:
        """A stream that writes a new file under a name nobody else uses."""
        if self._local:
            try:
                return pa.OSFile(path, "wb")
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                return pa.OSFile(path, "wb")
        self._make_parent(path)
        return pa.PythonFile(self._fs.open(path, "wb"), mode="w")


@contextlib.contextmanager
def _locked(file: int, kind: int) -> Iterator[None]:
    """Hold an advisory lock of an open file; where the file system has no locks, go on without."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, kind)
    # Closing the file gives the lock back.
    yield


def _is_same_file(path: str, other: str) -> bool:
    """Whether two names are of one file."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samefile(path, other)
    return False


def _says_that_it_exists(error: OSError) -> bool:
    """Whether a conditional put was refused: not every store says so in words that fsspec knows."""
    cause: BaseException | None = error
    while cause is not None:
        response = getattr(cause, "response", None)
        if isinstance(response, dict) and response.get("Error", {}).get("Code") in ("PreconditionFailed", "412"):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _modified_ms(info: Mapping[str, Any]) -> int | None:
    """When a file was last written, under the names that file systems give it."""
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        moment = info.get(key)
        if isinstance(moment, dt.datetime):
            return int(moment.timestamp() * 1000)
        if isinstance(moment, int | float):
            return int(moment * 1000)
    return None


def split_url(url: str) -> str:
    """The path of an fsspec URL or local path, absolute and without a slash at the end."""
    if "://" not in url:
        return os.path.abspath(os.path.expanduser(url))
    protocol = urlsplit(url).scheme
    path = str(fsspec.get_filesystem_class(protocol)._strip_protocol(url))
    return path.rstrip("/")
