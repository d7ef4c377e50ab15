"""The composition root: one warehouse with its lineage, put together from settings. No Dagster, no Spark."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from lineage import (
    AncestryComparison,
    AncestryDifference,
    Direction,
    GuardedStore,
    Lag,
    LineageGraph,
    LineageRecorder,
    LineageStore,
    LineageUnavailable,
    Until,
    aligned,
    ancestry_difference,
    compare_ancestries,
    current_sources,
    forget,
    freshness,
    impact,
    known_reconciled,
    neighbour_tables,
    rebuild,
    reconcile,
    stopping_nobody,
    trace,
    was_replaced,
)
from storage import (
    DEFAULT_CATALOG,
    Catalog,
    Clock,
    CorruptData,
    FileLock,
    Identifier,
    InvalidRequest,
    NotFound,
    Snapshot,
    SnapshotRef,
    StorageError,
    Table,
    refers_to_environment,
    whole_number,
)

from .catalogs import CatalogRegistry, open_catalog
from .private_files import make_private_directory
from .settings import Settings

if TYPE_CHECKING:
    from .sql import Result, Statements

CATALOG_NAME = DEFAULT_CATALOG
_SIDES: tuple[Literal["sink", "source"], ...] = ("sink", "source")
# No database keeps a higher number.
_MOST_SNAPSHOTS = 2**63 - 1
_log = logging.getLogger(__name__)


class Session:
    """Everything that the platform does with tables goes through one of these. Cheap to make, and may be shared."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.from_environment()
        make_private_directory(self.settings.home)
        self._opened: dict[str, Catalog] = {}
        self._reconciled: set[tuple[str, str]] = set()

    @cached_property
    def catalog(self) -> Catalog:
        """The warehouse; commits to its tables are recorded as lineage."""
        return self._plain_catalog.with_listeners(self.recorder)

    @cached_property
    def _plain_catalog(self) -> Catalog:
        options = {"table-lineage": "true", "data-lineage": "true", "lineage-meta": "jdbc"}
        directory = self.settings.lock_directory
        return Catalog(
            self.settings.warehouse,
            name=CATALOG_NAME,
            options=options,
            storage_options=self.settings.storage_options,
            lock=FileLock(directory) if directory else None,
            external_roots=self.settings.external_roots,
        )

    @cached_property
    def registry(self) -> CatalogRegistry:
        """The further catalogs that were made by CREATE CATALOG."""
        return CatalogRegistry(self.settings.home)

    def catalog_names(self) -> list[str]:
        """The default catalog, then the others."""
        return [CATALOG_NAME, *sorted(self.registry.all())]

    def catalog_of(self, name: str) -> Catalog:
        """The catalog of that name; commits to its tables are recorded as lineage. Raises NotFound that lists them."""
        if name == CATALOG_NAME:
            return self.catalog
        if name not in self._opened:
            catalog = open_catalog(name, self.registry.get(name))
            self._opened[name] = catalog.with_listeners(self.recorder_of(name))
        return self._opened[name]

    def recorder_of(self, name: str) -> LineageRecorder:
        """What records the commits to a catalog."""
        if name == CATALOG_NAME:
            return self.recorder
        options = self.registry.get(name)
        return _recorder(self, name, options)

    def forget_catalog(self, name: str) -> None:
        """Open a catalog anew when it is asked for again."""
        self._opened.pop(name, None)
        self._stores.forget(name)

    @property
    def lineage_stores(self) -> Mapping[str, LineageStore]:
        """The lineage store of each catalog. Its methods raise LineageUnavailable if it is away: see `stopping_nobody`."""
        return self._stores

    @cached_property
    def _stores(self) -> "_Stores":
        stores = _Stores(self)
        for name in self.catalog_names():
            with stopping_nobody():
                stores.guarded(name).check_options()
        return stores

    @property
    def lineage_store(self) -> LineageStore:
        return self.lineage_stores[CATALOG_NAME]

    def stores_to_ask(
        self, *catalogs: str, tables: Mapping[str, Collection[str]] | None = None
    ) -> Mapping[str, LineageStore]:
        """The lineage stores that answer, brought up to date; a warning names the others. `tables`: those that have changed
        since they were, by catalog, where that is known.

        Raises LineageUnavailable if one of `catalogs` is among the others, or if none answers.
        """
        _, warnings = self._reconcile_all(tables)
        found: dict[str, LineageStore] = {}
        failures: dict[str, LineageUnavailable] = {}
        for name, store in self.lineage_stores.items():
            try:
                store.has_snapshots("sink")
                found[name] = store
            except LineageUnavailable as error:
                failures[name] = error
                warnings[name] = f"This answer leaves out a catalog. {error}"
        for name in catalogs if found else failures:
            if name in failures:
                raise failures[name]
        _warn(warnings)
        return found

    @cached_property
    def recorder(self) -> LineageRecorder:
        return _recorder(self, CATALOG_NAME, self._plain_catalog.options)

    def table(self, name: str) -> Table:
        """The table of that name. Raises NotFound that lists the tables."""
        table = self.catalog.table(name)
        self.reconcile(table)
        return table

    def reconcile(self, table: Table, catalog: str = CATALOG_NAME) -> None:
        """Record what a crash has left out of a table's lineage, when this session first touches the table."""
        key = (catalog, str(table.identifier))
        if key not in self._reconciled:
            self._reconciled.add(key)
            try:
                with stopping_nobody():
                    reconcile(table, self.recorder_of(catalog), self.catalog_of(catalog))
                    return
                # The store may be back when the table is touched again.
                self._reconciled.discard(key)
            except Exception as error:
                # The table can be read without its lineage, and a later session tries again.
                _log.warning("The lineage of %s could not be brought up to date: %s", table.identifier, error)

    def reconcile_all(self) -> int:
        """Record what crashes have left out of the lineage of any table; returns the number of snapshots looked at.

        A warning names each catalog whose lineage is not complete now.
        """
        count, warnings = self._reconcile_all()
        _warn(warnings)
        return count

    def _reconcile_all(self, tables: Mapping[str, Collection[str]] | None = None) -> tuple[int, dict[str, str]]:
        count = 0
        warnings: dict[str, str] = {}
        for name in self.catalog_names():
            try:
                listed = self.catalog_of(name).tables() if tables is None else tables.get(name, ())
                # Asked once for all tables, or not at all.
                until = known_reconciled(self.recorder_of(name)) if listed else {}
                for one in listed:
                    count += self._reconcile_branches(name, one, until, warnings)
            except LineageUnavailable as error:
                warnings[error.catalog] = str(error)
            except Exception as error:
                warnings[name] = f"The lineage of catalog {name!r} could not be brought up to date: {error}"
        return count, warnings

    def _reconcile_branches(self, catalog: str, name: str, until: Until, warnings: dict[str, str]) -> int:
        """Reconcile a table and its branches. Raises LineageUnavailable if the store of the catalog itself is away: then
        there is no use in going on with other tables.
        """
        count = 0
        try:
            table = self.catalog_of(catalog).table(name)
            for branch in [table, *map(table.on_branch, table.branches.names())]:
                try:
                    count += reconcile(branch, self.recorder_of(catalog), self.catalog_of(catalog), until)
                except LineageUnavailable as error:
                    if error.catalog == catalog:
                        raise
                    warnings[error.catalog] = str(error)
                except StorageError as error:
                    self._warn_of(f"{catalog}.{branch.identifier}", error, warnings)
        except LineageUnavailable:
            raise
        except StorageError as error:
            # One table that is broken, or has been dropped just now, concerns no other.
            self._warn_of(f"{catalog}.{name}", error, warnings)
        return count

    @staticmethod
    def _warn_of(name: str, error: StorageError, warnings: dict[str, str]) -> None:
        warnings[name] = f"The lineage of {name} could not be brought up to date: {error}"

    def rebuild_lineage(self, *catalogs: str) -> tuple[int, list[Path]]:
        """Read all lineage of these catalogs, by default all, off the tables; SQLite files that cannot be read are set aside
        before. Returns the number of snapshots looked at, and where the files are now.

        Raises LineageUnavailable, having done all others, if a store is away.
        """
        count, replaced = 0, []
        failures: dict[str, LineageUnavailable] = {}
        for name in catalogs or self.catalog_names():
            try:
                file = self._stores.guarded(name).replace_unreadable()
                if file is not None:
                    replaced.append(file)
                count += rebuild(self.catalog_of(name), self.recorder_of(name))
            except LineageUnavailable as error:
                failures[error.catalog] = error
        for failure in failures.values():
            raise failure
        return count, replaced

    def ref(self, text: str) -> SnapshotRef:
        """The snapshot that `[catalog.]db.t`, `db.t@5` or `db.t@tag` names. Raises NotFound, listing what there is."""
        catalog, name, version = _named(text)
        table = self.catalog_of(catalog).table(name)
        # A compaction has no lineage of its own: the rows are those of the change before it.
        ref = table.last_change(version or None)
        if ref is None:
            raise InvalidRequest(f"{name} has no snapshot yet. Write to it first.")
        return ref

    def known_ref(self, text: str) -> SnapshotRef:
        """As `ref`; also a snapshot that cannot be read any more, by its number, if lineage knows it."""
        try:
            found = self.ref(text)
            return self.expired_change(found) or found
        except NotFound:
            catalog, name, version = _named(text)
            number = whole_number(version)
            if number is None or number > _MOST_SNAPSHOTS or catalog not in self.catalog_names():
                raise
            one = Identifier.parse(name)
            store = self.stores_to_ask(catalog)[catalog]
            where = {"database": one.database, "table": one.table, "branch": one.branch, "snapshot_id": number}
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
        found = self.table(name).contributors(partition)
        return [trace(stores, ref, direction, hops) for ref in found]

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
        if table.store.snapshots.find(ref.snapshot_id) is not None:
            return ""
        if any(tag.snapshot.id == ref.snapshot_id and tag.is_of_its_branch for tag in table.tags.list()):
            return ""
        latest = table.store.snapshots.latest_id() or 0
        return "expired" if ref.snapshot_id <= latest else "taken back"

    def forget_lineage(self, older_than: timedelta) -> int:
        """Delete the lineage of snapshots that can no longer be read and were committed so long ago; returns the number of
        rows.
        """
        stores = self.stores_to_ask()
        before = (Clock().now() - older_than).replace(tzinfo=None)
        return forget(stores, before, lambda ref: bool(self._why_gone(ref)))

    def forget_job(self, job: str, *catalogs: str, tables: bool = False, snapshots: bool = False) -> int:
        """Delete what these catalogs, by default all, know of the tables, or of the snapshots, of a job; returns the number of
        rows. Only a rebuild brings it back.

        Raises LineageUnavailable, having done all others, if a store is away.
        """
        # What was not recorded yet would otherwise be recorded later, as if nobody had asked to forget it.
        _, warnings = self._reconcile_all()
        count = 0
        failures: dict[str, LineageUnavailable] = {}
        for name in catalogs or self.catalog_names():
            try:
                store = self.lineage_stores[name]
                count += store.delete_tables(job) if tables else 0
                count += store.delete_snapshots(job) if snapshots else 0
            except LineageUnavailable as error:
                failures[error.catalog] = error
        raised = next(iter(failures.values()), None)
        if raised is not None:
            # What an error says needs no warning.
            warnings.pop(raised.catalog, None)
        _warn(warnings)
        if raised is not None:
            raise raised
        return count

    def ancestry_difference(self, first: SnapshotRef, second: SnapshotRef) -> AncestryDifference:
        """The snapshots that only one of two versions was made from, over any number of hops."""
        return ancestry_difference(self.stores_to_ask(first.catalog, second.catalog), first, second)

    def compare_ancestries(self, left: SnapshotRef, right: SnapshotRef) -> AncestryComparison:
        """What two versions were made from, over any number of hops, and where that differs first."""
        return compare_ancestries(self.stores_to_ask(left.catalog, right.catalog), left, right)

    def neighbour_tables(self, name: str, direction: Direction) -> list[str]:
        """The tables that jobs read to write a table (up), or write having read it (down)."""
        one = self.catalog.table(name).identifier
        found: set[str] = set()
        for store in self.stores_to_ask(CATALOG_NAME).values():
            found.update(".".join(row) for row in neighbour_tables(store, one.database, one.table, direction))
        return sorted(found)

    def impact(self, ref: SnapshotRef) -> list[SnapshotRef]:
        """The first snapshot of each table downstream that a bad snapshot, or anything after it, went into."""
        return impact(self.stores_to_ask(ref.catalog), ref)

    def sources_of(self, snapshot: Snapshot) -> dict[SnapshotRef, SnapshotRef]:
        """What a snapshot says that it was made from: each source as it was called then, and as it is found now."""
        return current_sources(snapshot, self.catalog_of)

    def records_lineage(self, catalog: str) -> bool:
        """Whether a catalog records of which snapshots its own were made."""
        return catalog == CATALOG_NAME or self.registry.get(catalog).get("data-lineage") == "true"

    def aligned(self, names: Sequence[str], on: str) -> dict[str, Table]:
        """Tables fixed at their newest snapshots that were made from the same snapshot of a source.

        Raises NotFound if there are none.
        """
        stores = self.stores_to_ask(CATALOG_NAME)
        source = self.table(on)
        one = source.identifier
        tables = {name: self.table(name) for name in names}
        found = aligned(
            stores, [_history(table) for table in tables.values()],
            (CATALOG_NAME, one.database, one.table, one.branch),
        )  # fmt: skip
        if found is None:
            raise NotFound(f"{', '.join(names)} have no snapshots that were made from the same snapshot of {on}.")
        return {name: table.pinned(ref.snapshot_id) for (name, table), ref in zip(tables.items(), found, strict=True)}

    def freshness(self, name: str) -> list[Lag]:
        """How far the newest change of a table is behind each table that it was made from."""
        ref = self.ref(name)

        def newest_of(read: SnapshotRef) -> tuple[SnapshotRef, int, int] | None:
            try:
                table = self.catalog_of(read.catalog).table(read.table_name)
            except NotFound:
                return None
            changes = [one for one in table.store.snapshots.all() if one.changes_rows]
            later = [one for one in changes if one.id > read.snapshot_id]
            if not later:
                return read, 0, 0
            newest = table.ref(later[-1].id)
            before = next((one for one in reversed(changes) if one.id <= read.snapshot_id), later[0])
            assert newest is not None
            return newest, len(later), later[-1].time_ms - before.time_ms

        return freshness(self.stores_to_ask(ref.catalog), ref, newest_of)

    def sql(self, text: str, engine: str = "spark") -> "Result":
        """Run SQL statements; the result of the last. `engine`: spark, or duckdb (for reading, without a JVM).

        What SET and USE say stands for the session. Raises InvalidRequest that points at the place in the statement.
        """
        return self.statements.run(text, engine)[-1]

    @cached_property
    def statements(self) -> "Statements":
        """What runs the SQL of this session."""
        # sqlglot costs time to import: only those who use SQL pay.
        from .sql import Statements

        return Statements(self)

    def close(self) -> None:
        self._stores.close()


def _named(text: str) -> tuple[str, str, str]:
    """Catalog, table and version of `[catalog.]db.t[@version]`."""
    name, _, version = text.partition("@")
    catalog, _, rest = name.partition(".")
    return (catalog, rest, version) if rest.partition("$")[0].count(".") == 1 else (CATALOG_NAME, name, version)


def _warn(warnings: Mapping[str, str]) -> None:
    for one in warnings.values():
        _log.warning("%s", " ".join(one.split()))


def _history(table: Table) -> list[SnapshotRef]:
    """The snapshots that changed rows, newest first."""
    refs = (table.ref(one.id) for one in table.store.snapshots.backwards() if one.changes_rows)
    return [ref for ref in refs if ref is not None]


def _recorder(session: Session, name: str, options: Mapping[str, str]) -> LineageRecorder:
    return LineageRecorder(
        name, session.lineage_stores, tables=options.get("table-lineage") == "true",
        snapshots=options.get("data-lineage") == "true", catalog_of=session.catalog_of,
    )  # fmt: skip


class _Stores(Mapping[str, LineageStore]):
    """The lineage stores of all catalogs, opened when they are first used."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, GuardedStore] = {}

    def guarded(self, name: str) -> GuardedStore:
        if name not in self._known:
            if name == CATALOG_NAME:
                # A warehouse cannot ask for the environment of those who open it.
                kept = {
                    key: value
                    for key, value in self._session._plain_catalog.options.items()
                    if not refers_to_environment(value)
                }
                options = {**kept, "jdbc.url": self._session.settings.lineage_url}
            elif name in self._session.registry.all():
                options = self._session.registry.lineage_options(name)
            else:
                raise KeyError(name)
            self._known[name] = GuardedStore(name, options)
        return self._known[name]

    def forget(self, name: str) -> None:
        if name in self._known:
            self._known.pop(name).close()

    def close(self) -> None:
        for store in self._known.values():
            store.close()

    def __getitem__(self, name: str) -> LineageStore:
        return cast(LineageStore, self.guarded(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._session.catalog_names())

    def __len__(self) -> int:
        return len(self._session.catalog_names())
