"""Finish a publication: every main takes its branch over, table by table, each by one commit of a number of its own.

Can be called again after a crash, and by several at once. Follows `docs/protocols.md`, "Publications".
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from ..errors import (
    OUTCOME_UNKNOWN,
    AlreadyExists,
    CommitConflict,
    CommitOutcomeUnknown,
    CorruptData,
    NotFound,
    StorageError,
    Unsupported,
)
from ..journal import ENDED, PUBLISHED, REPLACING, UNDONE, Journal, Outcome, Publication
from ..maintain.prepare_replacement import open_main
from ..maintain.verdict import INSIST, BothAltered
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..table import Table
from ..write.attempt import Guard
from ..write.close import closed_by
from ..write.commit_id import CommitId
from .clean_up import clean_up
from .ending import ended_as
from .traces import OpenTable, is_done, main_of
from .undo import undo

_log = logging.getLogger(__name__)
# The properties of the commit that a table gets, by its name and the newest snapshot of the branch that it takes over; None:
# whichever is the newest.
MadeFrom = Callable[[str, int | None], Mapping[str, str]]


def finish(
    open_table: OpenTable,
    journal: Journal,
    publication: Publication,
    made_from: MadeFrom | None = None,
    *,
    gives_up: bool = False,
) -> None:
    """Take over what is not taken over yet, and end the publication. `gives_up`: what is on no table yet and cannot be is undone.

    Raises CommitConflict, leaving it open, if a main cannot take its branch over, or if somebody undoes it;
    CommitOutcomeUnknown if others have ended it, and more since, and its tables cannot tell how. Where the branch becomes
    main, it is undone instead, on no table.
    """
    if publication.replaces:
        if _close_all(open_table, journal, publication):
            return
        if is_published(open_table, journal.decide(publication, REPLACING), publication):
            return
    for name in publication.before:
        try:
            _take_over(open_table(name), name, journal, publication, made_from)
        except (CommitConflict, NotFound, Unsupported) as error:
            outcome = journal.outcome(publication)
            if outcome in (None, REPLACING) and journal.is_closed(publication):
                outcome = ENDED
            if is_published(open_table, outcome, publication):
                # Somebody else was faster, and every table has it.
                if outcome == ENDED:
                    return
                break
            if isinstance(error, NotFound):
                raise
            if publication.replaces and is_done(open_table, publication, name):
                # By somebody else, who was first.
                continue
            done = any(is_done(open_table, publication, each) for each in publication.before)
            if gives_up and not (publication.replaces or done):
                # Nobody has seen anything of it: it need not be ended by hand.
                if give_up(open_table, journal, publication):
                    return
                raise CommitConflict(
                    f"Branch {publication.branch!r} is not published, on no table, for {name} cannot take it over: "
                    f"{str(error).removesuffix(INSIST).rstrip()} Publish it again."
                ) from None
            finishing, undoing = "`snapline branch recover --discard-main`", "`snapline branch recover --undo`"
            ends = finishing if publication.replaces else f"{finishing}, or undo it by {undoing}"
            insists_in_vain = isinstance(error, BothAltered | Unsupported) or name in publication.adopted
            if insists_in_vain and not publication.replaces:
                ends = undoing
            raise CommitConflict(
                f"The publication of branch {publication.branch!r} stays open, for {name} cannot take it over: "
                f"{str(error).removesuffix(INSIST).rstrip()} Readers of a consistent view see none of it. End it by {ends}."
            ) from None
    if not publication.replaces:
        outcome = journal.decide(publication, PUBLISHED)
        is_published(open_table, outcome, publication)
        if outcome == ENDED:
            return
    clean_up(open_table, journal, publication)


def give_up(open_table: OpenTable, journal: Journal, publication: Publication) -> bool:
    """Undo a publication that was begun and must not go on; says whether others have published it meanwhile."""
    try:
        return not undo(open_table, journal, publication) and is_published(open_table, ENDED, publication)
    except CommitConflict:
        if journal.outcome(publication) != PUBLISHED:
            raise
        return True


def is_published(open_table: OpenTable, outcome: Outcome | None, publication: Publication) -> bool:
    """Whether an outcome says that a publication is on every table, by what is on them if the journal has forgotten it.

    Raises CommitConflict if somebody else has undone it, or is about to; CommitOutcomeUnknown if the tables cannot tell.
    """
    said = ended_as(open_table, publication) if outcome == ENDED else outcome
    if said == UNDONE:
        raise CommitConflict(
            f"The publication of branch {publication.branch!r} was undone by somebody else, or is being undone: on no table. "
            "Publish it again."
        )
    if said is None and outcome == ENDED:
        raise CommitOutcomeUnknown(
            f"The publication of branch {publication.branch!r} was ended by somebody else, and others have come since. How "
            f"cannot be told by its tables, for one of {', '.join(publication.before)} has gone since, cannot be read, or has no "
            "history of it any more. Look at their rows: publish it again if they have none of it."
        )
    return said == PUBLISHED


def _close_all(open_table: OpenTable, journal: Journal, publication: Publication) -> bool:
    """Close every main for its replacement, so that nobody writes to one while another one is replaced: all, or none. Says
    whether others have done all that is to be done meanwhile.

    Raises CommitConflict or NotFound, once it is undone and all mains are open again, if one of them must not be replaced,
    CorruptData if what must be read of it is damaged.
    """
    if journal.outcome(publication) == REPLACING:
        return False
    try:
        for name in publication.before:
            _close_main(open_table(name), publication, journal)
        # All are closed. Nothing is given to a branch before each was judged once more.
        for gives in (False, True):
            for name in publication.before:
                _settle_main(open_table(name), publication, journal, gives=gives)
    except OUTCOME_UNKNOWN:
        raise
    except StorageError as error:
        is_mine = journal.outcome(publication) is None
        outcome = journal.decide(publication, UNDONE)
        if outcome == UNDONE:
            undo(open_table, journal, publication)
        if outcome == REPLACING:
            # Somebody else, who goes on with it, has found all of them closed and judged.
            return False
        if not is_mine or outcome != UNDONE:
            return is_published(open_table, outcome, publication)
        kind = next(
            (value for value in (NotFound, CorruptData, Unsupported) if isinstance(error, value)), CommitConflict
        )
        raise kind(
            f"Branch {publication.branch!r} becomes main of no table, and its publication is undone: {error}"
        ) from None
    return False


def _close_main(table: Table, publication: Publication, journal: Journal) -> None:
    table.branches.close_main(
        publication.branch,
        publication=int(publication.name),
        discard_main=publication.discard_main,
        guard=_pinned_on_branch(table, publication, journal),
    )


def _settle_main(table: Table, publication: Publication, journal: Journal, *, gives: bool) -> None:
    table.branches.settle_main(
        publication.branch,
        publication=int(publication.name),
        discard_main=publication.discard_main,
        guard=_pinned_on_branch(table, publication, journal),
        gives=gives,
    )


def _take_over(table: Table, name: str, journal: Journal, publication: Publication, made_from: MadeFrom | None) -> None:
    branches = table.branches
    # Whoever takes up the publication after a crash, or beside another, commits under the same number.
    commit_id = CommitId(publication.user(name), int(publication.name), exact=True)

    guard = _pinned(main_of(table), journal, publication, _while_open(journal, publication))
    number = int(publication.name)
    if name in publication.adopted:
        taken = publication.taken.get(name)
        properties = publication.properties.get(name)
        if made_from is not None:
            properties = made_from(name, None if taken is None else taken[0])
        branches.adopt(
            publication.branch,
            until=publication.adopted[name],
            point=publication.points.get(name),
            given_up=publication.given_up.get(name),
            commit_id=commit_id,
            properties=properties,
            guard=guard,
            publication=number,
            up_to=taken,
        )
    elif publication.replaces:
        if branches.has_other(publication.branch) and closed_by(main_of(table).snapshots.latest()) != number:
            # Decided by a version of this store that closed each main as it came to it.
            _close_main(table, publication, journal)
            try:
                _settle_main(table, publication, journal, gives=True)
            except OUTCOME_UNKNOWN:
                raise
            except StorageError:
                open_main(main_of(table), number)
                raise
        branches.replace_closed_main(
            publication.branch, publication=number, guard=_pinned_on_branch(table, publication, journal)
        )
    elif table.new_commit(commit_id).find_committed() is None:
        branches.merge(
            publication.branch,
            discard_main=publication.discard_main,
            commit_id=commit_id,
            guard=guard,
            publication=number,
            up_to=publication.taken.get(name),
        )


def _while_open(journal: Journal, publication: Publication) -> Guard:
    """A guard that refuses once a publication has ended, or is being undone."""

    def refuse_ended(latest: Snapshot | None) -> None:
        """Asked with the newest snapshot of each try: who undoes decides first, and then puts a commit on top."""
        outcome = journal.outcome(publication)
        if outcome not in (None, REPLACING):
            raise CommitConflict(f"The publication of branch {publication.branch!r} is {outcome}.")

    return refuse_ended


def _pinned_on_branch(table: Table, publication: Publication, journal: Journal) -> Guard:
    """The guard of a replacement: what main was is kept where it is found once the branch is main."""
    branch = table.on_branch(publication.branch).store
    return _pinned(branch, journal, publication, _while_open(journal, publication))


def _pinned(keeper: TableStore, journal: Journal, publication: Publication, refuse: Guard) -> Guard:
    """A guard that also keeps, by a tag, the snapshot that the publication is about to be put on: readers are shown it."""

    def pin(latest: Snapshot | None) -> None:
        refuse(latest)
        while latest is not None:
            if keeper.tags.delete_damaged(publication.tag):
                _log.warning("Tag %r of %s was damaged, and is made anew.", publication.tag, keeper.identifier)
            pinned = keeper.tags.find(publication.tag)
            # Never backwards: whoever does the same may have slept.
            if pinned is not None and pinned.snapshot.id >= latest.id:
                return
            if pinned is None:
                with suppress(AlreadyExists):
                    created = keeper.tags.create(publication.tag, latest)
                    if journal.is_closed(publication):
                        # Who ends it says so, and then deletes its tags: one sees the other.
                        keeper.tags.delete_if(created)
                        raise CommitConflict(f"The publication of branch {publication.branch!r} has ended.")
                    # Who ends a publication whose journal is damaged decides, and then looks for tags: one sees the other.
                    refuse(latest)
            else:
                keeper.tags.replace_if(pinned, latest)

    return pin
