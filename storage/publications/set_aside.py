"""End publications whose files in the journal cannot be read, by what they have left on the tables; the files are kept aside.

What a damaged entry was about only its tables say: a tag before each commit, and the commit itself, bear its number. It is
undone, unless it was decided otherwise: so no table keeps half of it. Follows `docs/protocols.md`, "Publications".
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ..errors import CorruptData, NotFound
from ..identifier import MAIN_BRANCH
from ..journal import (
    ENDED,
    PUBLICATION_USER,
    PUBLISHED,
    RECOVERY_USER,
    REPLACING,
    UNDONE,
    DamagedEntry,
    Journal,
    Outcome,
    Publication,
)
from ..maintain.beside_publication import bears_marks, commit_of_number
from ..table import Table
from ..write.close import REPLACEMENT, closed_by, closed_for, decision, fence
from .clean_up import clean_up
from .ending import is_undone_on, lacks, undo_purpose
from .traces import OpenTable, is_done, main_of, table_or_none
from .undo import undo

# Stands for the branch of a publication that has made no commit by which its branch could be told.
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SetAside:
    """A publication whose journal was damaged and that has ended: the damaged file is kept as `path`, `what` became of it."""

    number: int
    path: str
    what: str

    def __str__(self) -> str:
        return f"Publication {self.number}: {self.what} The damaged file is kept as {self.path}."


def discard_damaged(
    open_table: OpenTable,
    tables: Sequence[str],
    journal: Journal,
    is_marked: Callable[[str, str], bool],
    *,
    discard_main: bool = False,
) -> list[SetAside]:
    """End every publication whose files in the journal are damaged, among all `tables` of the warehouse. Can be repeated.

    `is_marked` says by the files alone whether a table that cannot be read has a tag: if not, it is passed by. Raises
    CommitConflict, leaving the rest as it is, if later commits build on what is to be undone, unless `discard_main`;
    CorruptData for a table that has the tag.
    """
    ended = []
    entries = journal.entries()
    for entry in (*entries.damaged, *entries.damaged_left):
        path = journal.keep_aside(entry)
        # Where it can be read what was begun, no other table is looked at.
        passed_by = {} if entry.publication else _unreadable(open_table, tables, entry)
        for name, why in passed_by.items():
            if is_marked(name, entry.tag):
                raise CorruptData(
                    f"{why} {name} has the tag of publication {int(entry.name)}, whose journal is damaged: restore the file, or "
                    f"drop the table by `snapline drop-table {name} --discard-damaged`."
                )
        readable = [name for name in tables if name not in passed_by]
        end = _end_unknown if entry.publication is None else _decide_anew
        what = end(open_table, readable, journal, entry, discard_main)
        what += "".join(f" {name} is left as it is, for it cannot be read: {why}" for name, why in passed_by.items())
        ended.append(SetAside(int(entry.name), path, what))
    return ended


def _unreadable(open_table: OpenTable, tables: Sequence[str], entry: DamagedEntry) -> dict[str, str]:
    """The tables of which it cannot be told whether a publication has come to them, each with why."""
    unreadable: dict[str, str] = {}
    for name in tables:
        try:
            table = table_or_none(open_table, name)
            if table is not None:
                bears_marks(table.store, entry)
        except CorruptData as error:
            unreadable[name] = str(error)
    return unreadable


def _end_unknown(
    open_table: OpenTable, tables: Sequence[str], journal: Journal, entry: DamagedEntry, discard_main: bool
) -> str:
    """End a publication of which it cannot be read what was begun; returns what became of it."""
    stub = Publication(entry.name, _UNKNOWN, {}, False)
    # Decided before the tables are looked at: who is at it looks for the decision after each tag that it puts on a table.
    outcome = _settled(open_table, tables, journal, entry, stub)
    publication = _told_by_tables(open_table, tables, entry, fencing=outcome == UNDONE)
    names = ", ".join(publication.before) or "no table"
    for name in publication.before if outcome == REPLACING else ():
        _go_on_replacing(open_table(name), int(entry.name))
    if outcome == UNDONE:
        undo(open_table, journal, publication, discard_main=discard_main)
    else:
        clean_up(open_table, journal, publication)
    # Also where one has come since the tables were looked at: who makes one later sees that this has ended.
    _delete_tags(open_table, tables, entry)
    if outcome == UNDONE:
        return f"it is undone on {names}."
    if outcome == REPLACING:
        return (
            f"mains were being replaced, which cannot be undone: those of {names} that were closed for it are replaced. Where "
            "main is not the branch yet, finish by `snapline replace-main-branch`."
        )
    return f"it had ended, and is cleaned up on {names}."


def _delete_tags(open_table: OpenTable, tables: Sequence[str], entry: DamagedEntry) -> None:
    for name in tables:
        table = table_or_none(open_table, name)
        for branch in [] if table is None else [MAIN_BRANCH, *table.branches.names()]:
            with suppress(NotFound):
                # Unless the branch, or the table, goes meanwhile.
                open_table(name).on_branch(branch).tags.delete_reserved(entry.tag)


def _go_on_replacing(table: Table, number: int) -> None:
    """Replace a main that was closed for it: the closing names the branch, and all that could be refused was judged."""
    reason = closed_for(closing := main_of(table).snapshots.latest()) or ""
    if closed_by(closing) == number:
        branch = reason.removeprefix(f"{REPLACEMENT} ")
        table.branches.replace_closed_main(branch, publication=number, guard=lambda latest: None)


def _settled(
    open_table: OpenTable, tables: Sequence[str], journal: Journal, entry: DamagedEntry, stub: Publication
) -> Outcome:
    """How a publication ends of which it cannot be read what was begun: it is undone, unless it has ended or that is decided."""
    is_closed = journal.is_closed(stub)
    try:
        outcome = journal.outcome(stub) if is_closed else journal.decide(stub, UNDONE)
    except CorruptData as error:
        # Neither what was begun nor how it ends can be read.
        damaged = DamagedEntry(entry.name, journal.outcome_path(stub), str(error))
        journal.keep_aside(damaged)
        was_undone = not is_closed or _was_undone(open_table, tables, stub)
        journal.decide_anew(damaged, UNDONE if was_undone else PUBLISHED)
        outcome = journal.decide(stub, UNDONE)
    # Of what has ended no table is changed any more.
    return ENDED if is_closed or outcome is None else outcome


def _was_undone(open_table: OpenTable, tables: Sequence[str], publication: Publication) -> bool:
    opened = ((name, table_or_none(open_table, name)) for name in tables)
    return any(is_undone_on(table, publication, name) for name, table in opened if table is not None)


def _told_by_tables(
    open_table: OpenTable, tables: Sequence[str], entry: DamagedEntry, *, fencing: bool = False
) -> Publication:
    """A publication by the marks that it has left. `fencing`: on a main without snapshots, which gets no tag before the
    commit, one is put first, so that who is about to make that commit finds its number taken.
    """
    publication = Publication(entry.name, _UNKNOWN, {}, False)
    for name in tables:
        table = table_or_none(open_table, name)
        if table is not None and fencing and main_of(table).snapshots.latest_id() is None:
            with suppress(NotFound):
                # Unless the table goes meanwhile.
                fence(main_of(table), undo_purpose(publication))
        if table is None or not bears_marks(table.store, entry):
            continue
        publication = replace(publication, before={**publication.before, name: None})
        commit = commit_of_number(main_of(table), int(entry.name))
        if commit is not None:
            adopts = commit.commit_user.startswith(RECOVERY_USER)
            user = commit.commit_user.removeprefix(RECOVERY_USER if adopts else PUBLICATION_USER)
            branch = user.removesuffix(f"/{name.replace('.', '/')}")
            adopted = {**publication.adopted, **({name: 0} if adopts else {})}
            publication = replace(publication, branch=branch, adopted=adopted)
    return publication


def _decide_anew(
    open_table: OpenTable, tables: Sequence[str], journal: Journal, entry: DamagedEntry, discard_main: bool
) -> str:
    """Decide by the tables how a publication ends whose outcome cannot be read, and end it; returns what became of it."""
    publication = entry.publication
    assert publication is not None, "what was begun can be read"
    journal.decide_anew(entry, _outcome_by_tables(open_table, publication))
    outcome, names = journal.outcome(publication), ", ".join(publication.before)
    if outcome == UNDONE:
        undo(open_table, journal, publication, discard_main=discard_main)
        return f"it is undone on {names}."
    if outcome in (PUBLISHED, ENDED):
        clean_up(open_table, journal, publication)
        return f"it is published on {names}."
    return f"mains of {names} are being replaced: finish that by `snapline branch recover`."


def _outcome_by_tables(open_table: OpenTable, publication: Publication) -> Outcome:
    opened = [(name, table_or_none(open_table, name)) for name in publication.before]
    tables = [(name, table) for name, table in opened if table is not None]
    if publication.replaces:
        return REPLACING if _is_replacing(open_table, publication, tables) else UNDONE
    if any(is_undone_on(table, publication, name) for name, table in tables):
        return UNDONE
    is_on_all = all(
        is_done(open_table, publication, name) or not lacks(table, publication, if_gone=False) for name, table in tables
    )
    return PUBLISHED if is_on_all else UNDONE


def _is_replacing(open_table: OpenTable, publication: Publication, tables: Sequence[tuple[str, Table]]) -> bool:
    """Whether it may have been decided to replace mains: that is after all were closed for it, and judged."""
    left = [table for name, table in tables if not is_done(open_table, publication, name)]
    if len(left) < len(tables):
        return True
    for table in left:
        main = main_of(table)
        latest = main.snapshots.latest()
        if latest is None or closed_by(latest) != int(publication.name) or decision(main, latest) == "opened":
            return False
        verdict = table.branches.verdict(publication.branch)
        if verdict.kind == "diverged" and not publication.discard_main:
            return False
    return bool(left)
