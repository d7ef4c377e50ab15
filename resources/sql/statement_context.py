"""What every statement is given: the catalogs, what SET and USE have said, and how names are looked up."""

from dataclasses import dataclass

from lineage import LineageRecorder
from storage import (
    SnapshotRef,
)

from ..warehouse.warehouse_session import WarehouseSession
from .names import Names, Place
from .settings import Settings


@dataclass(frozen=True)
class StatementContext:
    """The session of SQL in which statements run."""

    session: WarehouseSession
    settings: Settings
    names: Names

    def recorder(self, catalog: str) -> LineageRecorder:
        """What records the commits to a catalog."""
        return self.session.recorder_of(catalog)

    def warehouse(self, place: Place) -> str:
        """The warehouse of a name's catalog."""
        return self.names.warehouse(place)

    def checkpoint(self, job: str) -> str:
        """Where a stream remembers how far it has come."""
        return self.session.settings.checkpoint(job)

    def changed(self, ref: SnapshotRef) -> SnapshotRef:
        """The snapshot that made the rows of another: compactions came after it."""
        return self.session.catalog_of(ref.catalog).table(ref.table_name).last_change(ref.snapshot_id) or ref
