"""How much random tests try: a little in every run, a lot in `make test-long`, or one seed that failed before.

| variable | meaning |
|---|---|
| `SNAPLINE_TEST_LONG` | set by `make test-long`: many seeds, longer runs |
| `SNAPLINE_TEST_SEED` | run this seed alone |
"""

import os

LONG = bool(os.environ.get("SNAPLINE_TEST_LONG"))
_ONE = os.environ.get("SNAPLINE_TEST_SEED")


def seeds(count: int, long_count: int) -> list[int]:
    """The seeds to try; a test's name shows which of them failed."""
    return [int(_ONE)] if _ONE else list(range(long_count if LONG else count))


def amount(usual: int, long: int) -> int:
    """A number of steps or repetitions."""
    return long if LONG else usual
