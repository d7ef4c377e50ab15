"""The consumers of a branch, for users, and reading as one of them.

What always holds: whoever writes the file of a consumer has read what it replaces, and looks afterwards whether the table is
still the same. Follows `docs/protocols.md`, "Consumers".
"""

from contextlib import suppress

from .arguments import checked
from .errors import CommitConflict, CommitOutcomeUnknown, CorruptData, InvalidRequest, MainReplaced, NotFound
from .metadata.consumer import Consumer
from .metadata.table_store import TableStore
from .store_errors import outcome
from .write.close import RENAMING, REPLACEMENT, is_closed_for, refuse_closed

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
            raise self._missing(name)
        return found

    def _missing(self, name: str) -> NotFound:
        names = ", ".join(one.name for one in self.list()) or "none"
        return NotFound(f"Consumer {name!r} of {self._store.identifier} does not exist. Consumers: {names}.")

    @outcome(_REPEAT)
    def reset(self, name: str, next_snapshot_id: int) -> None:
        """Make a consumer go on from a snapshot; it is made if there is none. Who reads as it at that time is refused from
        then on. Raises NotFound if the snapshot has expired, or is about to.
        """
        store, files = self._store, self._store.consumers
        store.refuse_other_table()
        self._refuse_beyond(next_snapshot_id)
        content = None
        while content is None:
            before = files.content(name)
            _refuse_moved_or_closed(store)
            content = files.put(Consumer(name, next_snapshot_id), before, store.clock.unique_name())
        is_kept = self._is_kept(name, before, next_snapshot_id)
        if not is_kept:
            files.replace(name, content, before)
        _look_back(store, name, content)
        if not is_kept:
            raise NotFound(
                f"Snapshot {next_snapshot_id} of {store.identifier} has expired, or is about to. "
                f"{store.snapshots.describe_existing()}"
            )

    def _is_kept(self, name: str, before: bytes | None, next_snapshot_id: int) -> bool:
        """Whether a snapshot, and those after it, stay for a consumer that has been written."""
        store = self._store
        with suppress(CorruptData):
            known = store.consumers.parsed(name, before)
            if known is not None and known.next_snapshot_id <= next_snapshot_id:
                return True
        # Written first, then looked: an expiry says how far it goes before it looks which consumers there are.
        others = [one for one in store.consumers.all() if one.name != name]
        if next_snapshot_id < (store.snapshots.earliest_id() or 1):
            return False
        if any(one.next_snapshot_id <= next_snapshot_id for one in others):
            return True
        return next_snapshot_id >= store.consumers.expiring_below()

    @outcome(_REPEAT)
    def delete(self, name: str) -> None:
        """Forget a consumer. Who reads as it at that time is refused from then on. Raises NotFound that lists which there are."""
        store, files = self._store, self._store.consumers
        while True:
            content = files.content(name)
            # What was read before this is the table's own, and no other content is deleted.
            _refuse_moved_or_closed(store)
            if content is None:
                raise self._missing(name)
            if files.replace(name, content, None):
                break
        _look_back(store, name)

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
            # A table that has gone meanwhile has none either.
            self._store.refuse_other_table()
            raise InvalidRequest(
                f"Snapshot {next_snapshot_id} of {self._store.identifier} does not exist, nor is it the next: a consumer goes on "
                f"from {latest + 1} at the most. {self._store.snapshots.describe_existing()}"
            )


class Consumption:
    """Reading as a consumer: how far it has come, which the table remembers.

    Of several readers of one name, the latest to begin has it: the others are refused when they next record.
    """

    def __init__(self, store: TableStore, name: str) -> None:
        self._store = store
        self._name = name
        self._content: bytes | None = None
        self._has_looked = False
        self._has_recorded = False

    def position(self) -> int | None:
        """The last snapshot that the consumer has read; None if there is no consumer of the name."""
        self._content = self._store.consumers.content(self._name)
        # What was read before this is the table's own, and nothing of another one is replaced.
        self._store.refuse_other_table()
        self._has_looked = True
        known = self._store.consumers.parsed(self._name, self._content)
        return None if known is None else known.next_snapshot_id - 1

    @outcome(_REPEAT)
    def record(self, position: int) -> None:
        """Remember the last snapshot that has been read, or after which reading begins.

        Raises CommitConflict, and remembers nothing, if the consumer has been read, reset or deleted by somebody else since
        `position` was asked for or this reader recorded last. A reader that goes on by a position of its own takes it over.
        Raises NotFound if reading begins at a snapshot that has expired.
        """
        store = self._store
        if not self._has_looked:
            self.position()
        before = self._content
        content = store.consumers.put(Consumer(self._name, position + 1), before, store.clock.unique_name())
        if content is None:
            store.refuse_other_table()
            raise CommitConflict(
                f"Consumer {self._name!r} of {store.identifier} was read by another reader, reset or deleted since this one "
                f"read it. One reader at a time has a consumer: stop the other one, or give it a name of its own, then start "
                f"again. That snapshots up to {position} were read is not recorded."
            )
        has_expired = not self._has_recorded and self._has_expired(position + 1)
        if has_expired:
            # Else it would keep all that is left for a reader that cannot go on.
            store.consumers.replace(self._name, content, before)
        _look_back(store, self._name, content)
        if has_expired:
            raise store.snapshots.missing(position + 1)
        self._content, self._has_recorded = content, True

    def _has_expired(self, snapshot_id: int) -> bool:
        store = self._store
        found = store.snapshots.find(snapshot_id)
        if found is not None and store.snapshots.is_in_history(found):
            return False
        if store.changelogs.find(snapshot_id) is not None:
            return False
        return snapshot_id <= (store.snapshots.latest_id() or 0)


def _refuse_moved_or_closed(store: TableStore) -> None:
    """Raise an error, before anything is written, if the table is another one, or its main is being replaced."""
    store.refuse_other_table()
    latest = store.snapshots.latest()
    if is_closed_for(latest, REPLACEMENT, RENAMING):
        refuse_closed(store, latest)


def _look_back(store: TableStore, name: str, content: bytes | None = None) -> None:
    """After the file of a consumer has come to hold `content`, or was deleted: take it away again, and raise NotFound, if it
    was made in another table, which came meanwhile. Raise CommitOutcomeUnknown if the table went away, or its main was closed:
    the consumer may have gone along as it was before.
    """
    if not store.is_same_table():
        if content is not None and store.consumers.replace(name, content, None):
            with suppress(MainReplaced):
                store.refuse_other_table()
        store.refuse_moved(f"Consumer {name!r}")
    try:
        is_replaced = is_closed_for(store.snapshots.latest(), REPLACEMENT, RENAMING)
    except MainReplaced:
        is_replaced = True
    if is_replaced:
        raise CommitOutcomeUnknown(
            f"Consumer {name!r} of {store.identifier} was changed while main was being replaced, or the table renamed: it may "
            "have been handed over as it was before. Open the table again and look."
        )
