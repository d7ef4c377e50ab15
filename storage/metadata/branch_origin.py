"""What a branch was made from: the snapshot and the tag, remembered in a file that other readers of the format ignore."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from .. import document
from ..document import read_document, sealed
from ..errors import CorruptData
from ..file_io import FileIO
from ..paths import TablePaths
from .snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class BranchOrigin:
    """The branch that another was forked off, with the tag and the snapshot that it began at, if any, and when."""

    branch: str
    tag: str | None
    snapshot_id: int | None
    create_time_ms: int
    # Tells the branch from another one that was made of the same snapshot and had the same name.
    uuid: str | None = None
    # The identities, by number, of the snapshots that it shares with those it was forked off: the one that it began at, and
    # those that the branch began at which it was forked off. So what both have is known once it has expired.
    points: tuple[tuple[int, str], ...] = ()

    def begun_at(self, snapshot: Snapshot, of: "BranchOrigin | None") -> "BranchOrigin":
        """The origin of a branch that begins at a snapshot of a branch which has an origin itself, or none."""
        earlier = () if of is None else tuple(point for point in of.points if point[0] < snapshot.id)
        return replace(self, points=(*earlier, (snapshot.id, snapshot.identity)))


def origin_content(origin: BranchOrigin) -> bytes:
    """The content of its file."""
    return json.dumps(sealed(asdict(origin), "ORIGIN")).encode()


def read_origin(file_io: FileIO, paths: TablePaths) -> BranchOrigin | None:
    """What a branch was made from; None for one that another writer made. Raises CorruptData if it cannot be read."""
    content = file_io.read_bytes_or_none(paths.origin)
    return None if content is None else parse_origin(content, paths)


def parse_origin(content: bytes, paths: TablePaths) -> BranchOrigin:
    """What the file of a branch says that it was made from. Raises CorruptData that names the file, and what ends that."""
    try:
        return _parsed(read_document(content, paths.origin), paths.origin)
    except CorruptData as error:
        raise CorruptData(
            f"{str(error).rstrip('.')}. Restore the file, or delete the branch: `snapline delete-branch --name {paths.branch}`; "
            "if it is main, replace main with a branch of it: `snapline replace-main-branch`."
        ) from None


def _parsed(value: Mapping[str, Any], path: str) -> BranchOrigin:
    tag, snapshot_id = value.get("tag"), value.get("snapshot_id")
    return BranchOrigin(
        document.file_name(value.get("branch"), path, "branch"),
        None if tag is None else document.file_name(tag, path, "tag"),
        None if snapshot_id is None else document.integer(snapshot_id, path, "snapshot_id"),
        document.integer(value.get("create_time_ms"), path, "create_time_ms"),
        None if value.get("uuid") is None else document.text(value["uuid"], path, "uuid"),
        _points(value.get("points"), path),
    )


def _points(value: Any, path: str) -> tuple[tuple[int, str], ...]:
    # Those of versions before have none.
    if not isinstance(value, list | None) or not all(isinstance(each, list) and len(each) == 2 for each in value or ()):
        raise CorruptData(f"File {path} is damaged: points is not a list of numbers with identities.")
    return tuple(
        (document.integer(number, path, "points"), document.text(identity, path, "points"))
        for number, identity in value or ()
    )
