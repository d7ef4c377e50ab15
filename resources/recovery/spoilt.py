"""Whether the rows that a table has now still come from a bad snapshot: what was repaired, taken back or made anew does not.

Everything from the bad snapshot of a table on is bad, until main is rolled back behind it, or a recovery that corrected it is
published: such a commit says so itself (`REPAIRS_PROPERTY`), so that it is known when the recovery is long dropped. A table
made from others is spoilt if a snapshot that some of its rows come from read one that was. What is in no table any more, with a
branch that was dropped or a main that was replaced, is taken to hold what came before it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

from lineage import KnownSnapshots, LineageStore, carried_from, direct_sources, is_of_main, trace, was_replaced
from storage import CorruptData, InvalidRequest, NotFound, Snapshot, SnapshotRef, whole_number

from ..session import Session
from ..warehouse.forks import Forks
from .read_once import ReadOnce, TablesReadOnce
from .record import PUBLISHED, RecoveryRecord, read_record

# JSON: the recovery, the bad snapshot (`db.t@2`), and until which snapshot of that table main's rows are corrected.
REPAIRS_PROPERTY = "snapline.repairs"
# Catalog, database, table, branch.
_Place = tuple[str, str, str, str]
ROLLED_BACK = "snapline.rolled-back-to"


def repairs_property(recovery: str, bad: str, until: int) -> dict[str, str]:
    """The property of a commit that puts right what a bad snapshot has spoilt."""
    return {REPAIRS_PROPERTY: json.dumps({"recovery": recovery, "bad": bad, "until": until})}


def _place(ref: SnapshotRef) -> _Place:
    return ref.catalog, ref.database, ref.table, ref.branch


def _added_rows(snapshot: Snapshot) -> bool:
    """Whether rows are in a table that a snapshot wrote itself: one with more records than before, that went back to none."""
    return (snapshot.delta_record_count or 0) > 0 and snapshot.changes_rows and snapshot.number(ROLLED_BACK) is None


def _covers(bad: str, until: int, ref: SnapshotRef) -> bool:
    """Whether who corrected a table from a bad snapshot (`db.t@2`) until another one has corrected that of `ref`. Raises
    ValueError.
    """
    name, _, first = bad.rpartition("@")
    return name == ref.table_name and int(first) <= ref.snapshot_id <= until


class Spoilt:
    """Answers about one bad snapshot of main."""

    def __init__(
        self,
        session: Session,
        bad: SnapshotRef,
        stores: Mapping[str, LineageStore] | None = None,
        forks: Forks | None = None,
    ) -> None:
        self._session, self._bad = session, bad
        self._stores = session.stores_to_ask(bad.catalog) if stores is None else stores
        self._lineage = KnownSnapshots(self._stores)
        self._known: dict[tuple[str, str, int], bool] = {}
        # What the snapshots of branches were made from, and of which branches it has been read.
        self._sources: dict[SnapshotRef, Sequence[SnapshotRef]] = {}
        self._read: set[_Place] = set()
        self._forks = forks or Forks(session.catalog_of)
        self._recoveries: dict[str, RecoveryRecord | None] = {}
        self._tables = TablesReadOnce(session.catalog.table)
        # What the rows of snapshots come from, by table, and by the snapshot after which it had to come.
        self._makers: dict[tuple[str, int], dict[int, bool]] = {}

    def table(self, name: str) -> ReadOnce:
        """A table of the warehouse, or a branch of one, opened once. Raises NotFound."""
        return self._tables[name]

    def sources(self, ref: SnapshotRef) -> Sequence[SnapshotRef]:
        """What a snapshot was made from directly, as lineage says."""
        place = _place(ref)
        if place not in self._read:
            # What its neighbours were made from will be asked for next.
            self.read([place, *(_place(source) for sources in self._sources.values() for source in sources)])
        return self._sources.get(ref, ())

    def read(self, places: Iterable[_Place]) -> None:
        """Read at once what the snapshots of some branches were made from, since it will be asked for."""
        new = set(places) - self._read
        if new:
            self._sources |= direct_sources(self._stores, new)
            self._read |= new

    def is_spoilt(self, ref: SnapshotRef) -> bool:
        """Whether rows of a table at a snapshot come from the bad one, over any number of hops."""
        ref = self._where_it_was_made(ref)
        key = (ref.catalog, ref.table_name, ref.snapshot_id)
        if key not in self._known:
            # Nothing is made from itself: should lineage say so, it adds nothing.
            self._known[key] = False
            if self._is_of_bad(ref):
                self._known[key] = self._is_bad(ref)
            else:
                self._known[key] = not self._is_corrected(ref) and self._comes_from_bad(ref)
        return self._known[key]

    def _where_it_was_made(self, ref: SnapshotRef) -> SnapshotRef:
        """The snapshot on the branch that made it: one forked off it has its snapshots up to the one that it began with."""
        while ref.branch != "main" and "~" not in ref.branch:
            begun_at = self._forks.begun_at(_place(ref))
            if begun_at is None or ref.snapshot_id > begun_at[1]:
                break
            ref = replace(ref, branch=begun_at[0])
        return ref

    @cached_property
    def _bad_places(self) -> set[_Place]:
        """The branches that have the bad snapshot by that name, or by one of main's, which what a branch had that became main has
        as well.
        """
        return {_place(self._bad), *map(_place, filter(is_of_main, self._lineage.names(self._bad)))}

    def _is_of_bad(self, ref: SnapshotRef) -> bool:
        return _place(ref) in self._bad_places

    def _is_bad(self, ref: SnapshotRef) -> bool:
        """Whether the bad table was still bad at one of its own snapshots."""
        if ref.snapshot_id < self._bad.snapshot_id:
            return False
        if was_replaced(ref):
            # It is in no table any more, and nothing puts it right.
            return True
        number = ref.snapshot_id
        try:
            table = self.table(ref.table_name)
        except NotFound:
            # It was dropped: nothing has put it right.
            return True
        for snapshot in table.backwards():
            if snapshot.id > number:
                continue
            if snapshot.id <= self._bad.snapshot_id:
                return number >= self._bad.snapshot_id
            if self.repair(snapshot):
                return self._came_back(ref, table, snapshot.id)
            target = whole_number((snapshot.properties or {}).get(ROLLED_BACK, ""))
            if target is not None:
                if target < self._bad.snapshot_id:
                    return self._came_back(ref, table, snapshot.id)
                # Its rows are those of the snapshot that it went back to.
                number = target
        return True

    def _came_back(self, ref: SnapshotRef, table: ReadOnce, good_at: int) -> bool:
        """Whether rows that were put right by one snapshot of the bad table came in again by a later one, out of a table that was
        made from the bad ones.
        """
        try:
            answers = self._makers.setdefault((ref.table_name, good_at), {})
            return table.has_contributor(ref, self._was_made_from_bad, answers, good_at)
        except InvalidRequest:
            # It has expired: what lineage knows of it is all there is.
            return self._was_made_from_bad(ref)

    def _is_corrected(self, ref: SnapshotRef) -> bool:
        """Whether it is what a recovery on a branch has corrected."""
        record = self._recovery(ref)
        table = None if record is None else record.tables.get(f"{ref.database}.{ref.table}")
        return table is not None and table.corrected and ref.snapshot_id > (table.branch_at or 0)

    def recovery_on(self, ref: SnapshotRef) -> str:
        """The recovery from the bad snapshot, or from an earlier one, that a branch belongs to, or empty."""
        record = self._recovery(ref)
        return "" if record is None else record.branch

    def is_in_open_recovery(self, ref: SnapshotRef) -> bool:
        """Whether a branch belongs to such a recovery that is not published: what is right there is not on main yet."""
        record = self._recovery(ref)
        return record is not None and record.status != PUBLISHED

    def _recovery(self, ref: SnapshotRef) -> RecoveryRecord | None:
        if ref.branch == "main" or ref.catalog != self._bad.catalog:
            return None
        if ref.branch not in self._recoveries:
            try:
                self._recoveries[ref.branch] = read_record(self._session.catalog, ref.branch)
            except CorruptData:
                # It says nothing: `snapline check` names it.
                self._recoveries[ref.branch] = None
        record = self._recoveries[ref.branch]
        if record is None:
            return None
        corrected = record.tables.get(f"{self._bad.database}.{self._bad.table}")
        until = None if corrected is None else corrected.main
        return record if until is not None and _covers(record.bad, until, self._bad) else None

    def _comes_from_bad(self, ref: SnapshotRef) -> bool:
        if ref.catalog == self._bad.catalog:
            try:
                table = self.table(ref.table_name)
                own = table.find(ref.snapshot_id)
                if own is not None and _added_rows(own) and not self.repair(own) and self._was_made_from_bad(ref):
                    # Its own rows are there: those of earlier ones need not be looked at.
                    return True
                # Lineage knows the sources by the names that they have now; what a snapshot says of them itself is as old as it
                # is.
                answers = self._makers.setdefault((ref.table_name, 0), {})
                return table.has_contributor(ref, self._brought_bad_rows, answers)
            except NotFound:
                # It was dropped, or another one has its number: what lineage knows is all there is.
                return self._is_gone_with_bad_rows(ref)
            except InvalidRequest:
                # It has expired: here too.
                return self._was_made_from_bad(ref)
        return self._was_made_from_bad(ref)

    def _is_gone_with_bad_rows(self, ref: SnapshotRef) -> bool:
        """Whether one that is in no table any more, or one that it came after, was bad or was made from what was."""
        seen: set[SnapshotRef] = set()
        to_ask = [replace(ref, time_ms=None)]
        while to_ask:
            each = to_ask.pop()
            if each in seen:
                continue
            seen.add(each)
            if self._was_published(each):
                continue
            if each != ref and (self._is_of_bad(each) or self._is_there(each)):
                if self.is_spoilt(each):
                    return True
            elif self._was_made_from_bad(each):
                return True
            else:
                to_ask += carried_from(self._lineage, each)
        return False

    def _was_published(self, ref: SnapshotRef) -> bool:
        """Whether what a branch held that is gone is what a repair brought to main: then it was right."""
        if ref.catalog != self._bad.catalog:
            return False
        taken = [
            sink
            for sink in trace(self._stores, ref, "down", 1).snapshots
            if _place(sink) == (ref.catalog, ref.database, ref.table, "main")
        ]
        with suppress(NotFound):
            main = self.table(f"{ref.database}.{ref.table}")
            candidates = [main.find(sink.snapshot_id) for sink in taken]
            return any(snapshot is not None and self.repair(snapshot) for snapshot in candidates)
        return False

    def _is_there(self, ref: SnapshotRef) -> bool:
        try:
            return (
                self._session.catalog_of(ref.catalog).table(ref.table_name).snapshots.find(ref.snapshot_id) is not None
            )
        except NotFound:
            return False

    def _brought_bad_rows(self, maker: SnapshotRef) -> bool:
        made = self._where_it_was_made(maker)
        snapshot = self.table(made.table_name).find(made.snapshot_id)
        if snapshot is not None and self.repair(snapshot):
            return False
        return self._is_bad(made) if self._is_of_bad(made) else self._was_made_from_bad(made)

    def _was_made_from_bad(self, ref: SnapshotRef) -> bool:
        return any(map(self.is_spoilt, self.sources(ref)))

    def repair(self, snapshot: Snapshot) -> str:
        """The recovery that a commit published, if it corrected the bad snapshot."""
        text = (snapshot.properties or {}).get(REPAIRS_PROPERTY)
        if text is None:
            return ""
        try:
            said = json.loads(text)
            return str(said["recovery"]) if _covers(str(said["bad"]), int(said["until"]), self._bad) else ""
        except (ValueError, LookupError, TypeError):
            # Written by somebody else: it proves nothing.
            return ""
