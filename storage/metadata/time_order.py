"""From where on the times of a branch's snapshots rise: what a search by time goes by.

Times rise from one snapshot to the next, but for clocks that jumped: the snapshot that is older than its predecessor names
itself by a property, and all later ones carry that on. So the history falls into segments in each of which times rise.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .snapshot import Snapshot

# The id of the first snapshot of the segment that this one is in; without it, the segment begins with the history.
TIME_DISORDER_PROPERTY = "snapline.time-disorder-since"
# By how many milliseconds the writer's clock was behind the time that its snapshot has.
CLOCK_PROPERTY = "snapline.clock"


def rising_since(snapshot: "Snapshot") -> int | None:
    """The id of the snapshot from which on times rise up to this one; None: from the first one on."""
    text = (snapshot.properties or {}).get(TIME_DISORDER_PROPERTY, "")
    return min(int(text), snapshot.id) if text.isdigit() and int(text) > 1 else None


def last_at_or_before(ids: Sequence[int], get: "Callable[[int], Snapshot]", time_ms: int) -> "Snapshot | None":
    """The snapshot of some ids, ascending, that was the state at a time: the last of the latest segment that had begun.

    Reads a logarithmic number of snapshots for each segment; None if all are later.
    """
    while ids:
        begin = bisect_left(ids, rising_since(get(ids[-1])) or 0)
        segment = ids[begin:]
        count = bisect_right(segment, time_ms, key=lambda snapshot_id: get(snapshot_id).time_ms)
        if count:
            return get(segment[count - 1])
        ids = ids[:begin]
    return None
