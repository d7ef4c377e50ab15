"""What a publication has left on the tables that it has to do with: its commits, and mains that are the branch already."""

from collections.abc import Callable
from contextlib import suppress

from ..errors import CommitConflict, CorruptData, NotFound
from ..identifier import MAIN_BRANCH
from ..journal import Publication
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..table import Table

OpenTable = Callable[[str], Table]


def table_or_none(open_table: OpenTable, name: str) -> Table | None:
    """The table of that name, None if there is none."""
    try:
        return open_table(name)
    except NotFound:
        return None


def main_of(table: Table) -> TableStore:
    """The main branch of a table."""
    return table.on_branch(MAIN_BRANCH).store


def commit_of(main: TableStore, publication: Publication, name: str, newest: Snapshot | None = None) -> Snapshot | None:
    """The commit by which a publication is on a main, up to its newest snapshot, if it is. It does not expire."""
    own = (publication.user(name), int(publication.name))
    history = since(main, newest, publication.before[name] or 0)
    return next((snapshot for snapshot in history if (snapshot.commit_user, snapshot.commit_identifier) == own), None)


def before_commit(main: TableStore, publication: Publication, own: Snapshot) -> tuple[Snapshot | None, Tag | None]:
    """What a main was before a publication's commit, and the tag that keeps that, if it can be read; None: it was empty.

    Without the tag it is the snapshot right below. Raises CommitConflict if that has expired.
    """
    tag = None
    with suppress(CorruptData):
        tag = main.tags.find(publication.tag)
    if tag is not None:
        return tag.snapshot, tag
    below = main.snapshots.before(own)
    if below is None and own.id > 1:
        raise CommitConflict(
            f"The publication of branch {publication.branch!r} cannot be undone on {main.identifier.full_name}: tag "
            f"{publication.tag!r} is gone or damaged, and snapshot {own.id - 1}, which was before its commit, has expired. "
            "Restore the file of the tag, or finish the publication by `snapline branch recover` if nobody has begun to undo it."
        )
    return below, None


def since(main: TableStore, newest: Snapshot | None, after_id: int) -> list[Snapshot]:
    """The snapshots of a main after a number, newest first."""
    history = []
    for snapshot in main.snapshots.backwards(newest):
        if snapshot.id <= after_id:
            break
        history.append(snapshot)
    return history


def is_done(open_table: OpenTable, publication: Publication, name: str) -> bool:
    """Whether a table's main has the publication's commit, or is its branch already."""
    table = table_or_none(open_table, name)
    if table is None:
        return False
    if publication.replaces:
        with suppress(NotFound):
            return not table.branches.has_other(publication.branch)
        return False
    return commit_of(main_of(table), publication, name) is not None


def made_by(open_table: OpenTable, publication: Publication) -> dict[str, Snapshot | None]:
    """For each table the snapshot by which its main has a publication; None if there is none, or it had all of it before."""
    made: dict[str, Snapshot | None] = {}
    for name in publication.before:
        table = table_or_none(open_table, name)
        main = None if table is None else main_of(table)
        if main is not None and publication.replaces:
            made[name] = main.snapshots.latest()
        else:
            made[name] = None if main is None else commit_of(main, publication, name)
    return made
