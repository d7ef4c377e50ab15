"""Commit ids of snapshots that have expired: by them a commit that is repeated late is recognised.

A file for each commit user, `committed/user-<name>` in the directory of the branch, written before the snapshots are
deleted. Identifiers are kept as ranges, so that those of a stream take no room; of a user whose identifiers do not follow
each other the last thousand ranges are kept. Paimon knows nothing of the directory and leaves it alone.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote

from ..errors import CorruptData
from ..file_io import FileIO
from ..paths import TablePaths
from .snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot

_MOST_RANGES = 1_000
_LONGEST_NAME = 150


@dataclass(frozen=True, slots=True)
class Committed:
    """What is remembered of a commit user.

    `ranges`: first and last identifier and the time of the last snapshot of each, by identifier. `forgotten_until_ms`: the
    time of the latest snapshot that is in none of them any more; None: all are.
    """

    user: str
    highest: int
    highest_snapshot_id: int
    ranges: tuple[tuple[int, int, int], ...] = ()
    forgotten_until_ms: int | None = None

    def holds(self, identifier: int) -> bool:
        """Whether exactly this identifier is remembered."""
        return any(first <= identifier <= last for first, last, _ in self.ranges)

    def with_commits(self, commits: Iterable[tuple[int, int]]) -> "Committed":
        """With identifiers and the times of their snapshots added; the oldest go beyond a thousand ranges."""
        ranges: list[tuple[int, int, int]] = []
        added = [(identifier, identifier, time_ms) for identifier, time_ms in commits]
        for first, last, time_ms in sorted([*self.ranges, *added]):
            if ranges and first <= ranges[-1][1] + 1:
                begin, end, until_ms = ranges.pop()
                ranges.append((begin, max(end, last), max(until_ms, time_ms)))
            else:
                ranges.append((first, last, time_ms))
        excess = sorted(ranges, key=lambda item: item[2])[: max(0, len(ranges) - _MOST_RANGES)]
        forgotten = [time_ms for _, _, time_ms in excess]
        if self.forgotten_until_ms is not None:
            forgotten.append(self.forgotten_until_ms)
        kept = tuple(item for item in ranges if item not in set(excess))
        return replace(self, ranges=kept, forgotten_until_ms=max(forgotten, default=None))

    def union(self, other: "Committed") -> "Committed":
        """What either remembers."""
        newer = max(self, other, key=lambda item: (item.highest, item.highest_snapshot_id))
        base = replace(self, highest=newer.highest, highest_snapshot_id=newer.highest_snapshot_id)
        forgotten = [one.forgotten_until_ms for one in (self, other) if one.forgotten_until_ms is not None]
        merged = replace(base, ranges=(*self.ranges, *other.ranges), forgotten_until_ms=max(forgotten, default=None))
        return merged.with_commits(())


class CommittedFiles:
    """The remembered commit ids of one branch."""

    def __init__(self, file_io: FileIO, paths: TablePaths) -> None:
        self._file_io = file_io
        self._directory = paths.committed_directory

    def find(self, user: str) -> Committed | None:
        """What is remembered of a user, or None. Raises CorruptData for a file that cannot be read."""
        path = self._path(user)
        text = self._file_io.read_text_or_none(path)
        return None if text is None else _from_json(text, path)

    def remember(self, snapshots: Sequence[Snapshot]) -> None:
        """Remember the commit ids of snapshots that are about to go. To be called before they are deleted."""
        by_user: dict[str, list[Snapshot]] = {}
        for snapshot in snapshots:
            if snapshot.commit_identifier != BATCH_COMMIT_IDENTIFIER:
                by_user.setdefault(snapshot.commit_user, []).append(snapshot)
        for user, gone in by_user.items():
            newest = max(gone, key=lambda snapshot: (snapshot.commit_identifier, snapshot.id))
            commits = [(snapshot.commit_identifier, snapshot.time_ms) for snapshot in gone]
            self._add(Committed(user, newest.commit_identifier, newest.id).with_commits(commits))

    def take_over(self, other: "CommittedFiles") -> None:
        """Remember what another branch does, besides."""
        for file in self._file_io.list_files(other._directory):
            path = f"{other._directory}/{file.name}"
            text = self._file_io.read_text_or_none(path) if file.name.startswith("user-") else None
            if text is not None:
                self._add(_from_json(text, path))

    def _add(self, committed: Committed) -> None:
        path = self._path(committed.user)
        text = self._file_io.read_text_or_none(path)
        known = None if text is None else _from_json(text, path)
        merged = committed if known is None else known.union(committed)
        if merged != known:
            self._file_io.overwrite(path, json.dumps(asdict(merged)).encode())

    def _path(self, user: str) -> str:
        name = quote(user, safe="")
        if len(name) > _LONGEST_NAME:
            name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(user.encode()).hexdigest()[:16]}"
        return f"{self._directory}/user-{name}"


def _from_json(text: str, path: str) -> Committed:
    try:
        value: dict[str, Any] = json.loads(text)
        ranges = tuple((int(first), int(last), int(time_ms)) for first, last, time_ms in value.pop("ranges"))
        return Committed(**value, ranges=ranges)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptData(
            f"{path}, which remembers commits whose snapshots have expired, is unreadable: {error}. Delete it if no job of "
            "that commit user repeats such a commit."
        ) from None
