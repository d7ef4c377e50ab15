"""Files of a warehouse through fsspec: whole small files, streams for data, and creation that only one can win.

Every path is absolute within its file system, without protocol. What always holds: a file that `create_exclusively`
made is complete or absent, never half there, and of several callers exactly one succeeds. What is written `of` a witness
is, on local disks, written into the directory that the witness was read in, never into a later one of the same name.
"""

import contextlib
import datetime as dt
import errno
import fcntl
import json
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from .clock import Clock
from .errors import (
    AlreadyExists,
    CorruptData,
    InvalidRequest,
    NotFound,
    StorageError,
    StoreUnavailable,
    Unsupported,
)
from .local_file import (
    despite_lost_answer,
    is_in_place,
    kind_of,
    open_regular,
    refuse_other,
    stat_of,
    stat_of_entry,
)
from .lock import CatalogLock, take_lock
from .object_store import delete_if, is_there, listing, read, read_of_size, read_part, replace_if, says_that_it_changed
from .secret import guarded_storage, revealed, settled
from .storage_options import refuse_unknown_options
from .store_errors import NO_HARD_LINKS, is_missing_bucket, store_call

# With it, fsspec takes a file that is in no listing of its own for one that does not exist.
_LISTINGS = "use_listings_cache"
# Other names that URLs give a file system.
_SAME_PROTOCOL = {
    "s3": ("s3a", "s3n"),
    "s3a": ("s3", "s3n"),
    "gs": ("gcs",),
    "gcs": ("gs",),
    "abfs": ("abfss",),
    "abfss": ("abfs",),
}
# File systems that create a file on condition that there is none, as one step.
_CONDITIONAL_PUT = ("memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")

# A small object is read whole: what is left out of it costs less than a second request.
_READ_AT_ONCE = 2 << 20


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file in a listing: its name without directory, its size, and when it was last written."""

    name: str
    size_bytes: int
    modified_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """By what a directory is told from a later one of the same name: a file below it, and what that holds.

    Without a file (None) it is whatever directory has the name.
    """

    directory: str
    path: str | None = None
    content: bytes = b""


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
        self.protocol = urlsplit(url).scheme if "://" in url else "file"
        # Secrets are texts again in the hands of fsspec alone.
        self.storage_options = settled(guarded_storage(storage_options or {}))
        if self.storage_options.get(_LISTINGS):
            raise Unsupported(
                f"Storage option {_LISTINGS!r} lets a process miss the files that others have written since. Leave it out."
            )
        try:
            self._fs = fsspec.filesystem(self.protocol, **{**_as_given(self.storage_options), _LISTINGS: False})
        except ImportError as error:
            raise Unsupported(f"{url}: {error}. The extra 's3' of this package brings what S3 needs.") from None
        except ValueError as error:
            if "Protocol not known" not in str(error):
                raise
            raise Unsupported(
                f"{url}: no file system is known by {self.protocol!r}. Use a path, file:// or s3://."
            ) from None
        self._local = isinstance(self._fs, LocalFileSystem)
        refuse_unknown_options(self.protocol, type(self._fs), self.storage_options)
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
        path = self._path_of(root)
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
        path = self._path_of(url)
        if path is None or not any(path.startswith(f"{root}/") for root in self.external_roots):
            raise Unsupported(
                f"File {source} names the data file {url!r}, which lies outside of the table's directory. If you trust who "
                "wrote the table, allow the directory: Catalog(…, external_roots=[…])."
            )
        return path

    def _path_of(self, url: str) -> str | None:
        """The path that a URL of this file system stands for; None for anything else, and for one that leads upwards."""
        scheme, colon, rest = url.partition(":")
        if not (colon and scheme.isalnum()):
            path = url if url.startswith("/") else None
        elif not same_protocol(self.protocol, scheme):
            path = None
        elif self._local:
            path = rest.removeprefix("//") if rest.startswith("/") else None
        else:
            path = str(self._fs._strip_protocol(url)) if rest.startswith("//") else None
        if path is None or "\0" in path or (self._local and not path.startswith("/")):
            return None
        return None if {".", ".."} & set(path.split("/")) else path

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
        return self._link_exclusively(path, data) if self._local else self._put_exclusively(path, data)

    def _put_exclusively(self, path: str, data: bytes) -> bool:
        self._make_parent(path)
        if self.protocol not in _CONDITIONAL_PUT:
            return self._create_under_lock(path, data)
        try:
            # On object stores this is the conditional put (If-None-Match and its relatives).
            self._fs.pipe_file(path, data, mode="create")
        except FileExistsError:
            return self._is_ours(path, data)
        except OSError as error:
            if not says_that_it_changed(error):
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
            if self._is_there(path):
                return False
            self._fs.pipe_file(path, data)
        return True

    def _link_exclusively(self, path: str, data: bytes) -> bool:
        # A link is the one local call that is atomic, refuses an existing target and never shows half a file.
        temporary = posixpath.join(
            posixpath.dirname(path), f".{posixpath.basename(path)}.{self._clock.unique_name()}.tmp"
        )
        try:
            self._write_local(temporary, data)
            os.link(temporary, path)
        except FileExistsError:
            # Of a network file system whose answer was lost the client asks again, and meets its own link.
            return _is_same_file(temporary, path)
        except FileNotFoundError:
            # Between the two calls somebody may have moved the directory away, or cleaned.
            if os.path.isdir(posixpath.dirname(path)):
                raise NotFound(
                    f"{path} was not created: that took so long that {temporary} was cleaned away as left over. Do it again."
                ) from None
            raise NotFound(f"Directory {posixpath.dirname(path)} does not exist (any more).") from None
        except OSError as error:
            with contextlib.suppress(OSError):
                if _is_same_file(temporary, path):
                    # What was lost is the answer alone.
                    return True
            if self.lock is None or error.errno not in NO_HARD_LINKS:
                raise
            with self.lock.hold(path):
                if self._is_there(path):
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

    @store_call("write")
    def put_file(self, source: str, path: str) -> None:
        """Give a whole local file a name, on a local disk within its file system; readers see it whole, or what was there."""
        if not self._local:
            self._make_parent(path)
            self._fs.put_file(source, path)
            return
        file = os.open(source, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(source, path)

    @store_call("replace")
    def overwrite(self, path: str, data: bytes, *, of: Witness | None = None) -> None:
        """Replace a file; readers see the old or the new content. Raises NotFound as `create_exclusively` does."""
        with self._while_still(of):
            self._overwrite(path, data)

    def _overwrite(self, path: str, data: bytes, directory: int | None = None) -> None:
        """In an open directory, if one is given, whatever name that has by now."""
        if self._local:
            name = path if directory is None else posixpath.basename(path)
            temporary = posixpath.join(
                posixpath.dirname(name), f".{posixpath.basename(name)}.{self._clock.unique_name()}.tmp"
            )
            self._write_local(temporary, data, directory)
            try:
                with despite_lost_answer(lambda: not is_in_place(temporary, directory)):
                    os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
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
                # Who cannot be kept out cannot write either.
                with open(open_regular(path), "rb", buffering=0) as file, self._locked(file.fileno(), path, None):
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
            return self._raise_number(path, number)

    def _raise_number(self, path: str, number: int) -> int:
        if not self._local:
            held = self.read_number(path) or 0
            if held < number:
                self.write_bytes(path, str(number).encode())
            return max(held, number)
        try:
            file = open_regular(path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            raise NotFound(f"Directory {posixpath.dirname(path)} does not exist (any more).") from None
        try:
            with self._locked(file, path, fcntl.LOCK_EX):
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

        On local disks, on S3 and under the catalog's lock this is one step among all who do it so; on other object stores
        a read and a delete.
        """
        if not self._local:
            with self._alone(path):
                return delete_if(self._fs, path, expected)
        with self._directory_locked(path) as directory:
            if directory is None or _read_in(directory, path) != expected:
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
                held = self.read_bytes_or_none(path) if directory is None else _read_in(directory, path)
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
            if directory is None or _read_in(directory, path) != expected:
                return False
            name, new_name = posixpath.basename(path), posixpath.basename(target)
            if _read_in(directory, target) is not None:
                raise AlreadyExists(f"File {target} exists.")
            with despite_lost_answer(lambda: not is_in_place(name, directory)):
                os.rename(name, new_name, src_dir_fd=directory, dst_dir_fd=directory)
            return True

    @contextlib.contextmanager
    def _while_still(self, of: Witness | None, kind: int = fcntl.LOCK_SH) -> Iterator[None]:
        """Keep a directory from being moved as long as this lasts. Raises NotFound if it is not the one that was read.

        On object stores, where no directory is moved at once, it is looked at and not kept.
        """
        if of is None:
            yield
            return
        if not self._local:
            if of.path is not None and self.read_bytes_or_none(of.path) != of.content:
                raise _is_another(of)
            yield
            return
        try:
            directory = os.open(of.directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise _is_another(of) from None
        try:
            with self._locked(directory, of.directory, kind):
                if not _is_still(directory, of):
                    raise _is_another(of)
                yield
        finally:
            os.close(directory)

    @contextlib.contextmanager
    def _directory_locked(self, path: str) -> Iterator[int | None]:
        """The open directory of a file, with others who compare and change files there kept out; None where there is none.

        Whoever changes files of the open directory never changes those of a later one of the same name.
        """
        if not self._local:
            yield None
            return
        name = posixpath.dirname(path)
        try:
            directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            yield None
            return
        try:
            with self._locked(directory, name, fcntl.LOCK_EX):
                yield directory
        finally:
            os.close(directory)

    @contextlib.contextmanager
    def _locked(self, file: int, path: str, kind: int | None) -> Iterator[None]:
        """Hold an advisory lock of an open file or directory, and the catalog's, if there is one, until the file is closed.

        None: shared, and without where there is none. Else raises StoreUnavailable where the file system has no locks.
        """
        with self.lock.hold(f"{path}/.lock/it") if self.lock is not None else contextlib.nullcontext():
            try:
                take_lock(file, path, fcntl.LOCK_SH if kind is None else kind)
            except StoreUnavailable:
                raise
            except OSError as error:
                if self.lock is None and kind is not None:
                    raise StoreUnavailable(
                        f"Could not lock {path}: {error.strerror}. The file system has no advisory locks (flock), by which a "
                        "file is compared and changed in one step. Put the warehouse on another file system, or give the "
                        "catalog a lock: SNAPLINE_LOCK_DIRECTORY, or Catalog(…, lock=FileLock(directory))."
                    ) from error
            yield

    def _write_local(self, path: str, data: bytes, directory: int | None = None) -> None:
        def opened(name: str, flags: int) -> int:
            return os.open(name, flags, 0o666, dir_fd=directory)

        try:
            file = open(path, "wb", buffering=0, opener=opened)  # noqa: SIM115
        except FileNotFoundError:
            if directory is not None:
                raise
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = open(path, "wb", buffering=0, opener=opened)  # noqa: SIM115
        try:
            with file:
                rest = memoryview(data)
                while rest:
                    rest = rest[file.write(rest) :]
        except OSError:
            # Half a file is of no use, and a full disk is when every byte counts.
            with contextlib.suppress(OSError):
                os.unlink(path, dir_fd=directory)
            raise

    def _make_parent(self, path: str) -> None:
        # Object stores have no directories, and asking for one would create a bucket; the memory file system needs them.
        if isinstance(self._fs, MemoryFileSystem):
            self._fs.makedirs(posixpath.dirname(path), exist_ok=True)

    @store_call("create the directory")
    def make_directory(self, path: str) -> None:
        """Make a directory, also those above it; no error if it is there. Raises AlreadyExists for a file of that name."""
        try:
            self._fs.makedirs(path, exist_ok=True)
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
        try:
            if not self._local:
                return is_there(self._fs, path)
            stat_of(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            if is_missing_bucket(error):
                raise
            return False
        except ValueError:
            # No file has such a name.
            return False
        return True

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
            if self._local:
                with os.scandir(path) as entries:
                    for entry in entries:
                        with contextlib.suppress(FileNotFoundError):
                            found = stat_of_entry(entry)
                            yield entry.name, found.st_size, kind_of(found), found.st_mtime_ns // 1_000_000
                return
            for info in listing(self._fs, path):
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
        if not self._local:
            if list(self._list(path)):
                return False
            if isinstance(self._fs, MemoryFileSystem):
                with contextlib.suppress(OSError):
                    self._fs.rmdir(path)
            return True
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return False
            raise
        return True

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
            os.makedirs(os.path.dirname(target), exist_ok=True)
            moved = os.stat(path)
            with despite_lost_answer(lambda: os.path.samestat(moved, os.stat(target))):
                os.rename(path, target)
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
            return pa.PythonFile(self._fs.open(path, "rb"), mode="r")
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
                return bytes(source.read_at(max(min(end, source.size()) - start, 0), start))
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
        return pa.PythonFile(self._fs.open(path, "wb"), mode="w")


def as_text(content: bytes, path: str) -> str:
    """What a file holds as text. Raises CorruptData that names it for what is none."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CorruptData(f"File {path} is damaged: it is no text: {error}") from None


def same_protocol(one: str, other: str) -> bool:
    """Whether URLs of two protocols are of the same file system, as `s3` and `s3a` are."""
    return one == other or other in _SAME_PROTOCOL.get(one, ()) or one in _SAME_PROTOCOL.get(other, ())


def is_known_protocol(protocol: str) -> bool:
    """Whether there is a file system by that name; it may still need a package."""
    return protocol in fsspec.available_protocols() or protocol in fsspec.registry


def _as_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Storage options as fsspec takes them: what is an object of JSON, in a setting or an option of a catalog, is one again."""
    found: dict[str, Any] = revealed(options)
    for name, value in found.items():
        if isinstance(value, str) and value.lstrip().startswith("{"):
            with contextlib.suppress(ValueError):
                found[name] = json.loads(value)
    return found


def _is_still(directory: int, of: Witness) -> bool:
    """Whether an open directory still has its name, and holds what it is known by."""
    try:
        if not os.path.samestat(os.fstat(directory), os.stat(of.directory)):
            return False
        if of.path is None:
            return True
        with open(open_regular(of.path), "rb", buffering=0) as file:
            return file.read() == of.content
    except FileNotFoundError:
        return False


def _read_in(directory: int, path: str) -> bytes | None:
    """What a file of an open directory holds; None if there is none."""
    try:
        with open(open_regular(posixpath.basename(path), directory=directory), "rb", buffering=0) as file:
            return file.read()
    except FileNotFoundError:
        return None


def _is_another(of: Witness) -> NotFound:
    return NotFound(
        f"{of.directory} is not the table any more that was opened: it was dropped, renamed or made anew since, its main was "
        "replaced, or the branch was deleted. Nothing is done; open the table again."
    )


def _is_same_file(path: str, other: str) -> bool:
    """Whether two names are of one file."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.lstat(path), os.lstat(other))
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
