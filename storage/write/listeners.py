"""Who is told of commits, and of tables that get another name."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ..identifier import Identifier
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.trouble import LISTENERS, afterwards


class CommitListener(Protocol):
    """Told of what has happened to tables. It runs after the fact: what it raises cannot undo it."""

    def notify_commit_complete(self, identifier: Identifier, snapshot: Snapshot) -> None:
        """A snapshot has become visible."""

    def notify_table_renamed(self, identifier: Identifier, new: Identifier) -> None:
        """A table goes by another name from now on."""


def tell_of_commit(store: TableStore, listeners: Sequence[CommitListener], snapshot: Snapshot) -> None:
    """Tell every listener that a snapshot of this branch has become visible."""
    identifier = store.identifier
    tell_listeners(
        store, listeners, lambda listener: listener.notify_commit_complete(identifier, snapshot), snapshot.id
    )


def tell_listeners(
    store: TableStore,
    listeners: Sequence[CommitListener],
    what: Callable[[CommitListener], None],
    snapshot_id: int | None = None,
) -> None:
    """Tell every listener of what has happened. What they raise is logged and the last of it kept as a trouble."""
    failures: list[Exception] = []
    for listener in listeners:
        try:
            what(listener)
        except Exception as error:
            failures.append(error)

    def tell() -> bool:
        if failures:
            raise failures[-1]
        return bool(listeners)

    afterwards(store, LISTENERS, tell, False, snapshot_id)
