"""What a branch was made from: the snapshot and the tag, remembered in a file that other readers of the format ignore."""

import json
from dataclasses import asdict, dataclass

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


def write_origin(file_io: FileIO, paths: TablePaths, origin: BranchOrigin) -> None:
    file_io.write_bytes(paths.origin, json.dumps(asdict(origin)).encode())


def read_origin(file_io: FileIO, paths: TablePaths) -> BranchOrigin | None:
    """What a branch was made from; None for one that another writer made."""
    text = file_io.read_text_or_none(paths.origin)
    return None if text is None else BranchOrigin(**json.loads(text))
