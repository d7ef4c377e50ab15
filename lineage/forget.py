"""Forget the lineage of snapshots that are gone, when nobody wants to know any more."""

from collections.abc import Callable, Mapping
from datetime import datetime

from storage import SnapshotRef

from .store import LineageStore


def forget(stores: Mapping[str, LineageStore], before: datetime, is_gone: Callable[[SnapshotRef], bool]) -> int:
    """Delete the barriers committed before a moment (UTC, without time zone) none of whose products can be read any more;
    returns the number of rows deleted.
    """
    barriers: dict[tuple[str, int], bool] = {}
    for catalog, store in stores.items():
        for row in store.snapshots("sink"):
            key = (row.job, row.barrier_id)
            old = row.create_time < before and barriers.get(key, True)
            barriers[key] = old and is_gone(row.ref(catalog))
    by_job: dict[str, list[int]] = {}
    for (job, barrier), gone in barriers.items():
        if gone:
            by_job.setdefault(job, []).append(barrier)
    return sum(store.delete_snapshots(job, ids) for store in stores.values() for job, ids in by_job.items())
