"""Open local files that are files: neither directories, nor pipes, devices or sockets, nor links that lead to themselves.

To open a pipe would wait for somebody at its other end, for good.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_NO_FILE = (errno.ELOOP, errno.ENXIO, errno.ENODEV)


class NoRegularFile(IsADirectoryError):
    """Something else is in the place of a file, as a directory may be."""


def open_regular(path: str, flags: int = os.O_RDONLY, *, directory: int | None = None) -> int:
    """The descriptor of a file, below an open directory if one is given. Raises FileNotFoundError, or NoRegularFile."""
    try:
        file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666, dir_fd=directory)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise NoRegularFile(error.errno, error.strerror, path) from None
        raise
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        os.close(file)
        raise _other(path, status)
    return file


def refuse_other(path: str) -> None:
    """Raise FileNotFoundError, or NoRegularFile, unless there is a file."""
    status = stat_of(path)
    if not stat.S_ISREG(status.st_mode):
        raise _other(path, status)


def stat_of(path: str) -> os.stat_result:
    """What there is, a link that leads to itself as such. Raises FileNotFoundError where there is nothing."""
    try:
        return os.stat(path)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return os.lstat(path)


def stat_of_entry(entry: os.DirEntry[str]) -> os.stat_result:
    """The same of what a listing has found."""
    try:
        return entry.stat()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return entry.stat(follow_symlinks=False)


def kind_of(status: os.stat_result) -> str:
    """What a listing calls it: file, directory or other."""
    if stat.S_ISDIR(status.st_mode):
        return "directory"
    return "file" if stat.S_ISREG(status.st_mode) else "other"


def what_is_in_place(error: IsADirectoryError) -> str:
    """What is in the place of a file, as a part of a sentence."""
    if error.errno == errno.ELOOP:
        return "there is a link in its place that leads to itself"
    if isinstance(error, NoRegularFile) and error.errno != errno.EISDIR:
        return "there is a pipe, a device or a socket in its place"
    return "there is a directory in its place"


def _other(path: str, status: os.stat_result) -> NoRegularFile:
    if stat.S_ISDIR(status.st_mode):
        return NoRegularFile(errno.EISDIR, os.strerror(errno.EISDIR), path)
    number = errno.ELOOP if stat.S_ISLNK(status.st_mode) else errno.ENXIO
    return NoRegularFile(number, os.strerror(number), path)


@contextmanager
def despite_lost_answer(is_done: Callable[[], bool]) -> Iterator[None]:
    """Count a call as done whose error came when it was: a network disk may lose its answer, or carry it out twice. `is_done`
    looks; if that fails too, nobody knows, and the error goes on.
    """
    try:
        yield
    except OSError as error:
        done = False
        with suppress(OSError):
            done = is_done()
        if not done:
            raise error


def is_in_place(path: str, directory: int | None = None) -> bool:
    """Whether there is anything of a name, in an open directory if one is given. Raises OSError if that cannot be told."""
    try:
        os.stat(path, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def is_there(path: str) -> bool:
    """Whether there is anything of a name. Raises OSError if that cannot be told."""
    try:
        stat_of(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        # A name with a zero byte is of no file.
        return False
    return True


def listing(path: str) -> Iterator[tuple[str, int, str, int | None]]:
    """Name, size in bytes, kind and time of what is directly in a directory. Raises FileNotFoundError if there is none."""
    with os.scandir(path) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                status = stat_of_entry(entry)
                yield entry.name, status.st_size, kind_of(status), status.st_mtime_ns // 1_000_000


def delete_empty_directory(path: str) -> bool:
    """Delete a directory if nothing is in it; says whether it is gone."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True
