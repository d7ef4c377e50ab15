"""Every ordered pair of operations, at every step of the first: nothing is lost, doubled, or seen half.

A share of the pairs on local disks is tried in each run, all of them by `make interleavings`, with a share of the deaths; every
death, and object stores, in `make test-long`.
A failure names the schedule: `python -m tests.interleavings.test_pairs PLACE FIRST POINT SECOND [DIES]` runs it again.
"""

import sys
import time
import zlib
from dataclasses import dataclass

import pytest

from tests.interleavings.operations import INDEXED, KEYED, SCENARIOS
from tests.interleavings.schedules import (
    Place,
    Schedule,
    Violation,
    explore,
    firsts_in,
    names_in,
    run,
    use_one_thread,
)
from tests.scale import LONG, amount

# One of so many pairs is tried; of tables with index files fewer, so that all pairs of the others stay a matter of minutes.
_SHARE = amount(8, 1, full=1)
_SHARE_OF_INDEXED = amount(8, 1, full=20)
_SHOWN = 12
Chunk = tuple[Place, str]
CHUNKS = [
    (Place(scenario, is_local), first)
    for is_local in ((True, False) if LONG else (True,))
    for scenario in SCENARIOS
    for first in firsts_in(scenario)
]


@dataclass(frozen=True)
class Tried:
    """What came of a first operation with every second one."""

    points: int
    schedules: int
    seconds: float
    violations: list[Violation]


def explore_all(place: Place, first: str) -> Tried:
    """Every schedule that begins with an operation."""
    began = time.process_time()
    share = _SHARE_OF_INDEXED if place.scenario in INDEXED else _SHARE
    seconds = [
        candidate
        for candidate in names_in(place.scenario)
        if zlib.crc32(f"{place} {first} {candidate}".encode()) % share == 0
    ]
    outcomes = [explore(place, first, second) for second in seconds]
    return Tried(
        max((outcome.points for outcome in outcomes), default=0),
        sum(outcome.schedules for outcome in outcomes),
        time.process_time() - began,
        [violation for outcome in outcomes for violation in outcome.violations],
    )


@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda chunk: f"{chunk[0]}: {chunk[1]}")
def test_pairs(chunk: Chunk) -> None:
    done = explore_all(*chunk)
    print(f"{chunk[0]}: {chunk[1]}: {done.points} points, {done.schedules} schedules, {done.seconds:.1f} s")
    shown = "\n".join(map(str, done.violations[:_SHOWN]))
    assert not done.violations, f"{len(done.violations)} violations:\n{shown}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("create branch", "create branch"),
        ("branch from tag", "create branch"),
        ("create branch", "replace main"),
        ("new consumer", "replace main"),
        ("write", "expire"),
        ("rename table", "write"),
        ("create branch", "rename table"),
        ("write elsewhere", "replace main"),
        ("expire", "drop and create"),
        ("stream read", "stream read"),
        ("stream read", "drop and create"),
        ("delete tag", "delete tag"),
        ("drop table", "drop table"),
        ("drop table", "add column"),
        ("drop table", "replace main"),
        ("drop table", "rescale"),
    ],
)
def test_a_pair_on_an_object_store(first: str, second: str) -> None:
    done = explore(Place(KEYED, is_local=False), first, second, every_death=True)
    assert done.schedules
    assert not done.violations, "\n".join(map(str, done.violations[:_SHOWN]))


@pytest.mark.parametrize("second", ["writes and expiry", "wait and clean"])
def test_what_was_main_is_dropped_though_others_have_cleaned_before(second: str) -> None:
    """Where whoever replaced it died in between, its files are nobody's: the repetition must not ask for them."""
    done = explore(Place(KEYED, is_local=True), "replace main", second, every_death=True)
    assert done.schedules
    assert not done.violations, "\n".join(map(str, done.violations[:_SHOWN]))


def main(place: str, first: str, point: str, second: str, dies: str | None = None) -> None:
    """Run one schedule and print what is wrong."""
    use_one_thread(setattr)
    named = {str(known_place): known_place for known_place, _ in CHUNKS}[place]
    schedule = Schedule(named, first, int(point), second, None if dies is None else int(dies))
    print("\n".join(run(schedule).wrong) or "nothing is wrong")


if __name__ == "__main__":
    main(*sys.argv[1:])
