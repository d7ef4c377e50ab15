"""What a bad snapshot has spoilt that is spoilt now, and where each table would be branched to put it right: printable before
anything happens.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from lineage import LineageStore, LineageUnavailable, impact, was_replaced
from storage import InvalidRequest, NotFound, SnapshotRef, StorageError, Table, name_and_version

from ..actions.sentences import short_partition
from ..session import Session
from ..warehouse.catalogs import CATALOG_NAME
from ..warehouse.forks import Forks
from .made_good import MadeGood, made_good
from .spoilt import Spoilt

# full: everything downstream is computed anew. incremental: downstream tables start at their last good snapshot, and only
# what came after it is computed anew.
Mode = Literal["full", "incremental"]
DEFAULT_MODE: Mode = "full"
# More of what stays spoilt is counted, not named.
_NAMED = 5


@dataclass(frozen=True)
class PlannedTable:
    """What is to become of a table.

    `bad`: its first snapshot that is spoilt. `branch_at`: the snapshot that its branch begins with, None for an empty one.
    `head`: its newest change. `partitions`: those to compute anew, by column; None means the whole table. `corrected`: the
    table that the recovery begins with. `gone`: tables that its newest change was made from, and that are not there any more.
    """

    name: str
    bad: int
    branch_at: int | None
    head: int
    partitions: tuple[Mapping[str, Any], ...] | None
    corrected: bool = False
    gone: tuple[str, ...] = ()

    def describe(self) -> str:
        """What happens to it, in a sentence."""
        if self.gone:
            return f"{self._happens()}, but {' and '.join(self.gone)}, which it was made from, {self._are_gone()}"
        return self._happens()

    def _are_gone(self) -> str:
        return "is gone" if len(self.gone) == 1 else "are gone"

    def _happens(self) -> str:
        if self.corrected:
            return "is corrected"
        if self.partitions is None:
            return "is computed anew"
        shown = [short_partition(partition) for partition in self.partitions]
        listed = f"{shown[0]} … {shown[-1]}" if len(shown) > 3 else ", ".join(shown) or "none"
        verb = "partition is" if len(shown) == 1 else "partitions are"
        return f"{len(shown)} {verb} computed anew: {listed}"


@dataclass(frozen=True)
class GoodTable:
    """A table that the bad snapshot had spoilt from `bad` on, and that is good again at its newest change, `head`; `how`: what
    has made it good.
    """

    name: str
    bad: int
    head: int
    made_good: MadeGood

    @property
    def repaired_by(self) -> str:
        """The recovery that put it right; empty if none did."""
        return self.made_good.recovery

    def describe(self) -> str:
        """Why nothing happens to it, in a sentence."""
        return f"stays: {self.made_good.describe()}"


@dataclass(frozen=True)
class RecoveryPlan:
    """The tables in the order in which they were made from each other, the corrected one first; `good`: those that were spoilt
    and are not any more. `beyond`: the newest changes of branches, and of tables of other catalogs, that hold it too, and that
    a recovery does not put right.
    """

    bad: SnapshotRef
    mode: Mode
    tables: tuple[PlannedTable, ...]
    good: tuple[GoodTable, ...] = ()
    beyond: tuple[SnapshotRef, ...] = ()

    @property
    def leaves(self) -> str:
        """What stays spoilt, in a sentence; empty if nothing does."""
        if not self.beyond:
            return ""
        named = ", ".join(map(str, self.beyond[:_NAMED]))
        more = f" and {len(self.beyond) - _NAMED} more" if len(self.beyond) > _NAMED else ""
        return f"A recovery puts right the main branches of this warehouse. What holds it too, and stays as it is: {named}{more}."

    def rows(self) -> list[tuple[Any, ...]]:
        """Table, first bad snapshot, newest, where the branch begins, what happens."""
        spoilt: list[tuple[Any, ...]] = [
            (
                table.name,
                table.bad,
                table.head,
                "empty" if table.branch_at is None else table.branch_at,
                table.describe(),
            )
            for table in self.tables
        ]
        return spoilt + [(table.name, table.bad, table.head, "", table.describe()) for table in self.good]


def bad_snapshot(
    session: Session, target: str, *, since: datetime | None = None, partition: Mapping[str, Any] | None = None
) -> SnapshotRef:
    """What a recovery begins with: `t@5`, `t@tag`; or of a table the first change at or after a local time, or the newest that
    a partition's rows come from. Raises InvalidRequest, NotFound.
    """
    if since is None and not partition:
        return session.known_ref(target)
    name, version = name_and_version(target)
    if version or (since is not None and partition):
        raise InvalidRequest("Say one thing of what is bad: a version (table@5), a time, or a partition.")
    table = session.table(name)
    if partition:
        contributors = table.contributors(partition)
        if not contributors:
            raise NotFound(f"{name} has no rows in that partition.")
        return contributors[0]
    assert since is not None
    start_ms = round(since.timestamp() * 1000)
    for snapshot in table.snapshots.all():
        if snapshot.time_ms >= start_ms and snapshot.changes_rows:
            ref = table.ref(snapshot.id)
            assert ref is not None
            return ref
    raise NotFound(f"{name} has not changed since {since}.")


def plan_recovery(
    session: Session, bad: SnapshotRef, mode: Mode = DEFAULT_MODE, stores: Mapping[str, LineageStore] | None = None
) -> RecoveryPlan:
    """What a bad snapshot has spoilt, as lineage says, and which of that is spoilt now. Nothing is changed. `stores`: those of
    lineage, if they are up to date.

    Raises InvalidRequest for a snapshot off the main branch, or of another catalog.
    """
    if bad.catalog != CATALOG_NAME or bad.branch != "main":
        raise InvalidRequest(f"A recovery begins with a snapshot of a main branch of this warehouse, not with {bad}.")
    asked = session.stores_to_ask(bad.catalog) if stores is None else stores
    forks = Forks(session.catalog_of)
    all_reached = impact(asked, bad, forks.of)
    reached = {
        ref.table_name: ref
        for ref in all_reached
        if ref.catalog == CATALOG_NAME and ref.branch == "main" and session.catalog.exists(ref.table_name)
    }
    spoilt = Spoilt(session, bad, asked, forks)
    spoilt.read((ref.catalog, ref.database, ref.table, ref.branch) for ref in all_reached)
    tables, good = [], []
    for name, ref in reached.items():
        table = spoilt.table(name).table
        head = table.last_change()
        if head is None:
            # It was made anew, and holds nothing.
            continue
        if not spoilt.is_spoilt(head):
            repair = made_good(spoilt, ref, head, spoilt.table(name).backwards())
            good.append(GoodTable(name, ref.snapshot_id, head.snapshot_id, repair))
        elif ref == bad:
            tables.append(_planned(table, ref, mode, corrected=True))
        else:
            tables.append(_planned(table, _first_spoilt(head, spoilt, ref), mode, corrected=False))
    beyond = [ref for ref in all_reached if ref.catalog != CATALOG_NAME or ref.branch != "main"]
    return RecoveryPlan(
        bad,
        mode,
        tuple(_in_order(session, spoilt, tables, reached)),
        tuple(good),
        tuple(_still_spoilt(session, spoilt, beyond)),
    )


def _still_spoilt(session: Session, spoilt: Spoilt, reached: Iterable[SnapshotRef]) -> Iterator[SnapshotRef]:
    """The newest changes of what was reached off this warehouse's main branches, as far as they are spoilt now and no recovery is
    about them.
    """
    for ref in reached:
        if was_replaced(ref) or session.is_main_now(ref):
            continue
        # What is gone holds nothing, and what cannot be read is named by `snapline check`.
        with suppress(StorageError, LineageUnavailable):
            head = session.catalog_of(ref.catalog).table(ref.table_name).last_change()
            if head is not None and not spoilt.recovery_on(head) and spoilt.is_spoilt(head):
                yield head


def _first_spoilt(head: SnapshotRef, spoilt: Spoilt, reached: SnapshotRef) -> SnapshotRef:
    """From when on a table has been spoilt up to its newest change; `reached`: the first snapshot ever that was."""
    first = head
    for snapshot in spoilt.table(head.table_name).backwards():
        if snapshot.id < reached.snapshot_id:
            return reached
        if snapshot.changes_rows:
            ref = replace(head, snapshot_id=snapshot.id, time_ms=snapshot.time_ms)
            if not spoilt.is_spoilt(ref):
                return first
            first = ref
    return reached


def _planned(table: Table, ref: SnapshotRef, mode: Mode, *, corrected: bool) -> PlannedTable:
    head = table.last_change()
    assert head is not None
    before = _change_before(table, ref.snapshot_id)
    partitions: tuple[Mapping[str, Any], ...] | None = None
    if table.schema.partition_keys and not corrected:
        since = None if mode == "full" or before is None else before
        is_known = table.snapshots.find(ref.snapshot_id) is not None
        # Once the first spoilt snapshot has expired, nobody can say which partitions it, and those after it, changed.
        partitions = tuple(table.changed_partitions(after=since) if is_known else table.partitions())
    # What is corrected holds what came after the bad snapshot as well; what is computed anew partition by partition keeps
    # the others.
    keeps = corrected or mode == "full"
    return PlannedTable(
        ref.table_name, ref.snapshot_id, head.snapshot_id if keeps else before, head.snapshot_id, partitions, corrected
    )


def _change_before(table: Table, snapshot_id: int) -> int | None:
    """The snapshot before one, if it is still there."""
    before = table.snapshots.find(snapshot_id - 1)
    return None if before is None else before.id


def _in_order(
    session: Session, spoilt: Spoilt, tables: list[PlannedTable], reached: Mapping[str, SnapshotRef]
) -> list[PlannedTable]:
    """Each table after those that its newest snapshot was made from, with those that are gone; the corrected one first."""
    by_name = {table.name: table for table in tables}
    ordered: dict[str, PlannedTable] = {}

    def add(name: str, path: tuple[str, ...] = ()) -> None:
        if name in ordered or name in path:
            return
        gone = set()
        for source in spoilt.sources(replace(reached[name], snapshot_id=by_name[name].head, time_ms=None)):
            if source.table_name in by_name:
                add(source.table_name, (*path, name))
            elif (
                source.catalog == CATALOG_NAME
                and source.branch == "main"
                and not session.catalog.exists(source.table_name)
            ):
                gone.add(source.table_name)
        ordered[name] = replace(by_name[name], gone=tuple(sorted(gone)))

    for each in sorted(tables, key=lambda planned: (not planned.corrected, planned.name)):
        if each.corrected:
            ordered[each.name] = each
        else:
            add(each.name)
    return list(ordered.values())
