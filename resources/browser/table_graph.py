"""Which tables are made from which, with what there is to say of each: the newest snapshot, its rows, how far it is behind."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lineage import made_from
from storage import BranchHistory, InvalidRequest, Snapshot, SnapshotRef

from .facts import Place, Platform, place_of
from .view import is_named

# So many changes of a table tell what it is made from.
_LOOKED_AT = 10
# Of a table that was changed more often by conditions on itself, it is not told how far it is behind.
_MOST_STEPS = 100
# Graphs that are kept.
_KEPT = 4
# Catalog, database, table.
Name = tuple[str, str, str]
_Sources = Mapping[SnapshotRef, Iterable[SnapshotRef]]


@dataclass(frozen=True, slots=True)
class TableNode:
    """A table, or with `members` a whole database as one. `latest`: the newest snapshot that changed rows; `rows`: how many
    the table has, None where metadata do not tell; `records`: those of its files, of which rows of one key are merged.

    `behind`: how many changes of the tables that it was made from directly came after what it was made from, tables that are
    gone left out for what those were made from; None if it says of none. `sources_behind`: how many tables before it, over any
    number of hops, are behind themselves. `recoveries`: those that are open. `state`:
    `dropped`, `damaged`, or empty.
    """

    name: Name
    latest: SnapshotRef | None = None
    time_ms: int | None = None
    rows: int | None = None
    behind: int | None = None
    branches: tuple[str, ...] = ()
    tags: int = 0
    recoveries: tuple[str, ...] = ()
    state: str = ""
    members: int = 0
    records: int = 0
    sources_behind: int = 0

    @property
    def shown(self) -> str:
        """`db.t`, with the catalog before it if that is not the default one; a folded database as `db (12)`."""
        catalog, database, table = self.name
        text = f"{database} ({self.members} tables)" if self.members else f"{database}.{table}"
        return text if catalog == "snapline" else f"{catalog}.{text}"


@dataclass(frozen=True, slots=True)
class TableGraph:
    """Tables, and pairs of them: what was read, what was made of it."""

    nodes: tuple[TableNode, ...]
    edges: tuple[tuple[Name, Name], ...]

    @property
    def databases(self) -> list[str]:
        """`catalog.db` of all tables, numbers in their names in the order of numbers."""
        return sorted({f"{node.name[0]}.{node.name[1]}" for node in self.nodes}, key=_natural)

    def around(self, focus: str, hops: int | None, direction: str) -> "TableGraph":
        """A table, `catalog.db.t`, with what is so many hops away. Raises InvalidRequest for one that is not there."""
        start = next((node.name for node in self.nodes if ".".join(node.name) == focus), None)
        if start is None:
            raise InvalidRequest(f"There is no table {focus[:200]!r}. Tables are named like snapline.db.t.")
        names = {start}
        for near, way in ((1, "up"), (0, "down")):
            if direction in (way, "both"):
                names |= _reached(start, self._following(near), hops)
        return self._only(names)

    def with_sources_behind(self) -> "TableGraph":
        """The same, each table with how many of those before it are behind."""
        behind = {node.name for node in self.nodes if node.behind}
        if not behind:
            return self
        sources = self._following(1)
        before = {node.name: _reached(node.name, sources, None) - {node.name} for node in self.nodes}
        nodes = (replace(node, sources_behind=len(before[node.name] & behind)) for node in self.nodes)
        return replace(self, nodes=tuple(nodes))

    def matching(self, text: str) -> "TableGraph":
        """The tables whose name contains a text."""
        return self._only({node.name for node in self.nodes if is_named(node.name, text)})

    def sorted_by(self, column: str) -> "TableGraph":
        """The same with its tables in the order of a column, by the names of `View`; what has no value comes last."""
        if not column:
            return self
        value, is_falling = _VALUES[column.removeprefix("-")], column.startswith("-")
        known = [node for node in self.nodes if value(node) is not None]
        listed = sorted(known, key=lambda node: value(node), reverse=is_falling)
        return replace(self, nodes=(*listed, *(node for node in self.nodes if value(node) is None)))

    def folded(self, databases: Iterable[str]) -> "TableGraph":
        """With these databases as one node each."""
        wanted = set(databases)

        def folds(name: Name) -> Name:
            return (name[0], name[1], "") if f"{name[0]}.{name[1]}" in wanted else name

        nodes: dict[Name, TableNode] = {}
        for node in self.nodes:
            name = folds(node.name)
            if name == node.name:
                nodes[name] = node
            else:
                nodes[name] = TableNode(name, members=nodes[name].members + 1 if name in nodes else 1)
        edges = sorted({(folds(source), folds(sink)) for source, sink in self.edges})
        return TableGraph(tuple(nodes.values()), tuple(edge for edge in edges if edge[0] != edge[1]))

    def _only(self, names: set[Name]) -> "TableGraph":
        edges = tuple(edge for edge in self.edges if edge[0] in names and edge[1] in names)
        return replace(self, nodes=tuple(node for node in self.nodes if node.name in names), edges=edges)

    def _following(self, near: int) -> dict[Name, list[Name]]:
        """For each table those at the other end of its edges; `near`: which end is its own."""
        following: dict[Name, list[Name]] = {}
        for edge in self.edges:
            following.setdefault(edge[near], []).append(edge[1 - near])
        return following


def _reached(start: Name, following: Mapping[Name, Sequence[Name]], hops: int | None) -> set[Name]:
    seen = {start}
    frontier = {start}
    while frontier and (hops is None or hops > 0):
        hops = None if hops is None else hops - 1
        frontier = {other for name in frontier for other in following.get(name, ())} - seen
        seen |= frontier
    return seen


# What tables are listed by; None where a cell is empty.
_VALUES: Mapping[str, Callable[[TableNode], Any]] = {
    "table": lambda node: _natural(node.shown),
    "change": lambda node: node.latest and node.latest.snapshot_id,
    "committed": lambda node: node.time_ms,
    "rows": lambda node: node.rows,
    "records": lambda node: node.records if node.latest else None,
    "behind": lambda node: node.behind,
    "branches": lambda node: len(node.branches) or None,
    "tags": lambda node: node.tags or None,
    "recoveries": lambda node: node.recoveries or None,
}


def table_graph(platform: Platform, at_ms: int | None = None) -> TableGraph:
    """All tables as they are, or were at a moment; those that lineage alone knows are `dropped`."""
    edges, names, sources = _edges(platform, at_ms)
    names |= {name for edge in edges for name in edge}
    names |= {place[:3] for place in platform.branches}
    names |= {place[:3] for place in platform.troubles if isinstance(place, tuple)}
    branches: dict[Name, list[str]] = {}
    for place in platform.branches:
        if place[3] != "main":
            branches.setdefault(place[:3], []).append(place[3])
    nodes = (_node(platform, name, tuple(sorted(branches.get(name, ()))), at_ms, sources) for name in sorted(names))
    kept = tuple(node for node in nodes if at_ms is None or node.latest is not None)
    shown = {node.name for node in kept}
    graph = TableGraph(kept, tuple(sorted(edge for edge in edges if edge[0] in shown and edge[1] in shown)))
    return graph.with_sources_behind()


class TableGraphs:
    """The graphs that were read last, for as long as the platform is the same."""

    def __init__(self) -> None:
        self._platform: Platform | None = None
        self._read: dict[int | None, TableGraph] = {}

    def read(self, platform: Platform, at_ms: int | None) -> TableGraph:
        """As `table_graph`."""
        # Two threads that meet here read the same twice.
        kept = dict(self._read) if platform is self._platform else {}
        if at_ms not in kept:
            kept[at_ms] = table_graph(platform, at_ms)
            self._platform, self._read = platform, dict(list(kept.items())[-_KEPT:])
        return kept[at_ms]


def _edges(platform: Platform, at_ms: int | None) -> tuple[set[tuple[Name, Name]], set[Name], _Sources]:
    """Which tables the newest snapshots of each were made from, all tables that lineage knows, and those snapshots' sources."""
    newest = [ref for place, history in platform.branches.items() for ref in _changes(place, history, at_ms)]
    edges: set[tuple[Name, Name]] = set()
    sources: dict[SnapshotRef, list[SnapshotRef]] = {}
    for edge in made_from(platform.stores, newest):
        edges.add((_table(edge.source), _table(edge.sink)))
        sources.setdefault(edge.sink, []).append(edge.source)
    _add_earlier(platform, sources)
    names: set[Name] = set()
    read: dict[str, set[Name]] = {}
    written: list[tuple[str, Name]] = []
    for catalog, store in platform.stores.items():
        for row in store.tables("source"):
            read.setdefault(row.job, set()).add((catalog, row.database, row.table))
        written += [(row.job, (catalog, row.database, row.table)) for row in store.tables("sink")]
    for job, sink in written:
        names.add(sink)
        if (*sink, "main") not in platform.branches:
            # Of what is gone, only its jobs tell.
            edges |= {(source, sink) for source in read.get(job, ())}
    return {edge for edge in edges if edge[0] != edge[1]}, names, sources


def _add_earlier(platform: Platform, sources: dict[SnapshotRef, list[SnapshotRef]]) -> None:
    """What snapshots were made from that others only went on from: those of a table that is gone, or is another one now, and
    earlier ones of the same table. What came of them is as far behind as they are.
    """
    sinks: Iterable[SnapshotRef] = list(sources)
    for _ in range(_MOST_STEPS):
        pending = {
            source
            for sink in sinks
            for source in sources[sink]
            if source not in sources and (_table(source) == _table(sink) or _is_gone(platform, source))
        }
        if not pending:
            return
        sources |= {ref: [] for ref in pending}
        for edge in made_from(platform.stores, pending):
            sources[edge.sink].append(edge.source)
        sinks = pending


def _is_gone(platform: Platform, ref: SnapshotRef) -> bool:
    return "~" in ref.branch or place_of(ref) not in platform.branches


def _changes(place: Place, history: BranchHistory, at_ms: int | None) -> list[SnapshotRef]:
    changes = [
        snapshot
        for snapshot in history.snapshots
        if snapshot.changes_rows and (at_ms is None or snapshot.time_ms <= at_ms)
    ]
    return [SnapshotRef(*place, change.id, change.time_ms) for change in changes[-_LOOKED_AT:]]


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", text)]


def _table(ref: SnapshotRef) -> Name:
    return ref.catalog, ref.database, ref.table


def _node(platform: Platform, name: Name, branches: tuple[str, ...], at_ms: int | None, sources: _Sources) -> TableNode:
    main = platform.branches.get((*name, "main"))
    if main is None:
        return TableNode(name, state=platform.fate(SnapshotRef(*name, "main", 1)))
    snapshot = _newest(main, at_ms)
    if snapshot is None:
        return TableNode(name, branches=branches)
    ref = SnapshotRef(*name, "main", snapshot.id, snapshot.time_ms)
    tags = [tag for tag in main.tags if tag.is_of_its_branch and (at_ms is None or tag.was_there(at_ms))]
    latest = _latest(main, snapshot, at_ms)
    is_newest = latest is main.snapshots[-1]
    return TableNode(
        name,
        ref,
        snapshot.time_ms,
        platform.rows.get((*name, "main")) if is_newest else None,
        _behind(platform, ref, sources, at_ms),
        branches,
        len(tags),
        platform.recoveries.get(name, ()),
        records=latest.total_record_count,
    )


def _latest(history: BranchHistory, change: Snapshot, at_ms: int | None) -> Snapshot:
    """The snapshot that a table has after its newest change: a compaction leaves other records of the same rows."""
    later = (snapshot for snapshot in reversed(history.snapshots) if at_ms is None or snapshot.time_ms <= at_ms)
    return next(later, change)


def _newest(history: BranchHistory, at_ms: int | None) -> Snapshot | None:
    """The newest change; where all that changed rows have expired, the earliest snapshot that has those rows."""
    there = [snapshot for snapshot in history.snapshots if at_ms is None or snapshot.time_ms <= at_ms]
    return next((snapshot for snapshot in reversed(there) if snapshot.changes_rows), there[0] if there else None)


def _behind(platform: Platform, made: SnapshotRef, sources: _Sources, at_ms: int | None) -> int | None:
    """How many changes of its sources came after what a snapshot was made from. What was changed by a condition was made from an
    earlier snapshot of itself, which it is not behind: then the sources of that one count. So do those of a source that is gone,
    unless its table was read as well as it is now: as after the publication of a recovery.
    """
    newest_read: dict[Place, int] = {}
    seen = {made}
    reached, gone = [made], list[SnapshotRef]()
    while reached:
        for ref in sources.get(reached.pop(), ()):
            if _table(ref) == _table(made):
                if ref not in seen:
                    seen.add(ref)
                    reached.append(ref)
            elif _is_gone(platform, ref):
                gone.append(ref)
            else:
                place = place_of(ref)
                newest_read[place] = max(newest_read.get(place, 0), ref.snapshot_id)
        if not reached:
            read = {place[:3] for place in newest_read}
            reached = list({ref for ref in gone if ref not in seen and _table(ref) not in read})
            seen.update(reached)
            gone = []
    if len(seen) == 1 and not newest_read:
        return None
    return sum(
        later.changes_rows and later.id > number and (at_ms is None or later.time_ms <= at_ms)
        for place, number in newest_read.items()
        for later in platform.branches[place].snapshots
    )
