"""Sorted runs: files of a bucket packed so that each run is ordered and without overlap.

Pure: works on key ranges alone. Follows `docs/format.md`, "Reading one bucket".
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..metadata.manifest import DataFile

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Files in key order that do not overlap."""

    files: tuple[DataFile, ...]

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def min_sequence_number(self) -> int:
        """The lowest sequence number of any row."""
        return min(file.min_sequence_number for file in self.files)

    @property
    def max_sequence_number(self) -> int:
        """The highest sequence number of any row."""
        return max(file.max_sequence_number for file in self.files)

    @property
    def may_hold_deletes(self) -> bool:
        """Whether rows may take others away."""
        # A count that was not written is taken as "perhaps", which only costs time.
        return any(file.delete_row_count != 0 for file in self.files)


@dataclass(frozen=True, slots=True)
class Section:
    """Runs whose key ranges overlap each other; sections of a bucket share no key."""

    runs: tuple[SortedRun, ...]
    # Rows with keys from `low` on and below `high` belong to it, if these are given: the section is a piece of a larger one.
    low: Key | None = None
    high: Key | None = None

    @property
    def is_cut(self) -> bool:
        """Whether its files hold rows that belong to other pieces."""
        return self.low is not None or self.high is not None

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files of all runs."""
        return tuple(file for run in self.runs for file in run.files)

    @property
    def size_bytes(self) -> int:
        """The size of all files."""
        return sum(run.size_bytes for run in self.runs)

    @property
    def needs_merge(self) -> bool:
        """Whether reading the files one after another would show rows that are overwritten or deleted."""
        return self.is_cut or len(self.runs) > 1 or self.runs[0].may_hold_deletes


def split_into_sections(files: Sequence[DataFile], key_range: Callable[[DataFile], tuple[Key, Key]]) -> list[Section]:
    """Sections of a bucket in key order, each with as few runs as possible.

    `key_range` gives the first and last key of a file as tuples that compare in the order of keys.
    """
    ranged = [(*key_range(file), index, file) for index, file in enumerate(files)]
    ranged.sort(key=lambda ranged_file: (ranged_file[0], ranged_file[1], ranged_file[2]))
    sections: list[Section] = []
    current: list[tuple[Key, Key, int, DataFile]] = []
    largest: Key | None = None
    for each in ranged:
        if largest is not None and each[0] > largest:
            sections.append(_pack(current))
            current, largest = [], None
        current.append(each)
        largest = each[1] if largest is None else max(largest, each[1])
    if current:
        sections.append(_pack(current))
    return sections


def cut_by_key(section: Section, target_bytes: int, key_range: Callable[[DataFile], tuple[Key, Key]]) -> list[Section]:
    """Pieces of a section of about `target_bytes`, which share no key.

    The cuts lie between files of the largest run, so that each of those is read by one piece only; files of other runs
    are read by every piece that they reach into. A section whose largest run is one file stays whole.
    """
    largest = max(section.runs, key=lambda run: run.size_bytes)
    share = largest.size_bytes * target_bytes / section.size_bytes
    cuts: list[Key] = []
    held = 0
    for file in largest.files:
        if held and held + file.size_bytes > share:
            cuts.append(key_range(file)[0])
            held = 0
        held += file.size_bytes
    if not cuts:
        return [section]
    ranges = {file.name: key_range(file) for file in section.files}
    pieces = []
    for low, high in zip([None, *cuts], [*cuts, None], strict=True):
        runs = []
        for run in section.runs:
            files = tuple(
                file
                for file in run.files
                if (low is None or ranges[file.name][1] >= low) and (high is None or ranges[file.name][0] < high)
            )
            if files:
                runs.append(SortedRun(files))
        pieces.append(Section(tuple(runs), low, high))
    return pieces


def _pack(files: Sequence[tuple[Key, Key, int, DataFile]]) -> Section:
    """Put each file behind the run that ends first, if it begins after it; else begin a new run."""
    ends: list[tuple[Key, int]] = []
    runs: list[list[DataFile]] = []
    for low, high, _, file in files:
        if ends and ends[0][0] < low:
            run = heapq.heappop(ends)[1]
            runs[run].append(file)
        else:
            run = len(runs)
            runs.append([file])
        heapq.heappush(ends, (high, run))
    return Section(tuple(SortedRun(tuple(run)) for run in runs))
