"""Delete a directory: by a move to a place of its own, or file by file, each as it was listed, where none can be moved.

That is so on object stores. Who sleeps in between goes on with what it listed, and looks before each file whether the name
has been given to another table or branch: `docs/protocols.md`, "Object stores".
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from ..errors import StorageError
from ..file_io import FileIO

_log = logging.getLogger(__name__)

# Directories whose files have names that a later table or branch gives again; all others are named by what is given once.
METADATA_DIRECTORIES = (
    "schema",
    "snapshot",
    "tag",
    "branch",
    "consumer",
    "changelog",
    "service",
    "trouble",
    "committed",
)


def discard(
    file_io: FileIO,
    root: str,
    is_gone: Callable[[], bool],
    *,
    first: Sequence[str] = (),
    last: str = "",
    ask_always: bool = False,
    at_once: bool = False,
) -> bool:
    """Delete what is in a directory, files or directories `first` before all others, and `last` after them; nothing more
    once it stands for something else, which `is_gone` says; with `ask_always` it is asked before files, too, whose names are
    given once. `at_once`: nothing more unless it was this call that deleted the first file. Returns whether it was.
    """
    listed = sorted(all_files(file_io, root), key=lambda path: (path == last, _rank(path, first), path))
    contents = {path: file_io.read_bytes_or_none(path) for path in listed if is_named_again(path, root)}
    # Asked once all is read, so that it is that of one table.
    if is_gone():
        return False
    deleted: list[bool] = []
    for path in listed:
        if (path in contents or ask_always) and is_gone():
            return any(deleted[:1])
        if path not in contents:
            file_io.delete(path)
            continue
        content = contents[path]
        deleted.append(content is not None and file_io.delete_if(path, content))
        if at_once and not deleted[0]:
            return False
    _prune(file_io, root)
    return any(deleted[:1])


def delete_moved(file_io: FileIO, directory: str, what: str, who: str) -> None:
    """Delete a directory that was moved away. What it was is gone by then, so that an error is only told: what is left deletes
    `who`. `what`: what has been done, for example "d.t is dropped".
    """
    try:
        file_io.delete_directory(directory)
    except (OSError, StorageError) as error:
        _log.warning("%s, but files are left in %s, which %s deletes: %s", what, directory, who, error)


def _rank(path: str, first: Sequence[str]) -> int:
    return next((rank for rank, each in enumerate(first) if path == each or path.startswith(f"{each}/")), len(first))


def _prune(file_io: FileIO, directory: str) -> None:
    """Where empty directories stay, delete those."""
    for name in file_io.list_directories(directory):
        _prune(file_io, f"{directory}/{name}")
    file_io.delete_empty_directory(directory)


def is_named_again(path: str, root: str) -> bool:
    """Whether a later table of the same name gives the name of a file below `root` again."""
    first, _, rest = path.removeprefix(f"{root}/").partition("/")
    return not rest or first in METADATA_DIRECTORIES


def all_files(file_io: FileIO, directory: str) -> Iterator[str]:
    """Paths of the files of a directory and all below it."""
    for file in file_io.list_files(directory):
        yield f"{directory}/{file.name}"
    for name in file_io.list_directories(directory):
        yield from all_files(file_io, f"{directory}/{name}")
