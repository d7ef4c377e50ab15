"""The branches of a table, for users."""

from collections.abc import Sequence

from .errors import InvalidRequest
from .identifier import MAIN_BRANCH
from .maintain.branch import Verdict, create_branch, delete_branch, fast_forward, judge
from .metadata.table_store import TableStore
from .read.version import branch_names, on_branch, resolve_version
from .write.commit import CommitListener


class Branches:
    """The branches of a table: forks that share its data files."""

    def __init__(self, store: TableStore, listeners: Sequence[CommitListener]) -> None:
        self._store = store
        self._listeners = listeners

    def names(self) -> list[str]:
        """All branches but main."""
        return branch_names(self._store)

    def create(self, name: str, *, tag: str | None = None, snapshot_id: int | None = None, empty: bool = False) -> None:
        """Fork at a tag, at a snapshot, or (by default) at the latest state; `empty` takes the schema alone.

        Raises AlreadyExists if there is one of that name.
        """
        if sum((tag is not None, snapshot_id is not None, empty)) > 1:
            raise InvalidRequest("A branch begins at a tag, at a snapshot, or empty: give one of these.")
        snapshot = None
        if tag is not None:
            snapshot = self._store.tags.get(tag).snapshot
        elif not empty:
            snapshot = resolve_version(self._store, snapshot_id)[1]
        create_branch(self._store, name, snapshot, tag)

    def delete(self, name: str) -> None:
        """Delete a branch and the files that only it needs."""
        delete_branch(self._store, name)

    def verdict(self, name: str) -> Verdict:
        """Whether main can take a branch over without losing anything."""
        return judge(on_branch(self._store, MAIN_BRANCH), on_branch(self._store, name))

    def fast_forward(self, name: str, *, discard_main: bool = False) -> Verdict:
        """Make a branch's snapshots main's own; the branch stays. Can be called again after a crash.

        Raises CommitConflict that names what would be lost if main has moved, unless `discard_main`.
        """
        return fast_forward(
            on_branch(self._store, MAIN_BRANCH),
            on_branch(self._store, name),
            discard_main=discard_main,
            listeners=self._listeners,
        )
