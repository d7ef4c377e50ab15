"""How the rows of two snapshots differ, by key and column: the comparison that recoveries use, for any two snapshots."""

from dataclasses import dataclass

from storage import InvalidRequest, NotFound, SnapshotRef, Table
from storage.engines.duckdb_compare import Comparison, compare

from .warehouse_session import WarehouseSession


@dataclass(frozen=True)
class RowComparison:
    """`comparison`: left is before, right after. None if rows are not compared; `why_not` says why."""

    comparison: Comparison | None
    why_not: str = ""

    def describe(self) -> str:
        """A sentence without its full stop."""
        return self.why_not if self.comparison is None else self.comparison.describe()


def compare_rows(
    session: WarehouseSession, left: SnapshotRef, right: SnapshotRef, most_rows: int | None = None
) -> RowComparison:
    """How the rows of two snapshots of one table, or of its branches, differ.

    `most_rows`: of larger tables rows are not compared. What cannot be compared, because it has expired or is of two tables,
    is said in `why_not`.
    """
    if (left.catalog, left.database, left.table) != (right.catalog, right.database, right.table):
        return RowComparison(None, "not compared: these are two tables")
    try:
        before, after = _readable(session, left), _readable(session, right)
        count = max(_count(before, left), _count(after, right))
        if most_rows is not None and count > most_rows:
            return RowComparison(None, f"not compared: its files hold {count} records, more than {most_rows}")
        return RowComparison(compare(before, after))
    except (NotFound, InvalidRequest) as error:
        return RowComparison(None, f"not compared: {str(error).rstrip('.')}")


def _readable(session: WarehouseSession, ref: SnapshotRef) -> Table:
    """A table at a snapshot. Raises NotFound if that is gone."""
    gone = session.fate(ref)
    if gone and gone != "taken back":
        raise NotFound(f"{ref} is {gone}")
    return session.catalog_of(ref.catalog).table(ref.table_name).after_commit(ref.snapshot_id)


def _count(table: Table, ref: SnapshotRef) -> int:
    snapshot = table.snapshot(ref.snapshot_id)
    return 0 if snapshot is None else snapshot.total_record_count
