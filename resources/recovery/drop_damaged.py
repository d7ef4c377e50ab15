"""Give up a recovery of which what is remembered cannot be read."""

from contextlib import suppress

from storage import CorruptData, InvalidRequest

from ..session import Session
from .record import get_record, set_record_aside
from .stages import Recovery


def drop_damaged(session: Session, branch: str) -> tuple[list[str], str]:
    """Give up a recovery of which what is remembered cannot be read: the branches of its name go. Returns the tables, and
    where the damaged file is kept. Raises InvalidRequest if it can be read, NotFound if there is none.
    """
    with suppress(CorruptData):
        get_record(session.catalog, branch)
        raise InvalidRequest(
            f"What is remembered of recovery {branch!r} can be read: drop it without --discard-damaged."
        )
    recovery = Recovery(session, branch)
    tables = [name for name in session.catalog.tables() if recovery.is_branched(name)]
    if tables:
        session.catalog.branch_set(branch, tables).delete()
    return tables, set_record_aside(session.catalog, branch)
