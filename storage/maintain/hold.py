"""Hold a snapshot's files while something is made of them: by a tag that nobody but this room creates.

Written first, then looked at: whoever deletes files takes away the snapshot or tag that keeps them before looking who needs
them, so that either the hold is seen, or what is held is found gone. A hold that a crash leaves ends by itself after a day;
so whoever holds for long looks, once something else is to keep the files, whether his hold, or what it was made of, is there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..errors import CommitConflict, CommitOutcomeUnknown, CorruptData, NotFound, StorageError
from ..identifier import HOLD_PREFIX, RESERVED_TAGS
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..write.attempt import Held
from ..write.commit_time import is_late
from .left_over import LeftOver, delete_left_over
from .lost_files import refuse_taken
from .references import files_of

# How long a hold that a crash leaves keeps its files.
HOLD_MS = 86_400_000


@contextmanager
def held(store: TableStore, snapshot: Snapshot, is_there: Callable[[str], bool]) -> Iterator[Held]:
    """Keep the files of a snapshot, of any branch, by a tag of `store`; gives what tells whether they are kept still.

    `is_there` says whether something else than the tag of the given name still keeps them. Raises NotFound if not,
    CommitOutcomeUnknown if they were not kept until the end, and nobody who was told so has raised anything.
    """
    begun_ms = store.clock.now_ms()
    asked: list[bool] = []

    def stands() -> bool:
        asked.append(not is_late(store.clock, begun_ms) or store.tags.find(name) is not None or is_there_still())
        return asked[-1]

    def is_there_still() -> bool:
        with suppress(CommitConflict, NotFound):
            return is_there(name)
        return False

    name = f"{HOLD_PREFIX}{store.clock.unique_name()}"
    hold = store.tags.create(name, snapshot, retained_ms=HOLD_MS, now_ms=begun_ms)
    try:
        if not is_there(name):
            raise NotFound(f"Snapshot {snapshot.id} of {store.identifier} has expired meanwhile. Nothing is done.")
        refuse_taken(store, snapshot)
        yield stands
        if not asked and not stands():
            raise CommitOutcomeUnknown(
                f"{store.identifier}: what was made of snapshot {snapshot.id} took so long that its files may have been deleted. "
                "Look at it with `check`, and make it anew if a file is missing."
            )
    finally:
        with suppress(StorageError, OSError):
            delete_hold(store, hold)


def is_holding(store: TableStore) -> bool:
    """Whether somebody holds something on a branch, or has died while he did."""
    return any(
        file.name.startswith(f"tag-{HOLD_PREFIX}") for file in store.file_io.list_files(store.paths.tag_directory)
    )


def delete_hold(store: TableStore, hold: Tag) -> None:
    """Take a hold away, and the files that nobody needs then."""
    store.tags.delete_if(hold)
    delete_files_of(store, hold)


def delete_files_of(store: TableStore, gone: Tag) -> list[str]:
    """Delete the files that nobody needs after a tag has gone; returns them."""
    return delete_those_unneeded(store, only_tagged(store, gone))


def delete_those_unneeded(store: TableStore, candidates: LeftOver) -> list[str]:
    """Delete those of some files that nobody needs, after what has kept them has gone; returns them."""
    if not candidates:
        return []
    return delete_left_over(store, candidates, "The tag is deleted")


def only_tagged(store: TableStore, tag: Tag) -> LeftOver:
    """The files of a tag, if its snapshot has expired; else that keeps them. None if they have gone already."""
    here = store.snapshots.find(tag.snapshot.id)
    if here is not None and here.identity == tag.snapshot.identity:
        return set()
    try:
        return files_of(store, tag.snapshot)
    except CorruptData as error:
        return error
    except NotFound:
        return set()


def is_kept(store: TableStore, snapshot: Snapshot, besides: str) -> bool:
    """Whether a branch still has a snapshot, or a tag of it other than `besides`. Holds that others have may be in vain;
    a tag that is damaged keeps nothing that can be told.
    """
    here = store.snapshots.find(snapshot.id)
    if here is not None and here.identity == snapshot.identity:
        return True
    tags = [tag for tag in store.tags.readable() if tag.name != besides and not tag.name.startswith(RESERVED_TAGS)]
    return any(tag.snapshot.identity == snapshot.identity for tag in tags)
