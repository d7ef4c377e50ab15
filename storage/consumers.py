"""The consumers of a branch, for users, and reading as one of them.

What always holds: whoever writes the file of a consumer has read what it replaces, and looks afterwards whether the table is
still the same; a consumer names the snapshot that it has read last by more than its number, and nobody reads on from another
one. Follows `docs/protocols.md`, "Consumers".
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from .arguments import checked
from .document import is_damaged
from .errors import CommitConflict, CommitOutcomeUnknown, CorruptData, InvalidRequest, MainReplaced, NotFound
from .metadata.consumer import Consumer, ConsumerFiles
from .metadata.history import identity_at, refuse_other_history
from .metadata.table_store import TableStore
from .read.changes import before_has_expired, reads_before
from .same_table import of_same_table
from .store_errors import outcome
from .write.close import RENAMING, REPLACEMENT, is_closed_for, refuse_closed

_REPEAT = "Mend the store, then repeat the call."


@checked
class Consumers:
    """Named readers of changes. Snapshots that one of them has not read do not expire."""

    def __init__(self, store: TableStore) -> None:
        self._store = store

    @outcome(_REPEAT)
    @of_same_table
    def list(self) -> list[Consumer]:
        """All consumers, by name."""
        return self._store.consumers.all()

    @outcome(_REPEAT)
    @of_same_table
    def get(self, name: str) -> Consumer:
        """The consumer of that name. Raises NotFound that lists which there are."""
        consumer = self._store.consumers.find(name)
        if consumer is None:
            raise self._missing(name)
        return consumer

    def _missing(self, name: str) -> NotFound:
        names = ", ".join(consumer.name for consumer in self._store.consumers.all()) or "none"
        return NotFound(f"Consumer {name!r} of {self._store.identifier} does not exist. Consumers: {names}.")

    @outcome(_REPEAT)
    def reset(self, name: str, next_snapshot_id: int) -> None:
        """Make a consumer go on from a snapshot; it is made if there is none. Who reads as it at that time is refused from
        then on. Raises NotFound if the snapshot has expired, or is about to.
        """
        store, files = self._store, self._store.consumers
        store.refuse_other_table()
        self._refuse_beyond(next_snapshot_id)
        content, is_kept = None, True
        while content is None and is_kept:
            before = files.content(name)
            _refuse_moved_or_closed(store)
            consumer = _consumer_at(store, name, next_snapshot_id)
            content, is_kept = _begin(store, consumer, before, partial(self._is_kept, consumer))
        _look_back(store, name, content)
        if not is_kept:
            raise NotFound(
                f"Snapshot {next_snapshot_id} of {store.identifier} has expired, or is about to: expiries go up to "
                f"{max(store.consumers.expiring_below(), next_snapshot_id + 1) - 1}. Begin behind that, or where another "
                f"consumer stands. {store.snapshots.describe_existing()}"
            )

    def _is_kept(self, consumer: Consumer, was: Consumer | None) -> bool:
        """Whether what a consumer is to read stays, once that has been written; `was`: what it was before."""
        store, next_snapshot_id = self._store, consumer.next_snapshot_id
        if was is not None and was.next_snapshot_id <= next_snapshot_id:
            return True
        if next_snapshot_id < (store.snapshots.earliest_id() or 1):
            return False
        return _is_kept_by_others(store, consumer) or next_snapshot_id >= store.consumers.expiring_below()

    @outcome(_REPEAT)
    def delete(self, name: str) -> None:
        """Forget a consumer. Who reads as it at that time is refused from then on. Raises NotFound that lists which there are."""
        store, files = self._store, self._store.consumers
        while True:
            content = files.content(name)
            # What was read before this is the table's own, and no other content is deleted.
            _refuse_moved_or_closed(store)
            if content is None or _is_unsure_and_new(files, name, content):
                raise self._missing(name)
            if files.replace(name, content, None):
                break
        _look_back(store, name)

    @outcome(_REPEAT)
    @of_same_table
    def is_damaged(self, name: str) -> bool:
        """Whether there is a consumer of that name that cannot be read."""
        return is_damaged(lambda: self._store.consumers.find(name))

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
        """The last snapshot that the consumer has read; None if there is no consumer of the name, or it has read nothing yet.

        Raises NotFound if that snapshot is not in the branch's history (any more): main was replaced, say, and what comes
        after its number is not what has changed since.
        """
        known = self._look()
        if known is None or known.begins:
            return None
        refuse_other_history(
            self._store,
            known.next_snapshot_id - 1,
            known.last_read,
            f"Consumer {self._name!r}",
            "Read the table anew and reset the consumer to the snapshot after the one that was read, or delete it.",
        )
        return known.next_snapshot_id - 1

    def _look(self) -> Consumer | None:
        self._content = self._store.consumers.content(self._name)
        # What was read before this is the table's own, and nothing of another one is replaced.
        self._store.refuse_other_table()
        self._has_looked = True
        return self._store.consumers.parsed(self._name, self._content)

    @outcome(_REPEAT)
    def begin(self, position: int, *, is_whole: bool) -> None:
        """Let what comes after a position stay, before anything of it is handed out; nothing if this reader has recorded before.
        Raises as `record`. `is_whole`: the first reading is that of the whole table, and remains so until `record`.
        """
        if not self._has_recorded:
            self._record(position, begins=is_whole)

    @outcome(_REPEAT)
    def record(self, position: int) -> None:
        """Remember the last snapshot that has been read, or after which reading begins.

        Raises CommitConflict, and remembers nothing, if the consumer has been read, reset or deleted by somebody else since
        `position` was asked for or this reader recorded last. A reader that goes on by a position of its own takes it over.
        Raises NotFound if reading begins at a snapshot that has expired.
        """
        self._record(position, begins=False)

    def _record(self, position: int, *, begins: bool) -> None:
        store = self._store
        if not self._has_looked:
            self._look()
        consumer, is_kept = replace(_consumer_at(store, self._name, position + 1), begins=begins), True
        if self._has_recorded:
            content = store.consumers.put(consumer, self._content, store.clock.unique_name())
        else:
            # Else it would keep all that is left for a reader that cannot go on.
            content, is_kept = _begin(store, consumer, self._content, partial(self._can_read_on, consumer))
        if content is None and is_kept:
            store.refuse_other_table()
            raise CommitConflict(
                f"Consumer {self._name!r} of {store.identifier} was read by another reader, reset or deleted since this one "
                f"read it. One reader at a time has a consumer: stop the other one, or give it a name of its own, then start "
                f"again. That snapshots up to {position} were read is not recorded."
            )
        _look_back(store, self._name, content)
        if not is_kept:
            raise (
                store.snapshots.missing(position + 1)
                if self._has_expired(position + 1)
                else before_has_expired(store, position + 1)
            )
        self._content, self._has_recorded = content, True

    def _can_read_on(self, consumer: Consumer, was: Consumer | None) -> bool:
        """Whether what a consumer is to read next is there, and stays; `was`: what it was before."""
        store, number = self._store, consumer.next_snapshot_id
        if self._has_expired(number):
            return False
        following = store.snapshots.find(number)
        if following is None or not reads_before(store, following):
            return True
        if store.snapshots.find(number - 1) is None:
            return False
        if was is not None and was.next_snapshot_id <= number:
            return True
        return _is_kept_by_others(store, consumer) or number - 1 >= store.consumers.expiring_below()

    def _has_expired(self, snapshot_id: int) -> bool:
        store = self._store
        snapshot = store.snapshots.find(snapshot_id)
        if snapshot is not None and store.snapshots.is_in_history(snapshot):
            return False
        if store.changelogs.find(snapshot_id) is not None:
            return False
        return snapshot_id <= (store.snapshots.latest_id() or 0)


def _consumer_at(store: TableStore, name: str, next_snapshot_id: int) -> Consumer:
    """A consumer that has read all before a snapshot."""
    return Consumer(name, next_snapshot_id, identity_at(store, next_snapshot_id - 1))


def _is_kept_by_others(store: TableStore, consumer: Consumer) -> bool:
    """Whether another consumer keeps what one is to read. Asked once that is written: an expiry says how far it goes before it
    looks which consumers there are.
    """
    others = [each for each in store.consumers.all() if each.name != consumer.name]
    return any(other.next_snapshot_id <= consumer.next_snapshot_id for other in others)


def _begin(
    store: TableStore, consumer: Consumer, before: bytes | None, is_kept: Callable[[Consumer | None], bool]
) -> tuple[bytes | None, bool]:
    """Let a consumer begin somewhere in the place of what was read of it. Returns what its file holds then, None if it has
    become another one meanwhile; and whether what it is to read is kept: if not, the consumer is what it was.

    Until that is known, whoever expires snapshots sees it, and nobody else: who dies here leaves none that keeps snapshots
    for good and was told to nobody.
    """
    files, was = store.consumers, None
    with suppress(CorruptData):
        was = files.parsed(consumer.name, before)
    begun = files.begin(consumer, was, before, store.clock.unique_name())
    if begun is None:
        return None, True
    if not is_kept(was):
        files.replace(consumer.name, begun, before)
        return None, False
    return files.put(consumer, begun, store.clock.unique_name()), True


def _is_unsure_and_new(files: ConsumerFiles, name: str, content: bytes) -> bool:
    """Whether somebody is about to let a consumer begin that there was not before."""
    with suppress(CorruptData):
        return files.parsed(name, content) is None
    return False


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
