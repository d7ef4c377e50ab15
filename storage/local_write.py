"""Write local files: each is complete or absent, and of several callers who create one exactly one succeeds."""

import contextlib
import fcntl
import os
import posixpath

from .directory_lock import locked
from .errors import NotFound
from .local_file import despite_lost_answer, is_in_place, is_there, open_regular
from .lock import CatalogLock
from .store_errors import NO_HARD_LINKS


def write_file(path: str, data: bytes, directory: int | None = None) -> None:
    """Write a file, in an open directory if one is given; half a file is taken away again."""

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


def create_by_link(path: str, data: bytes, unique_name: str, lock: CatalogLock | None) -> bool:
    """Create a file that does not exist yet; False if it does. Where there are no hard links, under the catalog's lock."""
    # A link is the one local call that is atomic, refuses an existing target and never shows half a file.
    temporary = posixpath.join(posixpath.dirname(path), f".{posixpath.basename(path)}.{unique_name}.tmp")
    try:
        write_file(temporary, data)
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
        if lock is None or error.errno not in NO_HARD_LINKS:
            raise
        with lock.hold(path):
            if is_there(path):
                return False
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    return True


def _is_same_file(path: str, other: str) -> bool:
    """Whether two names are of one file."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.lstat(path), os.lstat(other))
    return False


def replace_file(path: str, data: bytes, unique_name: str, directory: int | None = None) -> None:
    """Replace a file; readers see the old or the new content. In an open directory, if one is given, whatever name that has by
    now.
    """
    name = path if directory is None else posixpath.basename(path)
    temporary = posixpath.join(posixpath.dirname(name), f".{posixpath.basename(name)}.{unique_name}.tmp")
    write_file(temporary, data, directory)
    try:
        with despite_lost_answer(lambda: not is_in_place(temporary, directory)):
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise


def raise_number(path: str, number: int, lock: CatalogLock | None) -> int:
    """Write a number into a small file, or leave it if it holds a higher one, in one step; returns what it holds then."""
    try:
        file = open_regular(path, os.O_RDWR | os.O_CREAT)
    except FileNotFoundError:
        raise NotFound(f"Directory {posixpath.dirname(path)} does not exist (any more).") from None
    try:
        with locked(lock, file, path, fcntl.LOCK_EX):
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


def move_directory(path: str, target: str) -> None:
    """Give a directory another name, below directories that are made if need be."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    moved = os.stat(path)
    with despite_lost_answer(lambda: os.path.samestat(moved, os.stat(target))):
        os.rename(path, target)


def put_file(source: str, path: str) -> None:
    """Give a whole file a name, once it is on the disk."""
    file = os.open(source, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
    os.replace(source, path)
