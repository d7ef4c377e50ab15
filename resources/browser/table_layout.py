"""Where tables stand in the table graph: in columns by generation, each after those that it is made from.

A line that passes a column has a place of its own there, so that it runs behind no box. Tables that are made from each other
in a circle are put as if the line that closes it were not there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .table_graph import Name

_SWEEPS = 4


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a column: of the table `name`, or of the line from it to the table `towards`."""

    level: int
    name: Name
    towards: Name | None = None

    @property
    def is_table(self) -> bool:
        """Whether it is a table's, and not that of a line."""
        return self.towards is None


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Columns of spots, from left to right and from top to bottom, and of each line the spots that it leads through."""

    columns: tuple[tuple[Spot, ...], ...]
    chains: tuple[tuple[Spot, ...], ...]


def lay_out_tables(names: Sequence[Name], edges: Sequence[tuple[Name, Name]]) -> TableLayout:
    """The layout of tables and what they are made from, (source, sink) each."""
    level = _levels(names, edges)
    chains = [_chain(level, source, sink) for source, sink in edges]
    columns: list[list[Spot]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for name in sorted(level):
        columns[level[name]].append(Spot(level[name], name))
    for chain in chains:
        for spot in chain[1:-1]:
            columns[spot.level].append(spot)
    _near_to_neighbours(columns, chains)
    return TableLayout(tuple(map(tuple, columns)), tuple(chains))


def _chain(level: Mapping[Name, int], source: Name, sink: Name) -> tuple[Spot, ...]:
    passed = [Spot(number, source, sink) for number in range(level[source] + 1, level[sink])]
    return (Spot(level[source], source), *passed, Spot(level[sink], sink))


def _levels(names: Iterable[Name], edges: Iterable[tuple[Name, Name]]) -> dict[Name, int]:
    sources: dict[Name, list[Name]] = {name: [] for name in sorted(names)}
    for source, sink in sorted(edges):
        sources[sink].append(source)
    level: dict[Name, int] = {}
    for name in sources:
        # Deep chains of tables would be too deep for recursion.
        stack = [name]
        opened: set[Name] = set()
        while stack:
            top = stack[-1]
            waiting = [source for source in sources[top] if source not in level and source not in opened]
            opened.add(top)
            if waiting:
                stack.append(waiting[0])
                continue
            stack.pop()
            level.setdefault(top, 1 + max((level.get(source, -1) for source in sources[top]), default=-1))
    return level


def _near_to_neighbours(columns: list[list[Spot]], chains: Iterable[Sequence[Spot]]) -> None:
    """Order each column by where the neighbours of its spots are, forth and back."""
    neighbours: dict[Spot, list[Spot]] = {spot: [] for column in columns for spot in column}
    for chain in chains:
        for left, right in pairwise(chain):
            neighbours[left].append(right)
            neighbours[right].append(left)
    at = {spot: index for column in columns for index, spot in enumerate(column)}
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            centre = {
                spot: sum(at[other] for other in neighbours[spot]) / len(neighbours[spot])
                if neighbours[spot]
                else at[spot]
                for spot in column
            }
            column.sort(key=lambda spot: (centre[spot], spot.name, spot.towards or ()))
            at.update((spot, index) for index, spot in enumerate(column))
