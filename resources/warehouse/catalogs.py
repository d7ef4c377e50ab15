"""The catalogs of a home: tables, what records their lineage, and where that is kept. No Dagster, no Spark."""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import cast

from lineage import (
    CatalogRecords,
    GuardedStore,
    LineageRecorder,
    LineageStore,
    LineageUnavailable,
    Until,
    is_of_server,
    known_reconciled,
    rebuild,
    reconcile,
    stopping_nobody,
)
from storage import (
    DEFAULT_CATALOG,
    Catalog,
    FileLock,
    InvalidRequest,
    StorageError,
    Table,
    refers_to_environment,
    revealed,
)

from ..logs import start_logs
from ..metrics import start_metrics
from ..private_files import make_private_directory
from ..settings import Settings
from .catalog_keepers import PlatformCatalogs
from .catalog_options import open_catalog
from .catalog_registry import CatalogRegistry

CATALOG_NAME = DEFAULT_CATALOG
_log = logging.getLogger(__name__)


class Catalogs:
    """The warehouse of the settings and those that were made by CREATE CATALOG, each with its lineage store, which is kept up
    to date. Cheap to make, and may be shared.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.from_environment()
        start_logs(self.settings.logs)
        start_metrics(self.settings.metrics)
        _make_home(self.settings.home)
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
        url = revealed(self.settings.lineage_url)
        if not is_of_server(url):
            return CatalogRegistry(self.settings.home)
        records = CatalogRecords(lambda: self._stores.guarded(CATALOG_NAME))
        return CatalogRegistry(self.settings.home, PlatformCatalogs(records, url, self.settings.lineage_setting))

    def catalog_names(self, *, anew: bool = False) -> list[str]:
        """The default catalog, then the others; a warning says if some cannot be listed. `anew`: as they are this moment, and not
        as they were some seconds ago.
        """
        return [CATALOG_NAME, *self.registry.names(anew=anew)]

    def has_catalog(self, name: str) -> bool:
        """Whether there is a catalog of that name. Raises LineageUnavailable if nobody can say."""
        return name == CATALOG_NAME or self.registry.has(name)

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
        # Whoever needs the default catalog alone asks no database for the others.
        for name in [CATALOG_NAME] if self.registry.is_shared else self.catalog_names():
            with stopping_nobody():
                stores.guarded(name).check_options()
        return stores

    @property
    def lineage_store(self) -> LineageStore:
        """The lineage store of the warehouse's own catalog."""
        return self.lineage_stores[CATALOG_NAME]

    def stores_to_ask(
        self, *catalogs: str, tables: Mapping[str, Collection[str]] | None = None
    ) -> Mapping[str, LineageStore]:
        """The lineage stores that answer, brought up to date; a warning names the others. `tables`: those that have changed
        since they were, by catalog, where that is known.

        Raises LineageUnavailable if one of `catalogs` is among the others, or if none answers.
        """
        _, warnings = self._reconcile_all(tables)
        stores: dict[str, LineageStore] = {}
        failures: dict[str, LineageUnavailable] = {}
        for name in self.catalog_names():
            try:
                store = self.lineage_stores[name]
                store.has_snapshots("sink")
                stores[name] = store
            except LineageUnavailable as error:
                failures[name] = error
                warnings[name] = f"This answer leaves out a catalog. {error}"
        for name in catalogs if stores else failures:
            if name in failures:
                raise failures[name]
        _warn(warnings)
        return stores

    @cached_property
    def recorder(self) -> LineageRecorder:
        """Records the lineage of commits to the warehouse's own catalog."""
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
                for each in listed:
                    count += self._reconcile_branches(name, each, until, warnings)
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

        Raises LineageUnavailable, having done all others, if a store is away; NotFound, having done nothing, that lists the
        catalogs if there is none of such a name.
        """
        for name in catalogs:
            self.catalog_of(name)
        count, replaced = 0, []
        failures: dict[str, LineageUnavailable] = {}
        for name in catalogs or self.catalog_names():
            try:
                file = self._stores.guarded(name).replace_unreadable()
                if file is not None:
                    replaced.append(file)
                count += rebuild(self.catalog_of(name), self.recorder_of(name))
            except LineageUnavailable as error:
                failures[error.catalog] = error.of_rebuild()
        for failure in failures.values():
            raise failure
        return count, replaced

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

    def records_lineage(self, catalog: str) -> bool:
        """Whether a catalog records of which snapshots its own were made."""
        return catalog == CATALOG_NAME or self.registry.get(catalog).get("data-lineage") == "true"

    def own_places(self) -> list[str]:
        """Paths and URLs of what belongs to the platform: the home, the warehouses, external data files, lineage databases.

        Raises LineageUnavailable if nobody can say which catalogs there are.
        """
        settings, places = self.settings, [str(self.settings.home), self.settings.warehouse]
        places += [*settings.external_roots, *([settings.lock_directory] if settings.lock_directory else [])]
        try:
            names = [CATALOG_NAME, *self.registry.all()]
        except LineageUnavailable as error:
            raise error.advising("Nothing is written to where a warehouse of theirs may be.") from None
        for name in names:
            # What refers to a variable that is not set here leads to no place.
            with suppress(InvalidRequest):
                places += self._stores.guarded(name).files
            with suppress(InvalidRequest):
                places += [] if name == CATALOG_NAME else [str(revealed(self.registry.get(name)["warehouse"]))]
        return places

    def close(self) -> None:
        """Close the lineage stores that were opened."""
        self._stores.close()


def _make_home(home: Path) -> None:
    """Make the home. Raises InvalidRequest that names the setting if there can be none."""
    try:
        make_private_directory(home)
        is_directory = home.is_dir()
    except OSError as error:
        raise InvalidRequest(
            f"{home} cannot be the home ({error.strerror}): set SNAPLINE_HOME to another directory."
        ) from None
    if not is_directory:
        raise InvalidRequest(f"{home} cannot be the home (it is no directory): set SNAPLINE_HOME to another one.")


def _warn(warnings: Mapping[str, str]) -> None:
    for warning in warnings.values():
        _log.warning("%s", " ".join(warning.split()))


def _recorder(catalogs: Catalogs, name: str, options: Mapping[str, str]) -> LineageRecorder:
    return LineageRecorder(
        name,
        catalogs.lineage_stores,
        tables=options.get("table-lineage") == "true",
        snapshots=options.get("data-lineage") == "true",
        catalog_of=catalogs.catalog_of,
    )


class _Stores(Mapping[str, LineageStore]):
    """The lineage stores of all catalogs, opened when they are first used."""

    def __init__(self, catalogs: Catalogs) -> None:
        self._catalogs = catalogs
        self._known: dict[str, GuardedStore] = {}

    def guarded(self, name: str) -> GuardedStore:
        if name not in self._known:
            if name == CATALOG_NAME:
                # A warehouse cannot ask for the environment of those who open it.
                kept = {
                    key: value
                    for key, value in self._catalogs._plain_catalog.options.items()
                    if not refers_to_environment(value)
                }
                options = {**kept, "jdbc.url": self._catalogs.settings.lineage_url}
                setting = self._catalogs.settings.lineage_setting
            elif (registry := self._catalogs.registry).has(name):
                options = registry.lineage_options(name)
                setting = registry.lineage_setting(name, self._catalogs.settings.lineage_setting)
            else:
                raise KeyError(name)
            self._known[name] = GuardedStore(name, options, url_setting=setting)
        return self._known[name]

    def forget(self, name: str) -> None:
        if name in self._known:
            self._known.pop(name).close()

    def close(self) -> None:
        for store in self._known.values():
            store.close()

    def __getitem__(self, name: str) -> LineageStore:
        return cast(LineageStore, self.guarded(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._catalogs.has_catalog(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._catalogs.catalog_names())

    def __len__(self) -> int:
        return len(self._catalogs.catalog_names())
