"""A table, or a branch, whose schema is lost: its snapshots lie there without one.

Where a directory is moved at once nothing else leaves that: what is dropped goes as a whole, and what is made gets its schema
before its first snapshot. Object stores lose no files, and a drop that died there leaves the same.
"""

import re

from ..errors import CorruptData, InvalidRequest, MainReplaced
from ..file_io import FileIO
from ..identifier import check_branch_name
from ..metadata.snapshot import Snapshot
from ..paths import TablePaths
from ..write.close import closed_for

_SCHEMA = re.compile(r"schema-\d+")
_SNAPSHOT = re.compile(r"snapshot-(\d+)")
_BRANCH = "branch-"


def is_lost_table(file_io: FileIO, root: str) -> bool:
    """Whether a directory without a schema and without MAIN-BRANCH holds the snapshots of a table."""
    return _snapshots_of_lost(file_io, root) is not None


def refuse_lost_table(file_io: FileIO, root: str, name: str) -> None:
    """Raise CorruptData if a directory that is no table holds the snapshots of one."""
    held = _snapshots_of_lost(file_io, root)
    if held is not None:
        raise CorruptData(
            f"{held} holds snapshots, and {root} has neither a schema nor MAIN-BRANCH: one of them is lost. Restore it, or drop "
            f"what is left by `snapline drop-table {name} --discard-damaged`."
        )


def _snapshots_of_lost(file_io: FileIO, root: str) -> str | None:
    if not file_io.moves_at_once:
        return None
    main = TablePaths(root)
    held = next((branch for branch in _branches(file_io, root) if _has_snapshots(file_io, branch)), None)
    # Looked for last: a table that has come meanwhile has one.
    if held is None or _has_schema(file_io, main) or file_io.exists(main.main_branch_file):
        return None
    return held.snapshot_directory


def lost_branches(file_io: FileIO, root: str) -> list[CorruptData]:
    """For each branch with snapshots and without its first schema, what to do."""
    names = [branch.branch for branch in _branches(file_io, root)[1:]]
    return [
        CorruptData(
            f"File {TablePaths(root, name).schema(0)} is lost: branch {name!r} has snapshots. Restore it, or delete the branch "
            f"by `snapline delete-branch TABLE --name {name}`; until then no file of the table counts as one that nobody needs."
        )
        for name in names
        if has_lost_schema(file_io, root, name)
    ]


def has_lost_schema(file_io: FileIO, root: str, name: str) -> bool:
    """Whether a branch has snapshots, and not its first schema."""
    try:
        paths = TablePaths(root, check_branch_name(name))
    except InvalidRequest:
        return False
    # A branch comes and goes as a whole: one that has come since has one.
    return (
        file_io.moves_at_once
        and not file_io.exists(paths.schema(0))
        and _has_snapshots(file_io, paths)
        and not file_io.exists(paths.schema(0))
    )


def _branches(file_io: FileIO, root: str) -> list[TablePaths]:
    names = file_io.list_directories(TablePaths(root).branch_directory)
    return [TablePaths(root), *(TablePaths(root, name[len(_BRANCH) :]) for name in names if name.startswith(_BRANCH))]


def _has_schema(file_io: FileIO, paths: TablePaths) -> bool:
    return any(_SCHEMA.fullmatch(file.name) for file in file_io.list_files(paths.schema_directory, or_in_place=True))


def _has_snapshots(file_io: FileIO, paths: TablePaths) -> bool:
    """Whether there are snapshots that somebody may want: not those of what was main and is being dropped, or was."""
    matches = [
        _SNAPSHOT.fullmatch(file.name) for file in file_io.list_files(paths.snapshot_directory, or_in_place=True)
    ]
    numbers = [int(match[1]) for match in matches if match]
    if not numbers:
        return False
    path = paths.snapshot(max(numbers))
    try:
        text = file_io.read_text_or_none(path)
        newest = None if text is None else Snapshot.from_json(text, path)
    except MainReplaced:
        return False
    except CorruptData:
        return True
    return newest is not None and closed_for(newest) is None


def refuse_lost_branches(file_io: FileIO, root: str) -> None:
    """Raise CorruptData if the schema of a branch is lost: what that needs cannot be told."""
    for lost in lost_branches(file_io, root):
        raise lost
