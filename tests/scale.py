"""How much random tests try: some in every run, more in `make test-full`, a lot in `make test-long`, or one seed that failed.

| variable | meaning |
|---|---|
| `SNAPLINE_TEST_AMOUNT` | `full`: more (`make test-full`); `long`: hours (`make test-long`) |
| `SNAPLINE_TEST_SEED` | run this seed alone |
"""

import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

_AMOUNT = os.environ.get("SNAPLINE_TEST_AMOUNT", "usual")
_ONE = os.environ.get("SNAPLINE_TEST_SEED")
if _AMOUNT not in ("usual", "full", "long"):
    raise ValueError(f"SNAPLINE_TEST_AMOUNT is {_AMOUNT!r}; it is `full`, `long`, or not set")
LONG = _AMOUNT == "long"
FULL = _AMOUNT != "usual"


def amount(usual: int, long: int, *, full: int | None = None) -> int:
    """A number of steps or repetitions; `full` is the usual one if it is not given."""
    return {"usual": usual, "full": full or usual, "long": long}[_AMOUNT]


def seeds(usual: int, long: int, *, full: int | None = None) -> list[int]:
    """The seeds to try; a test's name shows which of them failed."""
    return [int(_ONE)] if _ONE else list(range(amount(usual, long, full=full)))


def blocks(chosen: Sequence[int], size: int) -> list[Sequence[int]]:
    """The seeds in parts, each for a test of its own, so that all cores have something to do."""
    return [chosen[at : at + size] for at in range(0, len(chosen), size)]


def try_seeds(run: Callable[[int, Path], None], chosen: Sequence[int], directory: Path) -> None:
    """Call `run` with each seed and a directory of its own. Fails with the seeds that failed, and what the first of them said."""
    failed = {}
    for seed in chosen:
        place = directory / str(seed)
        place.mkdir()
        try:
            run(seed, place)
        except Exception:
            failed[seed] = traceback.format_exc()
    assert not failed, (
        f"seeds {list(failed)} failed; SNAPLINE_TEST_SEED={next(iter(failed))}:\n{next(iter(failed.values()))}"
    )
