"""Where lineage is kept: the interface, and how an implementation is found.

The catalog option `lineage-meta` names a factory. `jdbc`, the default, is SQL (`lineage.sql_store`); others are found
among the entry points of the group `snapline.lineage_stores`: a function from options to a LineageStore.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

from storage import InvalidRequest

from .entities import JobStartup, Side, SnapshotLineage, TableLineage

ENTRY_POINT_GROUP = "snapline.lineage_stores"


class LineageStore(ABC):
    """Rows about one catalog. Every method is safe to call from many processes; storing what is there changes nothing."""

    @abstractmethod
    def store_tables(self, side: Side, rows: Iterable[TableLineage]) -> None:
        """Remember that jobs read or write tables. The first create time of a row stays."""

    @abstractmethod
    def store_snapshots(self, side: Side, rows: Iterable[SnapshotLineage]) -> None:
        """Remember which snapshots jobs consumed or produced."""

    @abstractmethod
    def store_startups(self, rows: Iterable[JobStartup]) -> None:
        """Remember the versions that a job began with."""

    @abstractmethod
    def tables(self, side: Side, **where: Any) -> Sequence[TableLineage]:
        """Rows whose fields equal `where`, in order. A list or tuple as value means any of them."""

    @abstractmethod
    def snapshots(self, side: Side, **where: Any) -> Sequence[SnapshotLineage]:
        """Rows whose fields equal `where`, in order. A list or tuple as value means any of them."""

    @abstractmethod
    def startups(self, **where: Any) -> Sequence[JobStartup]:
        """Rows whose fields equal `where`, in order."""

    @abstractmethod
    def delete_tables(self, job: str) -> int:
        """Forget which tables a job reads and writes; returns the number of rows."""

    @abstractmethod
    def delete_snapshots(self, job: str) -> int:
        """Forget which snapshots a job consumed and produced; returns the number of rows."""

    @abstractmethod
    def close(self) -> None:
        """Release connections."""


def open_lineage_store(options: Mapping[str, str]) -> LineageStore:
    """The store that catalog options ask for. Raises InvalidRequest, listing what is installed, if there is none."""
    identifier = options.get("lineage-meta", "jdbc")
    factories = {one.name: one for one in entry_points(group=ENTRY_POINT_GROUP)}
    if identifier not in factories:
        raise InvalidRequest(
            f"Catalog option 'lineage-meta' = {identifier!r}: no such lineage store is installed. "
            f"Installed: {', '.join(sorted(factories)) or 'none'}."
        )
    store = factories[identifier].load()(options)
    assert isinstance(store, LineageStore)
    return store
