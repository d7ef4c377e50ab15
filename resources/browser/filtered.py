"""The newest snapshots that the filters of a page leave, however many others came after them."""

from dataclasses import replace

from .facts import Platform
from .history import Histories, History
from .partitions import PartitionsWritten
from .view import View

# Twice as many snapshots are looked at as long as too few are left, up to these.
_MOST_LOOKED_AT = 1_000_000


def read_filtered(
    histories: Histories, partitions: PartitionsWritten, platform: Platform, view: View, limit: int
) -> History:
    """At most `limit` snapshots; of a history that is loaded as a whole all, so that what is hidden keeps its place."""
    looked_at = limit
    while True:
        history = histories.read(platform, looked_at, view.until)
        if view.partition:
            history = partitions.added_to(history, platform)
        if not history.has_earlier and looked_at == limit:
            return history
        if not view.has_filters:
            return history
        left = _left_by(history, view)
        if len(left) >= limit or not history.has_earlier or looked_at >= _MOST_LOOKED_AT:
            return only(history, left[-limit:], has_earlier=history.has_earlier or len(left) > limit)
        looked_at = min(looked_at * 4, _MOST_LOOKED_AT)


def _left_by(history: History, view: View) -> list[int]:
    lanes = [view.shows_lane(lane) for lane in history.lanes]
    return [index for index, dot in enumerate(history.dots) if lanes[dot.lane] and view.shows(dot)]


def only(history: History, kept: list[int], *, has_earlier: bool) -> History:
    """The history with some of its snapshots alone, and the lanes that these are in."""
    new = {index: number for number, index in enumerate(kept)}
    lanes = sorted({history.dots[index].lane for index in kept})
    lane_of = {lane: number for number, lane in enumerate(lanes)}
    dots = tuple(replace(history.dots[index], lane=lane_of[history.dots[index].lane]) for index in kept)
    refs = {dot.ref: index for index, dot in enumerate(dots)}

    def pairs(of: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        return tuple((new[source], new[sink]) for source, sink in of if source in new and sink in new)

    forks = [None if lane.forks_at is None else new.get(lane.forks_at) for lane in history.lanes]
    return History(
        tuple(replace(history.lanes[lane], forks_at=forks[lane]) for lane in lanes),
        dots,
        pairs(history.arcs),
        pairs(history.joins),
        has_earlier,
        history.troubles,
        tuple(edge for edge in history.edges if edge.source in refs and edge.sink in refs),
        {new[index]: new[change] for index, change in history.changes.items() if index in new and change in new},
        refs,
    )
