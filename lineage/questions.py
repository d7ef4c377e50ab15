"""Questions that take more than one walk: what a bad snapshot has spoilt, which versions belong together, what two
versions were made from differently, and how far a table is behind.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from storage import SnapshotRef

from .carried_on import KnownSnapshots, carried_on
from .entities import was_replaced
from .graph import rows_about, rows_at, same_snapshot, trace
from .store import LineageStore

Stores = Mapping[str, LineageStore]
# Catalog, database, table, branch.
Place = tuple[str, str, str, str]
# The branches that were forked off a place, each with the number of the snapshot that it began with.
Forks = Callable[[Place], Iterable[tuple[Place, int]]]


def place_of(ref: SnapshotRef) -> Place:
    """The branch of a table that a snapshot is on: what its reference says but for the snapshot id and its time."""
    return ref.catalog, ref.database, ref.table, ref.branch


def impact(stores: Stores, ref: SnapshotRef, forks: Forks = lambda _: ()) -> list[SnapshotRef]:
    """For each table downstream the first snapshot that a bad one, or anything after it, went into; the bad one first.

    A snapshot holds what the ones before it held, so that everything after those is to be looked at too. One that a branch
    has with main is bad on both, and a branch that was forked off later holds what was bad then: what lineage does not know
    of that, `forks` says. Of snapshots of one branch that are in no table any more the first stands for those after it.
    """
    named = same_snapshot(stores, ref) if ref.branch != "main" else set()
    starts = [ref, *(name for name in named if name.branch == "main")]
    first = reached(stores, {place_of(start): start.snapshot_id for start in starts}, forks)
    first_by_branch: dict[Place, SnapshotRef] = {}
    for each in sorted(SnapshotRef(*place, snapshot_id) for place, snapshot_id in first.items()):
        if place_of(each) != place_of(ref):
            # `main~20241103T081500123` comes before what was committed later.
            branch = f"{each.branch.partition('~')[0]}~" if was_replaced(each) else each.branch
            first_by_branch.setdefault((each.catalog, each.database, each.table, branch), each)
    return [ref, *first_by_branch.values()]


def reached(stores: Stores, starts: Mapping[Place, int], forks: Forks = lambda _: ()) -> dict[Place, int]:
    """For each branch that some snapshots, or any after them, went into, the first such snapshot; `starts` are among them."""
    first = dict(starts)
    frontier = dict(first)
    known = KnownSnapshots(stores)
    while frontier:
        downstream = _made_from(stores, frontier)
        for place, number in carried_on(known, frontier).items():
            downstream[place] = min(number, downstream.get(place, number))
        for place, number in frontier.items():
            for branch, begun_at in forks(place):
                if begun_at >= number:
                    downstream[branch] = min(begun_at, downstream.get(branch, begun_at))
        frontier = {
            place: number for place, number in downstream.items() if place not in first or number < first[place]
        }
        first |= frontier
    return first


def _made_from(stores: Stores, firsts: Mapping[Place, int]) -> dict[Place, int]:
    """The first snapshot of each table that was made directly from one of some branches, at a number or a later one."""
    barriers = {
        (row.job, row.barrier_id): True
        for row, ref in rows_about(stores, "source", firsts)
        if row.snapshot_id >= firsts[place_of(ref)]
    }
    first: dict[Place, int] = {}
    for catalog, store in stores.items():
        for row in rows_at(store, "sink", barriers):
            place = place_of(row.ref(catalog))
            first[place] = min(row.snapshot_id, first.get(place, row.snapshot_id))
    return first


@dataclass(frozen=True, slots=True)
class AncestryDifference:
    """Snapshots that only one of two versions was made from."""

    only_first: tuple[SnapshotRef, ...]
    only_second: tuple[SnapshotRef, ...]


def ancestry_difference(stores: Stores, first: SnapshotRef, second: SnapshotRef) -> AncestryDifference:
    """What two versions were made from differently, over any number of hops."""
    first_ancestors, other = (set(trace(stores, ref, "up").snapshots) for ref in (first, second))
    return AncestryDifference(tuple(sorted(first_ancestors - other)), tuple(sorted(other - first_ancestors)))


def aligned(stores: Stores, histories: Sequence[Sequence[SnapshotRef]], source: Place) -> list[SnapshotRef] | None:
    """The newest snapshots of several tables that were made from the same snapshot of a source, one of each table.

    `histories`: the snapshots of each table, newest first. A snapshot that was made from several of the source's counts for
    the newest. None if there is no such set.
    """
    refs_by_version: list[dict[int, SnapshotRef]] = []
    for history in histories:
        made: dict[int, SnapshotRef] = {}
        for ref in history:
            versions = [
                snapshot.snapshot_id for snapshot in trace(stores, ref, "up").snapshots if place_of(snapshot) == source
            ]
            if versions:
                made.setdefault(max(versions), ref)
        refs_by_version.append(made)
    common = set.intersection(*(set(each) for each in refs_by_version)) if refs_by_version else set()
    if not common:
        return None
    newest = max(common)
    return [each[newest] for each in refs_by_version]


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a table is behind one of its sources: the snapshot that it was made from, and the source's newest change."""

    source: SnapshotRef
    newest: SnapshotRef
    snapshots_behind: int
    behind_ms: int


def freshness(
    stores: Stores, ref: SnapshotRef, newest_of: Callable[[SnapshotRef], tuple[SnapshotRef, int, int] | None]
) -> list[Lag]:
    """How far a snapshot is behind the tables that it was made from, over any number of hops, by table.

    `newest_of` gives for a snapshot the newest change of its table, how many changes came after it, and how many
    milliseconds of changes those are; None if the table is gone.
    """
    newest_read: dict[Place, SnapshotRef] = {}
    # What was changed by a condition was made from an earlier snapshot of itself, which it is not behind.
    for each in [snapshot for snapshot in trace(stores, ref, "up").snapshots if place_of(snapshot) != place_of(ref)]:
        known = newest_read.get(place_of(each))
        if known is None or each.snapshot_id > known.snapshot_id:
            newest_read[place_of(each)] = each
    lags = []
    for source in sorted(newest_read.values()):
        newest_change = newest_of(source)
        if newest_change is not None:
            lags.append(Lag(source, *newest_change))
    return lags
