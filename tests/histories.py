"""Random histories, each step with random numbers of its own, so that one that fails can be made short.

Of a history that fails steps are left out as long as it goes on failing in the same way: what stays is told, to repeat it alone.

| variable | meaning |
|---|---|
| `SNAPLINE_TEST_SEED` | run the history of this seed alone |
| `SNAPLINE_TEST_STEPS` | run these of its steps alone, as in `3,17,40` |
"""

import os
import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

# Runs a history: its seed, the numbers of its steps, and a directory that is empty.
Run = Callable[[int, Sequence[int], Path], None]
_STEPS = os.environ.get("SNAPLINE_TEST_STEPS")
_SHORTENING_SECONDS = 120.0


def random_of(seed: int, step: int) -> random.Random:
    """What a step draws from, whatever other steps are there."""
    return random.Random(f"{seed} {step}")


def try_histories(run: Run, seeds: Sequence[int], step_count: int, directory: Path) -> None:
    """Run the history of each seed. Fails with the seeds that failed, and the first of them as short as it goes."""
    steps = [int(each) for each in _STEPS.split(",")] if _STEPS else list(range(step_count))
    places = (directory / str(number) for number in count())
    failures = {seed: failure for seed in seeds if (failure := _failure(run, seed, steps, next(places)))}
    if failures:
        seed = next(iter(failures))
        short, failure = _shortened(run, seed, steps, failures[seed], places)
        numbers = ",".join(map(str, short))
        raise AssertionError(
            f"seeds {list(failures)} failed; SNAPLINE_TEST_SEED={seed} SNAPLINE_TEST_STEPS={numbers} "
            f"({len(short)} of {len(steps)} steps):\n{failure.text}"
        )


@dataclass(frozen=True)
class _Failure:
    """Why a history failed: the error's type and the line that raised it, and all of it as text."""

    place: tuple[str, str, int]
    text: str


def _failure(run: Run, seed: int, steps: Sequence[int], place: Path) -> _Failure | None:
    place.mkdir()
    try:
        run(seed, steps, place)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return _Failure((type(error).__name__, last.filename, last.lineno or 0), traceback.format_exc())
    return None


def _shortened(
    run: Run, seed: int, steps: Sequence[int], failure: _Failure, places: Iterator[Path]
) -> tuple[list[int], _Failure]:
    """Leave out blocks of steps, then smaller ones, until no single step can go or the time is over."""
    short, size, deadline = list(steps), max(len(steps) // 2, 1), time.monotonic() + _SHORTENING_SECONDS
    while time.monotonic() < deadline:
        at, before = 0, len(short)
        while at < len(short) and time.monotonic() < deadline:
            fewer = short[:at] + short[at + size :]
            other = _failure(run, seed, fewer, next(places))
            if other is not None and other.place == failure.place:
                short, failure = fewer, other
            else:
                at += size
        if size == 1 and len(short) == before:
            break
        size = max(size // 2, 1)
    return short, failure
