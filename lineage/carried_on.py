"""Which snapshots hold what another one held without having been made from it: the same one by another name, and those that
came after it where it is in no table any more.

A branch begins with a snapshot that has the same job, barrier, number and time on both sides, which says where a branch was
forked off that has been dropped, or that is main by now. A snapshot whose number was given again (`main~20241103T081500123`) came
after the last one of its branch that had been committed by then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from storage import SnapshotRef

from .entities import moment_of_ms, replaced_branch, was_replaced
from .graph import MOST_KEYS
from .store import LineageStore

# Catalog, database, table.
_Name = tuple[str, str, str]
# Catalog, database, table, branch.
_Place = tuple[str, str, str, str]


class KnownSnapshots:
    """What lineage knows of the snapshots of tables, each table asked once."""

    def __init__(self, stores: Mapping[str, LineageStore]) -> None:
        self._stores = stores
        self._tables: dict[_Name, _KnownTable] = {}

    def read(self, names: Iterable[_Name]) -> None:
        """Ask about many tables at once."""
        new = sorted({name for name in names if name[0] in self._stores} - self._tables.keys())
        for catalog in sorted({name[0] for name in new}):
            asked = [name for name in new if name[0] == catalog]
            for start in range(0, len(asked), MOST_KEYS // 2):
                self._read(catalog, asked[start : start + MOST_KEYS // 2])

    def _read(self, catalog: str, names: list[_Name]) -> None:
        tables = {name: _KnownTable() for name in names}
        where = {"database": sorted({name[1] for name in names}), "table": sorted({name[2] for name in names})}
        store = self._stores[catalog]
        for row in store.snapshots("sink", **where):
            if (table := tables.get((catalog, row.database, row.table))) is not None:
                table.add(row.ref(catalog), (row.job, row.barrier_id, row.snapshot_id, row.create_time))
        for row in store.snapshots("source", **where):
            if (table := tables.get((catalog, row.database, row.table))) is not None:
                table.add(row.ref(catalog))
        self._tables |= tables

    def names(self, ref: SnapshotRef) -> set[SnapshotRef]:
        """The other names of a snapshot."""
        return self.of(ref).names(ref)

    def of(self, ref: SnapshotRef) -> "_KnownTable":
        """What is known of the table of a snapshot."""
        name = (ref.catalog, ref.database, ref.table)
        self.read([name])
        return self._tables.get(name) or _KnownTable()


class _KnownTable:
    """The snapshots of all branches of a table, as far as lineage knows them, without their times in the reference."""

    def __init__(self) -> None:
        # By branch; of a job that did not say it, a time is not known.
        self._times: dict[str, dict[SnapshotRef, datetime | None]] = {}
        self._keys: dict[SnapshotRef, set[tuple[object, ...]]] = {}
        self._named: dict[tuple[object, ...], set[SnapshotRef]] = {}

    def add(self, ref: SnapshotRef, key: tuple[object, ...] | None = None) -> None:
        """A snapshot; of a sink `key`, which is that of the same one by another name."""
        bare = _bare(ref)
        times = self._times.setdefault(ref.branch, {})
        times[bare] = times.get(bare) or (None if ref.time_ms is None else moment_of_ms(ref.time_ms))
        if key is not None:
            self._keys.setdefault(bare, set()).add(key)
            self._named.setdefault(key, set()).add(bare)

    def since(self, ref: SnapshotRef) -> list[SnapshotRef]:
        """A snapshot, and those after it on its branch."""
        return [snapshot for snapshot in self._times.get(ref.branch, ()) if snapshot.snapshot_id >= ref.snapshot_id]

    def names(self, ref: SnapshotRef) -> set[SnapshotRef]:
        """The other names of a snapshot."""
        name_sets = (self._named[key] for key in self._keys.get(_bare(ref), ()))
        return set().union(*name_sets) - {_bare(ref)}

    def before(self, ref: SnapshotRef) -> SnapshotRef | None:
        """The snapshot that one came after; of one that has its number, the last of the branch with a lower one."""
        if was_replaced(ref):
            return self._before_replaced.get(_bare(ref))
        earlier = (snapshot for snapshot in self._times.get(ref.branch, ()) if snapshot.snapshot_id < ref.snapshot_id)
        return max(earlier, key=lambda snapshot: snapshot.snapshot_id, default=None)

    def after(self, ref: SnapshotRef) -> Sequence[SnapshotRef]:
        """The snapshots that came after one, and whose numbers were given again."""
        return self._after.get(_bare(ref), ())

    @cached_property
    def _after(self) -> dict[SnapshotRef, list[SnapshotRef]]:
        after: dict[SnapshotRef, list[SnapshotRef]] = {}
        for ref, before in self._before_replaced.items():
            after.setdefault(before, []).append(ref)
        return after

    @cached_property
    def _before_replaced(self) -> dict[SnapshotRef, SnapshotRef]:
        by_branch: dict[str, list[tuple[datetime, SnapshotRef]]] = {}
        for branch, times in self._times.items():
            name = replaced_branch(branch, datetime.min).partition("~")[0]
            by_branch.setdefault(name, []).extend(
                (time, snapshot) for snapshot, time in times.items() if time is not None
            )
        return {
            ref: before
            for listed in by_branch.values()
            for time, ref in listed
            if was_replaced(ref) and (before := self._last(ref, time, listed)) is not None
        }

    def _last(
        self, ref: SnapshotRef, time: datetime, listed: Sequence[tuple[datetime, SnapshotRef]]
    ) -> SnapshotRef | None:
        """The last snapshot of a branch before one that was committed at a time. Of several with one number, what has another
        name as well came to the branch when another one took its place.
        """
        earlier: dict[int, list[tuple[datetime, SnapshotRef]]] = {}
        for moment, snapshot in listed:
            if snapshot.snapshot_id < ref.snapshot_id and moment <= time:
                earlier.setdefault(snapshot.snapshot_id, []).append((moment, snapshot))
        last = (
            max([each for each in same if was_replaced(each[1]) or not self.names(each[1])] or same)
            for same in earlier.values()
        )
        return max(last, default=(time, None))[1]


def carried_on(known: KnownSnapshots, firsts: Mapping[_Place, int]) -> dict[_Place, int]:
    """For all branches that hold what some hold from a snapshot on, by the same name or another, their first such snapshot."""
    known.read(place[:3] for place in firsts)
    earliest = dict(firsts)
    to_follow = [SnapshotRef(*place, number) for place, number in firsts.items()]
    while to_follow:
        start = to_follow.pop()
        table = known.of(start)
        for ref in table.since(start):
            for other in (*table.names(ref), *table.after(ref)):
                place = (other.catalog, other.database, other.table, other.branch)
                if place not in earliest or other.snapshot_id < earliest[place]:
                    earliest[place] = other.snapshot_id
                    to_follow.append(other)
    return earliest


def carried_from(known: KnownSnapshots, ref: SnapshotRef) -> set[SnapshotRef]:
    """The other names of a snapshot, and the one that it came after."""
    table = known.of(ref)
    before = table.before(ref)
    return table.names(ref) if before is None else {*table.names(ref), before}


def _bare(ref: SnapshotRef) -> SnapshotRef:
    return ref if ref.time_ms is None else replace(ref, time_ms=None)
