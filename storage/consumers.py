"""The consumers of a branch, for users."""

from .errors import NotFound
from .metadata.consumer import Consumer
from .metadata.table_store import TableStore
from .store_errors import outcome
from .write.close import beside_history

_REPEAT = "Mend the store, then repeat the call."


class Consumers:
    """Named readers of changes. Snapshots that one of them has not read do not expire."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    @outcome(_REPEAT)
    def list(self) -> list[Consumer]:
        """All consumers, by name."""
        return self._store.consumers.all()

    @outcome(_REPEAT)
    def get(self, name: str) -> Consumer:
        """The consumer of that name. Raises NotFound that lists which there are."""
        found = self._store.consumers.find(name)
        if found is None:
            names = ", ".join(one.name for one in self.list()) or "none"
            raise NotFound(f"Consumer {name!r} of {self._store.identifier} does not exist. Consumers: {names}.")
        return found

    @outcome(_REPEAT)
    def reset(self, name: str, next_snapshot_id: int) -> None:
        """Make a consumer go on from a snapshot; it is made if there is none. Raises NotFound if the snapshot has expired, or
        is about to.
        """
        store = self._store
        store.refuse_other_table()
        before = store.consumers.find(name)
        with beside_history(store, f"Consumer {name!r}"):
            store.consumers.record(Consumer(name, next_snapshot_id))
        if before is not None and before.next_snapshot_id <= next_snapshot_id:
            return
        # Written first, then looked: an expiry says how far it goes before it looks which consumers there are.
        others = [one for one in store.consumers.all() if one.name != name]
        is_kept = any(one.next_snapshot_id <= next_snapshot_id for one in others)
        earliest = store.snapshots.earliest_id() or 1
        if next_snapshot_id < earliest or (next_snapshot_id < store.consumers.expiring_below() and not is_kept):
            if before is None:
                store.consumers.delete(name)
            else:
                store.consumers.record(before)
            raise NotFound(
                f"Snapshot {next_snapshot_id} of {store.identifier} has expired, or is about to. "
                f"{store.snapshots.describe_existing()}"
            )

    @outcome(_REPEAT)
    def delete(self, name: str) -> None:
        """Forget a consumer. Raises NotFound that lists which there are."""
        self._store.refuse_other_table()
        self.get(name)
        with beside_history(self._store, f"Consumer {name!r}"):
            self._store.consumers.delete(name)
