"""Small files whose names are given again, on stores that may carry out a request once more, later.

A client that gets no answer asks again; what it asked for first may be on its way still, and be carried out when others have gone
on. So the content of such a file holds a name of its own (`snapline.generation`): no two contents are the same, and a request to
delete or replace what it held concerns no later one. A content that is deleted leaves a mark beside it, an empty file, for as
long as the store may take the request that created it: with the mark it counts as gone, whoever brings it back. A local disk
carries out nothing late: there is neither. Follows `docs/decisions/0051-late-requests.md`.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Mapping

from .directory_lock import Witness
from .document import read_document, sealed
from .file_io import FileIO

GENERATION_KEY = "snapline.generation"
# A request is signed with its time, and S3 takes none that was signed longer ago.
LONGEST_MS = 15 * 60_000
_MARK = re.compile(r"\.deleted-([0-9a-f]{32})-(.+)", re.DOTALL)


def generation(file_io: FileIO) -> dict[str, str]:
    """What makes the content of a file, a JSON object, another one than all before; nothing on local disks."""
    return {} if file_io.moves_at_once else {GENERATION_KEY: file_io.unique_name()}


def with_generation(file_io: FileIO, path: str, content: bytes) -> bytes:
    """A content, a JSON object, as another one than all before; the same on local disks."""
    own_generation = generation(file_io)
    if not own_generation:
        return content
    return json.dumps(
        sealed({**read_document(content, path), **own_generation}, posixpath.basename(path)), indent=2
    ).encode()


def create(file_io: FileIO, path: str, content: bytes, *, of: Witness | None = None) -> bool:
    """As `FileIO.replace_if` of what is not there; what was deleted and has come back is in nobody's way."""
    while not file_io.replace_if(path, None, content, of=of):
        held = file_io.read_bytes_or_none(path)
        if held is None or alive(file_io, path, held) is not None:
            return False
        file_io.delete_if(path, held)
    return True


def alive(file_io: FileIO, path: str, content: bytes | None) -> bytes | None:
    """A content that was read; None if it was deleted before. One request more where it has a generation."""
    if content is None or not _has_generation(content) or not file_io.exists(_mark(path, content)):
        return content
    return None


def delete_if(file_io: FileIO, path: str, content: bytes) -> bool:
    """As `FileIO.delete_if`, for good: the same content does not come back."""
    if not _has_generation(content):
        return file_io.delete_if(path, content)
    # With the mark it is deleted; whoever dies here leaves a file that counts as gone.
    file_io.create_exclusively(_mark(path, content), b"")
    return file_io.delete_if(path, content)


def marked(names: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Of a listed directory: the files of which contents were deleted lately, each with what marks those."""
    marks: dict[str, frozenset[str]] = {}
    for name in names:
        if match := _MARK.fullmatch(name):
            marks[match[2]] = marks.get(match[2], frozenset()) | {match[1]}
    return marks


def is_marked(content: bytes, marks: frozenset[str]) -> bool:
    """Whether a content is among those that were deleted."""
    return _has_generation(content) and _digest(content) in marks


def forget_marks(file_io: FileIO, directory: str, until_ms: int) -> None:
    """Delete the marks that are older than a time, in milliseconds since 1970, and what has come back of what they mark."""
    for file in file_io.list_files(directory) if not file_io.moves_at_once else ():
        match = _MARK.fullmatch(file.name)
        if match is None or file.modified_ms is None or file.modified_ms > until_ms:
            continue
        path = f"{directory}/{match[2]}"
        held = file_io.read_bytes_or_none(path)
        if held is not None and is_marked(held, frozenset({match[1]})):
            file_io.delete_if(path, held)
        file_io.delete(f"{directory}/{file.name}")


def _has_generation(content: bytes) -> bool:
    return f'"{GENERATION_KEY}"'.encode() in content


def _mark(path: str, content: bytes) -> str:
    return f"{posixpath.dirname(path)}/.deleted-{_digest(content)}-{posixpath.basename(path)}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
