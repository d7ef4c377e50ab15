"""What writes lineage down: a listener of commits, and the reading of tables for what no listener was there to hear."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from storage import Catalog, Identifier, Snapshot, SnapshotRef, Table

from .entities import (
    ColumnLineage,
    JobStartup,
    Reconciled,
    Side,
    SnapshotLineage,
    TableLineage,
    columns_of,
    commit_time,
    moment_of_ms,
    replaced_branch,
    sources_of,
)
from .store import LineageStore

# The property that names the Dagster run of a commit; what a run read first is what it began with.
RUN_PROPERTY = "snapline.run"


@dataclass(frozen=True, slots=True)
class Commit:
    """A snapshot of a branch as lineage sees it: the barrier of a job, what it read, and what it made."""

    sink: SnapshotRef
    sources: tuple[SnapshotRef, ...]
    snapshot: Snapshot

    @property
    def job(self) -> str:
        return self.snapshot.commit_user

    @property
    def moment(self) -> datetime:
        return commit_time(self.snapshot)

    def row(self, ref: SnapshotRef) -> SnapshotLineage:
        """Says that the barrier consumed or produced a snapshot."""
        return SnapshotLineage(
            self.job, self.snapshot.commit_identifier, ref.database, ref.table, ref.branch, ref.snapshot_id, self.moment,
            None if ref.time_ms is None else moment_of_ms(ref.time_ms),
        )  # fmt: skip


class LineageRecorder:
    """Listens to the commits of one catalog. `stores` are the lineage stores by catalog name: sources may lie in others."""

    def __init__(self, catalog: str, stores: Mapping[str, LineageStore], *, tables: bool, snapshots: bool) -> None:
        self._catalog = catalog
        self._stores = stores
        self._tables = tables
        self._snapshots = snapshots

    @property
    def catalog(self) -> str:
        return self._catalog

    @property
    def store(self) -> LineageStore:
        """The store of the catalog itself."""
        return self._stores[self._catalog]

    def notify_commit_complete(self, identifier: Identifier, snapshot: Snapshot) -> None:
        """Record a visible commit. Compactions change no rows and have no lineage."""
        self.record([self.commit_of(identifier, snapshot)] if snapshot.changes_rows else [])

    def notify_table_renamed(self, identifier: Identifier, new: Identifier) -> None:
        """What was recorded about a table is about the same table under its new name."""
        old = (identifier.database, identifier.table)
        self.store.rename_table(old, (new.database, new.table))

    def commit_of(self, identifier: Identifier, snapshot: Snapshot) -> Commit:
        """What a snapshot says of itself."""
        one = identifier
        sink = SnapshotRef(self._catalog, one.database, one.table, one.branch, snapshot.id, snapshot.time_ms)
        return Commit(sink, tuple(sources_of(snapshot)), snapshot)

    def record(self, commits: Sequence[Commit]) -> None:
        """Record commits, all sources before the first sink: a sink without its sources would be an answer that leaves
        something out.
        """
        if self._tables:
            self._record_tables(commits)
        if not self._snapshots or not commits:
            return
        for commit in commits:
            self.store.set_apart(commit.row(commit.sink))
        made = {_number(commit.sink): commit.sink.time_ms for commit in commits}
        rows: dict[str, list[SnapshotLineage]] = {}
        for commit in commits:
            for source in commit.sources:
                if source.catalog in self._stores:
                    rows.setdefault(source.catalog, []).append(commit.row(self._told_apart(source, made)))
        for catalog, found in rows.items():
            self._stores[catalog].store_snapshots("source", found)
        self.store.store_snapshots("sink", [commit.row(commit.sink) for commit in commits])

    def _told_apart(self, source: SnapshotRef, made: Mapping[tuple[object, ...], int | None]) -> SnapshotRef:
        """A source by its own name, also when its number has since been given to another snapshot."""
        if source.time_ms is None:
            return source
        moment = moment_of_ms(source.time_ms)
        if _number(source) in made:
            same = made[_number(source)] == source.time_ms
        else:
            one = source
            known = self._stores[one.catalog].snapshots(
                "sink", database=one.database, table=one.table, branch=one.branch, snapshot_id=one.snapshot_id
            )
            same = not known or any(row.snapshot_time in (None, moment) for row in known)
        if same:
            return source
        branch = replaced_branch(source.branch, moment)
        return SnapshotRef(source.catalog, source.database, source.table, branch, source.snapshot_id, source.time_ms)

    def _record_tables(self, commits: Sequence[Commit]) -> None:
        """Tables and columns of jobs, with the time of the first commit that used them."""
        first: dict[tuple[str, Side, str, str, str, str], datetime] = {}
        columns: list[ColumnLineage] = []
        for commit in commits:
            if not commit.sources:
                continue
            for side, refs in _sides(commit):
                for ref in refs:
                    first.setdefault(
                        (ref.catalog, side, commit.job, ref.database, ref.table, ref.branch), commit.moment
                    )
            columns += [
                ColumnLineage(commit.job, commit.sink.database, commit.sink.table, commit.sink.branch, name, *source)
                for name, sources in columns_of(commit.snapshot).items()
                for source in sources
            ]
        for (catalog, side, job, database, table, branch), moment in first.items():
            if catalog not in self._stores:
                continue
            store = self._stores[catalog]
            place = {"job": job, "database": database, "table": table, "branch": branch}
            # When a job was built its tables were recorded in advance; its first commit is what can be told again.
            new = self._snapshots and not store.has_snapshots(side, **place)
            store.store_tables(side, [TableLineage(job, database, table, branch, moment)], replace=new)
        self.store.store_columns(columns)

    def record_job(self, job: str, sources: Iterable[SnapshotRef], sinks: Iterable[SnapshotRef]) -> None:
        """Record the tables that a job reads and writes, before it has committed."""
        if not self._tables:
            return
        now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
        both: list[tuple[Side, list[SnapshotRef]]] = [("source", list(sources)), ("sink", list(sinks))]
        for side, refs in both:
            for catalog, store in self._stores.items():
                rows = [
                    TableLineage(job, one.database, one.table, one.branch, now)
                    for one in refs
                    if one.catalog == catalog
                ]
                store.store_tables(side, rows)

    def record_startup(self, job: str, refs: Iterable[SnapshotRef], *, anew: bool = False) -> None:
        """Record the versions that a job begins with; what it began with before stays, unless it begins anew."""
        listed = list(refs)
        for catalog, store in self._stores.items():
            rows = [
                JobStartup(job, one.database, one.table, one.branch, one.snapshot_id)
                for one in listed
                if one.catalog == catalog
            ]
            if anew and rows:
                store.delete_startups(job)
            store.store_startups(rows)


def _number(ref: SnapshotRef) -> tuple[object, ...]:
    return ref.catalog, ref.database, ref.table, ref.branch, ref.snapshot_id


def _sides(commit: Commit) -> Iterator[tuple[Side, Sequence[SnapshotRef]]]:
    yield "source", commit.sources
    yield "sink", [commit.sink]


def rebuild(catalog: Catalog, recorder: LineageRecorder) -> int:
    """Record every snapshot of every table and branch again; returns how many were looked at.

    What is there already stays as it is, so this both recreates a lost database and fills in what a crash left out.
    Sources that have been renamed since are recorded under the names that they have now.
    """
    names = _Names(catalog)
    commits: list[Commit] = []
    count = 0
    for name in catalog.tables():
        table = catalog.table(name)
        for one in [table, *(table.on_branch(branch) for branch in table.branches.names())]:
            snapshots = list(one.store.snapshots.all())
            commits += _commits(one, snapshots, recorder, names)
            count += len(snapshots)
            _remember(one, snapshots, recorder)
    recorder.record(commits)
    _record_startups(commits, recorder)
    return count


def reconcile(table: Table, recorder: LineageRecorder, catalog: Catalog) -> int:
    """Record what a crash left out of one branch of a table; returns the number of snapshots that were looked at.

    Only snapshots after those that are known to be recorded are read.
    """
    snapshots = table.store.snapshots
    latest = snapshots.latest_id()
    if latest is None:
        return 0
    one = table.identifier
    known = recorder.store.reconciled(database=one.database, table=one.table, branch=one.branch)
    start = snapshots.earliest_id() or latest
    if known:
        last = snapshots.find(known[0].snapshot_id)
        if last is not None and commit_time(last) == known[0].snapshot_time:
            start = last.id + 1
    if start > latest:
        return 0
    found = [one for one in map(snapshots.find, range(start, latest + 1)) if one is not None]
    recorder.record(_commits(table, found, recorder, _Names(catalog)))
    _remember(table, found, recorder)
    return len(found)


def _commits(table: Table, snapshots: Iterable[Snapshot], recorder: LineageRecorder, names: "_Names") -> list[Commit]:
    found = []
    for snapshot in snapshots:
        if snapshot.changes_rows:
            commit = recorder.commit_of(table.identifier, snapshot)
            found.append(Commit(commit.sink, tuple(names.of(one, snapshot) for one in commit.sources), snapshot))
    return found


def _remember(table: Table, snapshots: Sequence[Snapshot], recorder: LineageRecorder) -> None:
    if snapshots:
        one, last = table.identifier, snapshots[-1]
        recorder.store.store_reconciled(Reconciled(one.database, one.table, one.branch, last.id, commit_time(last)))


def _record_startups(commits: Sequence[Commit], recorder: LineageRecorder) -> None:
    """What a run read and had not made itself is what it began with."""
    made = {((one.snapshot.properties or {}).get(RUN_PROPERTY), _number(one.sink)) for one in commits}
    rows = []
    for commit in commits:
        run = (commit.snapshot.properties or {}).get(RUN_PROPERTY)
        if run:
            rows += [
                JobStartup(run, one.database, one.table, one.branch, one.snapshot_id)
                for one in commit.sources
                if one.catalog == recorder.catalog and (run, _number(one)) not in made
            ]
    recorder.store.store_startups(sorted(rows))


class _Names:
    """What tables are called now, by the names that they had."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._former: dict[str, list[tuple[int, str]]] | None = None

    def of(self, ref: SnapshotRef, sink: Snapshot) -> SnapshotRef:
        """The same snapshot by its table's name of today."""
        if ref.catalog != self._catalog.name:
            return ref
        then = sink.time_ms if ref.time_ms is None else ref.time_ms
        for until, name in self._by_former_name().get(f"{ref.database}.{ref.table}", []):
            if then <= until:
                now = Identifier.parse(name)
                return SnapshotRef(ref.catalog, now.database, now.table, ref.branch, ref.snapshot_id, ref.time_ms)
        return ref

    def _by_former_name(self) -> dict[str, list[tuple[int, str]]]:
        if self._former is None:
            self._former = {}
            for name in self._catalog.tables():
                for former in self._catalog.former_names(name):
                    self._former.setdefault(former.name, []).append((former.until_ms, name))
            for listed in self._former.values():
                listed.sort()
        return self._former
