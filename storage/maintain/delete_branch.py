"""Delete a branch, of one table or of several, and the files that nobody else needs.

What always holds: a branch that is deleted is closed to writers first, and of several tables all are closed, and it is decided
for all of them, before the first branch goes. Follows `docs/protocols.md`.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ..errors import OUTCOME_UNKNOWN, CommitConflict, CorruptData, NotFound, StorageError
from ..identifier import MAIN_BRANCH
from ..metadata.branch_origin import read_origin
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..paths import TablePaths
from ..read.version import on_branch
from ..write.close import (
    DELETION,
    RENAMING,
    REPLACEMENT,
    close,
    closed_for,
    decide,
    decision,
    is_closed_for,
    open_again,
    refuse_closed,
)
from .branch_directory import BRANCH_ID_KEY, delete_branch_directory
from .branch_tags import tags_of_branch
from .left_over import LeftOver, delete_left_over, files_of_branch

_TRIES = 20


def delete_branches(origins: Sequence[tuple[TableStore, bytes | None]], name: str, refuse: Callable[[], None]) -> int:
    """Delete a branch of several tables, those that have it, and the files that nobody else needs; returns how many had it.

    All are closed before `refuse` is asked, which raises if they must stay, and it is decided for all that they go before the
    first does: who comes later finds them closed. `origins`: the tables, as `origins_of` gives them. Raises CommitConflict if one
    of them is becoming main, or has been deleted and made anew since `origins` were asked for, NotFound if a table is gone,
    CorruptData if a newest snapshot cannot be read; those that this call has closed are opened again then. The error says so if
    the branch has gone from some.
    """

    def refuse_others() -> None:
        for store, origin in origins:
            now = _origin(store, name)
            if now not in (None, origin):
                raise CommitConflict(
                    f"Branch {name!r} of {store.identifier.full_name} was made anew by others after this deletion had begun, and "
                    "stays. Delete it again if that one is to go."
                )
        refuse()

    return _delete((partial(_close, store, name) for store, _ in origins), name, refuse_others)


def origins_of(stores: Sequence[TableStore], name: str) -> list[tuple[TableStore, bytes | None]]:
    """Tables, each with what tells its branch from later ones of the name; asked before anything is decided about it."""
    return [(store, _origin(store, name)) for store in stores]


def _origin(store: TableStore, name: str) -> bytes | None:
    """By what a branch is told from others of its name."""
    return store.file_io.read_bytes_or_none(TablePaths(store.paths.root, name).origin)


def take_back_branch(made: TableStore, refuse: Callable[[], None]) -> None:
    """Delete a branch again that has just been made, and the files that nobody else needs. Raises CommitConflict, leaving it, if
    anything has come to it since, it is becoming main, or `refuse` raises once it is closed; NotFound if it has gone.
    """
    name = made.paths.branch

    def refuse_changed() -> None:
        _refuse_touched(made)
        refuse()

    _refuse_becoming_main(made, name)
    _delete([lambda *, over_lost: _close_untouched(made)], name, refuse_changed)


@dataclass(frozen=True, slots=True)
class _Closed:
    """A branch with the snapshot that closes it for its deletion, and whether this call has put that there."""

    branch: TableStore
    closing: Snapshot
    is_own: bool


class _Closer(Protocol):
    """Closes a branch; None, nothing being done, if its newest snapshot cannot be read, unless `over_lost`."""

    def __call__(self, *, over_lost: bool) -> list[_Closed] | None: ...


def _delete(closers: Iterable[_Closer], name: str, refuse: Callable[[], None]) -> int:
    closed: list[_Closed] = []
    waiting: list[_Closer] = []
    ended: list[TableStore] = []
    failed: list[StorageError] = []
    try:
        for close_one in closers:
            newly_closed = close_one(over_lost=False)
            if newly_closed is None:
                waiting.append(close_one)
            closed += newly_closed or []
        if waiting:
            # All that may refuse is asked before one is closed that cannot be read.
            for closing in closed:
                _refuse_becoming_main(closing.branch, name)
            refuse()
        for close_one in waiting:
            closed += close_one(over_lost=True) or []
        for closing in closed:
            _refuse_becoming_main(closing.branch, name)
        refuse()
        while closed:
            if not decide(closed[0].branch, closed[0].closing, "done"):
                raise CommitConflict(
                    f"Branch {name!r} of {closed[0].branch.identifier.full_name} has been opened again by whoever closed it."
                )
            ended.append(closed.pop(0).branch)
    except OUTCOME_UNKNOWN:
        raise
    except StorageError as error:
        # What others have closed is theirs: they may have let a part of it go.
        for closing in closed:
            with suppress(CorruptData, NotFound):
                # One that is damaged keeps no other closed.
                if (
                    closing.is_own
                    and closing.branch.is_same_table()
                    and decide(closing.branch, closing.closing, "opened")
                ):
                    open_again(closing.branch, closing.closing)
        if not ended:
            raise
        failed.append(error)
    unneeded: list[tuple[TableStore, LeftOver]] = []
    for branch in ended:
        try:
            unneeded += _remove(branch)
        except (CommitConflict, CorruptData, NotFound) as error:
            # It has been decided that the others go, too.
            failed.append(error)
    for main, left_over in unneeded:
        # The branch has gone, whatever becomes of them.
        delete_left_over(main, left_over, "The branch is deleted")
    if failed:
        gone = ", ".join(main.identifier.full_name for main, _ in unneeded) or "no table"
        raise type(failed[0])(
            f"{failed[0]} This call has deleted branch {name!r} from {gone}, not from the others. Delete it again."
        ) from failed[0]
    return len(unneeded)


def _close(store: TableStore, name: str, *, over_lost: bool) -> list[_Closed] | None:
    """Close a branch for its deletion; returns it, or nothing if there is no such branch.

    Where the lists of its newest snapshot are lost or damaged: None, nothing being done, unless `over_lost`: the closing shows
    what was before then.
    """
    reason = f"{DELETION} {name}"
    for _ in range(_TRIES):
        try:
            branch = on_branch(store, name)
        except NotFound:
            # Of this table, and not only where it was.
            store.refuse_other_table()
            return []
        try:
            latest = branch.snapshots.latest()
            branch.refuse_other_table()
            is_closed = latest is not None and closed_for(latest) == reason
            if is_closed_for(latest, RENAMING):
                refuse_closed(branch, latest)
            if branch.identifier.branch == MAIN_BRANCH:
                if latest is not None and is_closed:
                    # Somebody who was about to delete it before it became main has closed it, and died.
                    open_again(branch, latest)
                return []
            try:
                closing = latest if is_closed else close(branch, latest, reason)
            except (NotFound, CorruptData):
                before = None if latest is None else branch.snapshots.before(latest)
                if before is None or not branch.is_same_table():
                    raise
                if not over_lost:
                    # What can be told before: opened again, it may show less than it had.
                    branch.manifests_of(before)
                    _refuse_becoming_main(branch, name)
                    return None
                closing = close(branch, latest, reason, shows=before)
            if closing is not None and decision(branch, closing) == "opened":
                # Whoever decided that has died, or is about to do it.
                open_again(branch, closing)
            elif closing is not None:
                return [_Closed(branch, closing, not is_closed)]
        except NotFound:
            # Somebody else has deleted it: looked for again.
            if branch.is_same_table():
                raise
    raise CommitConflict(f"Writers of branch {name!r} come first each time. Stop them, then delete the branch.")


def _close_untouched(made: TableStore) -> list[_Closed]:
    """Close a branch that has just been made for its deletion. Raises CommitConflict if anything has come to it since."""
    latest = _refuse_touched(made)
    closing = close(made, latest, f"{DELETION} {made.paths.branch}")
    if closing is None:
        raise _touched(made)
    return [_Closed(made, closing, is_own=True)]


def _refuse_touched(made: TableStore) -> Snapshot | None:
    """Raise CommitConflict if a branch has commits, tags or schemas since it was made; returns its newest snapshot. That it is
    closed for its deletion is none.
    """
    latest, tags, schema = made.snapshots.latest(), made.tags.all(), made.schemas.latest()
    origin = read_origin(made.file_io, made.paths)
    made.refuse_other_table()
    begun = made.snapshots.before(latest) if latest is not None and is_closed_for(latest, DELETION) else latest
    is_as_made = begun is None or begun.others.get(BRANCH_ID_KEY) is not None
    named = {origin.tag} if origin is not None else set()
    if not is_as_made or schema != made.schema or {tag.name for tag in tags} - named:
        raise _touched(made)
    return latest


def _touched(made: TableStore) -> CommitConflict:
    return CommitConflict(
        f"Branch {made.paths.branch!r} of {made.identifier.full_name} has been changed by others since it was made, and stays."
    )


def _refuse_becoming_main(branch: TableStore, name: str) -> None:
    """Raise CommitConflict if main is closed for a branch that is closed for its deletion.

    Who replaces main closes main first and then looks whether the branch is closed: one of both sees the other.
    """
    main = on_branch(branch, MAIN_BRANCH)
    if main.paths.branch == name or closed_for(main.snapshots.latest()) == f"{REPLACEMENT} {name}":
        raise CommitConflict(
            f"Branch {name!r} of {branch.identifier.full_name} is becoming main. Replace main with it again, which finishes it."
        )


def _remove(branch: TableStore) -> list[tuple[TableStore, LeftOver]]:
    """Make a branch go that is closed for good; returns main, and the files that only the branch may have needed, or why they
    cannot be told, unless somebody else came first.
    """
    main = on_branch(branch, MAIN_BRANCH)
    try:
        # It has been decided that the branch goes, whatever can be read of it.
        left_over = files_of_branch(branch)
        tags = tags_of_branch(branch)
        is_mine = delete_branch_directory(branch)
        for store, tag in tags if is_mine else ():
            if store is not branch:
                store.tags.delete_if(tag)
    except NotFound:
        is_mine = False
        if branch.is_same_table():
            raise
    if is_mine:
        return [(main, left_over)]
    main.refuse_other_table()
    return []
