"""The moment from which ages are counted by which something goes: snapshots, tags, partitions, rows."""

from contextlib import suppress

from ..errors import StorageError
from ..metadata.table_store import TableStore

# Clocks of machines that work together differ by less.
_TOLERATED_MS = 3_600_000
# What is ahead by less may as well be seen by a clock that is behind: one in a wrong time zone, say.
NEAR_MS = 24 * 3_600_000


def now_of_ages(store: TableStore) -> int:
    """Milliseconds since 1970 by the clock of this machine; by that of the file system where this machine is ahead by more
    than an hour, so that a clock years ahead lets nothing go early. A file is written to ask it, unless the newest snapshot's
    tells enough.
    """
    now_ms = store.clock.now_ms()
    directory = store.paths.snapshot_directory
    written = [file.modified_ms for file in store.file_io.list_files(directory) if file.modified_ms is not None]
    if max(written, default=0) >= now_ms - _TOLERATED_MS:
        return now_ms
    told_ms = time_of_file_system(store)
    return now_ms if told_ms is None or told_ms >= now_ms - _TOLERATED_MS else told_ms


def believed_until(store: TableStore, now_ms: int, latest_ms: int) -> int:
    """The latest moment, in milliseconds since 1970, that a time on record may tell and be believed, for what was made at
    `latest_ms` at the latest: a day after now, by the clock of this machine or that of the file system, whichever is later. So
    a clock that is behind takes nothing that is new for something of a clock that is ahead. A file is written to ask the file
    system, if what is on record is later than that day.
    """
    if latest_ms <= now_ms + NEAR_MS:
        return now_ms + NEAR_MS
    return max(now_ms, time_of_file_system(store) or 0) + NEAR_MS


def time_of_file_system(store: TableStore) -> int | None:
    """Milliseconds since 1970 by the clock that gives files their times; None if it gives none."""
    name = f".now-{store.clock.unique_name()}.tmp"
    path = f"{store.paths.schema_directory}/{name}"
    if not store.file_io.create_exclusively(path, b"", of=store.read_witness()):
        return None
    try:
        listed = store.file_io.list_files(store.paths.schema_directory)
        return next((file.modified_ms for file in listed if file.name == name), None)
    finally:
        with suppress(OSError, StorageError):
            store.file_io.delete(path)
