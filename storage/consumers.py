"""The consumers of a branch, for users."""

from contextlib import suppress

from .arguments import checked
from .errors import CorruptData, InvalidRequest, NotFound
from .metadata.consumer import Consumer
from .metadata.table_store import TableStore
from .store_errors import outcome

_REPEAT = "Mend the store, then repeat the call."


@checked
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
        self._refuse_beyond(next_snapshot_id)
        before = None
        with suppress(CorruptData):
            before = store.consumers.find(name)
        store.consumers.record(Consumer(name, next_snapshot_id))
        store.refuse_moved(f"Consumer {name!r}")
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
        with suppress(CorruptData):
            self.get(name)
        self._store.consumers.delete(name)

    @outcome(_REPEAT)
    def is_damaged(self, name: str) -> bool:
        """Whether there is a consumer of that name that cannot be read."""
        try:
            self._store.consumers.find(name)
        except CorruptData:
            return True
        return False

    def _refuse_beyond(self, next_snapshot_id: int) -> None:
        """Raise InvalidRequest for a snapshot that is not the next one to come either: all up to it would be passed over."""
        latest = self._store.snapshots.latest_id() or 0
        if next_snapshot_id > latest + 1:
            raise InvalidRequest(
                f"Snapshot {next_snapshot_id} of {self._store.identifier} does not exist, nor is it the next: a consumer goes on "
                f"from {latest + 1} at the most. {self._store.snapshots.describe_existing()}"
            )
