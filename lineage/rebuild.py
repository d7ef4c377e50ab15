"""Record again what all tables of a catalog say of themselves."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from storage import Catalog, CorruptData, NotFound, Snapshot, Table, progress_of_each

from .current_names import CurrentNames
from .entities import JobStartup
from .generations import record_beginning, set_former_apart
from .recorder import RUN_PROPERTY, Commit, LineageRecorder, ToldApart, as_branch, commits_of, remember

_log = logging.getLogger(__name__)


def rebuild(catalog: Catalog, recorder: LineageRecorder) -> int:
    """Record every snapshot of every table and branch again; returns how many were looked at.

    What is there already stays as it is, so this both recreates a lost database and fills in what a crash left out. Raises
    LineageUnavailable, having told all other stores, if one cannot be told.
    Sources that have been renamed since are recorded under the names that they have now. A table that is damaged is left out,
    and named in a warning.
    """
    names = CurrentNames(catalog)
    commits: list[Commit] = []
    read: list[tuple[Table, list[Snapshot]]] = []
    for name in progress_of_each(catalog.tables(), "lineage", "tables read"):
        try:
            table = catalog.table(name)
            branches = [table, *(table.on_branch(branch) for branch in table.branches.names())]
            histories = [(branch, branch.snapshots.all()) for branch in branches]
            made = [
                commit for branch, snapshots in histories for commit in commits_of(branch, snapshots, recorder, names)
            ]
            commits += [*made, *as_branch(table, made)]
        except CorruptData as error:
            # It concerns no other table.
            _log.warning("The lineage of %s is left out: %s", name, error)
            continue
        read += histories
    noted = ToldApart()
    with noted.apart():
        recorder.record(commits)
    with noted.apart():
        _record_startups(commits, recorder)
    noted.raise_failure()
    for branch_table, snapshots in read:
        if snapshots:
            set_former_apart(branch_table, snapshots[-1], recorder.store)
        # Where a damaged one begins is not known; `snapline check` names it.
        with suppress(CorruptData, NotFound):
            record_beginning(branch_table, recorder.store)
        remember(branch_table, snapshots, recorder)
    return sum(len(snapshots) for _, snapshots in read)


def _record_startups(commits: Sequence[Commit], recorder: LineageRecorder) -> None:
    """What a run read and had not made itself is what it began with."""
    made = {((commit.snapshot.properties or {}).get(RUN_PROPERTY), commit.sink) for commit in commits}
    rows = []
    for commit in commits:
        run = (commit.snapshot.properties or {}).get(RUN_PROPERTY)
        if run:
            rows += [
                JobStartup(run, source.database, source.table, source.branch, source.snapshot_id)
                for source in commit.sources
                if source.catalog == recorder.catalog and (run, source) not in made
            ]
    recorder.store.store_startups(sorted(rows))
