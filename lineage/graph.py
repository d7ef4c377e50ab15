"""Questions about lineage: which snapshots was this one made from, and what did it feed, over any number of hops.

The answer is a graph of snapshots. A snapshot leads to the barriers that produced it, those to the snapshots they
consumed, and so on; each hop asks every catalog's store once for all snapshots of that hop.

A branch begins with a snapshot of main, or has become main: what was made from it there, or read it, is told of main's snapshot,
by that one's name, also if it is in no table any more (`main~20241103T081500123`).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from storage import MAIN_BRANCH, SnapshotRef, TopicRange

from .entities import Side, SnapshotLineage, is_of_main
from .store import LineageStore

Direction = Literal["up", "down"]
# As many keys as any database takes in one statement.
MOST_KEYS = 400


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """`sink` was made from `source` by a job at a barrier."""

    source: SnapshotRef
    sink: SnapshotRef
    job: str
    barrier_id: int


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """What was found from `root` on: edges in order, each once."""

    root: SnapshotRef
    direction: Direction
    edges: tuple[Edge, ...]
    # Upstream: what the snapshots were made from of topics.
    topics: tuple[tuple[SnapshotRef, TopicRange], ...] = ()

    def ranges_of(self, ref: SnapshotRef) -> list[TopicRange]:
        """The records of topics that a snapshot was made from."""
        return [topic_range for sink, topic_range in self.topics if sink == ref]

    def next_to(self, ref: SnapshotRef) -> list[SnapshotRef]:
        """The snapshots one hop further, in order."""
        if self.direction == "up":
            return sorted({edge.source for edge in self.edges if edge.sink == ref})
        return sorted({edge.sink for edge in self.edges if edge.source == ref})

    @property
    def snapshots(self) -> list[SnapshotRef]:
        """All snapshots found, the root left out."""
        refs = {ref for edge in self.edges for ref in (edge.source, edge.sink)}
        return sorted(refs - {self.root})


def trace(
    stores: Mapping[str, LineageStore], ref: SnapshotRef, direction: Direction, hops: int | None = None
) -> LineageGraph:
    """The lineage of a snapshot, upstream or downstream; `hops` None means as far as it goes."""
    near: Side = "sink" if direction == "up" else "source"
    far: Side = "source" if direction == "up" else "sink"
    edges: set[Edge] = set()
    topics: set[tuple[SnapshotRef, TopicRange]] = set()
    seen = {ref}
    # The names of the snapshot that is asked about: also main's, and those on branches that began with it.
    own = {*same_snapshot(stores, ref), ref} if direction == "down" else {ref}
    # The names of one snapshot on branches that began with it, by the name that is told.
    named_refs: dict[SnapshotRef, SnapshotRef] = dict.fromkeys(own, ref)
    frontier = [ref]
    while frontier and (hops is None or hops > 0):
        hops = None if hops is None else hops - 1
        reached: set[SnapshotRef] = set()
        barriers: dict[tuple[str, int], list[SnapshotRef]] = {}
        if direction == "down":
            named_refs.update(named_by_main(stores, frontier) | dict.fromkeys(own, ref))
        asked = {*frontier, *(each for each, name in named_refs.items() if name in frontier)}
        for row, ref_met in rows_of(stores, near, sorted(asked)):
            barriers.setdefault((row.job, row.barrier_id), []).append(named_refs.get(ref_met, ref_met))
        if direction == "up":
            topics |= _ranges_at(stores, barriers)
        met = [(row, row.ref(catalog)) for catalog, store in stores.items() for row in rows_at(store, far, barriers)]
        named_refs.update(named_by_main(stores, on_branches(other for _, other in met)) | dict.fromkeys(own, ref))
        for row, ref_met in met:
            other = named_refs.get(ref_met, ref_met) if ref_met != ref else ref_met
            for near_one in barriers[row.job, row.barrier_id]:
                if other != near_one:
                    source, sink = (other, near_one) if direction == "up" else (near_one, other)
                    edges.add(Edge(source, sink, row.job, row.barrier_id))
            reached.add(other)
        frontier = sorted(reached - seen)
        seen |= reached
    return LineageGraph(ref, direction, tuple(sorted(edges)), tuple(sorted(topics)))


def _ranges_at(
    stores: Mapping[str, LineageStore], barriers: Mapping[tuple[str, int], list[SnapshotRef]]
) -> set[tuple[SnapshotRef, TopicRange]]:
    """What the barriers of snapshots consumed of topics, by snapshot."""
    ids_by_job: dict[str, list[int]] = {}
    for job, barrier in barriers:
        ids_by_job.setdefault(job, []).append(barrier)
    return {
        (sink, row.range_in(catalog))
        for catalog, store in stores.items()
        for job, ids in ids_by_job.items()
        for start in range(0, len(ids), MOST_KEYS)
        for row in store.offsets(job=job, barrier_id=ids[start : start + MOST_KEYS])
        for sink in barriers[row.job, row.barrier_id]
    }


def same_snapshot(stores: Mapping[str, LineageStore], ref: SnapshotRef) -> set[SnapshotRef]:
    """The other names of a snapshot that a branch has with main, and so have the branches that began with it."""
    names = named_by_main(stores, [ref])
    main = names.get(ref, ref)
    return {main, *(each for each, name in names.items() if name == main)} - {ref}


def on_branches(refs: Iterable[SnapshotRef]) -> set[SnapshotRef]:
    """Those of some snapshots that may have a name of main's besides."""
    return {ref for ref in refs if ref.branch != MAIN_BRANCH}


def named_by_main(stores: Mapping[str, LineageStore], refs: Iterable[SnapshotRef]) -> dict[SnapshotRef, SnapshotRef]:
    """For snapshots that main has, or had, and branches as well, the names on branches with main's: the same barrier made them,
    under the same number, at the same time.
    """
    barriers: dict[tuple[str, int], list[SnapshotRef]] = {}
    for row, ref_met in rows_of(stores, "sink", refs):
        barriers.setdefault((row.job, row.barrier_id), []).append(ref_met)
    main_names: dict[SnapshotRef, SnapshotRef] = {}
    for catalog, store in stores.items():
        same: dict[tuple[object, ...], list[SnapshotRef]] = {}
        for row in rows_at(store, "sink", barriers):
            key = (row.job, row.barrier_id, row.database, row.table, row.snapshot_id, row.create_time)
            same.setdefault(key, []).append(row.ref(catalog))
        for names in same.values():
            main = min(filter(is_of_main, names), default=None)
            if main is not None:
                main_names.update({name: main for name in names if name != main})
    return main_names


def rows_of(
    stores: Mapping[str, LineageStore], side: Side, refs: Iterable[SnapshotRef]
) -> Iterable[tuple[SnapshotLineage, SnapshotRef]]:
    """Rows about the given snapshots, with the snapshot."""
    tables: dict[tuple[str, str, str, str], list[int]] = {}
    for ref in refs:
        tables.setdefault((ref.catalog, ref.database, ref.table, ref.branch), []).append(ref.snapshot_id)
    for (catalog, database, table, branch), ids in tables.items():
        if catalog not in stores:
            continue
        for start in range(0, len(ids), MOST_KEYS):
            chunk = ids[start : start + MOST_KEYS]
            where = {"database": database, "table": table, "branch": branch, "snapshot_id": chunk}
            for row in stores[catalog].snapshots(side, **where):
                yield row, row.ref(catalog)


def rows_at(store: LineageStore, side: Side, barriers: Mapping[tuple[str, int], object]) -> Iterable[SnapshotLineage]:
    """Rows of the given barriers: asked by job, or by barrier where many jobs have the same one, as statements do."""
    by_job: dict[str, list[int]] = {}
    by_barrier: dict[int, list[str]] = {}
    for job, barrier in barriers:
        by_job.setdefault(job, []).append(barrier)
        by_barrier.setdefault(barrier, []).append(job)
    if len(by_barrier) < len(by_job):
        for barrier, jobs in by_barrier.items():
            for start in range(0, len(jobs), MOST_KEYS):
                yield from store.snapshots(side, job=jobs[start : start + MOST_KEYS], barrier_id=barrier)
        return
    for job, ids in by_job.items():
        for start in range(0, len(ids), MOST_KEYS):
            yield from store.snapshots(side, job=job, barrier_id=ids[start : start + MOST_KEYS])


# Catalog, database, table, branch.
_Place = tuple[str, str, str, str]


def rows_about(
    stores: Mapping[str, LineageStore], side: Side, places: Iterable[_Place]
) -> Iterator[tuple[SnapshotLineage, SnapshotRef]]:
    """What lineage knows of the snapshots of some branches as sources, or as sinks, with each snapshot; many tables are asked
    about at once.
    """
    asked = set(places)
    named = sorted({place[:3] for place in asked if place[0] in stores})
    for start in range(0, len(named), MOST_KEYS // 2):
        chunk = named[start : start + MOST_KEYS // 2]
        for catalog in sorted({name[0] for name in chunk}):
            databases = sorted({name[1] for name in chunk if name[0] == catalog})
            tables = sorted({name[2] for name in chunk if name[0] == catalog})
            for row in stores[catalog].snapshots(side, database=databases, table=tables):
                if (catalog, row.database, row.table, row.branch) in asked:
                    yield row, row.ref(catalog)


def sinks_at(
    stores: Mapping[str, LineageStore], places: Iterable[_Place]
) -> Iterator[tuple[SnapshotLineage, SnapshotRef]]:
    """The snapshots of some branches that lineage knows."""
    return rows_about(stores, "sink", places)


def direct_sources(
    stores: Mapping[str, LineageStore], places: Iterable[_Place]
) -> dict[SnapshotRef, tuple[SnapshotRef, ...]]:
    """What each snapshot of some branches was made from directly: as `trace` with one hop tells it of one."""
    barriers: dict[tuple[str, int], list[SnapshotRef]] = {}
    for row, ref in sinks_at(stores, places):
        barriers.setdefault((row.job, row.barrier_id), []).append(ref)
    met = [(row, row.ref(name)) for name, store in stores.items() for row in rows_at(store, "source", barriers)]
    names = named_by_main(stores, on_branches(other for _, other in met))
    sources_of_sinks: dict[SnapshotRef, set[SnapshotRef]] = {}
    for row, ref_met in met:
        for sink in barriers[row.job, row.barrier_id]:
            source = ref_met if ref_met == sink else names.get(ref_met, ref_met)
            if source != sink:
                sources_of_sinks.setdefault(sink, set()).add(source)
    return {sink: tuple(sorted(sources)) for sink, sources in sources_of_sinks.items()}


def neighbour_tables(store: LineageStore, database: str, table: str, direction: Direction) -> list[tuple[str, str]]:
    """Database and name of the tables that jobs read to write this one (up), or write having read it (down)."""
    near: Side = "sink" if direction == "up" else "source"
    far: Side = "source" if direction == "up" else "sink"
    jobs = sorted({row.job for row in store.tables(near, database=database, table=table)})
    tables: set[tuple[str, str]] = set()
    for start in range(0, len(jobs), MOST_KEYS):
        tables |= {(row.database, row.table) for row in store.tables(far, job=jobs[start : start + MOST_KEYS])}
    return sorted(tables)
