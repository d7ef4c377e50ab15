"""The lineage of all tables over a span of time: what a picture of their history is drawn from.

Snapshots are named as `trace` names them: what a branch began with goes by main's name.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from storage import SnapshotRef

from .entities import SnapshotLineage
from .graph import Edge, named_by_main, on_branches, rows_at, rows_of
from .store import LineageStore


@dataclass(frozen=True, slots=True)
class Window:
    """The newest commits up to a moment: `commits` in order of time, and what they were made from.

    `edges` also lead to snapshots that were committed before the window. `has_earlier`: there are commits before it.
    """

    commits: tuple[tuple[SnapshotRef, SnapshotLineage], ...]
    edges: tuple[Edge, ...]
    has_earlier: bool


def window(stores: Mapping[str, LineageStore], limit: int, until: datetime | None = None) -> Window:
    """The newest commits in all catalogs, at most `limit` of them, at or before a moment (UTC, without time zone)."""
    rows = [(catalog, row) for catalog, store in stores.items() for row in store.newest(limit + 1, until)]
    rows.sort(key=lambda each: each[1].create_time)
    has_earlier = len(rows) > limit
    rows = rows[-limit:]
    barriers: dict[tuple[str, int], list[SnapshotRef]] = {}
    for catalog, row in rows:
        barriers.setdefault((row.job, row.barrier_id), []).append(row.ref(catalog))
    sources = [
        (row, row.ref(catalog)) for catalog, store in stores.items() for row in rows_at(store, "source", barriers)
    ]
    names = named_by_main(stores, on_branches([*(row.ref(name) for name, row in rows), *(ref for _, ref in sources)]))
    edges: dict[Edge, None] = {}
    for row, ref in sources:
        for sink in barriers[row.job, row.barrier_id]:
            source, made = names.get(ref, ref), names.get(sink, sink)
            if source != made:
                edges[Edge(source, made, row.job, row.barrier_id)] = None
    commits: dict[SnapshotRef, SnapshotLineage] = {}
    for catalog, row in rows:
        ref = row.ref(catalog)
        commits.setdefault(names.get(ref, ref), row)
    return Window(tuple(commits.items()), tuple(edges), has_earlier)


def made_from(stores: Mapping[str, LineageStore], refs: Iterable[SnapshotRef]) -> tuple[Edge, ...]:
    """What many snapshots were made from directly, asked at once."""
    barriers: dict[tuple[str, int], list[SnapshotRef]] = {}
    for row, ref in rows_of(stores, "sink", refs):
        barriers.setdefault((row.job, row.barrier_id), []).append(ref)
    edges: dict[Edge, None] = {}
    for catalog, store in stores.items():
        for row in rows_at(store, "source", barriers):
            source = row.ref(catalog)
            for sink in barriers[row.job, row.barrier_id]:
                if source != sink:
                    edges[Edge(source, sink, row.job, row.barrier_id)] = None
    return tuple(edges)
