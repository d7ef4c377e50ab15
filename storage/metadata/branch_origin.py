"""What a branch was made from: the snapshot and the tag, remembered in a file that other readers of the format ignore."""

import json
from dataclasses import asdict, dataclass

from .. import document
from ..document import read_document, sealed
from ..file_io import FileIO
from ..paths import TablePaths


@dataclass(frozen=True, slots=True)
class BranchOrigin:
    """The branch that another was forked off, with the tag and the snapshot that it began at, if any, and when."""

    branch: str
    tag: str | None
    snapshot_id: int | None
    create_time_ms: int
    # Tells the branch from another one that was made of the same snapshot and had the same name.
    uuid: str | None = None


def origin_content(origin: BranchOrigin) -> bytes:
    """The content of its file."""
    return json.dumps(sealed(asdict(origin), "ORIGIN")).encode()


def read_origin(file_io: FileIO, paths: TablePaths) -> BranchOrigin | None:
    """What a branch was made from; None for one that another writer made. Raises CorruptData if it cannot be read."""
    text = file_io.read_text_or_none(paths.origin)
    if text is None:
        return None
    value = read_document(text, paths.origin)
    tag, snapshot_id = value.get("tag"), value.get("snapshot_id")
    return BranchOrigin(
        document.file_name(value.get("branch"), paths.origin, "branch"),
        None if tag is None else document.file_name(tag, paths.origin, "tag"),
        None if snapshot_id is None else document.integer(snapshot_id, paths.origin, "snapshot_id"),
        document.integer(value.get("create_time_ms"), paths.origin, "create_time_ms"),
    )
