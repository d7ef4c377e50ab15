"""A place in the history of a branch, and the snapshots that came after it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from ..errors import CorruptData, NotFound
from .snapshot import Snapshot
from .table_store import TableStore
from .way_back import MAY_HAVE_EXPIRED, told_of_way_back

S = TypeVar("S", bound=Snapshot | None)
T = TypeVar("T")
_TRIES = 20
# The properties of a rollback: the number of the snapshot that it went back to, and the identity, since another branch's
# snapshots have the same numbers.
ROLLED_BACK_PROPERTY = "snapline.rolled-back-to"
ROLLED_BACK_IDENTITY_PROPERTY = "snapline.rolled-back-to-identity"
# The property of a commit that takes back one earlier snapshot: its number.
REVERTED_PROPERTY = "snapline.reverted"
# Beyond so many snapshots it is cheaper to look at the table as it is.
_SNAPSHOTS_TO_FOLLOW = 100


@dataclass(frozen=True, slots=True)
class Mark:
    """A snapshot as somebody saw it, by its number and a name that only it has; number 0: there was none yet. Pickles."""

    snapshot_id: int = 0
    delta_manifest_list: str | None = None

    @classmethod
    def of(cls, snapshot: Snapshot | None) -> "Mark":
        """The mark of a snapshot; None is a table without one."""
        return cls() if snapshot is None else cls(snapshot.id, snapshot.delta_manifest_list)


def rolled_back_properties(target: Snapshot) -> dict[str, str]:
    """The properties of a commit that goes back to a snapshot."""
    return {ROLLED_BACK_PROPERTY: str(target.id), ROLLED_BACK_IDENTITY_PROPERTY: target.identity}


def identity_at(store: TableStore, snapshot_id: int) -> str | None:
    """What tells the snapshot that has, or had, a number in a branch's history from any other one of that number; None if
    there is none, or it has expired or is damaged and nothing says which it was.
    """
    if snapshot_id < 1:
        return None
    with suppress(CorruptData):
        following = store.snapshots.find(snapshot_id + 1)
        if following is not None and following.follows is not None:
            return following.follows
    with suppress(CorruptData):
        snapshot = store.snapshots.find(snapshot_id)
        if snapshot is not None and store.snapshots.is_in_history(snapshot):
            return snapshot.identity
    with suppress(CorruptData):
        changelog = store.changelogs.find(snapshot_id)
        return None if changelog is None else changelog.identity
    return None


def stands_at(store: TableStore, snapshot_id: int, identity: str) -> bool:
    """Whether a snapshot that somebody has read is the one that has its number in a branch's history; also if it has expired
    and that cannot be told.
    """
    known = identity_at(store, snapshot_id)
    return snapshot_id <= (store.snapshots.latest_id() or 0) if known is None else known == identity


def refuse_other_history(store: TableStore, position: int, identity: str | None, who: str, what_to_do: str) -> None:
    """Raise NotFound if a reader of changes has come to a snapshot that is not in the history (any more): what comes after its
    number is not what changed since. `identity` None: nobody knows which it was.
    """
    if position > 0 and identity is not None and not stands_at(store, position, identity):
        store.refuse_other_table()
        raise NotFound(
            f"{who} has read {store.identifier} up to a snapshot {position} that is not in its history (any more): main was "
            f"replaced, or the table or branch was made anew, since. What has changed after it cannot be told. {what_to_do}"
        )


@contextmanager
def told_of_expiry(store: TableStore, *snapshots: Snapshot | None) -> Iterator[None]:
    """Turn the error that a file is not there into one that says why, where a snapshot has expired since it was read, or main
    was replaced, or the table has gone. Where a file of the newest snapshot is damaged or gone, it says what ends that.
    """
    try:
        with told_of_way_back(store, snapshots[-1] if snapshots else None):
            yield
    except NotFound as error:
        needed_by = []
        for snapshot in snapshots:
            if snapshot is None:
                continue
            tags = _tags_of(store, snapshot)
            if has_expired(store, snapshot):
                if not tags:
                    raise NotFound(
                        f"Snapshot {snapshot.id} of {store.identifier} has expired while it was read. "
                        f"{store.snapshots.describe_existing()} Read one of these; a tag keeps a snapshot. ({error})"
                    ) from None
            else:
                needed_by.append(f"snapshot {snapshot.id}")
            needed_by += [f"tag {name!r}" for name in tags]
        store.refuse_other_table()
        if needed_by and str(error).endswith(MAY_HAVE_EXPIRED):
            # Expiry deletes a snapshot before its files.
            raise NotFound(
                f"{str(error).removesuffix(MAY_HAVE_EXPIRED)} It is lost, and needed by {', '.join(needed_by)}: restore it, "
                "or read another version. `snapline check` names all that is damaged."
            ) from None
        raise


def despite_expiry(stores: Sequence[TableStore], act: Callable[[], T]) -> T:
    """What a function returns that reads the history of branches; it is done again if snapshots expired meanwhile.

    Raises MainReplaced, or NotFound, if a branch is another one by now.
    """
    for tries_left in reversed(range(_TRIES)):
        before = [store.snapshots.earliest_id() for store in stores]
        try:
            return act()
        except NotFound:
            for store in stores:
                store.refuse_other_table()
            if not tries_left or [store.snapshots.earliest_id() for store in stores] == before:
                raise
    raise AssertionError("the last try raises")


def at_latest(store: TableStore, latest: Callable[[], S], act: Callable[[S], T]) -> T:
    """What a function makes of the latest snapshot, as `latest` finds it: which one that is nobody has said, so that if it has
    expired before it is held, the newer one is taken. Raises NotFound if that happens again and again.
    """
    for tries_left in reversed(range(_TRIES)):
        snapshot = latest()
        try:
            return act(snapshot)
        except NotFound:
            if not tries_left or not has_expired(store, snapshot):
                raise
    raise AssertionError("the last try raises")


def _tags_of(store: TableStore, snapshot: Snapshot) -> list[str]:
    return [tag.name for tag in store.tags.readable() if tag.snapshot.identity == snapshot.identity]


def has_expired(store: TableStore, snapshot: Snapshot | None) -> bool:
    """Whether a snapshot has expired since somebody read it: then files of it may be gone, and there is a newer one.

    Raises NotFound if the table itself has gone.
    """
    if snapshot is None:
        return False
    here = store.snapshots.find(snapshot.id)
    store.refuse_other_table()
    return here is None or here.identity != snapshot.identity


def snapshots_after(store: TableStore, mark: Mark, latest: Snapshot) -> list[Snapshot] | None:
    """The snapshots after a mark and up to the latest, ascending; None if some have expired, or are very many, or if the
    marked one is not part of the history.
    """
    if not 0 <= latest.id - mark.snapshot_id <= _SNAPSHOTS_TO_FOLLOW:
        return None
    if mark.snapshot_id and Mark.of(store.snapshots.find(mark.snapshot_id)) != mark:
        return None
    later: list[Snapshot] = []
    for snapshot_id in range(mark.snapshot_id + 1, latest.id + 1):
        snapshot = latest if snapshot_id == latest.id else store.snapshots.find(snapshot_id)
        if snapshot is None or (later and snapshot.follows not in (None, later[-1].identity)):
            return None
        later.append(snapshot)
    return later
