"""Keep what a commit brings back from the expiry of Paimon's Java library.

That takes what a manifest says of a file for final: whatever an expiring snapshot has deleted goes, unless the last tag before
that snapshot has the file, also if a later snapshot has added it again. So before a commit adds files again, snapshots of before
their deletions get tags of the store's own. Each says in its name up to which snapshot it is for: once Java can let none of those
expire any more, it goes (`maintain/brought_back.py`). Follows `docs/format.md`, "Branches".
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

from ..errors import CorruptData, NotFound, StorageError
from ..identifier import BACK_PREFIX
from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, ManifestEntry, Place
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import TAG_BRANCH_KEY, Tag

# A data file, whatever its level: Java deletes by path.
_File = tuple[Place, str]


@dataclass(frozen=True, slots=True)
class _Deletion:
    """What a snapshot has deleted of some files, and the snapshot before it."""

    before: Snapshot
    snapshot: Snapshot
    files: set[_File]


def until_of(name: str) -> int | None:
    """The last snapshot that a tag is for, by its name; None if it is no tag of this room."""
    number = name.removeprefix(BACK_PREFIX).partition("-")[0]
    return int(number) if name.startswith(BACK_PREFIX) and number.isdecimal() else None


def keep_brought_back(
    store: TableStore, latest: Snapshot | None, added: Iterable[ManifestEntry], back_to: Snapshot | int
) -> list[Tag]:
    """Tag what keeps files that are about to be added on top of the latest snapshot from being deleted for that they were before;
    returns the tags, none if no file was.

    `back_to`: after which snapshot of this branch all their deletions came: one that has them, and is held, or a number.
    """
    files = {_file(entry) for entry in added}
    if latest is None or not files:
        return []
    while True:
        kept: list[Tag] = []
        try:
            for point in _points(store, latest, files, back_to):
                kept.append(tag_for(store, point, latest))
                here = store.snapshots.find(point.id)
                if point is not back_to and (here is None or here.identity != point.identity):
                    break
            else:
                return kept
        except BaseException:
            drop_tags(store, kept)
            raise
        # It has expired meanwhile: the history is another one.
        drop_tags(store, kept)


def tag_for(store: TableStore, snapshot: Snapshot, latest: Snapshot) -> Tag:
    """Tag a snapshot for what comes on top of the latest one."""
    return store.tags.create(f"{BACK_PREFIX}{latest.id}-{store.clock.unique_name()}", snapshot)


def drop_tags(store: TableStore, tags: Iterable[Tag]) -> None:
    """Take tags away again, as far as that can be done: what was to be kept was not brought back."""
    for tag in tags:
        with suppress(StorageError, OSError):
            store.tags.delete_if(tag)


def _points(store: TableStore, latest: Snapshot, files: set[_File], back_to: Snapshot | int) -> Iterator[Snapshot]:
    """Snapshots that have the files, so that of each deletion the last tag before it does."""
    target, after = (None, back_to) if isinstance(back_to, int) else (back_to, back_to.id)
    history = list(_down_to(store, latest, after))[::-1]
    deletions = [
        _Deletion(before, snapshot, gone)
        for before, snapshot in pairwise(history)
        if (gone := _deleted(store, snapshot) & files)
    ]
    # What Java deletes along with a tag or a changelog may have been deleted by a snapshot that has expired.
    has_expired = target is not None and target.id < history[0].id
    if not deletions and not has_expired:
        return
    foreign = [tag.snapshot.id for tag in store.tags.readable() if TAG_BRANCH_KEY in tag.snapshot.others]
    if target is not None:
        yield target
        deletions = _beyond(store, target, deletions, foreign) or []
    while deletions:
        point = deletions[0].before
        left = _beyond(store, point, deletions, foreign)
        if left is not None:
            yield point
        # Java deletes nothing either where it cannot read the tag, or the snapshot, that tells what to keep.
        deletions = deletions[1:] if left is None else [each for each in left if each.before.id > point.id]


def _down_to(store: TableStore, latest: Snapshot, number: int) -> Iterator[Snapshot]:
    """The history from the latest snapshot down to a number, also what was taken back in it."""
    yield latest
    for below in range(latest.id - 1, max(number, 1) - 1, -1):
        # One that is damaged Java cannot read either.
        with suppress(CorruptData):
            snapshot = store.snapshots.find(below)
            if snapshot is None:
                return
            yield snapshot


def _beyond(
    store: TableStore, point: Snapshot, deletions: Sequence["_Deletion"], foreign: Sequence[int]
) -> list["_Deletion"] | None:
    """Those of some deletions, ascending, from which a tag of a snapshot does not keep the files; None if it cannot be read. It
    does if the snapshot has them, they go only there, and no tag of a `foreign` number, that of another branch, lies between.
    """
    try:
        there = {_file(entry) for entry in live_files(store.manifests_of(point), store.manifests)}
    except (CorruptData, NotFound):
        return None
    left = []
    for deletion in deletions:
        is_hidden = deletion.before.id != point.id and any(
            point.id <= number < deletion.snapshot.id for number in foreign
        )
        rest = deletion.files if is_hidden else deletion.files - there
        there -= deletion.files
        left += [replace(deletion, files=rest)] if rest else []
    return left


def _deleted(store: TableStore, snapshot: Snapshot) -> set[_File]:
    """The files that a snapshot says it deleted, but for those that only have another level since."""
    gone: set[_File] = set()
    # What cannot be read Java passes by as well.
    with suppress(CorruptData, NotFound):
        for entry in store.delta_of(snapshot):
            (gone.discard if entry.kind == ADD else gone.add)(_file(entry))
    return gone


def _file(entry: ManifestEntry) -> _File:
    return entry.place, entry.file.name
