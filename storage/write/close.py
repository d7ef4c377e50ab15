"""Close a branch to writers for good: a snapshot on top that none of them goes past, because another branch becomes main, or
because the branch is deleted.

It is created as any commit is, so that a writer either comes first or finds the branch closed. Readers see what it shows,
the state before it. Whoever closed a branch in vain opens it again by a snapshot on top.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal

from ..errors import CommitConflict, CommitOutcomeUnknown, CorruptData, MainReplaced, NotFound
from ..iceberg.publish import publish_after
from ..log.publish import send_after
from ..metadata.history import ROLLED_BACK_PROPERTY, rolled_back_properties
from ..metadata.manifest import ManifestFile
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, COMPACT, FOLLOWS_PROPERTY, TAKE_BACK, Snapshot
from ..metadata.table_store import TableStore
from ..store_errors import outcome
from .brought_back import drop_tags, tag_for
from .commit_time import commit_time, is_late
from .landing import create_on_top
from .lost_to_cleaning import first_lost

CLOSED_PROPERTY = "snapline.closed"
# The publication, by its number, that closed a branch as a part of it, and alone opens it again.
CLOSED_BY_PROPERTY = "snapline.closed-by-publication"
_OF_A_CLOSING = (CLOSED_PROPERTY, CLOSED_BY_PROPERTY)
_DECISION = ".closed-"
# What a snapshot that changes nothing was put on top for.
FENCE_PROPERTY = "snapline.fence"
# What became of a closing, by what that is told from others.
DECISION_FILE = re.compile(r"\.closed-(.+)")
# What a branch is closed for.
REPLACEMENT, DELETION = "the replacement of main with branch", "the deletion of branch"
# The table goes to another place, file by file.
RENAMING = "the renaming to"


def closed_for(snapshot: Snapshot | None) -> str | None:
    """What a branch is closed for, if its latest snapshot closes it."""
    return None if snapshot is None else (snapshot.properties or {}).get(CLOSED_PROPERTY)


def is_closed_for(snapshot: Snapshot | None, *reasons: str) -> bool:
    """Whether a branch is closed by its latest snapshot for one of some reasons, whatever the object."""
    return (closed_for(snapshot) or "").startswith(reasons)


def closed_by(snapshot: Snapshot | None) -> int | None:
    """The number of the publication as a part of which a branch is closed, if its latest snapshot closes it so."""
    number = None if snapshot is None else (snapshot.properties or {}).get(CLOSED_BY_PROPERTY)
    return int(number) if number is not None and closed_for(snapshot) is not None and number.isdecimal() else None


def refuse_closed(store: TableStore, latest: Snapshot | None) -> None:
    """Raise CommitConflict if a branch is closed."""
    reason, publication = closed_for(latest), closed_by(latest)
    if reason is not None:
        again = "do it again" if publication is None else "go on by `snapline branch recover`"
        by = "" if publication is None else f", by publication {publication},"
        raise CommitConflict(
            f"{store.identifier} is closed to writers: {reason}{by} has begun and is not done. Wait for it; if whoever did it "
            f"has died, {again}."
        )


def close(
    store: TableStore,
    latest: Snapshot | None,
    reason: str,
    *,
    publication: int | None = None,
    shows: Snapshot | None = None,
) -> Snapshot | None:
    """Put on top of the latest snapshot one that closes the branch; None if a writer came first. `publication`: the number of
    the one that this is a part of. `shows`: an earlier snapshot, as after a rollback to it, if the latest cannot be read.
    """
    by = {} if publication is None else {CLOSED_BY_PROPERTY: str(publication)}
    back = {} if shows is None else rolled_back_properties(shows)
    return put_on_top(store, latest, shows or latest, "CLOSE", {CLOSED_PROPERTY: reason, **by, **back})


@contextmanager
def beside_history(store: TableStore, what: str) -> Iterator[None]:
    """Change something of a branch that is no part of its history. Raises CommitConflict, nothing being done, if the branch
    is closed; CommitOutcomeUnknown if it is closed, or gone, afterwards: whoever closed it may have come before the change.
    """
    refuse_closed(store, store.snapshots.latest())
    yield
    with outcome(f"{what} of {store.identifier} was changed all the same: look at it before you repeat the call."):
        store.refuse_moved(what)
        with suppress(MainReplaced):
            if closed_for(store.snapshots.latest()) is None:
                return
    raise CommitOutcomeUnknown(
        f"{what} of {store.identifier} was changed, and meanwhile the branch was closed: a branch that becomes main may have "
        "what was there before. Open the table again and look."
    )


def close_again(store: TableStore, closing: Snapshot) -> Snapshot | None:
    """Put a closing on top of itself once more, for that it is opened has been decided: by whoever put it there so late that its
    lists may be lost, and was about to do this, or has died. None if somebody else came first.
    """
    properties = {key: value for key, value in (closing.properties or {}).items() if key in _OF_A_CLOSING}
    return _on_top_of_closing(store, closing, TAKE_BACK, properties)


def open_again(store: TableStore, closing: Snapshot) -> None:
    """Put on top of a snapshot that closes a branch one that opens it; nothing if somebody else did. What could not be read when
    the branch was closed is shown again, if it can be now.
    """
    with suppress(CorruptData, NotFound):
        unread = _unread_below(store, closing)
        if unread is not None:
            put_on_top(store, closing, unread, "OPEN", rolled_back_properties(unread))
            return
    _on_top_of_closing(store, closing, "OPEN", {})


def _unread_below(store: TableStore, closing: Snapshot) -> Snapshot | None:
    """The snapshot that a closing was put on top of, if it shows an earlier one instead, and that has not expired."""
    if ROLLED_BACK_PROPERTY not in (closing.properties or {}):
        return None
    above: Snapshot = closing
    while True:
        below = store.snapshots.find(above.id - 1)
        if below is None or below.identity != above.follows:
            return None
        if closed_for(below) is None:
            return below
        # Put there late, and once more.
        above = below


def _on_top_of_closing(
    store: TableStore, closing: Snapshot, operation: str, properties: dict[str, str]
) -> Snapshot | None:
    """Put what a closing shows on top of it; the state before it, which is the same, if its own lists are lost."""
    try:
        return put_on_top(store, closing, closing, operation, properties)
    except NotFound:
        before = store.snapshots.before(closing)
        if (before is None and closing.id > 1) or not store.is_same_table():
            raise
        return put_on_top(store, closing, before, TAKE_BACK, properties)


def decide(store: TableStore, closing: Snapshot, fate: Literal["done", "opened"]) -> bool:
    """Whether a branch that was closed by a snapshot is gone for good (`done`) or opened again, as asked for: who asks
    first decides, by a file that is created if absent.

    Orphan cleaning takes the file away once the closing is on top of the branch no more: then it was opened again.
    """
    path = decision_file(store, closing)
    if not store.file_io.create_exclusively(path, fate.encode()):
        return decided(store, path) == fate
    latest = store.snapshots.latest()
    return fate == "opened" or (latest is not None and latest.identity == closing.identity)


def decision(store: TableStore, closing: Snapshot) -> str | None:
    """What has been decided for a branch that was closed by a snapshot; None if nothing is yet."""
    return decided(store, decision_file(store, closing))


def decision_file(store: TableStore, closing: Snapshot) -> str:
    """The file that says what became of a closing, once that is decided."""
    return f"{store.paths.branch_directory}/{_DECISION}{closing.identity}"


def decisions(store: TableStore) -> list[str]:
    """The files that say what became of closings."""
    directory = store.paths.branch_directory
    return sorted(
        f"{directory}/{file.name}"
        for file in store.file_io.list_files(directory, or_in_place=True)
        if file.name.startswith(_DECISION)
    )


def decided(store: TableStore, path: str) -> str | None:
    """What became of a closing; None if the file has gone. Raises CorruptData for anything else."""
    outcome = store.file_io.read_text_or_none(path)
    if outcome not in ("done", "opened", None):
        raise CorruptData(
            f"File {path} is damaged: it says {outcome[:40]!r}, neither done nor opened. If the branch is there and takes "
            "writes, write opened into it, else done."
        )
    return outcome


def put_on_top(
    store: TableStore, latest: Snapshot | None, shows: Snapshot | None, operation: str, properties: dict[str, str]
) -> Snapshot | None:
    """Commit, on top of the latest snapshot, the state of another, as no change of rows; None if a writer came first.

    Whoever sleeps while he does it, until his lists count as orphans, does it once more, on top of his own.
    """
    base = [] if shows is None else store.manifests_of(shows)
    return _put_on_top(store, latest, shows, base, operation, properties)


def _put_on_top(
    store: TableStore,
    latest: Snapshot | None,
    shows: Snapshot | None,
    base: Sequence[ManifestFile],
    operation: str,
    properties: dict[str, str],
) -> Snapshot | None:
    name = store.clock.unique_name()
    lists: dict[str, Sequence[ManifestFile]] = {f"manifest-list-{name}-0": base, f"manifest-list-{name}-1": []}
    begun_ms = store.clock.now_ms()
    (base_list, base_size), (delta_list, delta_size) = (
        (name, store.manifests.write_list(name, held)) for name, held in lists.items()
    )
    follows = {FOLLOWS_PROPERTY: latest.identity} if latest else {}
    time = commit_time(begun_ms, latest, None)
    snapshot = Snapshot(
        id=latest.id + 1 if latest else 1,
        uuid=store.clock.unique_name(),
        schema_id=shows.schema_id if shows else store.schema.id,
        base_manifest_list=base_list,
        base_manifest_list_size=base_size,
        delta_manifest_list=delta_list,
        delta_manifest_list_size=delta_size,
        commit_user=name,
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        commit_kind=COMPACT,
        time_ms=time.time_ms,
        total_record_count=shows.total_record_count if shows else 0,
        delta_record_count=(shows.total_record_count if shows else 0) - (latest.total_record_count if latest else 0),
        index_manifest=shows.index_manifest if shows else None,
        watermark=shows.watermark if shows else None,
        next_row_id=latest.next_row_id if latest else 0,
        operation=operation,
        properties=time.with_properties({**properties, **follows}) or None,
    )
    paths = [store.paths.manifest(name) for name in lists]
    comes_back = latest is not None and shows is not None and shows.identity != latest.identity
    kept = [tag_for(store, shows, latest)] if comes_back and latest and shows else []
    if not create_on_top(store, snapshot, latest, paths):
        store.file_io.delete_quietly(paths)
        drop_tags(store, kept)
        return None
    if not is_late(store.clock, begun_ms) or first_lost(store, paths, snapshot) is None:
        publish_after(store, snapshot.id)
        send_after(store, snapshot.id)
        return snapshot
    if closed_for(snapshot) is not None and not decide(store, snapshot, "opened"):
        # Somebody else has decided that what it closes goes.
        return snapshot
    return _put_on_top(store, snapshot, shows, base, TAKE_BACK, properties)


def fence(store: TableStore, purpose: str) -> None:
    """Put a snapshot that changes nothing on top: whoever was about to follow the one before looks again."""
    while True:
        latest = store.snapshots.latest()
        store.refuse_other_table()
        properties = {FENCE_PROPERTY: purpose}
        if closed_for(latest) is not None or put_on_top(store, latest, latest, "FENCE", properties) is not None:
            return
