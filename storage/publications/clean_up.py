"""The last step of every publication: say that it has ended, and forget what was kept for it."""

from contextlib import suppress

from ..errors import NotFound
from ..journal import Journal, Publication
from .traces import OpenTable, table_or_none


def clean_up(open_table: OpenTable, journal: Journal, publication: Publication) -> None:
    """Say that a publication has ended, and forget what was kept for it. Can be called again after a crash."""
    journal.close(publication)
    for name in publication.before:
        table = table_or_none(open_table, name)
        if table is not None:
            table.tags.delete_reserved(publication.tag)
            if publication.replaces:
                # There it was kept for the time when the branch is main.
                with suppress(NotFound):
                    table.on_branch(publication.branch).tags.delete_reserved(publication.tag)
    journal.forget(publication)
