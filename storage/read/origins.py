"""Which snapshot wrote the rows of a file, as far as that can be told: never a guess.

A commit's own files hold what it wrote. A compaction's files hold what the files that it took away held: if those are of one
snapshot, so is every row; else, with a primary key, the sequence number of a row lies within the numbers of the files that one
snapshot wrote. A row of which nothing of that can be told is of no known snapshot: its file was made of others before history
begins, or by a commit that copies rows beside those that it writes (UPDATE and MERGE without a primary key), or numbers of
several writers overlap. Follows decision 0050.
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import NotFound
from ..lsm.sorted_run import Section
from ..metadata.history import REVERTED_PROPERTY, ROLLED_BACK_PROPERTY
from ..metadata.manifest import ADD, WRITTEN, DataFile, ManifestEntry
from ..metadata.snapshot import APPEND, COMPACT, RESCALE, STAND_IN, TAKE_BACK, Snapshot
from ..metadata.table_store import TableStore
from .contributors import snapshot_before

UNKNOWN = -1
# What brings files that other snapshots wrote.
_BRING = frozenset({"ADOPT", "MERGE"})
_SHOW_AGAIN = frozenset({"ROLLBACK", "REVERT", "CLOSE", "FENCE", STAND_IN, TAKE_BACK})
# Commits that take files away and write what was in them, and nothing else.
_COPY = frozenset({"DELETE", RESCALE})
# A range of sequence numbers, both ends in it, and the snapshot that wrote the rows with them.
Piece = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of a snapshot: when it was committed, by local time, and by which job at which barrier."""

    time: dt.datetime
    job: str
    barrier: int


@dataclass(frozen=True)
class FileOrigin:
    """The snapshot that wrote all rows of a file, or which wrote those from each of some sequence numbers on."""

    snapshot_id: int = UNKNOWN
    starts: np.ndarray | None = None
    ids: np.ndarray | None = None

    @property
    def snapshots(self) -> list[int]:
        """The snapshots that its rows may be of."""
        ids = [self.snapshot_id] if self.ids is None else self.ids.tolist()
        return [snapshot_id for snapshot_id in ids if snapshot_id != UNKNOWN]

    def pieces(self, file: DataFile) -> list[Piece]:
        """The same of a file, as ranges of sequence numbers."""
        if self.starts is None or self.ids is None:
            return [_whole(file, self.snapshot_id)]
        ends = [*(self.starts[1:] - 1).tolist(), file.max_sequence_number]
        ranges = zip(self.starts.tolist(), ends, self.ids.tolist(), strict=True)
        return [(low, high, snapshot_id) for low, high, snapshot_id in ranges if low <= high]

    def of(self, sequence: np.ndarray | None, row_count: int) -> np.ndarray:
        """The snapshot of each row (int64), UNKNOWN where it cannot be told, by the rows' sequence numbers."""
        if self.starts is None or self.ids is None:
            return np.full(row_count, self.snapshot_id, np.int64)
        assert sequence is not None
        places = np.searchsorted(self.starts, sequence, side="right") - 1
        return np.where(places < 0, UNKNOWN, self.ids[np.maximum(places, 0)])


@dataclass(frozen=True)
class Origins:
    """Where the rows of some files come from, by the files' names; and what is told of the snapshots."""

    files: Mapping[str, FileOrigin] = field(default_factory=dict)
    snapshots: Mapping[int, Told] = field(default_factory=dict)

    def of(self, sections: Iterable[Section]) -> "Origins":
        """The same of the files of some sections."""
        if not self.files:
            return self
        files = {file.name: self.files[file.name] for section in sections for file in section.files}
        known = {snapshot_id for origin in files.values() for snapshot_id in origin.snapshots}
        return Origins(files, {known_id: self.snapshots[known_id] for known_id in known if known_id in self.snapshots})


def origins_of(store: TableStore, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> Origins:
    """Where the rows of live files of a snapshot come from.

    Goes back in history until every file is accounted for, or history ends.
    """
    walk = _Walk({entry.file.name: entry for entry in entries}, bool(store.schema.primary_keys))
    commits: dict[int, Told] = {}
    current: Snapshot | None = snapshot
    while current is not None and walk.open:
        commits[current.id] = Told(
            dt.datetime.fromtimestamp(current.time_ms / 1000), current.commit_user, current.commit_identifier
        )
        try:
            delta = store.delta_of(current)
        except NotFound:
            if current is snapshot:
                raise
            # It has expired meanwhile: history ends above it.
            break
        walk.meet(current, delta)
        is_first = current.id == 1
        store, current = snapshot_before(store, current)
        walk.is_complete = current is None and is_first
    return Origins(walk.resolved([entry.file.name for entry in entries]), commits)


class _Walk:
    """Snapshots that are met from the newest on, until every file is accounted for."""

    def __init__(self, entries: Mapping[str, ManifestEntry], has_key: bool) -> None:
        self._has_key = has_key
        # Files of which it is not known yet which snapshot made them.
        self.open = dict(entries)
        self._files = {name: entry.file for name, entry in entries.items()}
        self._wrote: dict[str, int] = {}
        # Files that were made of others; whether the rows got new numbers.
        self._made: dict[str, tuple[list[str], bool]] = {}
        self._brought: dict[str, int] = {}
        # Files of a branch that hold rows of those that they took the place of.
        self._joined: dict[str, Snapshot] = {}
        # Whether the beginning of history was met.
        self.is_complete = False

    def meet(self, snapshot: Snapshot, delta: Sequence[ManifestEntry]) -> None:
        """Account for the files that a snapshot made."""
        added = {entry.file.name for entry in delta if entry.kind == ADD}
        gone = [entry for entry in delta if entry.kind != ADD]
        # What is added on another level is the same file.
        moved = added & {entry.file.name for entry in gone}
        gone = [entry for entry in gone if entry.file.name not in moved]
        partitions = {entry.partition for entry in gone}
        for entry in delta:
            name = entry.file.name
            if entry.kind != ADD or name not in self.open or name in moved:
                continue
            mode = _how(snapshot, entry.partition in partitions)
            if mode == "brought":
                is_all_there_is = snapshot.operation in _BRING and entry.partition not in partitions
                self._brought.setdefault(name, snapshot.id if is_all_there_is else UNKNOWN)
                continue
            del self.open[name]
            if mode == "copied":
                self._made[name] = self._made_of(entry, gone)
            elif mode == "mixed" and self._has_key and snapshot.operation in _BRING:
                inputs = self._followed([removed for removed in gone if removed.place == entry.place])
                self._joined[name] = snapshot
                self._made[name] = (inputs, not inputs)
            else:
                self._wrote[name] = snapshot.id if mode == "wrote" else UNKNOWN

    def _made_of(self, entry: ManifestEntry, gone: Sequence[ManifestEntry]) -> tuple[list[str], bool]:
        inputs = [removed for removed in gone if removed.place == entry.place]
        # What is not a compaction's own file has rows that came to their bucket, and are numbered anew there.
        is_renumbered = not inputs or entry.file.file_source == WRITTEN
        if is_renumbered:
            inputs = [removed for removed in gone if removed.partition == entry.partition]
        return self._followed(inputs), is_renumbered

    def _followed(self, entries: Sequence[ManifestEntry]) -> list[str]:
        for entry in entries:
            if entry.file.name not in self._files:
                self._files[entry.file.name] = entry.file
                self.open[entry.file.name] = entry
        return [entry.file.name for entry in entries]

    def resolved(self, names: Sequence[str]) -> dict[str, FileOrigin]:
        """Where the rows of files come from."""
        pieces: dict[str, list[Piece]] = {}
        for name, snapshot_id in self._wrote.items():
            pieces[name] = [_whole(self._files[name], snapshot_id)]
        for name in self.open:
            brought = self._brought.get(name, UNKNOWN) if self.is_complete else UNKNOWN
            pieces[name] = [_whole(self._files[name], brought)]
        # A file is made of older ones, which were met later.
        for name, (inputs, is_renumbered) in reversed(self._made.items()):
            inherited = [piece for input_name in inputs for piece in pieces[input_name]]
            if name in self._joined:
                inherited = _joined(inherited, self._files[name], self._joined[name])
            ids = {snapshot_id for _, _, snapshot_id in inherited}
            if len(ids) == 1 or not self._has_key or is_renumbered:
                pieces[name] = [_whole(self._files[name], ids.pop() if len(ids) == 1 else UNKNOWN)]
            else:
                pieces[name] = list(_apart(inherited))
        return {name: _origin(pieces[name]) for name in names}


def _how(snapshot: Snapshot, takes_away: bool) -> str:
    """Whether a snapshot `wrote` the rows of files that it added to a partition, `copied` them from files that it took away
    there, did both (`mixed`), or has `brought` files that were there before, or elsewhere.
    """
    operation, properties = snapshot.operation, snapshot.properties or {}
    goes_back = ROLLED_BACK_PROPERTY in properties or REVERTED_PROPERTY in properties
    if operation in _SHOW_AGAIN or (goes_back and operation != "ADOPT"):
        return "brought"
    if snapshot.commit_kind == COMPACT:
        return "copied"
    if snapshot.commit_kind == APPEND or operation == "OVERWRITE":
        return "wrote"
    if operation in _BRING and not takes_away:
        return "brought"
    if operation in _COPY:
        return "copied"
    return "mixed" if takes_away else "wrote"


def _whole(file: DataFile, snapshot_id: int) -> Piece:
    return file.min_sequence_number, file.max_sequence_number, snapshot_id


def _joined(pieces: Sequence[Piece], file: DataFile, snapshot: Snapshot) -> list[Piece]:
    """What is told of the rows of a branch's file that took the place of files of main: what is numbered beyond these came
    with the snapshot. What is not stood there before the branch began, unless main had moved since.
    """
    top = max((high for _, high, _ in pieces), default=UNKNOWN)
    known = snapshot.operation == "MERGE"
    before = [(low, high, snapshot_id if known else UNKNOWN) for low, high, snapshot_id in pieces]
    return [*before, *([(top + 1, file.max_sequence_number, snapshot.id)] if file.max_sequence_number > top else [])]


def _apart(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Pieces that do not overlap, of some that may: where several snapshots wrote rows with a number, it tells nothing."""
    ends: list[tuple[int, int, int]] = []
    for low, high, snapshot_id in pieces:
        ends += [(low, 1, snapshot_id), (high + 1, -1, snapshot_id)]
    open_ids: Counter[int] = Counter()
    start = 0
    for place, change, snapshot_id in sorted(ends):
        if open_ids and place > start:
            yield start, place - 1, next(iter(open_ids)) if len(open_ids) == 1 else UNKNOWN
        start = place
        open_ids[snapshot_id] += change
        if not open_ids[snapshot_id]:
            del open_ids[snapshot_id]


def together(files: Sequence[tuple[DataFile, FileOrigin]], *, is_one: bool = True) -> FileOrigin:
    """Where rows come from that were made of those of files with known origins. `is_one`: if these are of one snapshot, so are
    all rows, whatever number they have.
    """
    pieces = [piece for file, origin in files for piece in origin.pieces(file)]
    return _origin(list(_apart(pieces)), is_one=is_one) if pieces else FileOrigin()


def _origin(pieces: Sequence[Piece], *, is_one: bool = True) -> FileOrigin:
    ids = {snapshot_id for _, _, snapshot_id in pieces}
    if len(ids) == 1 and is_one:
        return FileOrigin(ids.pop())
    starts: list[int] = []
    known: list[int] = []
    for low, high, snapshot_id in pieces:
        if starts and starts[-1] == low:
            known[-1] = snapshot_id
        else:
            starts.append(low)
            known.append(snapshot_id)
        starts.append(high + 1)
        known.append(UNKNOWN)
    return FileOrigin(UNKNOWN, np.array(starts, np.int64), np.array(known, np.int64))
