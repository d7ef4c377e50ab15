"""Which runs are compacted, and how files are packed into runs, against picks that Java Paimon made."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from storage.lsm.sorted_run import split_into_sections
from storage.lsm.universal import CompactionPick, LevelRun, UniversalOptions, pick_all_of_level_0, pick_compaction
from storage.metadata.manifest import DataFile

PICKS = json.loads((Path(__file__).parent.parent / "fixtures" / "paimon" / "compaction_picks.json").read_text())


def expected(pick: dict[str, int] | None) -> CompactionPick | None:
    return None if pick is None else CompactionPick(**pick)


@pytest.mark.parametrize("case", PICKS["universal"], ids=lambda case: str(case["runs"])[:60])
def test_runs_are_picked_as_java_picks_them(case: dict[str, Any]) -> None:
    options = UniversalOptions(
        run_count_trigger=case["compaction_trigger"],
        level_count=case["num_levels"],
        max_size_amplification_percent=case["max_size_amplification_percent"],
        size_ratio_percent=case["size_ratio"],
    )
    runs = [LevelRun(*run) for run in case["runs"]]
    assert pick_compaction(runs, options) == expected(case["pick"])
    assert pick_all_of_level_0(runs, options) == expected(case["pick_when_forcing_level_0"])


def file_of(number: int) -> DataFile:
    from storage.format.column_stats import EMPTY_STATS

    return DataFile(str(number), 1, 1, b"", b"", EMPTY_STATS, EMPTY_STATS, number, number, 0, 0)


@pytest.mark.parametrize("case", PICKS["interval_partition"], ids=lambda case: str(case["files"])[:60])
def test_files_are_packed_into_as_few_runs_as_java_needs(case: dict[str, Any]) -> None:
    ranges = {str(number): ((low,), (high,)) for number, (low, high) in enumerate(case["files"])}
    sections = split_into_sections([file_of(number) for number in range(len(ranges))], lambda file: ranges[file.name])
    assert [{int(file.name) for file in section.files} for section in sections] == [
        {file for run in section for file in run} for section in case["sections"]
    ]
    assert [len(section.runs) for section in sections] == [len(section) for section in case["sections"]]
    for section in sections:
        for run in section.runs:
            bounds = [ranges[file.name] for file in run.files]
            assert all(before[1] < after[0] for before, after in pairwise(bounds))
