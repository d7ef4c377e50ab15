"""What finishing a publication, or undoing it, would do to each table. Nothing is done."""

from ..errors import CommitConflict, NotFound
from ..journal import REPLACING, UNDONE, Journal, Publication
from .traces import OpenTable, before_commit, commit_of, is_done, main_of, table_or_none
from .undo import refuse_later


def foresee(
    open_table: OpenTable, journal: Journal, publication: Publication, *, undo: bool = False, discard_main: bool = False
) -> dict[str, str]:
    """What would become of each table, in words, by name."""
    if journal.outcome(publication) == REPLACING and undo:
        return dict.fromkeys(publication.before, "refused: mains are being replaced already, which cannot be undone")
    undo = undo or journal.outcome(publication) == UNDONE
    return {
        name: _foreseen(open_table, publication, name, undo=undo, discard_main=discard_main)
        for name in publication.before
    }


def _foreseen(open_table: OpenTable, publication: Publication, name: str, *, undo: bool, discard_main: bool) -> str:
    table = table_or_none(open_table, name)
    has_it = is_done(open_table, publication, name)
    try:
        if undo:
            if not has_it or table is None:
                return "stays as it is"
            if not discard_main:
                refuse_later(open_table, publication, name)
            own = commit_of(main_of(table), publication, name)
            if own is None:
                return "stays as it is"
            before, _ = before_commit(main_of(table), publication, own)
            return "becomes empty again" if before is None else f"goes back to snapshot {before.id}"
        if has_it:
            return "has it already"
        if table is None:
            return "refused: there is no such table any more"
        verdict = table.branches.verdict(publication.branch)
        insists = discard_main or publication.discard_main or name in publication.adopted
        if verdict.kind == "diverged" and (not insists or (verdict.altered is not None and not publication.replaces)):
            return f"refused: {verdict.describe()}"
        return f"takes the branch over ({verdict.describe()})"
    except (CommitConflict, NotFound) as error:
        return f"refused: {error}"
