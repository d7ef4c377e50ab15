"""What ends that a file of the newest snapshot is damaged or gone: a rollback to the last version that does not need it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from ..errors import CorruptData, DirectoryInPlace, NotFound, StorageError
from .live_files import live_files
from .snapshot import Snapshot
from .table_store import TableStore

# So far back it is looked for.
_SNAPSHOTS = 100
# What is said where a file is not there, of whichever snapshot.
MAY_HAVE_EXPIRED = " The snapshot that names it may have expired: read a newer one."


def way_back(store: TableStore, newest: Snapshot, error: StorageError) -> str:
    """What to do about an error of reading the newest snapshot."""
    with suppress(CorruptData, NotFound):
        for snapshot in islice(store.snapshots.backwards(store.snapshots.before(newest)), _SNAPSHOTS):
            if snapshot.id < newest.id and _is_sound(store, snapshot, str(error)):
                return (
                    f"Snapshot {newest.id}, the newest, needs it: restore the file, or go back with `snapline rollback "
                    f"--version {snapshot.id}`, the last one that can be read without it."
                )
    return f"Snapshot {newest.id}, the newest, needs it, and so does what is known of those before: restore the file."


@contextmanager
def told_of_way_back(store: TableStore, snapshot: Snapshot | None) -> Iterator[None]:
    """Let the error of reading a snapshot say what ends it, if it is the newest."""
    try:
        yield
    except DirectoryInPlace:
        raise
    except (CorruptData, NotFound) as error:
        if snapshot is None or not _is_newest(store, snapshot) or "the newest, needs it" in str(error):
            raise
        raise type(error)(f"{str(error).removesuffix(MAY_HAVE_EXPIRED)} {way_back(store, snapshot, error)}") from None


def _is_newest(store: TableStore, snapshot: Snapshot) -> bool:
    with suppress(StorageError):
        latest = store.snapshots.latest()
        return latest is not None and latest.identity == snapshot.identity and store.is_same_table()
    return False


def _is_sound(store: TableStore, snapshot: Snapshot, error: str) -> bool:
    """Whether the files of a snapshot are found, and the one that an error names is none of them."""
    try:
        live = live_files(store.manifests_of(snapshot), store.manifests)
        for schema_id in {snapshot.schema_id, *(entry.file.schema_id for entry in live)}:
            store.schemas.get(schema_id)
    except (CorruptData, NotFound):
        return False
    return not any(entry.file.name in error for entry in live)
