"""The composition root: one warehouse with its lineage, put together from settings. No Dagster, no Spark."""

from collections.abc import Mapping
from functools import cached_property

from lineage import Direction, LineageGraph, LineageRecorder, LineageStore, open_lineage_store, trace
from storage import Catalog, FileLock, InvalidRequest, SnapshotRef, Table

from .settings import Settings

CATALOG_NAME = "snapline"


class Session:
    """Everything that the platform does with tables goes through one of these. Cheap to make, and may be shared."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.from_environment()
        self.settings.home.mkdir(parents=True, exist_ok=True)

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
        )

    @cached_property
    def lineage_stores(self) -> Mapping[str, LineageStore]:
        """The lineage store of each catalog."""
        options = {**self._plain_catalog.options, "jdbc.url": self.settings.lineage_url}
        return {CATALOG_NAME: open_lineage_store(options)}

    @property
    def lineage_store(self) -> LineageStore:
        return self.lineage_stores[CATALOG_NAME]

    @cached_property
    def recorder(self) -> LineageRecorder:
        options = self._plain_catalog.options
        return LineageRecorder(
            CATALOG_NAME,
            self.lineage_stores,
            tables=options.get("table-lineage") == "true",
            snapshots=options.get("data-lineage") == "true",
        )

    def table(self, name: str) -> Table:
        """The table of that name. Raises NotFound that lists the tables."""
        return self.catalog.table(name)

    def ref(self, text: str) -> SnapshotRef:
        """The snapshot that `db.t`, `db.t@5` or `db.t@tag` names. Raises NotFound, listing what there is."""
        name, _, version = text.partition("@")
        table = self.table(name)
        # A compaction has no lineage of its own: the rows are those of the change before it.
        ref = table.last_change(version or None)
        if ref is None:
            raise InvalidRequest(f"{name} has no snapshot yet. Write to it first.")
        return ref

    def lineage(self, ref: SnapshotRef, direction: Direction, hops: int | None = None) -> LineageGraph:
        """What a snapshot was made from (up), or what it fed (down)."""
        return trace(self.lineage_stores, ref, direction, hops)

    def close(self) -> None:
        for store in self.lineage_stores.values():
            store.close()
