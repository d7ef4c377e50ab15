"""Where everything is in the picture: a lane for each branch from top to bottom, a column for each commit from left to right.

Positions follow from the history alone: what is selected, hidden or dimmed never moves anything. Units are CSS pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from .history import History

LANE_HEIGHT, BRANCH_HEIGHT = 34, 24
COLUMN_WIDTH = 18
MARGIN = 24
# Room for the days above the lanes.
HEAD = 30
RADIUS = 5


@dataclass(frozen=True, slots=True)
class Layout:
    """`x` by dot, `y` by lane; `days`: the first column of each day (UTC)."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    width: int
    height: int
    days: tuple[tuple[int, str], ...]


def lay_out(history: History) -> Layout:
    """Positions of dots and lanes."""
    y: list[int] = []
    bottom = HEAD
    for lane in history.lanes:
        height = LANE_HEIGHT if lane.is_main else BRANCH_HEIGHT
        y.append(bottom + height // 2)
        bottom += height
    x = tuple(MARGIN + index * COLUMN_WIDTH for index in range(len(history.dots)))
    width = MARGIN * 2 + max(0, len(history.dots) - 1) * COLUMN_WIDTH
    return Layout(x, tuple(y), max(width, 320), bottom + MARGIN // 2, tuple(_days(history, x)))


def _days(history: History, x: Sequence[int]) -> list[tuple[int, str]]:
    days: list[tuple[int, str]] = []
    last = ""
    for dot, left in zip(history.dots, x, strict=True):
        day = f"{datetime.fromtimestamp(dot.time_ms // 1000, UTC):%Y-%m-%d}"
        if day != last and (not days or left - days[-1][0] > 80):
            days.append((left, day))
            last = day
    return days
