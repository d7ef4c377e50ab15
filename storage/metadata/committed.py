"""Commit ids of snapshots that have expired: by them a commit that is repeated late is recognised.

A file for each commit user, `committed/user-<name>` in the directory of the branch, written before the snapshots are
deleted. It only grows, by comparing replacements, and names the table that it is of: what somebody writes who sleeps while
the table is dropped and made anew is not taken for the new one's. Identifiers are kept as ranges, so that those of a stream
take no room; of a user whose identifiers do not follow each other the last thousand ranges are kept. Paimon knows nothing
of the directory and leaves it alone.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote

from .. import document
from ..document import read_document, sealed
from ..errors import CorruptData
from ..file_io import FileIO
from ..paths import TablePaths

_log = logging.getLogger(__name__)
_MOST_RANGES = 1_000
_LONGEST_NAME = 150
_PREFIX = "user-"


@dataclass(frozen=True, slots=True)
class Committed:
    """What is remembered of a commit user.

    `highest`: the identifier up to which all are in, unless the user's identifiers need not rise, and its snapshot; None:
    there are only commits that were taken over from another branch. `ranges`: first and last identifier and the time of the
    last snapshot of each, by identifier. `forgotten_until_ms`: the time of the latest snapshot that is in none of them any
    more; None: all are.
    """

    user: str
    highest: int | None = None
    highest_snapshot_id: int | None = None
    ranges: tuple[tuple[int, int, int], ...] = ()
    forgotten_until_ms: int | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any], source: str) -> "Committed":
        """What a file or a property holds. Raises CorruptData that names `source`."""
        numbers = {
            key: None if value.get(key) is None else document.integer(value[key], source, key)
            for key in ("highest", "highest_snapshot_id", "forgotten_until_ms")
        }
        ranges = value.get("ranges")
        if not isinstance(ranges, list) or not all(isinstance(span, list) and len(span) == 3 for span in ranges):
            raise CorruptData(
                f"File {source} is damaged: ranges are {str(ranges)[:40]}, not a list of three numbers each."
            )
        first_last_time = [tuple(document.integer(number, source, "ranges") for number in span) for span in ranges]
        return cls(document.text(value.get("user"), source, "user"), ranges=tuple(first_last_time), **numbers)  # type: ignore[arg-type]

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
        newer = max(self, other, key=_newest)
        base = replace(self, highest=newer.highest, highest_snapshot_id=newer.highest_snapshot_id)
        forgotten = [value.forgotten_until_ms for value in (self, other) if value.forgotten_until_ms is not None]
        merged = replace(base, ranges=(*self.ranges, *other.ranges), forgotten_until_ms=max(forgotten, default=None))
        return merged.with_commits(())


def _newest(committed: Committed) -> tuple[bool, int, int]:
    return committed.highest is not None, committed.highest or 0, committed.highest_snapshot_id or 0


def united(remembered: Iterable[Committed]) -> dict[str, Committed]:
    """By user, what any of several remembers."""
    by_user: dict[str, Committed] = {}
    for each in remembered:
        known = by_user.get(each.user)
        by_user[each.user] = each if known is None else known.union(each)
    return by_user


class CommittedFiles:
    """The remembered commit ids of one branch. `table_id` tells the branch from any other one of its name, and raises
    NotFound if it has gone.
    """

    def __init__(self, file_io: FileIO, paths: TablePaths, table_id: Callable[[], str]) -> None:
        self._file_io = file_io
        self._directory = paths.committed_directory
        self._table_id = table_id

    def find(self, user: str) -> Committed | None:
        """What is remembered of a user, or None. Raises CorruptData for a file that cannot be read."""
        return self._read(_file_name(user))[0]

    def names(self) -> list[str]:
        """The names of the files."""
        return sorted(
            file.name
            for file in self._file_io.list_files(self._directory, or_in_place=True)
            if file.name.startswith(_PREFIX)
        )

    def read(self, name: str) -> Committed | None:
        """What a file remembers; None if it is gone, or of another table. Raises CorruptData if it cannot be read."""
        return self._read(name)[0]

    def all(self) -> list[Committed]:
        """What is remembered, of every user."""
        remembered = (self.read(name) for name in self.names())
        return [each for each in remembered if each is not None]

    def remember(self, remembered: Iterable[Committed]) -> None:
        """Remember commit ids besides; of snapshots that are about to go, before they are deleted."""
        for each in united(remembered).values():
            self._add(each)

    def hand_over(self, target: "CommittedFiles", others: Iterable[Committed]) -> None:
        """Let another branch remember what this one does, and others besides. What cannot be read comes there as it is, and stays
        there as it is: whoever asks for a commit of that user is told.
        """
        remembered, damaged = list(others), []
        for name in self.names():
            try:
                committed = self.read(name)
            except CorruptData as error:
                _log.warning("%s It is handed over as it is.", error)
                damaged.append(name)
            else:
                remembered += [] if committed is None else [committed]
        for each in united(remembered).values():
            with suppress(CorruptData):
                target._add(each)
        for name in damaged:
            content = self._file_io.read_bytes_or_none(f"{self._directory}/{name}")
            path, was_put = f"{target._directory}/{name}", content is None
            while content is not None and not was_put:
                was_put = target._file_io.replace_if(path, target._file_io.read_bytes_or_none(path), content)

    def _add(self, committed: Committed) -> None:
        name = _file_name(committed.user)
        while True:
            known, content = self._read(name)
            merged = committed if known is None else known.union(committed)
            if merged == known:
                return
            # Asked after the file was read: what is of another table is of an earlier one then.
            value = {**asdict(merged), "table": self._table_id()}
            if self._file_io.replace_if(f"{self._directory}/{name}", content, json.dumps(sealed(value, name)).encode()):
                return

    def _read(self, name: str) -> tuple[Committed | None, bytes | None]:
        """What a file remembers of this table, and its content."""
        path = f"{self._directory}/{name}"
        content = self._file_io.read_bytes_or_none(path)
        if content is None:
            return None, None
        try:
            value = read_document(content, path)
            table = value.get("table")
            committed = Committed.from_json(value, path)
        except CorruptData as error:
            raise CorruptData(
                f"{path}, which remembers commits whose snapshots have expired, is unreadable: {error} Delete it if no job of "
                "that commit user repeats such a commit."
            ) from None
        return committed if table in (None, self._table_id()) else None, content


def _file_name(user: str) -> str:
    name = quote(user, safe="")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(user.encode()).hexdigest()[:16]}"
    return f"{_PREFIX}{name}"
