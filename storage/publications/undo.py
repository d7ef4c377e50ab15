"""Undo a publication: every table becomes what it was before the publication's commit on it.

Follows `docs/protocols.md`, "Publications".
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ..errors import CommitConflict, CorruptData, NotFound
from ..identifier import MAIN_BRANCH
from ..journal import ENDED, PUBLISHED, UNDO_USER, UNDONE, Journal, Publication
from ..maintain.become import Moved, guard_of
from ..maintain.prepare_replacement import open_main
from ..maintain.revert import revert, reverting
from ..maintain.rollback import effective_history, rollback_to
from ..metadata.history import ROLLED_BACK_PROPERTY
from ..metadata.snapshot import Snapshot
from ..table import Table
from ..write.close import fence
from ..write.commit_id import CommitId
from ..write.overwrite import Overwrite
from .clean_up import clean_up
from .ending import undo_purpose
from .traces import OpenTable, before_commit, commit_of, main_of, since, table_or_none


def undo(open_table: OpenTable, journal: Journal, publication: Publication, *, discard_main: bool = False) -> bool:
    """Take every table back to what it was before the publication's commit on it, and end the publication; False if it has ended
    before, and the journal has forgotten how.

    Needs neither the branch nor tables that are gone. Raises CommitConflict, doing nothing, if somebody has written to a
    table since, unless `discard_main`; if nothing keeps what a table was before; or if mains are being replaced, or it is
    published.
    """
    if journal.outcome(publication) is None:
        for name in publication.before:
            if not discard_main:
                refuse_later(open_table, publication, name)
            table = table_or_none(open_table, name)
            own = None if table is None else commit_of(main_of(table), publication, name)
            if table is not None and own is not None:
                # Asked before it is decided: as long as it is not, it can be finished.
                before_commit(main_of(table), publication, own)
    outcome = journal.decide(publication, UNDONE)
    if outcome == ENDED:
        # By somebody else, who has cleaned up.
        return False
    if outcome != UNDONE:
        state = "is published already" if outcome == PUBLISHED else "replaces mains already, which cannot be undone"
        raise CommitConflict(f"The publication of branch {publication.branch!r} {state}. Finish it instead.")
    for name in publication.before:
        table = table_or_none(open_table, name)
        if table is not None:
            with _advised(name):
                _take_back(table, publication, name, discard_main=discard_main)
    clean_up(open_table, journal, publication)
    return True


@contextmanager
def _advised(name: str) -> Iterator[None]:
    """Errors of files that are lost or damaged, with what lets the publication be undone."""
    try:
        yield
    except (CorruptData, NotFound) as error:
        raise type(error)(
            f"{error} If the newest snapshot of {name} cannot be read, roll it back to the one before it, which the publication "
            "does not prevent, and undo it again."
        ) from None


def refuse_later(open_table: OpenTable, publication: Publication, name: str) -> None:
    """Raise CommitConflict if somebody has written to a table since the publication's commit."""
    table = table_or_none(open_table, name)
    own = None if table is None else commit_of(main_of(table), publication, name)
    if table is None or own is None:
        return
    for snapshot in main_of(table).snapshots.backwards():
        if snapshot.id <= own.id:
            return
        if snapshot.changes_rows:
            raise CommitConflict(
                f"The publication of branch {publication.branch!r} cannot be undone: {snapshot.commit_user} has written "
                f"snapshot {snapshot.id} of {name} since. Finish it instead, or insist with discard-main."
            )


def _is_rolled_back(history: Sequence[Snapshot], own: Snapshot) -> bool:
    """Whether somebody has rolled a publication's commit back already."""
    if any(
        snapshot.id == own.id
        for snapshot in effective_history([snapshot for snapshot in history if snapshot.id <= own.id])
    ):
        return all(snapshot.id != own.id for snapshot in effective_history(history))
    # It took a branch over that had no rows of its own, and went back to what both had: as a rollback it is in no history.
    targets = (snapshot.number(ROLLED_BACK_PROPERTY) for snapshot in history if snapshot.id > own.id)
    return any(target is not None and target < own.id for target in targets)


def _take_back(table: Table, publication: Publication, name: str, *, discard_main: bool) -> None:
    """Take a main back to before a publication's commit, and open it if it was closed to be replaced. Whoever is about to
    make that commit, or to close it, finds its number taken.
    """
    main = main_of(table)
    # First, so that no commit that was judged before the decision comes after the look.
    if open_main(main, int(publication.name)) is None:
        fence(main, undo_purpose(publication))
        # It may have been closed before the fence could be put.
        open_main(main, int(publication.name))
    own = commit_of(main, publication, name)
    commit_id = CommitId(f"{UNDO_USER}{publication.user(name)}", int(publication.name), exact=True)
    if own is None or table.new_commit(commit_id).find_committed() is not None:
        return
    if _is_rolled_back(list(main.snapshots.all()), own):
        return
    while True:
        latest = main.snapshots.latest()
        later = [snapshot for snapshot in since(main, latest, own.id) if snapshot.changes_rows]
        if later and not discard_main:
            # Somebody wrote after it was decided: that stays.
            revert(main, own, commit_id)
            return
        before, tag = before_commit(main, publication, own)
        if before is not None:
            rollback_to(main, before, kept_by=tag, judged=None if discard_main else own, commit_id=commit_id)
            return
        with suppress(Moved):
            # On top of what was looked at: what somebody writes meanwhile is looked at as well.
            table.on_branch(MAIN_BRANCH).new_commit(commit_id).commit(
                [], overwrite=Overwrite(), operation="TRUNCATE", own_properties=reverting(own), guard=guard_of(latest)
            )
            return
