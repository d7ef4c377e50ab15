"""What writes lineage down: a listener of commits, and the reading of tables for what no listener was there to hear."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime

from storage import (
    MAIN_BRANCH,
    Catalog,
    Clock,
    Identifier,
    Snapshot,
    SnapshotRef,
    StorageError,
    Table,
    TakenNewest,
    taken_newest,
)

from .current_names import CurrentNames, committed_at, is_of_former
from .entities import (
    NAME_LENGTH,
    ColumnLineage,
    JobStartup,
    OffsetLineage,
    Reconciled,
    Side,
    SnapshotLineage,
    TableLineage,
    columns_of,
    commit_time,
    moment_of_ms,
    offsets_of,
    replaced_branch,
    sources_of,
)
from .generations import record_beginning
from .graph import MOST_KEYS
from .guarded_store import LineageUnavailable, stopping_nobody
from .store import LineageStore

_log = logging.getLogger(__name__)
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
        """The job that made the commit: its commit user."""
        return self.snapshot.commit_user

    @property
    def moment(self) -> datetime:
        """When the commit was made: UTC, without time zone, to the millisecond."""
        return commit_time(self.snapshot)

    def row(self, ref: SnapshotRef) -> SnapshotLineage:
        """Says that the barrier consumed or produced a snapshot."""
        return SnapshotLineage(
            job=self.job,
            barrier_id=self.snapshot.commit_identifier,
            database=ref.database,
            table=ref.table,
            branch=ref.branch,
            snapshot_id=ref.snapshot_id,
            create_time=self.moment,
            snapshot_time=None if ref.time_ms is None else moment_of_ms(ref.time_ms),
        )


class LineageRecorder:
    """Listens to the commits of one catalog. `stores` are the lineage stores by catalog name: sources may lie in others.
    `catalog_of` opens a catalog by its name, to look which of two snapshots has a number now.

    A store that is unavailable is passed over in whatever is done for a writer.
    """

    def __init__(
        self,
        catalog: str,
        stores: Mapping[str, LineageStore],
        *,
        tables: bool,
        snapshots: bool,
        catalog_of: Callable[[str], Catalog] | None = None,
    ) -> None:
        self._catalog = catalog
        self._stores = stores
        self._tables = tables
        self._snapshots = snapshots
        self._catalog_of = catalog_of
        # What was warned of.
        self._too_long: set[tuple[str, str]] = set()

    @property
    def catalog(self) -> str:
        """The name of the catalog whose commits are recorded."""
        return self._catalog

    @property
    def store(self) -> LineageStore:
        """The store of the catalog itself."""
        return self._stores[self._catalog]

    def notify_commit_complete(self, identifier: Identifier, snapshot: Snapshot) -> None:
        """Record a visible commit. Compactions change no rows and have no lineage."""
        if not snapshot.changes_rows:
            return
        try:
            with stopping_nobody():
                self.record([self._by_names_of_today(self.commit_of(identifier, snapshot))])
                self._tell_beginning(identifier)
        except StorageError as error:
            _log.warning("The lineage of snapshot %s of %s cannot be kept: %s", snapshot.id, identifier, error)

    def _tell_beginning(self, identifier: Identifier) -> None:
        """A branch that is written says where it was forked off: nobody can tell once it is deleted."""
        if self._snapshots and identifier.branch != MAIN_BRANCH and self._catalog_of is not None:
            record_beginning(self._catalog_of(self._catalog).table(str(identifier)), self.store)

    def notify_table_renamed(self, identifier: Identifier, new: Identifier) -> None:
        """What was recorded about a table is about the same table under its new name."""
        with stopping_nobody():
            self.store.rename_table((identifier.database, identifier.table), (new.database, new.table))

    def commit_of(self, identifier: Identifier, snapshot: Snapshot) -> Commit:
        """What a snapshot says of itself."""
        place = identifier
        sink = SnapshotRef(self._catalog, place.database, place.table, place.branch, snapshot.id, snapshot.time_ms)
        taken = taken_newest(snapshot)
        sources = sources_of(snapshot)
        if taken is not None and taken.time_ms is not None:
            sources.append(_of_branch(sink, taken))
        return Commit(sink, tuple(dict.fromkeys(sources)), snapshot)

    def _by_names_of_today(self, commit: Commit) -> Commit:
        """A commit that took over what another one had made names its sources as their tables were called then."""
        with suppress(StorageError):
            names: dict[str, CurrentNames] = {}
            renamed = {
                source: self._name_of_today(source, commit.snapshot, names)
                for source in self._not_known(commit.sources)
            }
            return replace(commit, sources=tuple(dict.fromkeys(renamed.get(each, each) for each in commit.sources)))
        return commit

    def _known_among(self, refs: Iterable[SnapshotRef]) -> list[str]:
        """The catalogs of snapshots that there are; no others are asked for."""
        return sorted(catalog for catalog in {ref.catalog for ref in refs} if catalog in self._stores)

    def _not_known(self, sources: Sequence[SnapshotRef]) -> Iterator[SnapshotRef]:
        """Those that lineage does not know by their name, or as others."""
        for catalog in self._known_among(sources):
            dated = [source for source in sources if source.catalog == catalog and source.time_ms is not None]
            times = self._times_of(dated)
            for source in dated:
                assert source.time_ms is not None
                if moment_of_ms(source.time_ms) not in times.get(_number(source), ()):
                    yield source

    def _name_of_today(self, source: SnapshotRef, snapshot: Snapshot, names: dict[str, CurrentNames]) -> SnapshotRef:
        """`names`: those of the catalogs that were asked already, each of which reads all of its tables."""
        if self._catalog_of is None or self._is_there(source):
            return source
        if source.catalog not in names:
            names[source.catalog] = CurrentNames(self._catalog_of(source.catalog))
        return names[source.catalog].of(source, snapshot)

    def known_name(self, commit: Commit, source: SnapshotRef) -> SnapshotRef:
        """A source whose table was dropped, by the name that lineage knows: it may have been renamed before."""
        store = self._stores.get(source.catalog)
        if store is None or source.time_ms is None:
            return source
        barrier = commit.snapshot.commit_identifier
        rows = store.snapshots("source", job=commit.job, barrier_id=barrier, snapshot_id=source.snapshot_id)
        same = [row.ref(source.catalog) for row in rows if row.snapshot_time == moment_of_ms(source.time_ms)]
        is_known = any((each.database, each.table) == (source.database, source.table) for each in same)
        return source if is_known else next(iter(same), source)

    def record(self, commits: Sequence[Commit]) -> None:
        """Record commits, all sources before the first sink: a sink without its sources would be an answer that leaves
        something out. What has a name that lineage cannot keep is left out, and named in a warning.

        Raises LineageUnavailable, having told all other stores, if one cannot be told.
        """
        noted = ToldApart()
        commits = [
            replace(commit, sources=tuple(source for source in commit.sources if self._keeps(source)))
            for commit in commits
            if self._keeps(commit.sink, commit.job)
        ]
        if self._tables:
            self._record_tables(commits, noted)
        if self._snapshots and commits:
            self._record_offsets(commits, noted)
            self._record_snapshots(commits, noted)
        noted.raise_failure()

    def _keeps(self, ref: SnapshotRef, job: str = "") -> bool:
        """Whether lineage can keep the names of a snapshot and its job."""
        long = next((name for name in (job, ref.database, ref.table, ref.branch) if len(name) > NAME_LENGTH), None)
        if long is not None and (ref.table_name, long) not in self._too_long:
            self._too_long.add((ref.table_name, long))
            _log.warning(
                "Lineage leaves out snapshots of %s: %.60r… has %s characters, and it keeps names of at most %s. "
                "Choose a shorter name.",
                ref.table_name,
                long,
                len(long),
                NAME_LENGTH,
            )
        return long is None

    def _record_offsets(self, commits: Sequence[Commit], noted: "ToldApart") -> None:
        """The records of topics that commits were made from."""
        offset_rows: dict[str, list[OffsetLineage]] = {}
        for commit in commits:
            for each in offsets_of(commit.snapshot):
                ref = SnapshotRef(each.catalog, each.database, each.table, each.topic, each.start)
                if each.catalog in self._stores and self._keeps(ref, each.topic_id):
                    place = each.database, each.table, each.topic, each.partition, each.start, each.end, each.topic_id
                    row = OffsetLineage(commit.job, commit.snapshot.commit_identifier, *place, commit.moment)
                    offset_rows.setdefault(each.catalog, []).append(row)
        for catalog, listed in offset_rows.items():
            with noted.apart():
                self._stores[catalog].store_offsets(listed)

    def _record_snapshots(self, commits: Sequence[Commit], noted: "ToldApart") -> None:
        with noted.apart():
            for commit in commits:
                self.store.set_apart(commit.row(commit.sink))
        made = {_number(commit.sink): commit.sink.time_ms for commit in commits}
        asked = {source for commit in commits for source in commit.sources if source.time_ms is not None}
        for catalog in self._known_among(source for commit in commits for source in commit.sources):
            with noted.apart():
                times = self._times_of(ref for ref in asked if ref.catalog == catalog and _number(ref) not in made)
                rows = [
                    commit.row(self._named(source, made, times))
                    for commit in commits
                    for source in commit.sources
                    if source.catalog == catalog
                ]
                self._stores[catalog].store_snapshots("source", rows)
        with noted.apart():
            self.store.store_snapshots("sink", [commit.row(commit.sink) for commit in commits])

    def _named(
        self,
        source: SnapshotRef,
        made: Mapping[tuple[object, ...], int | None],
        times: Mapping[tuple[object, ...], Sequence[datetime | None]],
    ) -> SnapshotRef:
        """A source by its own name. Lineage may not know yet that its number is given again: then what it knows is set apart."""
        named = _told_apart(source, made, times)
        if source.time_ms is None or _number(source) in made:
            return named
        if named == source:
            return source if _number(source) in times else self._named_by_table(source)
        if not self._is_there(source):
            return named
        self._stores[source.catalog].set_apart(_row_about(source, moment_of_ms(source.time_ms)))
        return source

    def _named_by_table(self, source: SnapshotRef) -> SnapshotRef:
        """A source that lineage does not know, by its own name."""
        with suppress(StorageError):
            if self._catalog_of is not None and is_of_former(source, self._catalog_of(source.catalog)):
                assert source.time_ms is not None
                return replace(source, branch=replaced_branch(source.branch, moment_of_ms(source.time_ms)))
        return source

    def _is_there(self, ref: SnapshotRef) -> bool:
        """Whether a snapshot is the one that has its name now."""
        with suppress(StorageError):
            return self._catalog_of is not None and committed_at(ref, self._catalog_of(ref.catalog)) == ref.time_ms
        return False

    def _times_of(self, refs: Iterable[SnapshotRef]) -> dict[tuple[object, ...], list[datetime | None]]:
        """When the snapshots were committed that have the numbers of some of one catalog, as far as lineage knows."""
        places: dict[tuple[str, str, str, str], set[int]] = {}
        for ref in refs:
            places.setdefault((ref.catalog, ref.database, ref.table, ref.branch), set()).add(ref.snapshot_id)
        times: dict[tuple[object, ...], list[datetime | None]] = {}
        for (catalog, database, table, branch), numbers in places.items():
            ordered = sorted(numbers)
            for start in range(0, len(ordered), MOST_KEYS):
                chunk = ordered[start : start + MOST_KEYS]
                where = {"database": database, "table": table, "branch": branch, "snapshot_id": chunk}
                for row in self._stores[catalog].snapshots("sink", **where):
                    times.setdefault(_number(row.ref(catalog)), []).append(row.snapshot_time)
        return times

    def _record_tables(self, commits: Sequence[Commit], noted: "ToldApart") -> None:
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
                if all(len(each) <= NAME_LENGTH for each in (name, *source))
            ]
        for (catalog, side, job, database, table, branch), moment in first.items():
            if catalog not in self._stores:
                continue
            store = self._stores[catalog]
            place = {"job": job, "database": database, "table": table, "branch": branch}
            with noted.apart():
                # When a job was built its tables were recorded in advance; its first commit is what can be told again.
                new = self._snapshots and not store.has_snapshots(side, **place)
                store.store_tables(side, [TableLineage(job, database, table, branch, moment)], replace=new)
        with noted.apart():
            self.store.store_columns(columns)

    @contextmanager
    def job(self, job: str, sources: Iterable[SnapshotRef], sinks: Iterable[SnapshotRef]) -> Iterator[None]:
        """While a job makes its commit: its tables are recorded, and forgotten if it is new and fails."""
        known = True
        with stopping_nobody():
            known = bool(self.store.tables("sink", job=job))
        self.record_job(job, sources, sinks)
        try:
            yield
        except BaseException:
            if not known:
                # A job that never committed has no lineage.
                with stopping_nobody():
                    self.store.delete_tables(job)
            raise

    def record_job(self, job: str, sources: Iterable[SnapshotRef], sinks: Iterable[SnapshotRef]) -> None:
        """Record the tables that a job reads and writes, before it has committed."""
        if not self._tables:
            return
        now = Clock().now().replace(tzinfo=None, microsecond=0)
        both: list[tuple[Side, Iterable[SnapshotRef]]] = [("source", sources), ("sink", sinks)]
        for side, refs in both:
            for store, listed in self._by_store(refs):
                rows = [
                    TableLineage(job, identifier.database, identifier.table, identifier.branch, now)
                    for identifier in listed
                ]
                with stopping_nobody():
                    store.store_tables(side, rows)

    def record_startup(self, job: str, refs: Iterable[SnapshotRef], *, anew: bool = False) -> None:
        """Record the versions that a job begins with; what it began with before stays, unless it begins anew."""
        for store, listed in self._by_store(refs):
            with stopping_nobody():
                if anew:
                    store.delete_startups(job)
                store.store_startups(
                    [JobStartup(job, ref.database, ref.table, ref.branch, ref.snapshot_id) for ref in listed]
                )

    def _by_store(self, refs: Iterable[SnapshotRef]) -> Iterator[tuple[LineageStore, list[SnapshotRef]]]:
        """The stores of the catalogs that snapshots lie in; no other is touched."""
        by_catalog: dict[str, list[SnapshotRef]] = {}
        for ref in refs:
            by_catalog.setdefault(ref.catalog, []).append(ref)
        for catalog, listed in by_catalog.items():
            known: list[LineageStore] = []
            # Where catalogs are registered may be away as well.
            with stopping_nobody():
                known = [self._stores[catalog]] if catalog in self._stores else []
            yield from ((store, listed) for store in known)


class ToldApart:
    """Stores are told one by one; the failure of one is kept until all others have been told."""

    def __init__(self) -> None:
        self._failure: LineageUnavailable | None = None

    @contextmanager
    def apart(self) -> Iterator[None]:
        try:
            yield
        except LineageUnavailable as error:
            self._failure = self._failure or error

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


def _told_apart(
    source: SnapshotRef,
    made: Mapping[tuple[object, ...], int | None],
    times: Mapping[tuple[object, ...], Sequence[datetime | None]],
) -> SnapshotRef:
    """A source by its own name, also when its number has since been given to another snapshot. `made`: when those were
    committed that are recorded at once; `times`: those that are known.
    """
    if source.time_ms is None:
        return source
    moment = moment_of_ms(source.time_ms)
    number = _number(source)
    if number in made:
        same = made[number] == source.time_ms
    else:
        same = number not in times or any(time in (None, moment) for time in times[number])
    if same:
        return source
    branch = replaced_branch(source.branch, moment)
    return SnapshotRef(source.catalog, source.database, source.table, branch, source.snapshot_id, source.time_ms)


def _row_about(ref: SnapshotRef, moment: datetime) -> SnapshotLineage:
    return SnapshotLineage("", 0, ref.database, ref.table, ref.branch, ref.snapshot_id, moment, moment)


def _number(ref: SnapshotRef) -> tuple[object, ...]:
    return ref.catalog, ref.database, ref.table, ref.branch, ref.snapshot_id


def _sides(commit: Commit) -> Iterator[tuple[Side, Sequence[SnapshotRef]]]:
    yield "source", commit.sources
    yield "sink", [commit.sink]


def commits_of(
    table: Table, snapshots: Iterable[Snapshot], recorder: LineageRecorder, names: CurrentNames
) -> list[Commit]:
    """The commits that some snapshots of a table are, in the same order; compactions, which change no rows, are left out.

    Sources have the names that their tables have today. Where a snapshot took a branch over and says so only in the way of
    earlier versions, that branch's snapshot is a source as well.
    """
    commits = []
    for snapshot in snapshots:
        if snapshot.changes_rows:
            commit = recorder.commit_of(table.identifier, snapshot)
            sources = [names.of(source, snapshot) for source in commit.sources]
            sources = [recorder.known_name(commit, each) if names.is_gone(each) else each for each in sources]
            if (marked := _marked(table, snapshot)) is not None:
                sources.append(_of_branch(commit.sink, marked))
            commits.append(Commit(commit.sink, tuple(dict.fromkeys(sources)), snapshot))
    return commits


def as_branch(table: Table, commits: Iterable[Commit]) -> list[Commit]:
    """The commits of a main that was a branch, by that branch's name as well: who read it there has named it so."""
    was = table.was_branch
    return [
        replace(commit, sink=replace(commit.sink, branch=was))
        for commit in commits
        if was and commit.sink.branch == MAIN_BRANCH
    ]


def _of_branch(sink: SnapshotRef, taken: TakenNewest) -> SnapshotRef:
    """The snapshot of another branch of the same table that a snapshot took over."""
    return SnapshotRef(sink.catalog, sink.database, sink.table, taken.branch, taken.snapshot_id, taken.time_ms)


def _marked(table: Table, snapshot: Snapshot) -> TakenNewest | None:
    """What earlier versions of the store took over of a branch: they said which snapshot, and not when it was committed.
    Nothing if the branch of that name is another one by now.
    """
    taken = taken_newest(snapshot)
    if taken is None or taken.time_ms is not None:
        return None
    try:
        is_same = table.on_branch(taken.branch).snapshots.holds(taken)
    except StorageError:
        is_same = None
    return None if is_same is False else taken


def remember(table: Table, snapshots: Sequence[Snapshot], recorder: LineageRecorder) -> None:
    """Store that a branch is recorded up to the last of these snapshots, oldest first. Nothing is stored without snapshots,
    nor of a branch whose name is too long for the store.
    """
    if snapshots and len(table.identifier.branch) <= NAME_LENGTH:
        identifier, last = table.identifier, snapshots[-1]
        recorder.store.store_reconciled(
            Reconciled(identifier.database, identifier.table, identifier.branch, last.id, commit_time(last))
        )
