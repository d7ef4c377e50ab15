"""What is broken of a warehouse besides its tables: journals of publications, and notes."""

import posixpath
from collections.abc import Iterator, Sequence

from .errors import InvalidRequest
from .file_io import FileIO
from .identifier import check_name
from .journal import DIRECTORY, Journal
from .maintain.findings import BrokenInvariant, KeptAside
from .metadata.schema import SchemaFiles
from .notes import Notes
from .paths import TablePaths
from .publications.open_publication import OpenPublication
from .views import Views, name_of_view


class Unpublished(BrokenInvariant):
    """Not broken: a publication that has begun and not ended."""

    @classmethod
    def of(cls, publication: OpenPublication) -> "Unpublished":
        return cls(f"publication {publication.number}", str(publication))

    def __str__(self) -> str:
        return self.what


def is_name(text: str, what: str) -> bool:
    """Whether a directory can be that of a database or table: others, which nobody here has made, are left out."""
    try:
        check_name(text, what)
    except InvalidRequest:
        return False
    return True


def _strange(file_io: FileIO, root: str) -> Iterator[BrokenInvariant]:
    """The directories among databases and tables that have no name of one."""
    for database in file_io.list_directories(root):
        if not database.endswith(".db"):
            continue
        directory = posixpath.join(root, database)
        if not is_name(database.removesuffix(".db"), "database"):
            yield _no_name(directory, "database")
            continue
        for name in file_io.list_directories(directory):
            path = posixpath.join(directory, name)
            if not is_name(name, "table") and SchemaFiles(file_io, TablePaths(path)).ids():
                yield _no_name(path, "table")
        for view, what in Views(file_io, root, lambda _: False).damaged(database.removesuffix(".db")):
            yield BrokenInvariant(shown_path(view), what)
        for file in file_io.list_files(directory):
            path = posixpath.join(directory, name_of_view(file.name) or ".")
            if name_of_view(file.name) is not None and SchemaFiles(file_io, TablePaths(path)).ids():
                yield BrokenInvariant(
                    shown_path(path), "it is a table and a view of one name: drop one of them, or rename the table"
                )


def _no_name(path: str, what: str) -> BrokenInvariant:
    return BrokenInvariant(
        shown_path(path),
        f"no {what} can have that name: it is left out. Move the directory away, or give it another name",
    )


def shown_path(path: str) -> str:
    """A path as text that can be written everywhere."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def check_warehouse(file_io: FileIO, root: str, publications: Sequence[OpenPublication] = ()) -> list[BrokenInvariant]:
    """The files that belong to no table and cannot be read, and directories with names that no table has; then the publications
    that are open (Unpublished), and the files that were set aside (KeptAside).
    """
    journal = Journal(file_io, root)
    hidden = [
        directory
        for directory in file_io.list_directories(root)
        if directory.startswith(".") and directory != DIRECTORY
    ]
    notes = [Notes(file_io, posixpath.join(root, each)) for each in hidden]
    broken = [*journal.damaged(), *(entry for kind in notes for entry in kind.damaged())]
    aside = [*journal.set_aside(), *(each for kind in notes for each in kind.kept_aside())]
    strange = sorted(_strange(file_io, root))
    findings = [*(BrokenInvariant(path, what) for path, what in broken), *strange]
    return [*findings, *map(Unpublished.of, publications), *map(KeptAside.of, aside)]
