"""Time and random names, the only place they come from, so that a test can hold them still."""

import time
import uuid
from dataclasses import dataclass, field


class Clock:
    """The wall clock of this machine and version 4 UUIDs."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def unique_name(self) -> str:
        """A name nobody else has, used for files and commit users."""
        return str(uuid.uuid4())

    def sleep_ms(self, duration_ms: float) -> None:
        time.sleep(duration_ms / 1000)


@dataclass
class FixedClock(Clock):
    """A clock that moves only when told; names stay unique."""

    time_ms: int = 1_700_000_000_000
    slept_ms: float = field(default=0, init=False)

    def now_ms(self) -> int:
        return self.time_ms

    def advance_ms(self, duration_ms: int) -> None:
        self.time_ms += duration_ms

    def sleep_ms(self, duration_ms: float) -> None:
        self.slept_ms += duration_ms
