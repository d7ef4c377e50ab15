"""Files of a warehouse through fsspec: whole small files, streams for data, and creation that only one can win.

Every path is absolute within its file system, without protocol. What always holds: a file that `create_exclusively`
made is complete or absent, never half there, and of several callers exactly one succeeds. What is written `of` a witness
is, on local disks, written into the directory that the witness was read in, never into a later one of the same name.
"""

import contextlib
import errno
import fcntl
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from . import local_file, object_store
from .clock import Clock
from .directory_lock import Witness, directory_locked, is_another, kept_in_place, locked, read_in
from .document import as_text
from .errors import AlreadyExists, InvalidRequest, NotFound, StorageError, Unsupported
from .file_system import open_file_system, path_of, protocol_of
from .local_file import despite_lost_answer, is_in_place, open_regular, refuse_other
from .local_write import create_by_link, move_directory, put_file, raise_number, replace_file, write_file
from .lock import CatalogLock
from .object_creation import create_object
from .object_store import OpenObject, delete_if, read, read_of_size, read_part, replace_if
from .secret import guarded_storage, settled
from .store_errors import is_missing_bucket, store_call

# A small object is read whole: what is left out of it costs less than a second request.
_READ_AT_ONCE = 2 << 20


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file in a listing: its name without directory, its size, and when it was last written."""

    name: str
    size_bytes: int
    modified_ms: int | None = None


class FileIO:
    """One file system. Pickles as its URL and storage options, so that it can travel to a Spark task."""

    external_roots: tuple[str, ...] = ()

    def __init__(
        self,
        url: str,
        storage_options: dict[str, Any] | None = None,
        clock: Clock | None = None,
        lock: CatalogLock | None = None,
        external_roots: Sequence[str] = (),
    ) -> None:
        """`url` is any fsspec URL or a local path; the path part is ignored. `lock` is for file systems that cannot
        create a file on condition that there is none. `external_roots`: see `external_path`.
        """
        self.lock = lock
        self.protocol = protocol_of(url)
        # Secrets are texts again in the hands of fsspec alone.
        self.storage_options = settled(guarded_storage(storage_options or {}))
        self._fs = open_file_system(url, self.storage_options)
        self._local = isinstance(self._fs, LocalFileSystem)
        self._clock = clock or Clock()
        self.external_roots = tuple(self._root(root) for root in external_roots)

    def __reduce__(self) -> tuple[Any, ...]:
        return FileIO, (f"{self.protocol}://", self.storage_options, None, self.lock, self.external_roots)

    @property
    def is_local(self) -> bool:
        """Whether files lie on a local disk, or what the system shows as one."""
        return self._local

    def unique_name(self) -> str:
        """A name that nobody else gives, to a file or a content."""
        return self._clock.unique_name()

    def url(self, path: str) -> str:
        """The path as other engines take it."""
        return f"file://{path}" if self._local else str(self._fs.unstrip_protocol(path))

    def _root(self, root: str) -> str:
        path = path_of(self._fs, self.protocol, root)
        if path is None:
            raise InvalidRequest(
                f"External root {root!r} is no directory of the warehouse's file system: give an absolute path, or "
                f"a URL of {self.protocol!r}."
            )
        return path.rstrip("/")

    def external_path(self, url: str, source: str) -> str:
        """The path of a data file that lies outside of its table's directory, as `source`, a file of the table, names it.

        Only who opens the catalog can allow that, not the table. Raises Unsupported unless it lies below an external root.
        """
        path = path_of(self._fs, self.protocol, url)
        if path is None or not any(path.startswith(f"{root}/") for root in self.external_roots):
            raise Unsupported(
                f"File {source} names the data file {url!r}, which lies outside of the table's directory. If you trust who "
                "wrote the table, allow the directory: Catalog(…, external_roots=[…])."
            )
        return path

    @store_call("read")
    def read_bytes(self, path: str) -> bytes:
        """The whole file. Raises NotFound if there is none."""
        try:
            if self._local:
                with open(open_regular(path), "rb", buffering=0) as file:
                    return file.read()
            return read(self._fs, path)
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
        return None if content is None else as_text(content, path)

    @store_call("create")
    def create_exclusively(self, path: str, data: bytes, *, of: Witness | None = None) -> bool:
        """Create a file that does not exist yet; return False if it does. Readers see all of it or nothing.

        Raises NotFound if the directory is another one than `of` tells.
        """
        with self._while_still(of):
            return self._create(path, data)

    def _create(self, path: str, data: bytes) -> bool:
        if self._local:
            return create_by_link(path, data, self._clock.unique_name(), self.lock)
        self._make_parent(path)
        return create_object(self._fs, self.protocol, self.lock, self.read_bytes, path, data)

    @store_call("write")
    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a new file under a name nobody else uses."""
        if self._local:
            write_file(path, data)
        else:
            self._make_parent(path)
            self._fs.pipe_file(path, data)

    @store_call("write")
    def put_file(self, source: str, path: str) -> None:
        """Give a whole local file a name, on a local disk within its file system; readers see it whole, or what was there."""
        if self._local:
            put_file(source, path)
        else:
            self._make_parent(path)
            self._fs.put_file(source, path)

    @store_call("replace")
    def overwrite(self, path: str, data: bytes, *, of: Witness | None = None) -> None:
        """Replace a file; readers see the old or the new content. Raises NotFound as `create_exclusively` does."""
        with self._while_still(of):
            self._overwrite(path, data)

    def _overwrite(self, path: str, data: bytes, directory: int | None = None) -> None:
        """In an open directory, if one is given, whatever name that has by now."""
        if self._local:
            replace_file(path, data, self._clock.unique_name(), directory)
        else:
            self.write_bytes(path, data)

    @store_call("read")
    def read_number(self, path: str) -> int | None:
        """The number in a file that `raise_number` writes; None if there is none, or something else."""
        try:
            if not self._local:
                text = self.read_bytes(path)
            else:
                # Who cannot be kept out cannot write either.
                with open(open_regular(path), "rb", buffering=0) as file, locked(self.lock, file.fileno(), path, None):
                    text = file.read()
        except (NotFound, FileNotFoundError, IsADirectoryError):
            return None
        return int(text) if text.strip().isdigit() and len(text) < 20 else None

    @store_call("write")
    def raise_number(self, path: str, number: int, *, of: Witness | None = None) -> int:
        """Write a number into a small file, or leave it if it holds a higher one; returns what it holds then.

        On local disks this is one step, and many times faster than to create a file. On object stores somebody else may
        write between the look and the write. Raises NotFound if there is no directory, or another one than `of` tells.
        """
        with self._while_still(of):
            if self._local:
                return raise_number(path, number, self.lock)
            held = self.read_number(path) or 0
            if held < number:
                self.write_bytes(path, str(number).encode())
            return max(held, number)

    @store_call("delete")
    def delete_if(self, path: str, expected: bytes) -> bool:
        """Delete a file if it still holds some bytes; says whether it did.

        On local disks, on S3 and under the catalog's lock this is one step among all who do it so; on other object stores
        a read and a delete.
        """
        if not self._local:
            with self._alone(path):
                return delete_if(self._fs, path, expected)
        with self._directory_locked(path) as directory:
            if directory is None or read_in(directory, path) != expected:
                return False
            with despite_lost_answer(lambda: not is_in_place(posixpath.basename(path), directory)):
                os.unlink(posixpath.basename(path), dir_fd=directory)
            return True

    @store_call("replace")
    def replace_if(self, path: str, expected: bytes | None, data: bytes, *, of: Witness | None = None) -> bool:
        """Replace a file if it still holds some bytes, or create it if there is to be none (None); says whether it did. As
        atomic as `delete_if`. Raises NotFound as `create_exclusively` does.
        """
        # One lock of a directory, not two that wait for each other.
        is_the_same = of is not None and of.directory == posixpath.dirname(path)
        with self._while_still(of, fcntl.LOCK_EX if is_the_same else fcntl.LOCK_SH):
            if expected is None and self._local:
                # A directory that is not there has no lock.
                os.makedirs(posixpath.dirname(path), exist_ok=True)
            with contextlib.nullcontext() if is_the_same else self._directory_locked(path) as directory:
                if expected is None:
                    return self._create(path, data)
                if not self._local:
                    with self._alone(path):
                        return replace_if(self._fs, path, expected, data)
                held = self.read_bytes_or_none(path) if directory is None else read_in(directory, path)
                if held != expected:
                    return False
                self._overwrite(path, data, directory)
                return True

    def _alone(self, path: str) -> contextlib.AbstractContextManager[Any]:
        """Keeps others who hold the catalog's lock from changing a file, if it has one."""
        return self.lock.hold(path) if self.lock is not None else contextlib.nullcontext()

    @store_call("rename")
    def rename_if(self, path: str, target: str, expected: bytes) -> bool:
        """Give a file another name in its directory if it still holds some bytes; says whether it did. Local disks only: one
        step among all who create files there by `replace_if`. Raises AlreadyExists if the name is taken.
        """
        with self._directory_locked(path) as directory:
            if directory is None or read_in(directory, path) != expected:
                return False
            name, new_name = posixpath.basename(path), posixpath.basename(target)
            if read_in(directory, target) is not None:
                raise AlreadyExists(f"File {target} exists.")
            with despite_lost_answer(lambda: not is_in_place(name, directory)):
                os.rename(name, new_name, src_dir_fd=directory, dst_dir_fd=directory)
            return True

    @contextlib.contextmanager
    def _while_still(self, of: Witness | None, kind: int | None = fcntl.LOCK_SH) -> Iterator[None]:
        """Keep a directory from being moved as long as this lasts. Raises NotFound if it is not the one that was read.

        On object stores, where no directory is moved at once, it is looked at and not kept.
        """
        if of is None:
            yield
            return
        if not self._local:
            if of.path is not None and self.read_bytes_or_none(of.path) != of.content:
                raise is_another(of)
            yield
            return
        with kept_in_place(self.lock, of, kind):
            yield

    def _directory_locked(self, path: str) -> contextlib.AbstractContextManager[int | None]:
        return directory_locked(self.lock, path) if self._local else contextlib.nullcontext()

    def _make_parent(self, path: str) -> None:
        # Object stores have no directories, and asking for one would create a bucket; the memory file system needs them.
        if isinstance(self._fs, MemoryFileSystem):
            self._fs.makedirs(posixpath.dirname(path), exist_ok=True)

    @store_call("create the directory")
    def make_directory(self, path: str, *, listed: bool = False) -> None:
        """Make a directory, also those above it; no error if it is there. Raises AlreadyExists for a file of that name.

        `listed`: it is listed while nothing is in it, on S3 as well, where directories are otherwise what files lie in.
        """
        try:
            object_store.make_directory(self._fs, path, listed=listed)
        except FileExistsError:
            # Said also where the file system cannot tell what there is.
            if self._local and stat.S_ISDIR(os.stat(path).st_mode):
                return
            raise AlreadyExists(f"There is a file in the place of the directory {path}.") from None

    @store_call("look for")
    def exists(self, path: str) -> bool:
        """Whether there is a file; on local disks also whether there is a directory."""
        return self._is_there(path)

    def _is_there(self, path: str) -> bool:
        """What cannot be told is an error: it counts as neither there nor gone."""
        if self._local:
            return local_file.is_there(path)
        return object_store.is_there(self._fs, path)

    @store_call("list")
    def list_files(self, path: str, *, or_in_place: bool = False) -> list[FileInfo]:
        """Files directly in a directory, unordered, and what is no file and no directory; none if it does not exist.
        `or_in_place`: on local disks with directories, for one may lie in the place of a file. Reading says what it is.
        """
        kinds = ("file", "other", "directory") if or_in_place and self.moves_at_once else ("file", "other")
        return [FileInfo(name, size, time_ms) for name, size, kind, time_ms in self._list(path) if kind in kinds]

    @store_call("list")
    def list_directories(self, path: str) -> list[str]:
        """Names of the directories directly in a directory, unordered; none if it does not exist."""
        return [name for name, _, kind, _ in self._list(path) if kind == "directory"]

    def _list(self, path: str) -> Iterator[tuple[str, int, str, int | None]]:
        try:
            yield from local_file.listing(path) if self._local else object_store.listing(self._fs, path)
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise

    @store_call("delete")
    def delete(self, path: str) -> None:
        """Delete a file; no error if it is gone already."""
        with contextlib.suppress(FileNotFoundError):
            if self._local:
                with despite_lost_answer(lambda: not is_in_place(path)):
                    os.unlink(path)
            else:
                self._fs.rm_file(path)

    @store_call("delete the directory")
    def delete_directory(self, path: str) -> None:
        """Delete a directory and all that is in it; no error if it is gone already."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm(path, recursive=True)

    @store_call("delete the directory")
    def delete_empty_directory(self, path: str) -> bool:
        """Delete a directory if nothing is in it; says whether it is gone."""
        if self._local:
            return local_file.delete_empty_directory(path)
        return object_store.delete_empty_directory(self._fs, path)

    @property
    def moves_at_once(self) -> bool:
        """Whether a directory gets another name in one step, rather than file by file."""
        return self.is_local

    @store_call("move the directory")
    def move_directory_if_absent(self, path: str, target: str, *, of: Witness | None = None) -> bool:
        """Give a directory another name unless there is one of that name with something in it; says whether it has it.

        Raises NotFound if it is not there, or what it lies in is another one than `of` tells.
        """
        try:
            with self._while_still(of):
                self._move_directory(path, target)
        except FileNotFoundError:
            raise NotFound(f"Directory {path} does not exist (any more).") from None
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        return True

    @store_call("move the directory")
    def move_directory_if(self, path: str, target: str, of: Witness, refuse: Callable[[], None] | None = None) -> None:
        """Give a directory another name. On local disks this and what is written `of` the same directory exclude each other.

        `refuse` is asked, and may raise, once nothing is written into it any more. Raises NotFound if it is another one than
        `of` tells, AlreadyExists if there is one of the new name with something in it.
        """
        with self._while_still(of, fcntl.LOCK_EX):
            if refuse is not None:
                refuse()
            if not self.move_directory_if_absent(path, target):
                raise AlreadyExists(f"Directory {target} exists.")

    @store_call("look at the directory")
    def wait_for_moves(self, of: Witness) -> None:
        """Return once nobody is about to give a directory another name: who comes later asks `refuse` later. On object
        stores, where nobody is kept out, this only looks. Raises NotFound if it is another one than `of` tells.
        """
        with self._while_still(of):
            pass

    @contextlib.contextmanager
    def in_place(self, of: Witness) -> Iterator[None]:
        """Let nobody give a directory another name as long as this lasts: for readers, who need no locks where there are none.
        Object stores keep nobody out. Raises NotFound if it is another one than `of` tells.
        """
        with self._while_still(of, None):
            yield

    @store_call("move the directory")
    def move_directory_unless(self, path: str, target: str, is_used: Callable[[], bool]) -> bool:
        """Give a directory another name unless it turns out to be used; says whether it did. Local disks only: this and what
        is written `of` the directory exclude each other.
        """
        try:
            with self._while_still(Witness(path), fcntl.LOCK_EX):
                if is_used():
                    return False
                self._move_directory(path, target)
                return True
        except (NotFound, FileNotFoundError):
            return False

    @store_call("move the directory")
    def move_directory(self, path: str, target: str) -> None:
        """Give a directory another name; the target must not be there."""
        self._move_directory(path, target)

    def _move_directory(self, path: str, target: str) -> None:
        if self._local:
            move_directory(path, target)
        else:
            self._fs.mv(path, target, recursive=True)

    @store_call("copy")
    def copy_files(self, targets: Mapping[str, str]) -> None:
        """Copy files whose names are given once to other places, within the file system; those that are gone are left out."""
        if targets:
            self._fs.copy(list(targets), list(targets.values()), on_error="ignore")

    def delete_quietly(self, paths: list[str]) -> None:
        """Delete what can be deleted: used to clean up after another error, which must not be hidden."""
        for path in paths:
            with contextlib.suppress(OSError, StorageError):
                self.delete(path)

    @store_call("open")
    def open_input(self, path: str, size_bytes: int | None = None) -> pa.NativeFile:
        """A random-access file for pyarrow; `size_bytes`: its size, if that is known. Raises NotFound if there is none."""
        try:
            if self._local:
                refuse_other(path)
                return pa.memory_map(path)
            if size_bytes is not None and size_bytes <= _READ_AT_ONCE:
                content = read_of_size(self._fs, path, size_bytes)
                if content is not None:
                    return pa.BufferReader(content)
            return pa.PythonFile(OpenObject(self._fs, path, "rb"), mode="r")
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise
            raise NotFound(
                f"Data file {path} does not exist. The snapshot that names it may have expired: read a newer one."
            ) from None

    @store_call("read")
    def read_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes of a file from one position up to another, or up to its end. Raises NotFound if there is none."""
        if self._local:
            with self.open_input(path) as source:
                size_bytes = min(end, source.size()) - start
                return bytes(source.read_at(size_bytes, start)) if size_bytes > 0 else b""
        try:
            return read_part(self._fs, path, start, end)
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise
            raise NotFound(f"File {path} does not exist.") from None

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
        return pa.PythonFile(OpenObject(self._fs, path, "wb"), mode="w")
