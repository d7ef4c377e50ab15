"""Bring lineage up to date with what tables say: after a crash, and after commits of those who tell lineage nothing."""

from collections.abc import Mapping

from storage import MAIN_BRANCH, Catalog, Identifier, Table

from .current_names import CurrentNames
from .entities import Reconciled, commit_time, moment_of_ms
from .generations import record_beginning, set_former_apart
from .recorder import LineageRecorder, as_branch, commits_of, remember

# By database, table and branch, how far each is known to be recorded.
Until = Mapping[tuple[str, str, str], Reconciled]


def known_reconciled(recorder: LineageRecorder) -> Until:
    """How far each branch of a catalog is known to be recorded, by database, table and branch."""
    return {(row.database, row.table, row.branch): row for row in recorder.store.reconciled()}


def reconcile(table: Table, recorder: LineageRecorder, catalog: Catalog, until: Until | None = None) -> int:
    """Record what a crash left out of one branch of a table; returns the number of snapshots that were looked at.

    Only snapshots after those that are known to be recorded are read. `until`: the answer of `known_reconciled`, for those who
    ask for many tables.
    """
    snapshots = table.snapshots
    latest = snapshots.latest_id()
    if latest is None:
        return 0
    identifier = table.identifier
    known = (
        _reconciled(identifier, recorder)
        if until is None
        else until.get((identifier.database, identifier.table, identifier.branch))
    )
    if known is None:
        _tell_renamed(identifier, recorder, catalog)
        known = _reconciled(identifier, recorder)
    last = None if known is None else snapshots.find(known.snapshot_id)
    is_known = known is not None and last is not None and commit_time(last) == known.snapshot_time
    start = last.id + 1 if last is not None and is_known else snapshots.earliest_id() or latest
    if start > latest:
        return 0
    missing = snapshots.between(start - 1, latest)
    commits = commits_of(table, missing, recorder, CurrentNames(catalog))
    # What main is since it was replaced may have been written where nobody told lineage.
    recorder.record(commits if is_known else [*commits, *as_branch(table, commits)])
    if not is_known:
        if missing:
            set_former_apart(table, missing[-1], recorder.store)
        _tell_beginning(table, recorder, catalog)
    remember(table, missing, recorder)
    return len(missing)


def _tell_beginning(table: Table, recorder: LineageRecorder, catalog: Catalog) -> None:
    branch = table.identifier.branch
    begun_at = None if branch == MAIN_BRANCH else table.branches.begun_at(branch)
    if begun_at is not None and begun_at[0] in (MAIN_BRANCH, *table.branches.names()):
        # Its last change before a compaction has to be known.
        reconcile(table.on_branch(begun_at[0]), recorder, catalog)
        record_beginning(table, recorder.store)


def _reconciled(identifier: Identifier, recorder: LineageRecorder) -> Reconciled | None:
    rows = recorder.store.reconciled(database=identifier.database, table=identifier.table, branch=identifier.branch)
    return rows[0] if rows else None


def _tell_renamed(identifier: Identifier, recorder: LineageRecorder, catalog: Catalog) -> None:
    """Say again under which name a table is found, if the store could not be told when it was renamed.

    What is known under the old name may also be about a table that was made, and dropped, since: then it stays.
    """
    store = recorder.store
    if store.reconciled(database=identifier.database, table=identifier.table):
        return
    for former in catalog.former_names(identifier.full_name):
        old, until = Identifier.parse(former.name), moment_of_ms(former.until_ms)
        place = {"database": old.database, "table": old.table}
        times = [row.create_time for row in store.tables("sink", **place)]
        times += [row.create_time for row in store.snapshots("sink", **place)]
        if times and max(times) <= until and not catalog.exists(former.name):
            store.rename_table((old.database, old.table), (identifier.database, identifier.table))
