"""Tables fixed at snapshots of which no publication is half to be seen. Follows `docs/protocols.md`, "Publications"."""

from collections.abc import Sequence

from ..errors import CommitConflict, NotFound
from ..journal import DamagedEntry, Journal, Publication
from ..maintain.beside_publication import refuse_damaged
from ..metadata.snapshot import Snapshot
from ..read.version import Pinned
from ..table import Table
from .traces import OpenTable, commit_of

_VIEW_TRIES = 20


def consistent_view(open_table: OpenTable, journal: Journal, tables: Sequence[str]) -> dict[str, Table]:
    """Tables fixed at snapshots of which no publication is half to be seen.

    Raises CommitConflict if that takes too long, CorruptData if one of the tables bears the marks of a publication whose
    journal is damaged.
    """
    for _ in range(_VIEW_TRIES):
        state = journal.state()
        entries = journal.entries()
        publications: dict[str, Publication] = {}
        for publication in entries.open:
            for name in publication.before:
                publications.setdefault(name, publication)
        try:
            view = {name: _fixed(open_table(name), name, publications.get(name), entries.damaged) for name in tables}
        except NotFound:
            # What a publication kept goes with it.
            if journal.state() == state:
                raise
            continue
        if journal.state() == state:
            return view
    raise CommitConflict("Publications follow each other too fast for a consistent view. Try again.")


def _fixed(table: Table, name: str, publication: Publication | None, damaged: Sequence[DamagedEntry]) -> Table:
    """A table as it was before the commit of a publication that is open, or as it is."""
    # Looked at in this order: the tag is there before the commit is.
    latest = table.pinned()
    refuse_damaged(table.store, damaged)
    if publication is None:
        return latest
    main = latest.store
    tag = main.tags.find(publication.tag)
    newest = latest.snapshot()
    own: Snapshot | None = None
    if publication.replaces:
        is_on = not table.branches.has_other(publication.branch)
    else:
        own = None if newest is None else commit_of(main, publication, name, newest)
        is_on = own is not None
    if not is_on:
        return latest
    if tag is not None:
        return table.at(tag.snapshot)
    if own is not None and own.id == 1:
        # There was nothing that a tag could keep.
        return table.at(Pinned(None, main.schema))
    raise NotFound(
        f"Tag {publication.tag!r}, which keeps what {name} was before publication {int(publication.name)}, is gone. Finish or "
        "undo that, by `snapline branch recover` or `snapline branch recover --undo`."
    )
