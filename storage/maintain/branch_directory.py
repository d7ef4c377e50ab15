"""The directory of a branch: how it goes, by a move or file by file, and by what it is told from a later one of the name."""

from collections.abc import Callable

from ..directory_lock import Witness
from ..metadata.discard import delete_moved, discard
from ..metadata.table_store import TableStore
from ..paths import TablePaths

# What a branch begins with carries a mark, so that it is not taken for that of another branch of the same name.
BRANCH_ID_KEY = "snapline.branch-id"


def delete_branch_directory(branch: TableStore) -> bool:
    """Delete a branch's metadata; False if somebody else has, where that can be told."""
    if not branch.file_io.moves_at_once:
        own = branch.file_io.read_bytes_or_none(branch.paths.origin)
        branch.refuse_other_table()
        return discard_branch(branch, branch.paths, own)
    move_branch_away(branch, branch.paths, branch.read_witness())
    return True


def move_branch_away(store: TableStore, paths: TablePaths, of: Witness) -> None:
    """Delete a branch, by a name of its own first: who sleeps here deletes what he was asked to, and nothing of a later one."""
    gone = TablePaths(paths.root, paths.branch, making=f"{paths.branch}-{store.clock.unique_name()}").metadata_root
    store.file_io.move_directory_if(paths.metadata_root, gone, of)
    done = f"Branch {paths.branch!r} of {store.identifier.full_name} is deleted"
    delete_moved(store.file_io, gone, done, "orphan cleaning")


def discard_branch(store: TableStore, paths: TablePaths, origin: bytes | None) -> bool:
    """On an object store: delete a branch file by file, its first schema before all others, as long as its ORIGIN is there;
    False if somebody else does.
    """
    is_other = is_other_branch(store, paths, origin)
    return discard(store.file_io, paths.metadata_root, is_other, first=(paths.schema_directory,), last=paths.origin)


def is_other_branch(store: TableStore, paths: TablePaths, origin: bytes | None) -> Callable[[], bool]:
    """What tells whether somebody else has begun a branch of a name."""
    return lambda: store.file_io.read_bytes_or_none(paths.origin) != origin
