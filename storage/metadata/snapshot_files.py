"""The snapshot files of a branch: a log of numbers without gaps.

It grows at the upper end, by files that are created if absent, and shrinks at the lower end, by expiry. Follows
`docs/format.md`, "Snapshot files", and `docs/protocols.md`. The hints LATEST and EARLIEST are where a search starts, never
its answer.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from ..document import writable
from ..errors import CorruptData, DirectoryInPlace, NotFound, StorageError
from ..file_io import FileIO
from ..paths import TablePaths
from .snapshot import REPLACED_BY, SNAPSHOT_FILE, Snapshot, cannot_be_read
from .time_order import last_at_or_before
from .unchanged import unchanged
from .witness import WitnessOf, no_witness


def _comparable_watermark(snapshot: Snapshot) -> tuple[bool, int]:
    return snapshot.watermark is not None, snapshot.watermark or 0


class SnapshotFiles:
    """The snapshot files of one branch."""

    def __init__(self, file_io: FileIO, paths: TablePaths, of: WitnessOf = no_witness) -> None:
        self._file_io = file_io
        self._paths = paths
        self._of = of
        # The identity of the newest snapshot that was found last.
        self._newest_seen: str | None = None

    def get(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id in the history. Raises NotFound that lists which there are."""
        snapshot = self.find(snapshot_id)
        if snapshot is None or not self.is_in_history(snapshot):
            raise self.missing(snapshot_id)
        return snapshot

    def _read(self, snapshot_id: int) -> Snapshot:
        """A snapshot of the history by its number."""
        snapshot = self.find(snapshot_id)
        if snapshot is None:
            raise self.missing(snapshot_id)
        return snapshot

    def missing(self, snapshot_id: int) -> NotFound:
        """The error that says that a snapshot is not there."""
        return NotFound(f"Snapshot {snapshot_id} does not exist. {self.describe_existing(snapshot_id)}")

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot in the file of that number, or None. It may be one that is no part of the history: a writer created it
        at a number that had expired, and is about to take it away, or has died.
        """
        path = self._paths.snapshot(snapshot_id)
        try:
            text = self._file_io.read_text_or_none(path)
            return None if text is None else Snapshot.from_json(text, path)
        except DirectoryInPlace:
            raise
        except CorruptData as error:
            raise CorruptData(
                f"{str(error).rstrip('.')}. `snapline mend-snapshots` keeps it aside and makes up for it."
            ) from None

    def damaged(self, snapshot_id: int) -> bytes | None:
        """What the file of that number holds, if it cannot be read; None if it can, or is not there."""
        path = self._paths.snapshot(snapshot_id)
        content = self._file_io.read_bytes_or_none(path)
        return content if content is not None and cannot_be_read(content, path) else None

    def is_in_history(self, snapshot: Snapshot, following: Snapshot | None = None) -> bool:
        """Whether a snapshot that was found is part of the history, as far as can be told: the next one, which may be given,
        was put on top of it, or there is none.
        """
        try:
            following = following or self.find(snapshot.id + 1)
        except CorruptData:
            # Of a damaged one it is believed.
            return True
        if following is None and self.latest_id() != snapshot.id:
            # It has come just now, or both have expired.
            following = self.find(snapshot.id + 1)
            if following is None:
                return False
        return following is None or following.follows in (None, snapshot.identity)

    def is_taken_back(self, snapshot: Snapshot) -> bool:
        """Whether the next snapshot shows the state before this one, whose files are not there."""
        following = self.find(snapshot.id + 1)
        return following is not None and following.takes_back(snapshot)

    def describe_existing(self, missing_id: int | None = None) -> str:
        """Which snapshots there are, and why one is not there, if that can be told."""
        ids = self.ids()
        if not ids:
            return "The table has no snapshot yet: write to it first."
        why = " Those before have expired." if missing_id is not None and 0 < missing_id < ids[0] else ""
        return (
            f"Existing snapshots: {ids[0]} to {ids[-1]}.{why}" if len(ids) > 1 else f"Existing snapshot: {ids[0]}.{why}"
        )

    def ids(self) -> list[int]:
        """The numbers of the history, ascending: they end at the highest, and have no gap."""
        return self._ids(self.find)

    def beginning(self) -> tuple[list[int], list[Snapshot]]:
        """The numbers of the history, ascending, and its first two snapshots, or as many as there are."""
        find = _once(self.find)
        ids = self._ids(find)
        return ids, [snapshot for snapshot in map(find, ids[:2]) if snapshot is not None]

    def _ids(self, find: "Find") -> list[int]:
        listed = self.listed_ids()
        if not listed:
            return []
        while self._file_io.is_local and self._exists(listed[-1] + 1):
            # It has come since, or a directory is in its place, which no listing of files has.
            listed.append(listed[-1] + 1)
        known = set(listed)
        lowest = listed[-1]
        # A listing may miss a file that came while it was made: only what is looked for and not there is a gap.
        while lowest - 1 >= listed[0] and (lowest - 1 in known or self._exists(lowest - 1)):
            lowest -= 1
        while lowest < listed[-1] and not _is_followed(lowest, find):
            lowest += 1
        return list(range(lowest, listed[-1] + 1))

    def _is_followed(self, snapshot_id: int) -> bool:
        return _is_followed(snapshot_id, self.find)

    def listed_ids(self) -> list[int]:
        """The numbers of all snapshot files, ascending, those among them that are below a gap and no part of the history."""
        matches = (
            SNAPSHOT_FILE.fullmatch(f.name)
            for f in self._file_io.list_files(self._paths.snapshot_directory, or_in_place=True)
        )
        return sorted(int(match[1]) for match in matches if match)

    def latest_id(self) -> int | None:
        """The highest snapshot id, or None for a table without snapshots."""
        # Locally the hint only rises, and is raised before numbers expire, so that a search from it does not begin below
        # the history; if it has risen meanwhile, the search may have ended there, and begins again.
        hint = self._hint("LATEST") if self._file_io.is_local else None
        while hint:
            latest = hint
            while self._exists(latest + 1) and latest <= hint + 16:
                latest += 1
            if latest > hint + 16 or not (latest > hint or self._exists(latest)):
                break
            risen = self._hint("LATEST") or 0
            if risen <= latest:
                return latest
            hint = risen
        return max(self.listed_ids(), default=None)

    def _exists(self, snapshot_id: int) -> bool:
        return self._file_io.exists(self._paths.snapshot(snapshot_id))

    def latest(self) -> Snapshot | None:
        """The newest snapshot, or None for a table without snapshots."""
        while (latest_id := self.latest_id()) is not None:
            try:
                snapshot = self.find(latest_id)
            except DirectoryInPlace:
                raise
            except CorruptData as error:
                raise CorruptData(f"{error} {self._way_back(latest_id)}") from None
            # Where there is no hint, the number may have expired and been created again between the listing and the reading,
            # unless what is found there has been the newest one before.
            if snapshot is not None and (
                self._file_io.is_local or snapshot.identity == self._newest_seen or self.latest_id() == latest_id
            ):
                self._newest_seen = snapshot.identity
                return snapshot
        return None

    def _way_back(self, newest_id: int) -> str:
        """What to do about a newest snapshot that cannot be read."""
        for number in range(newest_id - 1, 0, -1):
            with suppress(CorruptData):
                if self.find(number) is None:
                    break
                return (
                    f"It is the newest: so does `snapline rollback --version {number}`, the last one that can be read."
                )
        return "It is the newest, and there is none before it."

    def earliest_id(self) -> int | None:
        """The lowest snapshot id, or None for a table without snapshots."""
        hint = self._hint("EARLIEST")
        if hint and self._exists(hint):
            # A branch gets earlier snapshots when it becomes main.
            while hint > 1 and self._exists(hint - 1) and self._is_followed(hint - 1):
                hint -= 1
            if self._is_followed(hint) or hint == self.latest_id():
                return hint
        ids = self.ids()
        return ids[0] if ids else None

    def earliest(self) -> Snapshot | None:
        """The snapshot of the lowest number, or None for a table without snapshots."""
        before = None
        # None once the table is dropped meanwhile.
        while (number := self.earliest_id()) != before and number is not None:
            snapshot = self.find(number)
            if snapshot is not None:
                return snapshot
            # It has expired meanwhile.
            before = number
        return None

    def all(self) -> Iterator[Snapshot]:
        """Every snapshot, ascending."""
        history: list[Snapshot] = []
        find = _once(self.find)
        for snapshot_id in self._ids(find):
            snapshot = find(snapshot_id)
            if snapshot is None:
                continue
            if history and snapshot.follows not in (None, history[-1].identity):
                # Below it lies what somebody is about to take away again: it was created at a number that had expired.
                history = []
            history.append(snapshot)
        yield from history

    def backwards(self, latest: Snapshot | None = None) -> Iterator[Snapshot]:
        """Every snapshot up to `latest` (by default, the latest), newest first, read one at a time; without those that were
        taken back because their files are not there.
        """
        snapshot = latest or self.latest()
        while snapshot is not None:
            yield snapshot
            snapshot = self.before(snapshot)

    def before(self, snapshot: Snapshot, below: Callable[[Snapshot], Snapshot | None] | None = None) -> Snapshot | None:
        """The snapshot before one in the history; None if that has expired, or there is none. What was taken back because
        its files are not there is passed by. `below`: what gives the snapshot of the number below another
        one, by default its file.
        """
        below = below or (lambda above: self.find(above.id - 1))
        while True:
            earlier = below(snapshot) if snapshot.id > 1 else None
            if earlier is None or snapshot.follows not in (None, earlier.identity):
                return None
            if not snapshot.takes_back(earlier):
                return earlier
            snapshot = earlier

    def at_or_before(self, time_ms: int) -> Snapshot | None:
        """The latest snapshot committed at or before a time, or None. Reads a logarithmic number of files."""
        return self._searched(lambda ids: last_at_or_before(ids, self._read, time_ms))

    def first_with_watermark(self, mark: int) -> Snapshot | None:
        """The earliest snapshot whose watermark has reached a mark, or None. Reads a logarithmic number of files."""

        def search(ids: list[int]) -> Snapshot | None:
            # Those before the first watermark have not reached any.
            count = bisect_left(
                ids, (True, mark), key=lambda snapshot_id: _comparable_watermark(self._read(snapshot_id))
            )
            return self._read(ids[count]) if count < len(ids) else None

        return self._searched(search)

    def _searched(self, search: Callable[[list[int]], Snapshot | None]) -> Snapshot | None:
        """What a search among the numbers of the history finds; it begins again if it meets one that expired meanwhile."""
        while True:
            ids = self.ids()
            try:
                return search(ids)
            except NotFound:
                if self.ids()[:1] == ids[:1]:
                    raise

    def create(self, snapshot: Snapshot, needed: Sequence[str] = ()) -> bool:
        """Commit: create the snapshot file; False if its id is taken. `hint_at` follows, and may be lost in a crash.

        Raises NotFound if the table is another one by now, CommitConflict if on a local disk one of the files at the paths
        `needed`, which were written for the snapshot, is not there.
        """
        path = self._paths.snapshot(snapshot.id)
        content = writable(lambda: snapshot.to_json(), lambda text: Snapshot.from_json(text, path), "snapshot")
        of = self._of()
        if of is not None:
            of = replace(of, needed=tuple(needed))
        return self._file_io.create_exclusively(path, content, of=of)

    def hint_at(self, snapshot: Snapshot) -> None:
        """Let the hints tell of a snapshot that has been committed. One that is taken away again must not be among them: Java
        believes what LATEST says.
        """
        if self._file_io.is_local:
            self.raise_hint("LATEST", snapshot.id)
        else:
            with suppress(OSError, StorageError):
                # Nobody relies on it there: a look at what it says is not worth a request.
                self._file_io.overwrite(f"{self._paths.snapshot_directory}/LATEST", str(snapshot.id).encode())
        if snapshot.id == 1:
            self.raise_hint("EARLIEST", 1)

    def is_newest(self, snapshot: Snapshot) -> bool:
        """Whether no snapshot has a higher number than one that has been created."""
        # A listing that lags does not even show this one.
        if max(self.listed_ids(), default=0) > snapshot.id:
            return False
        self._newest_seen = snapshot.identity
        return True

    def restore(self, snapshot: Snapshot) -> None:
        """Give a branch a snapshot from before its own first one, of the branch that it was made from."""
        path = self._paths.snapshot(snapshot.id)
        self._file_io.create_exclusively(path, snapshot.to_json().encode(), of=self._of())

    def delete_if(self, snapshot: Snapshot) -> bool:
        """Forget a snapshot, if its number still stands for it; says whether it did.

        Somebody else may have forgotten it meanwhile, or dropped the table and made another one.
        """
        content = self.content_if(snapshot)
        return content is not None and self._file_io.delete_if(self._paths.snapshot(snapshot.id), content)

    def take_away(self, snapshot: Snapshot) -> bool:
        """Forget a snapshot that its own writer found to be no part of the history, and the hint that tells of it; says whether
        it was there.
        """
        was_there = self.delete_if(snapshot)
        if not self._file_io.is_local:
            # There nobody relies on it, and it may have been written into a table that was made anew.
            with suppress(OSError, StorageError):
                self._file_io.delete_if(f"{self._paths.snapshot_directory}/LATEST", str(snapshot.id).encode())
        return was_there

    def content_if(self, snapshot: Snapshot) -> bytes | None:
        """What a snapshot's file holds, if its number still stands for it."""
        return unchanged(self._file_io, self._paths.snapshot(snapshot.id), Snapshot.from_json, snapshot)

    def end(self, last: Snapshot, replaced_by: str) -> None:
        """Turn the last snapshot into the mark that nothing follows here: main is that branch now."""
        content = self.content_if(last)
        text = json.dumps({"version": 3, "id": last.id, REPLACED_BY: replaced_by})
        if content is not None:
            self._file_io.replace_if(self._paths.snapshot(last.id), content, text.encode())

    def raise_hint(self, name: str, snapshot_id: int) -> None:
        """Write LATEST or EARLIEST unless it is higher; a failure is ignored, since a hint is no truth."""
        path = f"{self._paths.snapshot_directory}/{name}"
        with suppress(OSError, StorageError):
            # Where it is not raised in one step, nobody relies on it.
            held = self._file_io.raise_number(path, snapshot_id, of=self._of() if self._file_io.is_local else None)
            if held > snapshot_id and held > max(self.listed_ids(), default=held):
                # Nobody but a defect can have written it: the newest snapshot never goes.
                self._file_io.replace_if(path, str(held).encode(), str(snapshot_id).encode())

    def latest_hint(self) -> int | None:
        """The number that LATEST names: locally no snapshot of the history has a higher one once its writer is done. None if
        there is no such hint.
        """
        return self._hint("LATEST")

    def _hint(self, name: str) -> int | None:
        return self._file_io.read_number(f"{self._paths.snapshot_directory}/{name}")


Find = Callable[[int], Snapshot | None]


def _once(find: Find) -> Find:
    """Looks for snapshots by their numbers, and reads none a second time."""
    known: dict[int, Snapshot] = {}

    def look(snapshot_id: int) -> Snapshot | None:
        snapshot = known.get(snapshot_id) or find(snapshot_id)
        if snapshot is not None:
            known[snapshot_id] = snapshot
        return snapshot

    return look


def _is_followed(snapshot_id: int, find: Find) -> bool:
    """Whether the next number is of the snapshot that was put on top of this one; of a damaged one it is believed."""
    with suppress(CorruptData):
        snapshot, following = find(snapshot_id), find(snapshot_id + 1)
        return snapshot is not None and following is not None and following.follows in (None, snapshot.identity)
    return True
