"""Hold a snapshot's files while something is made of them: by a tag that nobody but this room creates.

Written first, then looked at: whoever deletes files takes away the snapshot or tag that keeps them before looking who needs
them, so that either the hold is seen, or what is held is found gone. A hold that a crash leaves ends by itself after a day.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ..errors import NotFound, StorageError
from ..identifier import HOLD_PREFIX
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from .tagging import delete_tag

_DAY_MS = 86_400_000


@contextmanager
def held(store: TableStore, snapshot: Snapshot, is_there: Callable[[str], bool]) -> Iterator[None]:
    """Keep the files of a snapshot, of any branch, by a tag of `store`.

    `is_there` says whether something else than the tag of the given name still keeps them. Raises NotFound if not.
    """
    name = f"{HOLD_PREFIX}{store.clock.unique_name()}"
    store.tags.create(name, snapshot, retained_ms=_DAY_MS, now_ms=store.clock.now_ms())
    try:
        if not is_there(name):
            raise NotFound(f"Snapshot {snapshot.id} of {store.identifier} has expired meanwhile. Nothing is done.")
        yield
    finally:
        with suppress(StorageError, OSError):
            delete_tag(store, name)


def is_kept(store: TableStore, snapshot: Snapshot, besides: str) -> bool:
    """Whether a branch still has a snapshot, or a tag of it other than `besides`."""
    here = store.snapshots.find(snapshot.id)
    if here is not None and here.identity == snapshot.identity:
        return True
    return any(tag.name != besides and tag.snapshot.identity == snapshot.identity for tag in store.tags.all())
