"""Files that only something needed which goes: a branch that is deleted, what was main, snapshots that expire.

That it goes is decided before, and damage does not stop it: files of which nobody can tell whether they are needed stay for
`orphan_files`, and the trouble is kept. Follows `docs/damage.md`, "Mending".
"""

from collections.abc import Collection

from ..errors import CorruptData, NotFound
from ..metadata.table_store import TableStore
from ..metadata.trouble import FILE_DELETION, afterwards
from .references import ReferenceReader, delete_unneeded, last_needed

# Paths of files, or why they cannot be told.
LeftOver = Collection[str] | CorruptData | NotFound


def files_of_branch(branch: TableStore) -> LeftOver:
    """The files that the snapshots and tags of a branch need, asked before it goes; NotFound also if it has gone."""
    listed: list[object] = []
    while True:
        before, listed = listed, [branch.snapshots.listed_ids(), branch.tags.names()]
        try:
            needed = last_needed(branch, branch.snapshots.all())
            for tag in branch.tags.all(against_java=True):
                needed |= last_needed(branch, [tag.snapshot])
        except CorruptData as error:
            return error
        except NotFound as error:
            # Unless some of it has expired, or been deleted, while it was read.
            if listed == before:
                return error
        else:
            return needed


def delete_left_over(
    store: TableStore, left_over: LeftOver, what: str, reader: ReferenceReader | None = None
) -> list[str]:
    """Delete those of some files that nobody needs, after what needed them has gone, which `what` says; returns them. What
    goes wrong is kept as a trouble of the branch.
    """

    def delete() -> list[str]:
        try:
            if isinstance(left_over, CorruptData | NotFound):
                raise left_over
            return delete_unneeded(store, left_over, reader)
        except (CorruptData, NotFound) as error:
            raise CorruptData(
                f"{error} {what}; files that nobody needs stay for `snapline remove-orphan-files`."
            ) from None

    return afterwards(store, FILE_DELETION, delete, list[str]())
