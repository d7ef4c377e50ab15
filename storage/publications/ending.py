"""How a publication ended that the journal has forgotten: told by what it has left on the tables.

Finished, it has left its commit on every main; undone, a fence or an inverse commit. Once those have expired, the branch
remembers the ids of commits, so does one that became main since. Follows `docs/protocols.md`, "Publications".
"""

from contextlib import suppress
from typing import Final, Literal

from ..errors import CommitConflict, CorruptData, MainReplaced, NotFound
from ..identifier import MAIN_BRANCH
from ..journal import PUBLISHED, UNDO_USER, UNDONE, Publication
from ..metadata.branch_origin import read_origin
from ..metadata.snapshot_files import SnapshotFiles
from ..paths import TablePaths
from ..table import Table
from ..write.close import CLOSED_BY_PROPERTY, FENCE_PROPERTY
from ..write.commit_id import CommitId
from .traces import OpenTable, main_of, table_or_none

# Of a main that surely has no commit of it: its branch has nothing more than main, or has, or is not there any more.
_NEEDS_NONE: Final = "needs none"
_HAS_NONE: Final = "has none"
_End = Literal["published", "undone", "needs none", "has none"]


def ended_as(open_table: OpenTable, publication: Publication) -> Literal["published", "undone"] | None:
    """How a publication ended that is in the journal no more; None if its tables cannot tell.

    They cannot if none was seen to be undone, and one has gone, or cannot be read, or had so many commits of that user that
    not all are remembered, or has no commit while others have one and the branch has gone; or if its branch has nothing more
    than main, and may be another one of that name; nor, of a replacement, if main was replaced otherwise before or since, and
    what it was has expired.
    """
    ends = {_end_on(open_table, publication, name) for name in publication.before}
    if UNDONE in ends:
        return UNDONE
    if ends <= {PUBLISHED, _NEEDS_NONE}:
        return PUBLISHED
    # On no table: what an undo has put there has expired.
    return UNDONE if ends <= {_HAS_NONE, _NEEDS_NONE} else None


def _end_on(open_table: OpenTable, publication: Publication, name: str) -> _End | None:
    with suppress(CommitConflict, CorruptData, NotFound):
        table = table_or_none(open_table, name)
        if table is None:
            return None
        if is_undone_on(table, publication, name):
            return UNDONE
        is_same = _is_same_branch(table, publication, name)
        if publication.replaces and _has_become_main(table, publication.branch):
            return PUBLISHED if is_same else None
        if publication.replaces:
            # A main that no branch has replaced was not replaced by this one.
            return _HAS_NONE if main_of(table).paths.branch == MAIN_BRANCH else None
        commit_id = CommitId(publication.user(name), int(publication.name), exact=True)
        if table.on_branch(MAIN_BRANCH).new_commit(commit_id).find_committed() is not None:
            return PUBLISHED
        # What another branch of that name has says nothing of the one that was to be published, which has gone.
        if is_same is False or lacks(table, publication, if_gone=True):
            return _HAS_NONE
        return _NEEDS_NONE if is_same else None
    return None


def _is_same_branch(table: Table, publication: Publication, name: str) -> bool | None:
    """Whether the branch, or what is left of it, is the one that was to be published, and was not made since; None if that
    cannot be told, since the entry does not say which it was.
    """
    wanted, main = publication.origins.get(name), main_of(table)
    if wanted is None:
        return None
    origin = read_origin(main.file_io, TablePaths(main.paths.root, publication.branch))
    return origin is not None and origin.uuid == wanted


def is_undone_on(table: Table, publication: Publication, name: str) -> bool:
    """Whether somebody has begun to undo a publication on a table."""
    main, number, above = main_of(table), int(publication.name), False
    for snapshot in main.snapshots.backwards():
        properties = snapshot.properties or {}
        is_inverse = snapshot.commit_user.startswith(UNDO_USER) and snapshot.commit_identifier == number
        # Opened again: nothing but one more closing comes on top of a main that was replaced.
        is_closed = properties.get(CLOSED_BY_PROPERTY) == str(number)
        is_opened = is_closed and above
        if is_inverse or is_opened or properties.get(FENCE_PROPERTY) == undo_purpose(publication):
            return True
        above = not is_closed
    # Asked after the history: what expires is remembered first.
    remembered = main.committed.find(f"{UNDO_USER}{publication.user(name)}")
    return remembered is not None and remembered.holds(number)


def undo_purpose(publication: Publication) -> str:
    """What a snapshot is for that is put on a main before a publication is undone there."""
    return f"the undo of publication {int(publication.name)}"


def lacks(table: Table, publication: Publication, *, if_gone: bool) -> bool:
    """Whether a branch has something that main has not; `if_gone` if there is no such branch."""
    with suppress(NotFound):
        return bool(table.branches.verdict(publication.branch).new)
    return if_gone


def _has_become_main(table: Table, branch: str) -> bool:
    """Whether main is a branch, or was until another one became main."""
    with suppress(NotFound):
        return not table.branches.has_other(branch)
    main = main_of(table)
    try:
        # What was main leaves a mark, until there is another branch of that name.
        SnapshotFiles(main.file_io, TablePaths(main.paths.root, branch)).latest()
    except MainReplaced:
        return True
    return False
