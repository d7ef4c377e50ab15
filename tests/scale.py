"""How much random tests try: a part in every run, a lot in `make test-long`, or one seed that failed before.

| variable | meaning |
|---|---|
| `SNAPLINE_TEST_LONG` | set by `make test-long`: many seeds, longer runs |
| `SNAPLINE_TEST_SEED` | run this seed alone |
"""

import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

LONG = bool(os.environ.get("SNAPLINE_TEST_LONG"))
_ONE = os.environ.get("SNAPLINE_TEST_SEED")


def seeds(count: int, long_count: int) -> list[int]:
    """The seeds to try; a test's name shows which of them failed."""
    return [int(_ONE)] if _ONE else list(range(long_count if LONG else count))


def amount(usual: int, long: int) -> int:
    """A number of steps or repetitions."""
    return long if LONG else usual


def try_seeds(run: Callable[[int, Path], None], chosen: Sequence[int], directory: Path) -> None:
    """Call `run` with each seed and a directory of its own, in as many processes as there are cores.

    `run` belongs to a module. Fails with the seeds that failed, and what the first of them said.
    """
    places = [directory / str(seed) for seed in chosen]
    for place in places:
        place.mkdir()
    if len(chosen) == 1:
        run(chosen[0], places[0])
        return
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        said = list(pool.map(_attempt, [run] * len(chosen), chosen, places))
    failed = {seed: text for seed, text in zip(chosen, said, strict=True) if text}
    assert not failed, (
        f"seeds {list(failed)} failed; SNAPLINE_TEST_SEED={next(iter(failed))}:\n{next(iter(failed.values()))}"
    )


def _attempt(run: Callable[[int, Path], None], seed: int, directory: Path) -> str:
    try:
        run(seed, directory)
    except Exception:
        return traceback.format_exc()
    return ""
