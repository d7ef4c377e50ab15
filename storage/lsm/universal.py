"""Choose which sorted runs of a bucket to merge next (universal compaction).

Pure: touches no file; `maintain/compaction.py` carries the choice out. The triggers are tried in this order: space
amplification, size ratio, number of runs. Source: FLIP-188, and `docs/format.md`, "Compaction".
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LevelRun:
    """A sorted run as far as the choice is concerned. Every file of level 0 is a run of its own, newest first; a level
    above 0 is one run.
    """

    level: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CompactionPick:
    """Merge the first `run_count` runs into `output_level`."""

    run_count: int
    output_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalOptions:
    """What the triggers go by; `storage.options` declares them for users."""

    run_count_trigger: int
    level_count: int
    max_size_amplification_percent: int
    size_ratio_percent: int

    @property
    def highest_level(self) -> int:
        """The highest level, which a full compaction writes."""
        return self.level_count - 1


def pick_compaction(runs: Sequence[LevelRun], options: UniversalOptions) -> CompactionPick | None:
    """Return the runs to merge and the level of the result, or None if the bucket is in good shape.

    `runs` are ordered from new to old.
    """
    return (
        _pick_for_space_amplification(runs, options)
        or _pick_for_size_ratio(runs, options)
        or _pick_for_run_count(runs, options)
    )


def pick_all_of_level_0(runs: Sequence[LevelRun], options: UniversalOptions) -> CompactionPick | None:
    """Merge at least every run of level 0, and what the size ratio adds; None if there is none."""
    level_0 = sum(run.level == 0 for run in runs)
    return _by_size_ratio(runs, options, level_0, forced=True) if level_0 else None


def pick_everything(runs: Sequence[LevelRun], options: UniversalOptions) -> CompactionPick | None:
    """Merge all runs into the highest level; None if they are there already."""
    if not runs or (len(runs) == 1 and runs[0].level == options.highest_level):
        return None
    return CompactionPick(len(runs), options.highest_level)


def _pick_for_space_amplification(runs: Sequence[LevelRun], options: UniversalOptions) -> CompactionPick | None:
    if len(runs) < options.run_count_trigger:
        return None
    newer = sum(run.size_bytes for run in runs[:-1])
    if newer * 100 <= options.max_size_amplification_percent * runs[-1].size_bytes:
        return None
    return CompactionPick(len(runs), options.highest_level)


def _pick_for_size_ratio(runs: Sequence[LevelRun], options: UniversalOptions) -> CompactionPick | None:
    return _by_size_ratio(runs, options, 1) if len(runs) >= options.run_count_trigger else None


def _pick_for_run_count(runs: Sequence[LevelRun], options: UniversalOptions) -> CompactionPick | None:
    surplus = len(runs) - options.run_count_trigger
    return _by_size_ratio(runs, options, surplus + 1) if surplus > 0 else None


def _by_size_ratio(
    runs: Sequence[LevelRun], options: UniversalOptions, count: int, *, forced: bool = False
) -> CompactionPick | None:
    """Begin with the first `count` runs and go on as long as the next one is not much larger than all before it."""
    size = sum(run.size_bytes for run in runs[:count])
    triggered = forced or count > 1
    for run in runs[count:]:
        too_large = size * (100 + options.size_ratio_percent) / 100 < run.size_bytes
        if too_large and (not triggered or run.level > 1):
            break
        size += run.size_bytes
        count += 1
        triggered = True
    return _with_output_level(runs, options, count) if triggered else None


def _with_output_level(runs: Sequence[LevelRun], options: UniversalOptions, count: int) -> CompactionPick | None:
    level = options.highest_level if count == len(runs) else max(0, runs[count].level - 1)
    if level == 0:
        # Level 0 holds no results: go on up to the first run above it.
        while count < len(runs):
            level = runs[count].level
            count += 1
            if level:
                break
        if count == len(runs):
            level = options.highest_level
    if count == 1 and runs[0].level == level:
        return None
    return CompactionPick(count, level)
