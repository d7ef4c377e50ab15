"""The tags that keep the files of a branch, and of what it was made from, from Paimon's Java library.

Its expiry knows the tags of the branch whose snapshots expire, and no other branch. So the snapshot at which a branch begins has
a tag where the branch was made, and one in the branch: what expires here takes no file of the branch, what expires there none of
where it was made. This store looks at all branches anyway. Follows `docs/format.md`, "Branches".
"""

from collections.abc import Iterator
from contextlib import suppress

from ..errors import CommitConflict, CorruptData, NotFound
from ..identifier import BRANCH_PREFIX, MAIN_BRANCH
from ..metadata.branch_origin import read_origin
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..read.version import all_branches, on_branch


def branch_tag(identity: str) -> str:
    """The name of the tags of a branch, by the identity in its ORIGIN."""
    return f"{BRANCH_PREFIX}{identity}"


def tags_of_branch(branch: TableStore) -> list[tuple[TableStore, Tag]]:
    """The tags of a branch, each with the branch that has it: itself, the one that it was made from, or main. None for what
    another writer has made, or where it cannot be told any more.
    """
    with suppress(CorruptData, NotFound):
        origin = read_origin(branch.file_io, branch.paths)
        if origin is not None and origin.uuid is not None:
            name = branch_tag(origin.uuid)
            stores = [branch, *_named(branch, {origin.branch, MAIN_BRANCH} - {branch.identifier.branch})]
            return [(store, tag) for store in stores if (tag := store.tags.find(name)) is not None]
    return []


def _named(branch: TableStore, names: set[str]) -> Iterator[TableStore]:
    for name in sorted(names):
        with suppress(CommitConflict, CorruptData, NotFound):
            store = on_branch(branch, name)
            if store.paths != branch.paths:
                yield store


def left_tags(store: TableStore, until_ms: int) -> list[tuple[TableStore, Tag]]:
    """Tags of branches that are no more, left by crashes and by Java, whose files are at least so old. Raises CorruptData if the
    ORIGIN of a branch cannot be read.
    """
    branches = list(all_branches(store))
    origins = [read_origin(branch.file_io, branch.paths) for branch in branches]
    known = {branch_tag(origin.uuid) for origin in origins if origin is not None and origin.uuid is not None}
    left = []
    for branch in branches:
        for file in branch.file_io.list_files(branch.paths.tag_directory):
            name = file.name.removeprefix("tag-")
            is_old = file.modified_ms is not None and file.modified_ms <= until_ms
            if name.startswith(BRANCH_PREFIX) and name not in known and is_old:
                tag = branch.tags.find(name)
                left += [] if tag is None else [(branch, tag)]
    return left
