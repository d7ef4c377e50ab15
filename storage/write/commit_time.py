"""Which time a commit gets: the writer's clock, unless its predecessor or its own commit id says otherwise.

Pure. Times rise from one snapshot to the next as long as clocks differ by less than an hour. What is further ahead is a
clock that is not believed: times begin anew there, and `metadata/time_order.py` tells searches so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..clock import Clock
from ..metadata.snapshot import Snapshot
from ..metadata.time_order import CLOCK_PROPERTY, TIME_DISORDER_PROPERTY, rising_since

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# Younger files are spared by orphan cleaning, by default with a wide margin.
SAFE_MS = HOUR_MS
# Whoever has taken so long looks whether his files were spared: clocks of writers may differ by what is between the two.
LATE_MS = SAFE_MS // 2


def is_late(clock: Clock, begun_ms: int) -> bool:
    """Whether what was begun then may have become old since; also where the clock was set, and does not tell."""
    return clock.was_set() or not 0 <= clock.now_ms() - begun_ms < LATE_MS


@dataclass(frozen=True, slots=True)
class CommitTime:
    """The time of a snapshot, and the properties that say where it is from."""

    time_ms: int
    properties: Mapping[str, str] = field(default_factory=dict)

    def with_properties(self, given: Mapping[str, str] | None) -> dict[str, str]:
        """Properties of a commit with these; those of another snapshot that it was made from go."""
        own = {CLOCK_PROPERTY, TIME_DISORDER_PROPERTY}
        return {**{key: value for key, value in (given or {}).items() if key not in own}, **self.properties}

    @property
    def behind_ms(self) -> int:
        """By how much the writer's clock is behind; 0 if its time was taken."""
        return int(self.properties.get(CLOCK_PROPERTY, "0"))


def commit_time(now_ms: int, latest: Snapshot | None, not_before_ms: int | None) -> CommitTime:
    """The time of the snapshot that follows `latest`.

    A predecessor that is ahead by less than an hour gives its time. A commit id's `not_before_ms` that is ahead by less
    than a day is kept, so that the search that it bounds comes across the commit.
    """
    time_ms = now_ms
    if latest is not None and now_ms < latest.time_ms < now_ms + HOUR_MS:
        time_ms = latest.time_ms
    if not_before_ms is not None and time_ms < not_before_ms < now_ms + DAY_MS:
        time_ms = not_before_ms
    properties: dict[str, str] = {}
    if time_ms > now_ms:
        properties[CLOCK_PROPERTY] = str(time_ms - now_ms)
    if latest is not None:
        since = rising_since(latest) if latest.time_ms <= time_ms else latest.id + 1
        if since is not None:
            properties[TIME_DISORDER_PROPERTY] = str(since)
    return CommitTime(time_ms, properties)
