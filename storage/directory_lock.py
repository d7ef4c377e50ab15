"""Keep a local directory from being moved, or its files from being changed by others, as long as something is done in it.

What is written `of` a witness is written into the directory that the witness was read in, never into a later one of the same
name.
"""

import contextlib
import fcntl
import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from .errors import CommitConflict, NotFound, StoreUnavailable
from .local_file import is_there, open_regular
from .lock import CatalogLock, take_lock


@dataclass(frozen=True, slots=True)
class Witness:
    """By what a directory is told from a later one of the same name: a file below it, and what that holds.

    Without a file (None) it is whatever directory has the name. `needed`: files that must be there. A table that was renamed
    and then named back is the same, and does not have what was written under its name in between.
    """

    directory: str
    path: str | None = None
    content: bytes = b""
    needed: tuple[str, ...] = ()


@contextlib.contextmanager
def kept_in_place(lock: CatalogLock | None, of: Witness, kind: int | None) -> Iterator[None]:
    """Keep a directory from being moved as long as this lasts, by a lock of a kind, as `locked` takes it. Raises NotFound if it
    is not the one that was read, CommitConflict if a file is not there that is needed.
    """
    try:
        directory = os.open(of.directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        raise is_another(of) from None
    try:
        with locked(lock, directory, of.directory, kind):
            if not _is_still(directory, of):
                raise is_another(of)
            lost = next((path for path in of.needed if not is_there(path)), None)
            if lost is not None:
                raise is_lost(lost)
            yield
    finally:
        os.close(directory)


@contextlib.contextmanager
def directory_locked(lock: CatalogLock | None, path: str) -> Iterator[int | None]:
    """The open directory of a file, with others who compare and change files there kept out; None where there is none.

    Whoever changes files of the open directory never changes those of a later one of the same name.
    """
    name = posixpath.dirname(path)
    try:
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        yield None
        return
    try:
        with locked(lock, directory, name, fcntl.LOCK_EX):
            yield directory
    finally:
        os.close(directory)


@contextlib.contextmanager
def locked(lock: CatalogLock | None, file: int, path: str, kind: int | None) -> Iterator[None]:
    """Hold an advisory lock of an open file or directory, and the catalog's, if there is one, until the file is closed.

    None: shared, and without where there is none. Else raises StoreUnavailable where the file system has no locks.
    """
    with lock.hold(f"{path}/.lock/it") if lock is not None else contextlib.nullcontext():
        try:
            take_lock(file, path, fcntl.LOCK_SH if kind is None else kind)
        except StoreUnavailable:
            raise
        except OSError as error:
            if lock is None and kind is not None:
                raise StoreUnavailable(
                    f"Could not lock {path}: {error.strerror}. The file system has no advisory locks (flock), by which a "
                    "file is compared and changed in one step. Put the warehouse on another file system, or give the "
                    "catalog a lock: SNAPLINE_LOCK_DIRECTORY, or Catalog(…, lock=FileLock(directory))."
                ) from error
        yield


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


def read_in(directory: int, path: str) -> bytes | None:
    """What a file of an open directory holds; None if there is none."""
    try:
        with open(open_regular(posixpath.basename(path), directory=directory), "rb", buffering=0) as file:
            return file.read()
    except FileNotFoundError:
        return None


def is_another(of: Witness) -> NotFound:
    """The error that a directory is not the one any more that a witness was read in."""
    return NotFound(
        f"{of.directory} is not the table any more that was opened: it was dropped, renamed or made anew since, its main was "
        "replaced, or the branch was deleted. Nothing is done; open the table again."
    )


def is_lost(path: str) -> CommitConflict:
    """The error that a file is not there which was written while its table had another name."""
    return CommitConflict(
        f"{path} is not there any more: the table was renamed, and named back, while it was written to, or that took so long "
        "that it counted as an orphan. Nothing is committed. Write the rows, or do it, again."
    )
