"""Every ordered pair of operations, at every step of the first: nothing is lost, doubled, or seen half.

Local disks are tried in each run, but for what is known to be open; object stores, and everything, in `make test-long`.
A failure names the schedule: `python -m tests.interleavings.test_pairs PLACE FIRST POINT SECOND [dies]` runs it again.
"""

import multiprocessing
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass

import pytest

from tests.interleavings.operations import SCENARIOS
from tests.interleavings.schedules import Place, Schedule, Violation, explore, firsts_in, names_in, run
from tests.scale import LONG

_SHARE = 1 if LONG else 4
_SHOWN = 12
Chunk = tuple[Place, str]
# What is known to be open: see `docs/interleavings.md`. Tried in long runs alone.
_OPEN = {"stream read", "rename tag", "new consumer", "delete consumer", "rename table"}
CHUNKS = [
    (Place(scenario, is_local), first)
    for is_local in ((True, False) if LONG else (True,))
    for scenario in SCENARIOS
    for first in firsts_in(scenario)
    if LONG or first not in _OPEN
]


@dataclass(frozen=True)
class Tried:
    """What came of a first operation with every second one."""

    points: int
    schedules: int
    seconds: float
    violations: list[Violation]


def seconds_of(place: Place, first: str) -> list[str]:
    """The second operations that are tried."""
    return [
        name
        for name in names_in(place.scenario)
        if place.is_local or zlib.crc32(f"{place} {first} {name}".encode()) % _SHARE == 0
    ]


def explore_all(place: Place, first: str) -> Tried:
    """Every schedule that begins with an operation."""
    began = time.process_time()
    outcomes = [explore(place, first, second) for second in seconds_of(place, first)]
    return Tried(
        max((one.points for one in outcomes), default=0),
        sum(one.schedules for one in outcomes),
        time.process_time() - began,
        [violation for one in outcomes for violation in one.violations],
    )


@pytest.fixture(scope="module")
def tried(request: pytest.FixtureRequest) -> Iterator[Callable[[Chunk], Tried]]:
    """What came of a chunk: all that this run asks for are tried side by side."""
    wanted = [
        item.callspec.params["chunk"]
        for item in request.session.items
        if item.path == request.path and "chunk" in getattr(getattr(item, "callspec", None), "params", {})
    ]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        begun: dict[Chunk, Future[Tried]] = {chunk: pool.submit(explore_all, *chunk) for chunk in wanted}
        yield lambda chunk: begun[chunk].result()
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda chunk: f"{chunk[0]}: {chunk[1]}")
def test_pairs(tried: Callable[[Chunk], Tried], chunk: Chunk) -> None:
    done = tried(chunk)
    print(f"{chunk[0]}: {chunk[1]}: {done.points} points, {done.schedules} schedules, {done.seconds:.1f} s")
    shown = "\n".join(map(str, done.violations[:_SHOWN]))
    assert not done.violations, f"{len(done.violations)} violations:\n{shown}"


def main(place: str, first: str, point: str, second: str, dies: str = "") -> None:
    """Run one schedule and print what is wrong."""
    named = {str(one): one for one, _ in CHUNKS}[place]
    schedule = Schedule(named, first, int(point), second, bool(dies))
    print("\n".join(run(schedule).wrong) or "nothing is wrong")


if __name__ == "__main__":
    main(*sys.argv[1:])
