"""Prepare the replacement of main as a part of a publication: main is closed, judged again, and the branch gets what could be
refused; until that is decided for all tables of the publication, main can be opened again.

Each step can be repeated, by whoever goes on with the publication. Follows `docs/protocols.md`, "Publications".
"""

from collections.abc import Sequence

from ..errors import CommitConflict, NotFound
from ..identifier import MAIN_BRANCH
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..read.version import on_branch
from ..write.attempt import Guard
from ..write.close import REPLACEMENT, close, close_again, closed_by, decide, decision, open_again, refuse_closed
from ..write.listeners import CommitListener
from .become import Moved
from .follow import tell_after
from .replace_main import give_rows, refuse, takes_schemas
from .verdict import judge

_TRIES = 100


def close_main(store: TableStore, name: str, *, publication: int, discard_main: bool, guard: Guard) -> None:
    """Close main for its replacement with a branch, on top of exactly the snapshot that was judged; nothing if that
    publication has closed it, or the branch is main already.

    `guard` is asked with main's newest snapshot before each try. Raises CommitConflict if somebody else has closed it, and as
    `replace_main`: then it is not closed.
    """
    for _ in range(_TRIES):
        main = on_branch(store, MAIN_BRANCH)
        latest = main.snapshots.latest()
        if main.paths.branch == name:
            return
        if latest is not None and closed_by(latest) == publication:
            if decision(main, latest) != "opened":
                return
            # Whoever decided that put it there late, and was about to put it there once more.
            guard(latest)
            close_again(main, latest)
            continue
        try:
            branch = on_branch(store, name)
            refuse(main, branch, latest, judge(main, branch), discard_main=discard_main)
            guard(latest)
        except (Moved, NotFound):
            _refuse_gone(main, name)
            continue
        refuse_closed(main, latest)
        if close(main, latest, f"{REPLACEMENT} {name}", publication=publication) is not None:
            return
    raise _overtaken(store)


def settle(
    store: TableStore,
    name: str,
    *,
    publication: int,
    discard_main: bool,
    guard: Guard,
    listeners: Sequence[CommitListener] = (),
    gives: bool,
) -> None:
    """Judge again, main being closed: neither the branch nor the schemas are in the log that was closed. With `gives` the
    branch also gets main's schemas, and what main did elsewhere: whatever comes to the branch then, nothing of main is lost.

    Raises CommitConflict if main must not be replaced any more, or if somebody has opened it, CorruptData if something cannot
    be read that the branch gets later: it is left as it is.
    """
    for _ in range(_TRIES):
        main = on_branch(store, MAIN_BRANCH)
        if main.paths.branch == name:
            return
        latest = main.snapshots.latest()
        guard(latest)
        if latest is None or closed_by(latest) != publication:
            raise CommitConflict(f"Main of {store.identifier.full_name} was opened again meanwhile.")
        if decision(main, latest) == "opened":
            close_again(main, latest)
            continue
        try:
            branch = on_branch(store, name)
            verdict = judge(main, branch)
            refuse(main, branch, latest, verdict, discard_main=discard_main)
            _refuse_damaged(main, branch)
            if not gives:
                return
            with_schemas = takes_schemas(verdict)
            put = give_rows(main, branch, verdict, listeners, with_schemas=with_schemas)
        except (Moved, NotFound):
            _refuse_gone(main, name)
            continue
        tell_after(branch, put, listeners)
        return
    raise _overtaken(store)


def _refuse_damaged(main: TableStore, branch: TableStore) -> None:
    """Raise CorruptData if something cannot be read that the branch gets once that is decided, or that this is added to."""
    for tag in main.tags.all():
        branch.tags.find(tag.name)
    for store in (main, branch):
        store.committed.all()
    list(main.changelogs.all())


def open_main(main: TableStore, publication: int) -> Snapshot | None:
    """Open a main again that a publication has closed; returns the snapshot that had closed it, None if none has."""
    closing = None
    while True:
        latest = main.snapshots.latest()
        if latest is None or closed_by(latest) != publication:
            return closing
        closing = latest
        main.refuse_other_table()
        if not decide(main, latest, "opened"):
            return closing
        # Whoever has put it there late may come first, and put it there once more.
        open_again(main, latest)


def _refuse_gone(main: TableStore, name: str) -> None:
    """Raise NotFound unless a table and its branch are still there: then somebody has written, or snapshots have expired."""
    main.refuse_other_table()
    on_branch(main, name)


def _overtaken(store: TableStore) -> CommitConflict:
    return CommitConflict(
        f"Writers of {store.identifier.full_name} come first each time. Stop them, then replace main."
    )
