"""Which cases of tests with many of them a run leaves out: each has its turn as commits are made.

`SNAPLINE_TEST_TURN=n` takes another turn than the number of commits. `SNAPLINE_TEST_UNTIL=s` begins no test after that second of
the Unix time, so that CI comes to an end on a slow machine as well: each turn then begins with another test.
"""

import os
import re
import subprocess
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_ENGINE = re.compile(r"[\[-]spark[\]-]")
_ONE_OF_TWO = 2
# Tests over hosts build on each other.
_OVER_HOSTS = "tests/cluster/"


def turn() -> int:
    """The number of commits, or what SNAPLINE_TEST_TURN says; 0 where there is no repository."""
    if given := os.environ.get("SNAPLINE_TEST_TURN"):
        return int(given)
    command = ["git", "-C", str(Path(__file__).parent), "rev-list", "--count", "HEAD"]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0


def left_out_of(items: Sequence[pytest.Item], at: int | None = None) -> Iterator[pytest.Item]:
    """The items that are not run. `at`: the turn."""
    at = turn() if at is None else at
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("one_in"):
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
        elif _ENGINE.search(item.nodeid) and (_number(item) + at) % _ONE_OF_TWO:
            yield item
    for of_test in cases.values():
        marker = of_test[0].get_closest_marker("one_in")
        assert marker is not None
        of_test.sort(key=_number)
        chosen = set(of_test[at % min(marker.args[0], len(of_test)) :: marker.args[0]])
        yield from (item for item in of_test if item not in chosen)


def in_turn(items: Sequence[pytest.Item], at: int | None = None) -> list[pytest.Item]:
    """The items in the order in which they are run: where time may run out, another one comes first with each turn."""
    if not os.environ.get("SNAPLINE_TEST_UNTIL") or not items or items[0].nodeid.startswith(_OVER_HOSTS):
        return list(items)
    first = zlib.crc32(str(turn() if at is None else at).encode()) % len(items)
    return [*items[first:], *items[:first]]


def is_time_over() -> bool:
    """Whether SNAPLINE_TEST_UNTIL is past."""
    until = os.environ.get("SNAPLINE_TEST_UNTIL")
    return bool(until) and time.time() > float(until)


def _number(item: pytest.Item) -> int:
    return zlib.crc32(item.nodeid.encode())
