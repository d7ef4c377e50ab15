"""Where exported files may lie: below the directories that the settings name, and never in what belongs to the platform.

A file is complete or not there: it is written beside its place, on an object store in this machine's temporary directory,
and gets its name once it is whole. A directory that is replaced is, on local disks, exchanged for a whole one. On an object
store its old files go first, so that nobody reads them beside the new one.
"""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from storage import Clock, CommitConflict, FileIO, InvalidRequest, StoreUnavailable, hidden, same_protocol

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=/)")
_VARIABLE = "SNAPLINE_WRITABLE_DIRECTORIES"
# The files that an earlier export, of this platform or of Spark, leaves in a directory.
_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OWN_FILES = re.compile(rf"part-\d{{5}}-{_UUID}(-c\d+)?\.[a-z0-9.]+|_SUCCESS|\.(part-.*|_SUCCESS)\.crc")
_DONE = "_SUCCESS"
_LONGEST_NAME = 255


@dataclass(frozen=True)
class Destination:
    """A place for a file, or a directory, that may be written; `shown` is how messages name it."""

    files: FileIO
    path: str
    shown: str
    is_directory: bool

    @contextmanager
    def written(self, ending: str) -> Iterator[str]:
        """A path to write one file to; it takes its place when the block ends without an error, or nothing is changed."""
        try:
            if not self.files.is_local:
                writing = self._in_store(ending)
            elif self.is_directory:
                writing = self._local_directory(ending)
            else:
                writing = self._local_file()
            with writing as path:
                yield path
        except OSError as error:
            # A name that is too long, too: whichever file has it.
            why = (error.strerror or str(error)).rstrip(".")
            raise StoreUnavailable(f"Writing {self.shown} failed: {why}.") from None

    @contextmanager
    def _local_file(self) -> Iterator[str]:
        if os.path.lexists(self.path) and not os.path.isfile(self.path):
            raise InvalidRequest(f"{self.shown} is there, and no file: give the file a name of its own.")
        if _is_database(self.path):
            raise InvalidRequest(f"{self.shown} is a database, and no export: give the file a name of its own.")
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        beside = _beside(self.path)
        try:
            yield beside
            self.files.put_file(beside, self.path)
        finally:
            with suppress(OSError):
                os.unlink(beside)

    @contextmanager
    def _local_directory(self, ending: str) -> Iterator[str]:
        there = os.path.lexists(self.path)
        if there:
            if not os.path.isdir(self.path) or os.path.islink(self.path):
                raise InvalidRequest(f"{self.shown} is there, and no directory.")
            self._refuse_others(_held(self.path))
        whole, old = _beside(self.path), _beside(self.path)
        os.makedirs(whole)
        try:
            name = _part(ending)
            yield f"{whole}/{name}"
            self.files.put_file(f"{whole}/{name}", f"{whole}/{name}")
            self.files.write_bytes(f"{whole}/{_DONE}", b"")
            if there:
                self._refuse_others(_held(self.path))
            self._exchange(whole, old if there else None)
        finally:
            shutil.rmtree(whole, ignore_errors=True)
            if os.path.lexists(self.path):
                shutil.rmtree(old, ignore_errors=True)

    def _exchange(self, whole: str, old: str | None) -> None:
        """Put a directory in the place of the one that is there, which gets the name `old`, or where none is. Raises
        CommitConflict if another export has come first.
        """
        try:
            if old is not None:
                os.rename(self.path, old)
            try:
                os.rename(whole, self.path)
            except OSError:
                # Whoever came first has left a whole directory: his is kept.
                if old is not None and not os.path.lexists(self.path):
                    os.rename(old, self.path)
                raise
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise CommitConflict(
                    f"Another export has written {self.shown} meanwhile: what it has written stays. Repeat the statement to "
                    "replace it."
                ) from None
            raise

    @contextmanager
    def _in_store(self, ending: str) -> Iterator[str]:
        target, old = self.path, []
        if self.is_directory:
            old = [file.name for file in self.files.list_files(self.path)]
            self._refuse_others([*old, *(f"{directory}/" for directory in self.files.list_directories(self.path))])
            target = f"{self.path}/{_part(ending)}"
        elif self.files.list_directories(self.path) or self.files.list_files(self.path):
            raise InvalidRequest(f"{self.shown} is a directory: give the file a name of its own.")
        with tempfile.TemporaryDirectory(prefix="snapline-export-") as directory:
            yield f"{directory}/file"
            for name in sorted(old):
                self.files.delete(f"{self.path}/{name}")
            self.files.put_file(f"{directory}/file", target)
        if self.is_directory:
            self.files.write_bytes(f"{self.path}/{_DONE}", b"")

    def _refuse_others(self, names: Sequence[str]) -> None:
        """Raise InvalidRequest if a directory holds what no export has made: it would be lost."""
        others = sorted(name for name in names if not _OWN_FILES.fullmatch(name))
        if others:
            raise InvalidRequest(
                f"{self.shown} holds {others[0]!r}, which no export has written and which would be deleted. Choose another "
                "directory, or empty it by hand."
            )


def _is_database(path: str) -> bool:
    """Whether a file is one of SQLite or DuckDB, by how it begins."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        start = file.read(16)
    return start == b"SQLite format 3\0" or start[8:12] == b"DUCK"


def _held(path: str) -> list[str]:
    """The names in a directory, those of files as they are."""
    with os.scandir(path) as entries:
        return [entry.name if entry.is_file(follow_symlinks=False) else f"{entry.name}/" for entry in entries]


def _beside(path: str) -> str:
    # Not longer than a name may be where the name itself is not.
    return f"{os.path.dirname(path)}/.{os.path.basename(path)[:40]}.{Clock().unique_name()}.tmp"


def _part(ending: str) -> str:
    return f"part-00000-{Clock().unique_name()}{ending}"


def destination(
    text: str,
    *,
    allowed: Sequence[str],
    forbidden: Sequence[str],
    storage: tuple[str, Mapping[str, Any]],
    is_directory: bool,
    is_local: bool = False,
) -> Destination:
    """The place that a statement names. `forbidden`: paths and URLs of what belongs to the platform. `storage`: a URL, and the
    options by which file systems of its kind are reached. `is_local`: it has to be on this machine.

    Raises InvalidRequest unless it lies below an allowed directory and apart from the forbidden ones.
    """
    shown = hidden(text)
    protocol, path = _located(text, shown, is_directory=is_directory)
    if is_local and protocol != "file":
        raise InvalidRequest(f"{shown} is no LOCAL DIRECTORY: leave LOCAL out, or give a path of this machine.")
    if protocol == "file" and is_directory and os.path.isdir(path):
        path = os.path.realpath(path)
    roots = [_without_links(*_located(each, f"{each} of {_VARIABLE}")) for each in allowed]
    if not any(same_protocol(kind, protocol) and _is_below(path, root) for kind, root in roots):
        named = ", ".join(map(hidden, allowed)) or "none"
        if _without_links(protocol, path) in roots:
            raise InvalidRequest(f"{shown} is one of the directories below which SQL may write files: name one in it.")
        raise InvalidRequest(
            f"{shown} lies below none of the directories into which SQL may write files: {named}. {_VARIABLE}, a JSON list, "
            "names them."
        )
    # A link of the platform's is its own, and so is where it leads.
    held_places = {place for each in forbidden for place in (_split(each), _without_links(*_split(each)))}
    for kind, held in held_places:
        if same_protocol(kind, protocol) and (path == held or _is_below(path, held) or _is_below(held, path)):
            raise InvalidRequest(
                f"{shown} lies in, or holds, what belongs to the platform: its home, a warehouse, a lineage database, or a "
                "directory of data files. Tables are written by INSERT."
            )
    url, options = storage
    known = options if same_protocol(_protocol(url), protocol) else {}
    files = FileIO(text if protocol != "file" else "/", {} if protocol == "file" else dict(known))
    return Destination(files, path, shown, is_directory)


def _protocol(text: str) -> str:
    protocol = text.partition(":")[0].lower() if _SCHEME.match(text) else "file"
    return "file" if protocol == "local" else protocol


def _is_below(path: str, directory: str) -> bool:
    return path.startswith(f"{directory.rstrip('/')}/")


def _located(text: str, shown: str, *, is_directory: bool = True) -> tuple[str, str]:
    """Protocol and path of a place. Raises InvalidRequest for what is none, or says more than that."""
    protocol, path = _split(text)
    if protocol != "file":
        parts = urlsplit(text)
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise InvalidRequest(f"{shown} holds more than a place: credentials belong into SNAPLINE_STORAGE_OPTIONS.")
    if len(os.fsencode(path.rpartition("/")[2])) > _LONGEST_NAME:
        raise InvalidRequest(
            f"{shown!r}: its last name has more than {_LONGEST_NAME} bytes, which is too long for a file."
        )
    if text.endswith("/") and not is_directory:
        raise InvalidRequest(f"{shown!r} ends with a slash, as a directory does: name a file in it.")
    # On this machine two slashes are one; in a store they are another place.
    names = re.split("/+" if protocol == "file" else "/", _SCHEME.sub("", text, count=1).strip("/"))
    is_odd = {"", ".", ".."}.intersection(names) or any(ord(each) < 32 for each in text)
    if is_odd or (protocol == "file" and not path.startswith("/")) or text.endswith("/.."):
        raise InvalidRequest(
            f"{shown!r} is no place for a file: write an absolute path, or a URL such as s3://bucket/path."
        )
    return protocol, path


def _without_links(protocol: str, path: str) -> tuple[str, str]:
    """A directory, of this machine without any link, since what lies in it is named so."""
    return protocol, os.path.realpath(path) if protocol == "file" and path else path


def _split(text: str) -> tuple[str, str]:
    """Protocol and path of a place; of a local one without links on its way to the last name."""
    protocol = _protocol(text)
    rest = _SCHEME.sub("", text, count=1)
    if protocol == "file":
        path = re.sub("/+", "/", rest).rstrip("/")
        return protocol, os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) if path else ""
    path = rest.strip("/")
    return protocol, f"/{path}" if protocol == "memory" else path
