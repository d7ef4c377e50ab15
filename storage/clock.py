"""Time and random names, the only place they come from, so that a test can hold them still."""

import random
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime

from .errors import InvalidRequest

# A clock that is corrected little by little, as those of servers are, is not set.
_SET_MS = 60_000
# The calendar that partitions, tags and views of time go by has the years 1 to 9999, less a day in some time zones.
_FIRST_MS, _LAST_MS = -62_135_596_800_000 + 86_400_000, 253_402_300_799_000 - 86_400_000


def _of_the_calendar(time_ms: int) -> int:
    if not _FIRST_MS <= time_ms <= _LAST_MS:
        raise InvalidRequest(
            f"The clock of this machine says {time_ms} ms since 1970, which is before the year 1 or beyond the year 9999. "
            "Set it; nothing is done."
        )
    return time_ms


def _ahead_ms() -> int:
    return (time.time_ns() - time.monotonic_ns()) // 1_000_000


_AHEAD_MS = _ahead_ms()


class Clock:
    """The wall clock of this machine and version 4 UUIDs."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch. Raises InvalidRequest if that is no day of the calendar."""
        return _of_the_calendar(time.time_ns() // 1_000_000)

    def was_set(self) -> bool:
        """Whether the clock was set since the process began, so that it does not tell how much time has passed."""
        return abs(_ahead_ms() - _AHEAD_MS) > _SET_MS

    def unique_name(self) -> str:
        """A name nobody else has, used for files and commit users."""
        return str(uuid.uuid4())

    def now(self) -> datetime:
        """The time of `now_ms`, in UTC with its zone."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def random_bits(self, count: int) -> int:
        """A whole number of so many random bits."""
        return random.getrandbits(count)

    def sleep_ms(self, duration_ms: float) -> None:
        """Wait for some milliseconds."""
        time.sleep(duration_ms / 1000)

    def sleep_up_to_ms(self, longest_ms: float) -> None:
        """Sleep a random part of a duration, so that processes that met once do not meet again."""
        self.sleep_ms(random.uniform(0, longest_ms))


@dataclass
class FixedClock(Clock):
    """A clock that moves only when told; names stay unique."""

    time_ms: int = 1_700_000_000_000
    slept_ms: float = field(default=0, init=False)
    _latest_ms: int = field(default=0, init=False)

    def now_ms(self) -> int:
        self._latest_ms = max(self._latest_ms, self.time_ms)
        return _of_the_calendar(self.time_ms)

    def was_set(self) -> bool:
        return self.time_ms < self._latest_ms

    def advance_ms(self, duration_ms: int) -> None:
        """Let some milliseconds pass."""
        self.time_ms += duration_ms

    def sleep_ms(self, duration_ms: float) -> None:
        """Let as many milliseconds pass at once."""
        self.slept_ms += duration_ms
