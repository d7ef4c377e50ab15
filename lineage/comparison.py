"""Two snapshots compared by what they were made from: the union of both ancestries, and where they part first."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from storage import SnapshotRef

from .carried_on import KnownSnapshots, carried_from
from .entities import was_replaced
from .graph import Edge, direct_sources, trace
from .questions import Stores

Side = Literal["left", "right", "both"]
# More places are counted, not named.
_NAMED_PLACES = 3
_NAMED_JOBS = 2


@dataclass(frozen=True, slots=True, order=True)
class Parting:
    """A table of which one side used a snapshot that the other did not, though that was made from nothing that differs.

    `left`, `right`: the newest such snapshot of each side; of a side without one, the newest of the table that it was made
    from at all, and None if there is none.
    """

    table: str
    left: SnapshotRef | None
    right: SnapshotRef | None

    def describe(self) -> str:
        """`raw.flights@1 → @2`; a side without a snapshot of the table is said in words."""
        if self.left is None or self.right is None:
            side = "right" if self.left is None else "left"
            return f"{self.right or self.left}, which the {side} alone was made from"
        if self.left.table_name == self.right.table_name:
            return f"{self.left} → @{self.right.snapshot_id}"
        return f"{self.left} → {self.right}"


@dataclass(frozen=True, slots=True)
class AncestryComparison:
    """The union of the ancestries of two snapshots, those two among it; snapshots and edges in order.

    `origin`: of two snapshots of one table that were made from nothing in common, the newest one, as far as lineage knows, that
    both came after or were merged from.
    """

    left: SnapshotRef
    right: SnapshotRef
    only_left: tuple[SnapshotRef, ...]
    only_right: tuple[SnapshotRef, ...]
    both: tuple[SnapshotRef, ...]
    edges: tuple[Edge, ...]
    partings: tuple[Parting, ...]
    origin: SnapshotRef | None = None

    def side(self, ref: SnapshotRef) -> Side:
        """Whose ancestry a snapshot is in. Raises KeyError for one that is in neither."""
        for name, refs in self._sides():
            if ref in refs:
                return name
        raise KeyError(ref)

    def rows(self) -> list[tuple[SnapshotRef, Side]]:
        """Every snapshot with its side: only left, only right, both."""
        return [(ref, name) for name, refs in self._sides() for ref in refs]

    def describe(self) -> str:
        """The first place where they part, in one or two sentences."""
        if self.left == self.right:
            return f"{self.left} is one snapshot."
        if self.right in self.both:
            return f"{self.left} was made from {self.right}{self._besides(self.only_left, self.left)}."
        if self.left in self.both:
            return f"{self.right} was made from {self.left}{self._besides(self.only_right, self.right)}."
        if not self.edges:
            return f"Of neither {self.left} nor {self.right} is it known what it was made from."
        if not self.partings:
            return f"Both were made from the same snapshots: {self._made(self.left)}, {self._made(self.right)}."
        named = [parting.describe() for parting in self.partings[:_NAMED_PLACES]]
        more = len(self.partings) - len(named)
        return (
            f"They differ first in {'; '.join(named)}{f'; and in {more} more tables' if more else ''}.{self._apart()}"
        )

    def _apart(self) -> str:
        if self.both:
            return ""
        if self.origin is None:
            return " They have no snapshot in common."
        if self.origin in {self.left, self.right}:
            other = self.right if self.origin == self.left else self.left
            return f" No source is common to both, but {other} has {self.origin} in its history."
        return f" No source is common to both, but both have {self.origin} in their history."

    def _sides(self) -> tuple[tuple[Side, tuple[SnapshotRef, ...]], ...]:
        return ("left", self.only_left), ("right", self.only_right), ("both", self.both)

    def _besides(self, refs: Collection[SnapshotRef], made: SnapshotRef) -> str:
        count = sum(ref != made for ref in refs)
        return f", and from {count} snapshots that the other was not made from" if count else ""

    def _made(self, ref: SnapshotRef) -> str:
        jobs = sorted({f"{edge.job!r}, barrier {edge.barrier_id}" for edge in self.edges if edge.sink == ref})
        if not jobs:
            return f"{ref} from none that is known"
        more = f" and {len(jobs) - _NAMED_JOBS} more" if len(jobs) > _NAMED_JOBS else ""
        return f"{ref} by job {'; '.join(jobs[:_NAMED_JOBS])}{more}"


def compare_ancestries(stores: Stores, left: SnapshotRef, right: SnapshotRef) -> AncestryComparison:
    """What two versions were made from, over any number of hops, and where that differs first."""
    graphs = [trace(stores, ref, "up") for ref in (left, right)]
    sides = [{graph.root, *graph.snapshots} for graph in graphs]
    edges = sorted({edge for graph in graphs for edge in graph.edges})
    only_left, only_right = sides[0] - sides[1], sides[1] - sides[0]
    sources: dict[SnapshotRef, set[SnapshotRef]] = {}
    for edge in edges:
        sources.setdefault(edge.sink, set()).add(edge.source)
    first_left, first_right = _first(only_left - {left}, sources), _first(only_right - {right}, sources)
    partings = [
        Parting(
            _name(table),
            _newest(first_left, table) or _newest(sides[0], table),
            _newest(first_right, table) or _newest(sides[1], table),
        )
        for table in {_table(ref) for ref in first_left | first_right}
    ]
    # A side may differ because of its own sources, where the other one read what both have.
    explained = (only_left | only_right) - first_left - first_right - {left, right}
    first = [parting for parting in partings if parting.left not in explained and parting.right not in explained]
    return AncestryComparison(
        left=left,
        right=right,
        only_left=tuple(sorted(only_left)),
        only_right=tuple(sorted(only_right)),
        both=tuple(sorted(sides[0] & sides[1])),
        edges=tuple(edges),
        partings=tuple(sorted(first or partings, key=lambda parting: parting.table)),
        origin=None if sides[0] & sides[1] else _origin(stores, left, right),
    )


def _origin(stores: Stores, left: SnapshotRef, right: SnapshotRef) -> SnapshotRef | None:
    if _table(left) != _table(right):
        return None
    if left.branch == right.branch and not was_replaced(left):
        return min(left, right, key=lambda ref: ref.snapshot_id)
    known = KnownSnapshots(stores)
    common = _held(known, left, stores) & _held(known, right, stores)
    return _newest(common & {left, right} or common, _table(left))


def _held(known: KnownSnapshots, ref: SnapshotRef, stores: Stores) -> set[SnapshotRef]:
    """A snapshot, those of its table that it came after, and those of branches that were merged into these."""
    held: set[SnapshotRef] = set()
    # What the snapshots of a branch were made from, read at once.
    sources: dict[str, dict[SnapshotRef, tuple[SnapshotRef, ...]]] = {}
    to_ask = [ref]
    while to_ask:
        each = to_ask.pop()
        if each in held:
            continue
        held.add(each)
        if each.branch not in sources:
            sources[each.branch] = direct_sources(stores, [(*_table(each), each.branch)])
        own = (source for source in sources[each.branch].get(each, ()) if _table(source) == _table(ref))
        to_ask += [*carried_from(known, each), *own]
    return held


def _first(refs: Collection[SnapshotRef], sources: Mapping[SnapshotRef, set[SnapshotRef]]) -> set[SnapshotRef]:
    """Those that were made from none of the others; all, should they go round in a circle."""
    return {ref for ref in refs if sources.get(ref, set()).isdisjoint(refs)} or set(refs)


# Catalog, database and table, whatever the branch.
_Table = tuple[str, str, str]


def _table(ref: SnapshotRef) -> _Table:
    return ref.catalog, ref.database, ref.table


def _name(table: _Table) -> str:
    return ".".join(table)


def _newest(refs: Collection[SnapshotRef], table: _Table) -> SnapshotRef | None:
    """The newest snapshot of a table; those of main count before those of branches."""
    return max(
        (ref for ref in refs if _table(ref) == table),
        key=lambda ref: (ref.branch == "main", ref.snapshot_id),
        default=None,
    )
