"""What is broken of a warehouse besides its tables: journals of publications, and notes."""

import posixpath

from .file_io import FileIO
from .journal import DIRECTORY, Journal
from .maintain.check import BrokenInvariant, KeptAside
from .notes import Notes


def check_warehouse(file_io: FileIO, root: str) -> list[BrokenInvariant]:
    """The files that belong to no table and cannot be read; then those that were set aside (KeptAside)."""
    journal = Journal(file_io, root)
    hidden = [one for one in file_io.list_directories(root) if one.startswith(".") and one != DIRECTORY]
    notes = [Notes(file_io, posixpath.join(root, one)) for one in hidden]
    broken = [*journal.damaged(), *(one for kind in notes for one in kind.damaged())]
    aside = [*journal.set_aside(), *(one for kind in notes for one in kind.kept_aside())]
    return [*(BrokenInvariant(path, what) for path, what in broken), *map(KeptAside.of, aside)]
