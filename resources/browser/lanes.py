"""Where everything is in the picture: a lane for each branch from top to bottom, a column for each commit from left to right.

Positions follow from the history alone: what is selected, hidden or dimmed never moves anything, unless one asks that lanes
which are left out leave no gaps. Units are CSS pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from .history import History
from .view import View

LANE_HEIGHT, BRANCH_HEIGHT = 34, 24
# Few commits have more room.
COLUMN_WIDTH, MOST_COLUMN_WIDTH, ROOM = 18, 56, 1_000
MARGIN = 24
# Room for the days above the lanes.
HEAD = 30
RADIUS = 5
# What a time takes, and a day before it.
_TIME_WIDTH, _DAY_WIDTH = 80, 70
# About half of a window.
_LONG_WITHOUT = 400


@dataclass(frozen=True, slots=True)
class Layout:
    """`x` by dot, `y` by lane; `lanes` and `dots`: whether the filters leave each; `days`: where a new day, or time of day,
    begins (UTC).
    """

    x: tuple[int, ...]
    y: tuple[int, ...]
    lanes: tuple[bool, ...]
    dots: tuple[bool, ...]
    width: int
    height: int
    days: tuple[tuple[int, str], ...]


def lay_out(history: History, view: View) -> Layout:
    """Positions of dots and lanes."""
    lanes = tuple(view.shows_lane(lane) for lane in history.lanes)
    dots = tuple(lanes[dot.lane] and view.shows(dot) for dot in history.dots)
    y: list[int] = []
    bottom = HEAD
    for lane, is_shown in zip(history.lanes, lanes, strict=True):
        height = 0 if not (is_shown or view.gaps) else LANE_HEIGHT if lane.is_main else BRANCH_HEIGHT
        y.append(bottom + height // 2)
        bottom += height
    column = max(COLUMN_WIDTH, min(MOST_COLUMN_WIDTH, ROOM // max(1, len(history.dots))))
    x = tuple(MARGIN + index * column for index in range(len(history.dots)))
    width = MARGIN * 2 + max(0, len(history.dots) - 1) * column
    days = tuple(_moments(history, x))
    # The last time has room beside it.
    width = max(width, 320, days[-1][0] + _TIME_WIDTH + _DAY_WIDTH if days else 0)
    return Layout(x, tuple(y), lanes, dots, width, bottom + MARGIN // 2, days)


def _moments(history: History, x: Sequence[int]) -> list[tuple[int, str]]:
    """Where a new day begins, or a new minute, as far as there is room to say it; and the second where none does for long."""
    moments: list[tuple[int, str]] = []
    last_day, last_minute, free_from = "", "", 0
    for dot, left in zip(history.dots, x, strict=True):
        moment = datetime.fromtimestamp(dot.time_ms // 1000, UTC)
        day, minute = f"{moment:%Y-%m-%d}", f"{moment:%H:%M}"
        is_same = (day, minute) == (last_day, last_minute)
        if not moments or left >= free_from + (_LONG_WITHOUT if is_same else 0):
            said = f"{moment:%H:%M:%S}" if is_same else minute
            moments.append((left, said if day == last_day else f"{day} {minute}"))
            free_from = left + _TIME_WIDTH + 10 + (0 if day == last_day else _DAY_WIDTH)
            last_day, last_minute = day, minute
    return moments
