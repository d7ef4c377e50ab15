"""What every lineage store has to do, as tests for those of one's own.

from lineage.testing import LineageStoreContract

class TestMyStore(LineageStoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        with closing(MyStore(tmp_path)) as store:
            yield store
"""

from datetime import datetime, timedelta
from functools import partial

import pytest

from storage import InvalidRequest

from .entities import ColumnLineage, JobStartup, Reconciled, SnapshotLineage, TableLineage
from .store import LineageStore

MOMENT = datetime(2024, 1, 2, 3, 4, 5, 678000)
LATER = MOMENT + timedelta(milliseconds=1)


def snapshot_lineage(
    job: str, barrier: int, snapshot_id: int, *, table: str = "t", time: datetime = MOMENT
) -> SnapshotLineage:
    """A row about a snapshot of a table of database d, on branch main."""
    return SnapshotLineage(job, barrier, "d", table, "main", snapshot_id, time, time)


class LineageStoreContract:
    """Tests that a store passes. A subclass has the fixture `store`: an empty one of its own for each test."""

    def test_storing_twice_changes_nothing(self, store: LineageStore) -> None:
        """The first row of a key stays, of every kind of row; `replace=True` puts the new one in its place."""
        first = snapshot_lineage("j", 1, 5)
        store.store_snapshots("source", [first])
        store.store_snapshots("source", [snapshot_lineage("j", 1, 5, time=LATER), snapshot_lineage("j", 1, 6)])
        assert store.snapshots("source") == [first, snapshot_lineage("j", 1, 6)]
        table = TableLineage("j", "d", "t", "main", MOMENT)
        store.store_tables("sink", [table, table])
        store.store_tables("sink", [TableLineage("j", "d", "t", "main", LATER)])
        assert store.tables("sink") == [table]
        store.store_tables("sink", [TableLineage("j", "d", "t", "main", LATER)], replace=True)
        assert store.tables("sink") == [TableLineage("j", "d", "t", "main", LATER)]
        startup = JobStartup("j", "d", "t", "main", 5)
        store.store_startups([startup])
        store.store_startups([JobStartup("j", "d", "t", "main", 6)])
        assert store.startups(job="j") == [startup]
        column = ColumnLineage("j", "d", "t", "main", "a", "c", "d", "s", "b")
        store.store_columns([column, column])
        assert store.columns(job="j") == [column]

    def test_nothing_to_store_is_nothing(self, store: LineageStore) -> None:
        """Empty lists are taken, and store no row."""
        store.store_snapshots("sink", [])
        store.store_tables("sink", [], replace=True)
        assert not store.snapshots("sink")

    def test_times_are_kept_to_the_millisecond_and_names_to_the_letter(self, store: LineageStore) -> None:
        """Job names that differ in case, in letters beyond ASCII, in quotes, `%` and backslash are different names, and a
        barrier id has 64 bits.
        """
        rows = [snapshot_lineage(job, 1 << 60, 1) for job in ("J", "j", "jöb/数据", 'it\'s "x" 100% \\')]
        store.store_snapshots("sink", rows)
        assert sorted(store.snapshots("sink")) == sorted(rows)
        for row in rows:
            assert store.snapshots("sink", job=row.job) == [row]

    def test_conditions_hold_for_rows_of_every_kind(self, store: LineageStore) -> None:
        """Letter by letter, and no value at all is met by no row; deleting no barriers deletes nothing."""
        for table in ("t", "T"):
            store.store_tables("sink", [TableLineage("j", "d", table, "main", MOMENT)])
            store.store_startups([JobStartup("j", "d", table, "main", 5)])
            store.store_columns([ColumnLineage("j", "d", table, "main", "a", "c", "d", "s", "b")])
            store.store_snapshots("sink", [snapshot_lineage("j", 1, 1, table=table)])
            store.store_reconciled(Reconciled("d", table, "main", 1, MOMENT))
        store.store_reconciled(Reconciled("d", "t", "b", 2, MOMENT))
        listings = (partial(store.tables, "sink"), store.startups, store.columns, partial(store.snapshots, "sink"))
        for rows_of in listings:
            assert [row.table for row in rows_of(table="T")] == ["T"]
            assert rows_of(table=[]) == []
            assert len(rows_of()) == 2
        assert store.reconciled(table="t", branch="b") == [Reconciled("d", "t", "b", 2, MOMENT)]
        assert sorted(row.table for row in store.reconciled(branch="main")) == ["T", "t"]
        assert store.delete_snapshots("j", []) == 0
        assert len(store.snapshots("sink")) == 2

    def test_a_store_can_be_closed(self, store: LineageStore) -> None:
        """Also twice."""
        store.close()
        store.close()

    def test_rows_are_found_by_any_of_their_fields_and_deleted_by_job(self, store: LineageStore) -> None:
        """`where` takes a value or several for a field. The `delete_…` methods return how many rows they deleted."""
        rows = [snapshot_lineage(job, barrier, barrier) for job in ("j", "k") for barrier in (1, 2, 3)]
        store.store_snapshots("sink", rows)
        assert store.snapshots("sink", job="k", barrier_id=[2, 9]) == [rows[4]]
        assert store.snapshots("sink", snapshot_id=(1, 3), job="j") == [rows[0], rows[2]]
        assert store.snapshots("sink", table="none") == []
        assert (store.has_snapshots("sink", table="none"), store.has_snapshots("sink", job="k")) == (False, True)
        assert store.delete_snapshots("j", [1, 2]) == 2
        assert store.delete_snapshots("j") == 1
        assert {row.job for row in store.snapshots("sink")} == {"k"}
        store.store_tables("source", [TableLineage("j", "d", "t", "main", MOMENT)])
        store.store_columns([ColumnLineage("j", "d", "t", "main", "a", "c", "d", "s", "b")])
        store.store_startups([JobStartup("j", "d", "t", "main", 5)])
        assert store.delete_tables("j") == 1
        assert store.delete_tables("j") == 0
        assert not store.columns()
        assert store.delete_startups("j") == 1

    def test_what_was_committed_since_a_moment_comes_in_order_of_time(self, store: LineageStore) -> None:
        """`committed_since` returns rows of the moment itself as well, of all jobs."""
        rows = [
            snapshot_lineage("j", 1, 1, time=LATER),
            snapshot_lineage("k", 1, 2),
            snapshot_lineage("j", 2, 3, time=LATER + timedelta(hours=1)),
        ]
        store.store_snapshots("sink", rows)
        assert store.committed_since(MOMENT) == [rows[1], rows[0], rows[2]]
        assert store.committed_since(LATER) == [rows[0], rows[2]]

    def test_how_far_a_branch_was_read_is_replaced(self, store: LineageStore) -> None:
        """The last row stored counts, even if its snapshot id is lower, as after a rollback."""
        for number in (3, 7, 2):
            store.store_reconciled(Reconciled("d", "t", "main", number, MOMENT))
        assert store.reconciled(database="d", table="t", branch="main") == [Reconciled("d", "t", "main", 2, MOMENT)]

    def test_a_table_is_renamed_everywhere(self, store: LineageStore) -> None:
        """`rename_table` changes rows of every kind about the table, also where it is the source of columns, and no others."""
        store.store_snapshots("sink", [snapshot_lineage("j", 1, 1)])
        store.store_snapshots("source", [snapshot_lineage("k", 1, 1), snapshot_lineage("k", 1, 1, table="other")])
        store.store_tables("source", [TableLineage("k", "d", "t", "main", MOMENT)])
        store.store_columns([ColumnLineage("k", "d", "x", "main", "a", "c", "d", "t", "b")])
        store.store_startups([JobStartup("run", "d", "t", "main", 1)])
        store.rename_table(("d", "t"), ("e", "u"))
        assert [(row.database, row.table) for row in store.snapshots("source")] == [("d", "other"), ("e", "u")]
        for rows in (store.snapshots("sink"), store.tables("source"), store.startups()):
            assert [(row.database, row.table) for row in rows] == [("e", "u")]
        assert [(row.source_database, row.source_table) for row in store.columns()] == [("e", "u")]

    def test_snapshots_that_share_a_number_are_told_apart(self, store: LineageStore) -> None:
        """`set_apart` gives the older of two snapshots with one id a branch of its own, `main~` and its commit time."""
        store.store_snapshots("sink", [snapshot_lineage("j", 1, 5)])
        store.store_snapshots("source", [snapshot_lineage("k", 1, 5), snapshot_lineage("k", 2, 5, time=LATER)])
        new = snapshot_lineage("j", 2, 5, time=LATER)
        store.set_apart(new)
        store.store_snapshots("sink", [new])
        assert [(row.branch, row.barrier_id) for row in store.snapshots("sink")] == [
            ("main~20240102T030405678", 1),
            ("main", 2),
        ]
        assert sorted((row.branch, row.barrier_id) for row in store.snapshots("source")) == [
            ("main", 2),
            ("main~20240102T030405678", 1),
        ]

    def test_a_snapshot_that_was_set_apart_and_has_its_number_gets_its_own_name_again(
        self, store: LineageStore
    ) -> None:
        """`set_apart` undoes what it did once the id belongs to the first snapshot again, and keeps one row of each."""
        first, second = snapshot_lineage("j", 1, 5), snapshot_lineage("j", 2, 5, time=LATER)
        store.store_snapshots("source", [snapshot_lineage("k", 1, 5), snapshot_lineage("l", 3, 5)])
        store.set_apart(second)
        # Told once more by its own name, beside what was set apart.
        store.store_snapshots("source", [snapshot_lineage("k", 1, 5), snapshot_lineage("k", 2, 5, time=LATER)])
        store.set_apart(first)
        assert sorted((row.branch, row.job, row.barrier_id) for row in store.snapshots("source")) == [
            ("main", "k", 1),
            ("main", "l", 3),
            ("main~20240102T030405679", "k", 2),
        ]

    def test_a_name_that_is_too_long_is_refused(self, store: LineageStore) -> None:
        """Names of up to 190 characters are kept; a longer one raises InvalidRequest, which says both numbers."""
        with pytest.raises(InvalidRequest, match="191 characters, of at most 190"):
            store.store_tables("sink", [TableLineage("j" * 191, "d", "t", "main", MOMENT)])
        store.store_tables("sink", [TableLineage("ü" * 190, "d" * 190, "t" * 190, "b" * 190, MOMENT)])
