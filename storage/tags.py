"""The tags of a branch, for users."""

from .errors import InvalidRequest
from .metadata.table_store import TableStore
from .metadata.tag import Tag


class Tags:
    """The tags of one branch."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    def create(self, name: str, *, snapshot_id: int | None = None, replace: bool = False) -> Tag:
        """Name a snapshot: the latest, unless an id is given. No data is copied.

        Raises AlreadyExists if the name is taken by another snapshot and `replace` is not set.
        """
        snapshot = self._store.snapshots.latest() if snapshot_id is None else self._store.snapshots.get(snapshot_id)
        if snapshot is None:
            raise InvalidRequest(f"{self._store.identifier} has no snapshot to tag. Write to the table first.")
        return self._store.tags.create(name, snapshot, replace=replace)

    def delete(self, name: str) -> None:
        """Forget a name. Raises NotFound, listing the tags, if there is none."""
        self._store.tags.delete(name)

    def get(self, name: str) -> Tag:
        return self._store.tags.get(name)

    def list(self) -> list[Tag]:
        """All tags, by snapshot id."""
        return self._store.tags.all()
