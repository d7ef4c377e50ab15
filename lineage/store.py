"""Where lineage is kept: the interface, and how an implementation is found.

The catalog option `lineage-meta` names a factory. `jdbc`, the default, is SQL (`lineage.sql_store`); others are found
among the entry points of the group `snapline.lineage_stores`: a function from options to a LineageStore.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from storage import InvalidRequest, extension_names, load_extension

from .entities import ColumnLineage, JobStartup, OffsetLineage, Reconciled, Side, SnapshotLineage, TableLineage
from .jdbc_url import kind_of

ENTRY_POINT_GROUP = "snapline.lineage_stores"


class UnreachableStore(InvalidRequest):
    """What the options lead to does not answer; the options themselves may be right."""


class UnreadableStore(UnreachableStore):
    """What is kept cannot be read, and has to be replaced. `path`: the file."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class LineageStore(ABC):
    """Rows about one catalog. Every method is safe to call from many processes; storing what is there changes nothing.

    `where`: fields and the values they equal; a list or tuple means any of them. Rows come in order.
    """

    @abstractmethod
    def store_tables(self, side: Side, rows: Iterable[TableLineage], *, replace: bool = False) -> None:
        """Remember that jobs read or write tables. The first create time of a row stays, unless it is replaced."""

    @abstractmethod
    def store_snapshots(self, side: Side, rows: Iterable[SnapshotLineage]) -> None:
        """Remember which snapshots jobs consumed or produced."""

    @abstractmethod
    def store_columns(self, rows: Iterable[ColumnLineage]) -> None:
        """Remember which columns jobs compute from which."""

    @abstractmethod
    def store_startups(self, rows: Iterable[JobStartup]) -> None:
        """Remember the versions that a job began with. The first of a job and table stays."""

    def store_offsets(self, rows: Iterable[OffsetLineage]) -> None:
        """Remember which records of topics jobs consumed. A store that has no place for them leaves them out."""
        return

    @abstractmethod
    def store_reconciled(self, row: Reconciled) -> None:
        """Remember, in place of what was known, how far a branch was read."""

    @abstractmethod
    def tables(self, side: Side, **where: Any) -> Sequence[TableLineage]:
        """Which tables jobs read or write, in the order of the fields of TableLineage; `where` names those fields."""

    @abstractmethod
    def snapshots(self, side: Side, **where: Any) -> Sequence[SnapshotLineage]:
        """Which snapshots jobs consumed or produced, in the order of job, barrier, table and id; `where` names fields of
        SnapshotLineage.
        """

    @abstractmethod
    def has_snapshots(self, side: Side, **where: Any) -> bool:
        """Whether `snapshots` would return any."""

    @abstractmethod
    def committed_since(self, moment: datetime) -> Sequence[SnapshotLineage]:
        """The sink's rows with a create time at or after a moment, in order of time."""

    def newest(self, limit: int, until: datetime | None = None) -> Sequence[SnapshotLineage]:
        """The sink's rows with the latest create times, at or before a moment, newest first; at most so many."""
        rows = [row for row in self.snapshots("sink") if until is None or row.create_time <= until]
        return sorted(rows, key=lambda row: (row.create_time, row), reverse=True)[:limit]

    @abstractmethod
    def columns(self, **where: Any) -> Sequence[ColumnLineage]:
        """Which columns jobs compute from which, one row for each pair, in the order of the fields of ColumnLineage."""

    @abstractmethod
    def startups(self, **where: Any) -> Sequence[JobStartup]:
        """The snapshot of each table that jobs began with, in the order of the fields of JobStartup."""

    def offsets(self, **where: Any) -> Sequence[OffsetLineage]:
        """Which records of topics jobs consumed, in the order of the fields of OffsetLineage; `where` names those fields."""
        return []

    @abstractmethod
    def reconciled(self, **where: Any) -> Sequence[Reconciled]:
        """Up to which snapshot each branch was read: one row for each branch at most."""

    @abstractmethod
    def delete_tables(self, job: str) -> int:
        """Forget which tables and columns a job reads and writes; returns the number of rows about tables."""

    @abstractmethod
    def delete_snapshots(self, job: str, barrier_ids: Sequence[int] | None = None) -> int:
        """Forget which snapshots a job consumed and produced, at all barriers or at these; returns the number of rows."""

    @abstractmethod
    def delete_startups(self, job: str) -> int:
        """Forget the versions that a job began with; returns the number of rows."""

    @abstractmethod
    def rename_table(self, name: tuple[str, str], new: tuple[str, str]) -> None:
        """From now on all rows about a table (database, name) are about one of another name."""

    @abstractmethod
    def set_apart(self, snapshot: SnapshotLineage) -> None:
        """Rows about a snapshot of the same branch and number, committed at another time than `snapshot_time`, are about
        one whose number has been given again: they get the branch that `entities.replaced_branch` says. Rows about the snapshot
        itself that have that branch, because another one had its number when they were stored, get its own again.
        """

    @abstractmethod
    def close(self) -> None:
        """Release connections."""

    def check(self) -> None:
        """Look at all that is kept. Raises UnreadableStore if it is in a file that has to be replaced."""
        return


def open_lineage_store(options: Mapping[str, str]) -> LineageStore:
    """The store that catalog options ask for. Raises InvalidRequest, listing what is installed, if there is none;
    UnreachableStore if it does not answer.
    """
    store = _factory(options)(options)
    assert isinstance(store, LineageStore)
    return store


def check_lineage_options(options: Mapping[str, str]) -> None:
    """Raise InvalidRequest if there can be no store of these options. None is opened."""
    if options.get("lineage-meta", "jdbc") == "jdbc":
        kind_of(options)
    else:
        _factory(options)


def _factory(options: Mapping[str, str]) -> Callable[[Mapping[str, str]], LineageStore]:
    identifier = options.get("lineage-meta", "jdbc")
    factory: Callable[[Mapping[str, str]], LineageStore] | None = load_extension(
        ENTRY_POINT_GROUP, identifier, "lineage store"
    )
    if factory is None:
        raise InvalidRequest(
            f"Catalog option 'lineage-meta' = {identifier!r}: no such lineage store is installed. "
            f"Installed: {', '.join(extension_names(ENTRY_POINT_GROUP)) or 'none'}."
        )
    return factory
