"""What leads to a snapshot and from it, within a history: what is highlighted once it is selected."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .history import History


@dataclass(frozen=True, slots=True)
class Path:
    """Dots by index: the selected one, what it was made from, and what was made from it."""

    selected: int
    upstream: frozenset[int]
    downstream: frozenset[int]
    _arcs: frozenset[tuple[int, int]] = field(default=frozenset(), repr=False)

    def side(self, index: int) -> str:
        """`selected`, `up`, `down`, or nothing."""
        if index == self.selected:
            return "selected"
        return "up" if index in self.upstream else "down" if index in self.downstream else ""

    def has_arc(self, source: int, sink: int) -> bool:
        """Whether an arc lies on the way."""
        return (source, sink) in self._arcs


def path_through(history: History, selected: int, direction: str, hops: int | None) -> Path:
    """What leads to and from the rows of a dot: `direction` up, down or both; `hops` None: as far as there is."""
    start = history.changes.get(selected, selected)
    up, up_arcs = _walk(start, _next(history.arcs, 1), hops) if direction != "down" else (set(), set())
    down, down_arcs = _walk(start, _next(history.arcs, 0), hops) if direction != "up" else (set(), set())
    arcs = {(other, near) for near, other in up_arcs} | down_arcs
    return Path(selected, frozenset(up), frozenset(down), frozenset(arcs))


def _next(arcs: Sequence[tuple[int, int]], near: int) -> dict[int, list[int]]:
    following: dict[int, list[int]] = {}
    for arc in arcs:
        following.setdefault(arc[near], []).append(arc[1 - near])
    return following


def _walk(start: int, following: dict[int, list[int]], hops: int | None) -> tuple[set[int], set[tuple[int, int]]]:
    seen = {start}
    arcs: set[tuple[int, int]] = set()
    frontier: Iterable[int] = [start]
    while frontier and (hops is None or hops > 0):
        hops = None if hops is None else hops - 1
        reached: set[int] = set()
        for near in frontier:
            for other in following.get(near, ()):
                arcs.add((near, other))
                reached.add(other)
        frontier = reached - seen
        seen |= reached
    return seen - {start}, arcs
