"""Hash the rows of partitions anew, to the number of buckets that the table has by its schema.

Whoever hashes rows by another number is refused from the moment in which the schema has the new one; compactions, merges and
rollbacks still come in between, and then it is done again. Follows `docs/protocols.md`, "Rescaling".
"""

import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from ..errors import CommitConflict, CommitOutcomeUnknown, NotFound, StorageError
from ..identifier import MAIN_BRANCH
from ..metadata.history import has_expired
from ..metadata.main_branch import find_main
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.schema import TableSchema
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, RESCALE, RESCALED_BROUGHT_PROPERTY, Snapshot
from ..metadata.table_store import TableStore
from ..progress import progress_of_each
from ..read.held_keys import no_keys
from ..read.scan import Scan
from ..store_errors import outcome
from ..write.close import RENAMING, REPLACEMENT, is_closed_for
from ..write.commit import TableCommit
from ..write.commit_id import CommitId
from ..write.listeners import CommitListener
from ..write.table_write import CommitMessage, TableWrite
from .compaction import compact
from .top_runs import as_top_runs

_TRIES = 10
# How long a replacement of main is waited for, which ends by itself unless whoever does it has died.
_LONGEST_WAIT_MS = 30_000
_LONGEST_PAUSE_MS = 500
Covers = Callable[[bytes], bool]
# Makes a version of the schema with a number of buckets.
Alter = Callable[[TableStore, int], TableStore]
Rescaled = tuple[Snapshot | None, set[Place]]


def rescale_brought(store: TableStore, snapshot: Snapshot, listeners: Sequence[CommitListener]) -> Snapshot | None:
    """Hash anew what a commit has brought, of an earlier snapshot or of a branch, that was hashed to another number of buckets
    than the table has by now: else writers to those partitions would be refused.
    """
    added = [entry for entry in store.delta_of(snapshot) if entry.kind == ADD]
    return _rescale_partitions(store, _of_other_count(store, added), listeners)


def rescale_behind(
    store: TableStore, left_out: Collection[bytes], listeners: Sequence[CommitListener]
) -> Snapshot | None:
    """The same of all that a branch has, but for partitions that a rescale has left out."""
    return _rescale_partitions(store, behind(store, store.snapshots.latest()) - frozenset(left_out), listeners)


def rescale_left(made: TableStore, source: TableStore, listeners: Sequence[CommitListener]) -> Snapshot | None:
    """The same of all that a new branch has, if it was made while a rescale of `source` was not done. Of the time before its
    first snapshot a branch knows nothing; where that cannot be told any more, it may have been so.
    """
    newest = made.schemas.latest()
    if newest is None or _version_of_count(made, newest) == 0:
        return None
    if not has_begun(made):
        if not behind(made, made.snapshots.latest()):
            return None
        try:
            if not has_begun(source):
                return None
        except StorageError:
            pass
    return rescale_behind(made, (), listeners)


def behind(store: TableStore, snapshot: Snapshot | None) -> frozenset[bytes]:
    """The partitions of a snapshot whose files have another number of buckets than the newest version of the schema says."""
    return frozenset() if snapshot is None else _of_other_count(store, Scan(store, snapshot).entries)


def _of_other_count(store: TableStore, entries: Sequence[ManifestEntry]) -> frozenset[bytes]:
    newest = store.schemas.latest()
    count = 0 if newest is None else newest.table_options.bucket
    return frozenset(
        entry.partition for entry in entries if count > 0 and entry.bucket >= 0 and entry.total_buckets != count
    )


def _rescale_partitions(
    store: TableStore, partitions: frozenset[bytes], listeners: Sequence[CommitListener]
) -> Snapshot | None:
    newest = store.schemas.latest()
    if newest is None or not partitions:
        return None
    store = store.at_schema(newest)
    tell_before(store, partitions.__contains__, listeners)
    return rescale(store, newest.table_options.bucket, partitions.__contains__, listeners, brought=True)[0]


def has_begun(store: TableStore) -> bool:
    """Whether a rescale of a branch has begun and is not done: its schema has a new number of buckets, there are files of another
    one, and no snapshot since says that whoever gave the number has come to the end. What others overwrite meanwhile has the new
    number, and is no end.
    """
    newest, latest = store.schemas.latest(), store.snapshots.latest()
    if newest is None or latest is None or newest.id == 0:
        return False
    if latest.schema_id < newest.id and _count_of(store, latest.schema_id) != newest.table_options.bucket:
        return True
    since = _version_of_count(store, newest)
    if since == 0 or not behind(store, latest):
        return False
    for snapshot in store.snapshots.backwards(latest):
        if snapshot.schema_id < since:
            return True
        if snapshot.operation == RESCALE and RESCALED_BROUGHT_PROPERTY not in (snapshot.properties or {}):
            return False
    # The end has expired, or the beginning: then nobody is at it any more, but for partitions that were left out.
    return False


def _version_of_count(store: TableStore, newest: TableSchema) -> int:
    """The version of the schema since which the number of buckets is the newest one."""
    since = newest.id
    while since > 0 and _count_of(store, since - 1) == newest.table_options.bucket:
        since -= 1
    return since


def _count_of(store: TableStore, schema_id: int) -> int:
    return store.schemas.get(schema_id).table_options.bucket


def refuse_rescaling(store: TableStore) -> None:
    """Raise CommitConflict if a rescale has begun: whoever does it would not find the table under another name, and it would take
    no writes.
    """
    newest = store.schemas.latest()
    if newest is not None and has_begun(store):
        raise CommitConflict(
            f"A rescale of {store.identifier} has begun and is not done. Wait for it; if whoever did it has died, do it again: "
            f"{_command(store, newest.table_options.bucket)}"
        )


def _command(store: TableStore, bucket_count: int) -> str:
    return f"snapline rescale {shlex.quote(str(store.identifier))} --buckets {bucket_count}"


def _again(store: TableStore, bucket_count: int) -> str:
    """What to do about a rescale that the store has failed."""
    return f"Mend the store, then do it again: {_command(store, bucket_count)}"


def tell_before(store: TableStore, covers: Covers, listeners: Sequence[CommitListener]) -> None:
    """Compact what no changelog has told yet, for readers of changes that leave out what replaces files."""
    if store.options.told_level is not None:
        compact(store, full=True, wanted=lambda place: covers(place[0]), listeners=listeners)


def rescale_to(
    store: TableStore, bucket_count: int, covers: Covers, listeners: Sequence[CommitListener], alter: Alter
) -> tuple[TableStore, Rescaled]:
    """Give a table another number of buckets, with which `alter` makes a new version of its schema, and hash the partitions
    that are covered anew. Returns the table under that schema, which is another branch if main was replaced meanwhile; the
    snapshot, None if there is nothing to do; and the buckets that were written.

    Raises CommitConflict if others come first each time.
    """
    tell_before(store, covers, listeners)
    has_begun = store.options.bucket == bucket_count
    for tries_left in reversed(range(_TRIES)):
        try:
            if store.options.bucket != bucket_count:
                with outcome(
                    f"If {store.identifier} has {bucket_count} buckets by its schema by now, writers to it are refused until its "
                    f"rows are hashed anew. {_again(store, bucket_count)}",
                    of_whole=True,
                ):
                    store = alter(store, bucket_count)
                has_begun = True
            return store, rescale(store, bucket_count, covers, listeners)
        except (CommitConflict, CommitOutcomeUnknown, NotFound) as error:
            # The new number may have come to the branch that main is replaced with: whoever gave it goes on there.
            begun = has_begun or isinstance(error, CommitOutcomeUnknown)
            main = main_after_replacement(store) if begun and tries_left else None
            if main is None:
                if isinstance(error, NotFound):
                    store.refuse_other_table()
                raise
            store, has_begun = main, True
    raise AssertionError("the last try raises")


def rescale(
    store: TableStore,
    bucket_count: int,
    covers: Covers,
    listeners: Sequence[CommitListener],
    *,
    tries: int = _TRIES,
    brought: bool = False,
) -> Rescaled:
    """Hash the rows of the partitions that are covered to the number of buckets that the schema has, where their files have
    another one; returns the snapshot, None if there is nothing to do, and the buckets that were written. `brought`: they are
    what a commit has brought, so that this is no end of a rescale. Raises CommitConflict if others come first each time.
    """
    still = (
        f"{store.identifier} has {bucket_count} buckets by its schema, and its files may still have another number: writers to "
        f"such partitions are refused until their rows are hashed anew. {_again(store, bucket_count)}"
    )
    for tries_left in reversed(range(tries)):
        try:
            with outcome(still, of_whole=True):
                return _rescale_once(store, bucket_count, covers, listeners, brought)
        except CommitConflict as error:
            store.refuse_other_table()
            if not tries_left:
                raise CommitConflict(
                    f"{store.identifier} has {bucket_count} buckets by its schema, and its files still have another number, "
                    f"since others came first each time ({error}). Nothing is lost; rescale it again, which writers wait for."
                ) from None
    raise AssertionError("the last try raises")


def _rescale_once(
    store: TableStore, bucket_count: int, covers: Covers, listeners: Sequence[CommitListener], brought: bool
) -> Rescaled:
    snapshot = store.snapshots.latest()
    entries: list[ManifestEntry] = []
    message = CommitMessage(())
    if snapshot is not None:
        try:
            entries = of_other_count(store, snapshot, bucket_count, covers)
            entries, message = hashed_anew(store, snapshot, entries)
        except NotFound as error:
            if not has_expired(store, snapshot):
                raise
            raise CommitConflict(f"snapshot {snapshot.id}, which was to be rescaled, has expired: {error}") from None

    def refuse_others(latest: Snapshot | None) -> None:
        if latest is None or (snapshot is not None and latest.identity == snapshot.identity):
            return
        hashed = {entry.identity for entry in entries}
        if any(entry.identity not in hashed for entry in of_other_count(store, latest, bucket_count, covers)):
            raise CommitConflict("files with another number of buckets have come meanwhile")

    commit = TableCommit(store, CommitId(store.clock.unique_name(), BATCH_COMMIT_IDENTIFIER), listeners)
    if not entries:
        if store.schema.id > (0 if snapshot is None else snapshot.schema_id) or (not brought and has_begun(store)):
            # Who has asked for the number of buckets before it was changed may be about to commit: he must come first. And
            # others may have overwritten what was to be hashed.
            commit.commit([], operation=RESCALE, guard=refuse_others, even_empty=True)
        return None, set()
    unused: list[str] = []
    if store.schema.primary_keys:
        message, unused = as_top_runs(store, [message])
    own = {RESCALED_BROUGHT_PROPERTY: "true"} if brought else None
    try:
        # Not an overwrite of whatever is there by then: files that came meanwhile have the old number of buckets.
        made = commit.commit([message], deleted=entries, operation=RESCALE, guard=refuse_others, own_properties=own)
        return made, {entry.place for entry in message.added}
    finally:
        store.file_io.delete_quietly(unused)


def hashed_anew(
    store: TableStore, snapshot: Snapshot, entries: list[ManifestEntry]
) -> tuple[list[ManifestEntry], CommitMessage]:
    """Some files of a snapshot, and the rows of their partitions written anew."""
    partitions = {entry.partition for entry in entries}
    # What no compaction has lifted yet is hashed as well.
    scan = Scan(store, snapshot, lowest_level=0)
    with TableWrite(store, ignore_existing=True, find_keys=partial(no_keys, store)) as writer:
        splits = [split for split in scan.splits if split.partition in partitions]
        for split in progress_of_each(splits, str(store.identifier), "parts written into other buckets"):
            for rows in split.read():
                writer.write(rows)
        return entries, writer.prepare_commit()


def of_other_count(store: TableStore, snapshot: Snapshot, bucket_count: int, covers: Covers) -> list[ManifestEntry]:
    """The files of a snapshot that were written for another number of buckets."""
    return [
        entry
        for entry in Scan(store, snapshot).entries
        if entry.total_buckets != bucket_count and covers(entry.partition)
    ]


def main_after_replacement(store: TableStore) -> TableStore | None:
    """Where the main of a table is, once a replacement or renaming that was under way is done: another branch, or, if it was
    given up, the one that was closed for it. None if there was none, if it is not done after a while, or if this is not the same
    table.
    """
    if store.identifier.branch != MAIN_BRANCH:
        return None
    waited = False
    for pause_ms in _pauses():
        if find_main(store.file_io, store.paths.root) != store.paths:
            try:
                main = TableStore(store.file_io, store.paths.root, store.identifier, clock=store.clock)
            except NotFound:
                return None
            # A branch has the versions that main had: of a table that came later they are other ones.
            return main if main.has_schema_of(store) else None
        if not store.is_same_table():
            return None
        if not is_closed_for(store.snapshots.latest(), REPLACEMENT, RENAMING):
            return store if waited else None
        waited = True
        store.clock.sleep_ms(pause_ms)
    return None


def _pauses() -> Iterator[float]:
    waited, pause = 0.0, 10.0
    while waited < _LONGEST_WAIT_MS:
        yield pause
        waited += pause
        pause = min(2 * pause, _LONGEST_PAUSE_MS)
