"""Mend snapshot files that cannot be read: each is kept aside, and its number gets a file that can be.

That is the snapshot itself, where a tag or another branch still has it; else a stand-in. Where the next snapshot was put on
top of the damaged one, its manifests say which files were live then, and only who committed is lost. Of a damaged newest
snapshot nothing is known: its stand-in shows the state before. Follows `docs/damage.md`, "Mending".
"""

import logging
import posixpath
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ..errors import CommitConflict, CorruptData, Unsupported
from ..metadata.branch_origin import BranchOrigin, read_origin
from ..metadata.index_manifest import refuse_index
from ..metadata.live_files import live_files
from ..metadata.manifest import ManifestEntry, ManifestFile
from ..metadata.snapshot import BATCH_COMMIT_IDENTIFIER, COMPACT, FOLLOWS_PROPERTY, OVERWRITE, STAND_IN, Snapshot
from ..metadata.table_store import TableStore
from ..metadata.tag import Tag
from ..read.version import readable_branches
from .become import live_entries

_log = logging.getLogger(__name__)
_SET_ASIDE = "damaged-"
_RESTORED = "is restored from a copy"


@dataclass(frozen=True, slots=True)
class Mended:
    """A snapshot that can be read again, or is the newest again. `path`: where the damaged file is kept. `shows`: what the
    number stands for now.
    """

    snapshot: Snapshot
    path: str
    shows: str

    def __str__(self) -> str:
        return f"Snapshot {self.snapshot.id} {self.shows}. The damaged file is kept as {self.path}."


def mend_newest(store: TableStore) -> Mended | None:
    """Mend the newest snapshot of a branch; None if it can be read. Raises CorruptData if there is none before it."""
    beyond = _set_aside_beyond_gap(store)
    if beyond:
        return beyond[-1]
    newest = store.snapshots.latest_id()
    damaged = None if newest is None else store.snapshots.damaged(newest)
    return None if newest is None or damaged is None else _mend(store, newest, damaged, _copies_of(store))


def mend_snapshots(store: TableStore) -> list[Mended]:
    """Mend all snapshots of a branch that cannot be read, in order. Raises CorruptData if none of them can."""
    beyond = _set_aside_beyond_gap(store)
    contents = {number: store.snapshots.damaged(number) for number in store.snapshots.ids()}
    damaged = {number: content for number, content in contents.items() if content is not None}
    if not damaged:
        return beyond
    copies, mended = _copies_of(store), dict[int, Mended]()
    # From above: by the next one it is known of which copy it was put on top.
    for number in sorted(damaged, reverse=True):
        above = _readable(store, number + 1)
        copy = None if above is None else copies.of(store, number, None, above)
        if copy is not None:
            mended[number] = _put(store, number, damaged[number], copy, _RESTORED)
    sound = {*contents} - {*damaged} | {*mended}
    for number in sorted({*damaged} - {*mended}):
        mended[number] = _mend(store, number, damaged[number], copies, sound)
    return [*beyond, *(mended[number] for number in sorted(mended))]


def kept_aside(store: TableStore) -> list[str]:
    """The damaged snapshot files of a branch that were set aside."""
    directory = store.paths.snapshot_directory
    names = (file.name for file in store.file_io.list_files(directory))
    return sorted(f"{directory}/{name}" for name in names if name.startswith(_SET_ASIDE))


def _set_aside_beyond_gap(store: TableStore) -> list[Mended]:
    """Set aside the damaged files whose numbers lie beyond a gap: they were put on top of nothing, and no writer put them
    there. Nothing, unless it is known that the history ends before the gap.
    """
    snapshots = store.snapshots
    listed = snapshots.listed_ids()
    numbers: list[int] = []
    while listed and (not numbers or listed[-1] + 1 == numbers[-1]):
        numbers.append(listed.pop())
    newest = _readable(store, listed[-1]) if listed else None
    if newest is None:
        return []
    beyond: dict[int, bytes] = {}
    for number in numbers:
        damaged = snapshots.damaged(number)
        if damaged is None:
            return []
        beyond[number] = damaged
    # What lies below a gap may as well be what somebody left who slept while all the numbers between expired.
    hint = snapshots.latest_hint()
    if hint is None or hint > newest.id:
        return []
    # A listing may miss a file that came while it was made.
    if any(snapshots.find(number) is not None for number in (newest.id + 1, numbers[-1] - 1)):
        return []
    mended = []
    for number, damaged in beyond.items():
        path = store.paths.snapshot(number)
        aside = _keep_aside(store, number, damaged)
        if not store.file_io.delete_if(path, damaged):
            raise CommitConflict(f"Somebody else has changed {path} meanwhile. Nothing is done; ask again.")
        shows = f"is the newest again; {number} lay beyond a gap, on top of nothing"
        mended.append(Mended(newest, aside, shows))
    return mended


def _keep_aside(store: TableStore, number: int, damaged: bytes) -> str:
    """Write what a damaged file holds where nobody reads it; returns the path."""
    aside = posixpath.join(store.paths.snapshot_directory, f"{_SET_ASIDE}snapshot-{number}")
    store.file_io.create_exclusively(aside, damaged, of=store.read_witness())
    return aside


def _mend(store: TableStore, number: int, damaged: bytes, copies: "_Copies", sound: Collection[int] = ()) -> Mended:
    """Put another snapshot in the place of a file, as long as that holds the very bytes that could not be read; or nothing, if it
    is the earliest, and the next one cannot be read either, but one of the `sound` numbers that come later.
    """
    below, above = _readable(store, number - 1), _readable(store, number + 1)
    snapshot, shows = copies.of(store, number, below, above), _RESTORED
    if snapshot is None and above is not None:
        snapshot, shows = _state_below(store, number, below, above), "has its rows again; who committed it is lost"
    elif snapshot is None:
        if below is None and (later := [each for each in sound if each > number]):
            return _set_aside_earliest(store, number, damaged, min(later))
        if below is None:
            raise CorruptData(
                f"File {store.paths.snapshot(number)} is damaged, and no snapshot before it can be read: go back to a tag, or "
                "restore the file."
            )
        snapshot, shows = (
            _state_again(store, number, below),
            f"shows the state of {below.id}; what it committed is lost",
        )
    return _put(store, number, damaged, snapshot, shows)


def _put(store: TableStore, number: int, damaged: bytes, snapshot: Snapshot, shows: str) -> Mended:
    path = store.paths.snapshot(number)
    aside = _keep_aside(store, number, damaged)
    if not store.file_io.replace_if(path, damaged, snapshot.to_json().encode(), of=store.read_witness()):
        raise CommitConflict(f"Somebody else has changed {path} meanwhile. Nothing is done; ask again.")
    return Mended(snapshot, aside, shows)


def _set_aside_earliest(store: TableStore, number: int, damaged: bytes, sound: int) -> Mended:
    """Let the history begin after its earliest snapshot, of which nothing can be told, as if that had expired."""
    later, newest = store.snapshots.get(sound), store.snapshots.latest_id()
    aside = _keep_aside(store, number, damaged)
    # As an expiry does: the search for the newest must not begin below the history.
    store.snapshots.raise_hint("LATEST", newest or sound)
    store.snapshots.raise_hint("EARLIEST", number + 1)
    path = store.paths.snapshot(number)
    if not store.file_io.delete_if(path, damaged):
        raise CommitConflict(f"Somebody else has changed {path} meanwhile. Nothing is done; ask again.")
    return Mended(later, aside, f"stands; the history begins after {number}, of which nothing can be told")


def _readable(store: TableStore, number: int) -> Snapshot | None:
    with suppress(CorruptData):
        return store.snapshots.find(number) if number > 0 else None
    return None


@dataclass(frozen=True, slots=True)
class _Copies:
    """Where snapshots of a branch may be found again: in its tags, and in other branches, each with what it was made from. What
    cannot be read of them is passed by.
    """

    tags: Sequence[Tag]
    branches: Sequence[tuple[TableStore, BranchOrigin | None]]

    def of(self, store: TableStore, number: int, below: Snapshot | None, above: Snapshot | None) -> Snapshot | None:
        """The snapshot of a number as a tag has it, or a branch that began there."""
        copies = [
            tag.snapshot
            for tag in self.tags
            if tag.snapshot.id == number and (above is not None or tag.is_of_its_branch)
        ]
        for branch, origin in self.branches:
            began = origin is not None and (origin.branch, origin.snapshot_id) == (store.identifier.branch, number)
            other = _readable(branch, number) if began or above is not None else None
            copies += [] if other is None else [other]
        for copy in copies:
            # The next one says which it was put on top of; the newest says which it was put on itself.
            is_it = above.follows == copy.identity if above is not None else _may_follow(copy, below)
            if is_it:
                return copy.without_others()
        return None


def _copies_of(store: TableStore) -> _Copies:
    branches: list[tuple[TableStore, BranchOrigin | None]] = []
    for branch in readable_branches(store):
        if branch.paths != store.paths:
            try:
                origin = read_origin(branch.file_io, branch.paths)
            except CorruptData as error:
                _log.warning("%s What began at a snapshot that is mended cannot be told of that branch.", error)
                origin = None
            branches.append((branch, origin))
    return _Copies(store.tags.readable(), branches)


def _may_follow(snapshot: Snapshot, below: Snapshot | None) -> bool:
    return below is None or snapshot.follows == below.identity


def _state_below(store: TableStore, number: int, below: Snapshot | None, above: Snapshot) -> Snapshot:
    """What a snapshot showed, by the manifests of the one that was put on top of it."""
    refuse_index(store, above, below)
    if above.index_manifest != (None if below is None else below.index_manifest):
        raise Unsupported(
            f"Snapshot {number} of {store.identifier} cannot be made up for: which rows its deletion vectors marked is told "
            "neither by the snapshot before it nor by the one after it."
        )
    listed = store.manifests.read_list(above.base_manifest_list, above.base_manifest_list_size)
    live = live_files(listed, store.manifests)
    before = live_entries(store, below)
    known, wanted = {entry.identity for entry in before}, {entry.identity for entry in live}
    gone = [entry.deleted() for entry in before if entry.identity not in wanted]
    delta = [*gone, *(entry for entry in live if entry.identity not in known)]
    total = above.total_record_count - above.delta_record_count
    nearest = below or above
    # The newest that any of the files was written with: columns that came in between are shown.
    schemas = [
        nearest.schema_id,
        *(snapshot.schema_id for snapshot in listed),
        *(entry.file.schema_id for entry in live),
    ]
    model = replace(nearest, schema_id=max(schemas))
    return replace(
        _made(store, model, number, [] if below is None else store.manifests_of(below), delta),
        uuid=above.follows or store.clock.unique_name(),
        commit_kind=OVERWRITE if delta else COMPACT,
        time_ms=model.time_ms,
        total_record_count=total,
        delta_record_count=total - (below.total_record_count if below else 0),
        properties=None if below is None else {FOLLOWS_PROPERTY: below.identity},
    )


def _state_again(store: TableStore, number: int, below: Snapshot) -> Snapshot:
    """The state of the snapshot before once more."""
    made = _made(store, below, number, store.manifests_of(below), [])
    return replace(made, properties={FOLLOWS_PROPERTY: below.identity})


def _made(
    store: TableStore, model: Snapshot, number: int, base: list[ManifestFile], delta: list[ManifestEntry]
) -> Snapshot:
    name = store.clock.unique_name()
    lists = [f"manifest-list-{name}-0", f"manifest-list-{name}-1"]
    changed = []
    if delta:
        changed = [store.manifests.write(f"manifest-{name}-0", delta, store.partition_types, model.schema_id)]
    sizes = [store.manifests.write_list(items, part) for items, part in zip(lists, (base, changed), strict=True)]
    return replace(
        model,
        id=number,
        uuid=store.clock.unique_name(),
        base_manifest_list=lists[0],
        base_manifest_list_size=sizes[0],
        delta_manifest_list=lists[1],
        delta_manifest_list_size=sizes[1],
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        changelog_record_count=None,
        commit_user=name,
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        commit_kind=COMPACT,
        delta_record_count=0,
        statistics=None,
        operation=STAND_IN,
        others={},
    )
