"""A warehouse with its lineage: snapshots by name, and what lineage answers of them."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Literal

from lineage import (
    AncestryComparison,
    AncestryDifference,
    Direction,
    Lag,
    LineageGraph,
    aligned,
    ancestry_difference,
    compare_ancestries,
    current_sources,
    forget,
    freshness,
    impact,
    neighbour_tables,
    trace,
    was_replaced,
)
from storage import (
    Clock,
    CorruptData,
    Identifier,
    InvalidRequest,
    NotFound,
    Snapshot,
    SnapshotRef,
    StorageError,
    Table,
    name_and_version,
    whole_number,
)

from .catalogs import CATALOG_NAME, Catalogs
from .forks import Forks

_SIDES: tuple[Literal["sink", "source"], ...] = ("sink", "source")
# No database keeps a higher number.
_MOST_SNAPSHOTS = 2**63 - 1


class WarehouseSession(Catalogs):
    """Tables and their lineage; SQL stands on it."""

    def ref(self, text: str) -> SnapshotRef:
        """The snapshot that `[catalog.]db.t`, `db.t@5` or `db.t@tag` names. Raises NotFound, listing what there is."""
        catalog, name, version = _named(text)
        table = self._found(catalog, name)
        # A compaction has no lineage of its own: the rows are those of the change before it.
        ref = table.last_change(version or None)
        if ref is None:
            raise InvalidRequest(f"{name} has no snapshot yet. Write to it first.")
        return ref

    def _found(self, catalog: str, name: str) -> Table:
        """The table of a name. Raises NotFound that says what it is called if it was renamed."""
        opened = self.catalog_of(catalog)
        try:
            return opened.table(name)
        except NotFound:
            full_name = Identifier.parse(name).full_name
            now = opened.renamed_to(full_name)
            if now is None:
                raise
            raise NotFound(f"Table {full_name} does not exist. It was renamed to {now}.") from None

    def known_ref(self, text: str) -> SnapshotRef:
        """As `ref`; also a snapshot that cannot be read any more, by its number, if lineage knows it."""
        try:
            ref = self.ref(text)
            return self.expired_change(ref) or ref
        except NotFound:
            catalog, name, version = _named(text)
            number = whole_number(version)
            if number is None or number > _MOST_SNAPSHOTS or not self.has_catalog(catalog):
                raise
            identifier = Identifier.parse(name)
            store = self.stores_to_ask(catalog)[catalog]
            where = {
                "database": identifier.database,
                "table": identifier.table,
                "branch": identifier.branch,
                "snapshot_id": number,
            }
            for side in _SIDES:
                for row in store.snapshots(side, **where):
                    return row.ref(catalog)
            raise

    def expired_change(self, ref: SnapshotRef) -> SnapshotRef | None:
        """Of a compaction the change before it that has expired, as far as lineage knows it."""
        snapshot = self.catalog_of(ref.catalog).table(ref.table_name).snapshot(ref.snapshot_id)
        if snapshot is None or snapshot.changes_rows:
            return None
        where = {"database": ref.database, "table": ref.table, "branch": ref.branch}
        rows = self.stores_to_ask(ref.catalog)[ref.catalog].snapshots("sink", **where)
        earlier = [row for row in rows if row.snapshot_id < ref.snapshot_id]
        return max(earlier, key=lambda row: row.snapshot_id).ref(ref.catalog) if earlier else None

    def lineage(self, ref: SnapshotRef, direction: Direction, hops: int | None = None) -> LineageGraph:
        """What a snapshot was made from (up), or what it fed (down)."""
        return trace(self.stores_to_ask(ref.catalog), ref, direction, hops)

    def partition_lineage(
        self, name: str, partition: Mapping[str, object], direction: Direction, hops: int | None = None
    ) -> list[LineageGraph]:
        """The lineage of each snapshot that the rows of a partition come from, newest first."""
        stores = self.stores_to_ask(CATALOG_NAME)
        contributors = self.table(name).contributors(partition)
        return [trace(stores, ref, direction, hops) for ref in contributors]

    def fate(self, ref: SnapshotRef) -> str:
        """What has become of a snapshot: `expired`, `dropped`, `replaced`, or `taken back` by a rollback; `damaged` if that
        cannot be read; else empty.
        """
        try:
            if gone := self._why_gone(ref):
                return gone
            table = self.catalog_of(ref.catalog).table(ref.table_name)
            return "taken back" if table.is_taken_back(ref.snapshot_id) else ""
        except CorruptData:
            return "damaged"

    def _why_gone(self, ref: SnapshotRef) -> str:
        """Why a snapshot can no longer be read; empty if it can."""
        if was_replaced(ref):
            return "replaced"
        try:
            table = self.catalog_of(ref.catalog).table(ref.table_name)
        except NotFound:
            return "dropped"
        if table.snapshots.find(ref.snapshot_id) is not None:
            return ""
        if any(tag.snapshot.id == ref.snapshot_id and tag.is_of_its_branch for tag in table.tags.list()):
            return ""
        latest = table.snapshots.latest_id() or 0
        return "expired" if ref.snapshot_id <= latest else "taken back"

    def forget_lineage(self, older_than: timedelta) -> int:
        """Delete the lineage of snapshots that can no longer be read and were committed so long ago; returns the number of
        rows.
        """
        stores = self.stores_to_ask()
        before = (Clock().now() - older_than).replace(tzinfo=None)
        return forget(stores, before, lambda ref: bool(self._why_gone(ref)))

    def ancestry_difference(self, first: SnapshotRef, second: SnapshotRef) -> AncestryDifference:
        """The snapshots that only one of two versions was made from, over any number of hops."""
        return ancestry_difference(self.stores_to_ask(first.catalog, second.catalog), first, second)

    def compare_ancestries(self, left: SnapshotRef, right: SnapshotRef) -> AncestryComparison:
        """What two versions were made from, over any number of hops, and where that differs first."""
        return compare_ancestries(self.stores_to_ask(left.catalog, right.catalog), left, right)

    def neighbour_tables(self, name: str, direction: Direction) -> list[str]:
        """The tables that jobs read to write a table (up), or write having read it (down)."""
        identifier = self.catalog.table(name).identifier
        neighbours: set[str] = set()
        for store in self.stores_to_ask(CATALOG_NAME).values():
            neighbours.update(
                ".".join(row) for row in neighbour_tables(store, identifier.database, identifier.table, direction)
            )
        return sorted(neighbours)

    def impact(self, ref: SnapshotRef) -> list[SnapshotRef]:
        """The first snapshot of each table downstream that a bad snapshot, or anything after it, went into."""
        affected = impact(self.stores_to_ask(ref.catalog), ref, Forks(self.catalog_of).of)
        return [each for each in affected if each == ref or not self.is_main_now(each)]

    def is_main_now(self, ref: SnapshotRef) -> bool:
        """Whether the branch of a snapshot has become main: what it has done is told of main."""
        if ref.branch == "main" or was_replaced(ref):
            return False
        try:
            return self.catalog_of(ref.catalog).table(ref.table_name).identifier.branch == "main"
        except StorageError:
            return False

    def sources_of(self, snapshot: Snapshot) -> dict[SnapshotRef, SnapshotRef]:
        """What a snapshot says that it was made from: each source as it was called then, and as it is found now."""
        return current_sources(snapshot, self.catalog_of)

    def aligned(self, names: Sequence[str], on: str) -> dict[str, Table]:
        """Tables fixed at their newest snapshots that were made from the same snapshot of a source.

        Raises NotFound if there are none.
        """
        stores = self.stores_to_ask(CATALOG_NAME)
        source = self.table(on)
        identifier = source.identifier
        tables = {name: self.table(name) for name in names}
        aligned_refs = aligned(
            stores,
            [_history(table) for table in tables.values()],
            (CATALOG_NAME, identifier.database, identifier.table, identifier.branch),
        )
        if aligned_refs is None:
            raise NotFound(f"{', '.join(names)} have no snapshots that were made from the same snapshot of {on}.")
        return {
            name: table.after_commit(ref.snapshot_id)
            for (name, table), ref in zip(tables.items(), aligned_refs, strict=True)
        }

    def freshness(self, name: str, damaged: Callable[[str], object] | None = None) -> list[Lag]:
        """How far the newest change of a table is behind each table that it was made from.

        `damaged` is told in a line of each such table that cannot be read, and which is left out then; without it that raises
        CorruptData.
        """
        ref = self.ref(name)

        def newest_of(read: SnapshotRef) -> tuple[SnapshotRef, int, int] | None:
            try:
                return _lag(self.catalog_of(read.catalog).table(read.table_name), read)
            except NotFound:
                return None
            except CorruptData as error:
                if damaged is None:
                    raise
                damaged(f"How far it is behind {read.table_name} cannot be told: {' '.join(str(error).split())}")
                return None

        return freshness(self.stores_to_ask(ref.catalog), ref, newest_of)


def _lag(table: Table, read: SnapshotRef) -> tuple[SnapshotRef, int, int]:
    """The newest change of a table that was read at a snapshot, how many changes came after that, and their milliseconds."""
    changes = [snapshot for snapshot in table.snapshots.all() if snapshot.changes_rows]
    later = [change for change in changes if change.id > read.snapshot_id]
    if not later:
        return read, 0, 0
    newest = table.ref(later[-1].id)
    before = next((change for change in reversed(changes) if change.id <= read.snapshot_id), later[0])
    assert newest is not None
    return newest, len(later), later[-1].time_ms - before.time_ms


def _named(text: str) -> tuple[str, str, str]:
    """Catalog, table and version of `[catalog.]db.t[@version]`. Raises InvalidRequest for an @ without a version."""
    name, version = name_and_version(text)
    catalog, _, rest = name.partition(".")
    return (catalog, rest, version) if rest.partition("$")[0].count(".") == 1 else (CATALOG_NAME, name, version)


def _history(table: Table) -> list[SnapshotRef]:
    """The snapshots that changed rows, newest first."""
    refs = (table.ref(snapshot.id) for snapshot in table.snapshots.backwards() if snapshot.changes_rows)
    return [ref for ref in refs if ref is not None]
