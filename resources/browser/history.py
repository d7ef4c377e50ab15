"""The history of all tables as a picture needs it: lanes of dots in order of commit, and the arcs between them.

A lane is a branch of a table, a dot a snapshot, an arc leads from what was read to what was made. What has expired, was
taken back, replaced or dropped is a dot as well: a ghost.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from lineage import RUN_PROPERTY, Edge, SnapshotLineage, Window, window
from storage import BATCH_COMMIT_IDENTIFIER, Snapshot, SnapshotRef, operation_of

from ..warehouse.snapshot_properties import PARTITIONS_PROPERTY
from .facts import Place, Platform, place_of
from .former_main import FORMER, fork_of_former_main, lane_place

# A commit user that nobody has named.
_DRAWN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Histories that are kept.
_KEPT = 8


# As many numbers as any database takes in one statement.
_MOST_KEYS = 400


@dataclass(frozen=True, slots=True)
class Lane:
    """A branch of a table, or what was main before a branch became it, by the name `former` that this had. `forks_at`: the dot
    of the snapshot that it began with. `state`: `dropped`, `damaged`, `replaced`, or empty. `made_ms`: when a branch was made,
    at the latest with its first snapshot.
    """

    place: Place
    state: str = ""
    forks_at: int | None = None
    former: str = ""
    made_ms: int | None = None

    @property
    def name(self) -> str:
        """Of a main branch that of its table, as `table`, else that of the branch."""
        if self.former:
            return f"↳ main until {self.former} became it"
        return self.table if self.is_main else f"↳ {self.place[3]}"

    @property
    def is_main(self) -> bool:
        """Whether the lane is that of a table's main branch."""
        return self.place[3] == "main"

    @property
    def table(self) -> str:
        """`db.t`, with the catalog before it if that is not the default one."""
        catalog, database, table, _ = self.place
        return f"{database}.{table}" if catalog == "snapline" else f"{catalog}.{database}.{table}"


@dataclass(frozen=True, slots=True)
class Dot:
    """A snapshot. Numbers of rows are None where its file is gone; `barrier` None where it says nothing. `is_read`: another
    snapshot was made from it. `is_unchanged`: it is known to have left the rows as they were: compactions, empty commits.
    """

    ref: SnapshotRef
    lane: int
    time_ms: int
    kind: str
    job: str = ""
    barrier: int | None = None
    run: str = ""
    partitions: str = ""
    rows: int | None = None
    change: int | None = None
    changes_rows: bool = True
    is_unchanged: bool = False
    fate: str = ""
    tags: tuple[str, ...] = ()
    takes_over: str = ""
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """Dots in order of commit, arcs and joins as pairs of dots. `has_earlier`: there are commits before the first dot.
    `changes`: of compactions and the like, the dot of the change that made the rows.
    """

    lanes: tuple[Lane, ...]
    dots: tuple[Dot, ...]
    arcs: tuple[tuple[int, int], ...]
    joins: tuple[tuple[int, int], ...] = ()
    has_earlier: bool = False
    troubles: tuple[str, ...] = ()
    edges: tuple[Edge, ...] = ()
    changes: Mapping[int, int] = field(default_factory=dict, repr=False)
    _by_ref: Mapping[SnapshotRef, int] = field(default_factory=dict, repr=False)

    def dot_of(self, ref: SnapshotRef) -> int | None:
        """The index of a snapshot's dot; None if it lies outside of what is shown."""
        return self._by_ref.get(ref)


def _begun(lane: Lane, first_ms: int | None) -> Lane:
    """The lane of a branch that does not say when it was made, from its first snapshot on."""
    return lane if lane.is_main or lane.made_ms is not None else replace(lane, made_ms=first_ms)


def as_it_was(history: History, platform: Platform, at: datetime) -> History:
    """The same dots with what had become of them by a moment (UTC): what was taken back later still counted, and tags that
    came later were not there. What has expired or been dropped stays so: when that was is not known.
    """
    at_ms = _ms(at)
    taken_back: dict[Place, frozenset[int]] = {}

    def then(dot: Dot) -> Dot:
        place = place_of(dot.ref)
        branch = platform.branches.get(place)
        if dot.time_ms > at_ms or branch is None or "~" in dot.ref.branch:
            return dot
        tags = tuple(sorted(tag.name for tag in branch.tags_of(dot.ref.snapshot_id) if tag.was_there(at_ms)))
        if dot.ref.snapshot_id not in branch.ids:
            return replace(dot, tags=tags)
        if place not in taken_back:
            taken_back[place] = branch.taken_back_by(at_ms)
        return replace(dot, tags=tags, fate="taken back" if dot.ref.snapshot_id in taken_back[place] else "")

    return replace(history, dots=tuple(then(dot) for dot in history.dots))


def read_history(platform: Platform, limit: int, until: datetime | None = None) -> History:
    """The newest commits of all tables, at most `limit`, at or before a moment (UTC); compactions of that time besides."""
    return _history(platform, window(platform.stores, limit, until), until)


class Histories:
    """The histories that were read last, for as long as the platform is the same."""

    def __init__(self) -> None:
        self._platform: Platform | None = None
        self._read: dict[tuple[int, datetime | None], History] = {}

    def read(self, platform: Platform, limit: int, until: datetime | None) -> History:
        """As `read_history`."""
        # Two threads that meet here read the same twice.
        kept = dict(self._read) if platform is self._platform else {}
        key = (limit, until)
        if key not in kept:
            kept[key] = read_history(platform, limit, until)
            self._platform, self._read = platform, dict(list(kept.items())[-_KEPT:])
        return kept[key]


def history_of(platform: Platform, edges: Iterable[Edge], roots: Iterable[SnapshotRef]) -> History:
    """The part of it that some edges tell of, with `roots`, whether or not there are edges to them."""
    drawn_edges = tuple(edges)
    refs = {*roots, *(edge.source for edge in drawn_edges), *(edge.sink for edge in drawn_edges)}
    jobs = {edge.sink: (edge.job, edge.barrier_id) for edge in drawn_edges}
    rows = _commits_of(platform, (ref for ref in refs if platform.fate(ref)))
    drawn = _Drawing(platform)
    for ref in refs:
        drawn.add(ref, rows.get(ref), jobs.get(ref))
    drawn.infer_times(drawn_edges)
    return drawn.finished(drawn_edges, has_earlier=False)


def _commits_of(platform: Platform, refs: Iterable[SnapshotRef]) -> dict[SnapshotRef, SnapshotLineage]:
    """What lineage knows of the commits of some snapshots: all there is of those whose files have gone."""
    places: dict[tuple[str, str, str, str], list[int]] = {}
    for ref in refs:
        places.setdefault((ref.catalog, ref.database, ref.table, ref.branch), []).append(ref.snapshot_id)
    rows: dict[SnapshotRef, SnapshotLineage] = {}
    for (catalog, database, table, branch), ids in places.items():
        if catalog not in platform.stores:
            continue
        for start in range(0, len(ids), _MOST_KEYS):
            where = {"database": database, "table": table, "branch": branch}
            chunk = ids[start : start + _MOST_KEYS]
            for row in platform.stores[catalog].snapshots("sink", **where, snapshot_id=chunk):
                rows[row.ref(catalog)] = row
    return rows


def _history(platform: Platform, seen: Window, until: datetime | None) -> History:
    drawn = _Drawing(platform)
    for ref, row in seen.commits:
        if not platform.came_later(ref, _ms(row.create_time)):
            drawn.add(ref, row, None)
    first_ms = _ms(seen.commits[0][1].create_time) if seen.commits and seen.has_earlier else None
    last_ms = None if until is None else _ms(until)
    for place, branch in platform.branches.items():
        for snapshot in branch.snapshots:
            early = first_ms is not None and snapshot.time_ms < first_ms
            late = last_ms is not None and snapshot.time_ms > last_ms
            if not (early or late or (branch.begun_at is not None and snapshot.id <= branch.begun_at[1])):
                drawn.add(SnapshotRef(*place, snapshot.id, snapshot.time_ms), None, None)
    if not seen.has_earlier:
        for edge in seen.edges:
            # What lineage knows as a source alone is a ghost, or a table of a catalog without lineage.
            drawn.add(edge.source, None, None)
    drawn.infer_times(seen.edges)
    return drawn.finished(seen.edges, has_earlier=seen.has_earlier, with_idle=True)


class _Drawing:
    """Collects dots, whatever is known of each, and puts them in order."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._found: dict[SnapshotRef, tuple[SnapshotLineage | None, tuple[str, int] | None]] = {}
        self._times: dict[SnapshotRef, int] = {}

    def add(self, ref: SnapshotRef, row: SnapshotLineage | None, job: tuple[str, int] | None) -> None:
        """Add a snapshot, unless it is there."""
        if ref in self._found:
            return
        self._found[ref] = (row, job)
        snapshot = self._file(ref)
        if snapshot is not None:
            self._times[ref] = snapshot.time_ms
        elif row is not None:
            self._times[ref] = _ms(row.create_time)
        elif ref.time_ms is not None:
            self._times[ref] = ref.time_ms

    def infer_times(self, edges: Iterable[Edge]) -> None:
        """Let what has no time of its own come right before the first that was made from it, or last."""
        for edge in edges:
            time_ms = self._times.get(edge.sink)
            if edge.source in self._found and time_ms is not None and self._file(edge.source) is None:
                row = self._found[edge.source][0]
                if row is None:
                    self._times[edge.source] = min(self._times.get(edge.source, time_ms - 1), time_ms - 1)
        latest = max(self._times.values(), default=0)
        for ref in self._found:
            self._times.setdefault(ref, latest)

    def finished(self, edges: Sequence[Edge], *, has_earlier: bool, with_idle: bool = False) -> History:
        """The history. `with_idle`: also branches that have done nothing since one of its snapshots, which they began with."""
        names = {ref: (self._times[ref], ref.snapshot_id, *place_of(ref), ref.branch) for ref in self._found}
        order = sorted(names, key=names.__getitem__)
        by_ref = {ref: index for index, ref in enumerate(order)}
        place = {ref: lane_place(self._platform, ref, self._times[ref]) for ref in order}
        idle = _idle_branches(self._platform, by_ref) if with_idle else ()
        ordered = _upstream_first(dict.fromkeys((*place.values(), *idle)), edges)
        lane_of = {each: index for index, each in enumerate(ordered)}
        read = {edge.source for edge in edges}
        dots = tuple(self._dot(ref, lane_of[place[ref]], is_read=ref in read) for ref in order)
        arcs = {
            (by_ref[edge.source], by_ref[edge.sink]) for edge in edges if edge.source in by_ref and edge.sink in by_ref
        }
        begun: dict[int, int] = {}
        for dot in dots:
            begun.setdefault(dot.lane, dot.time_ms)
        lanes = tuple(_begun(self._lane(each, by_ref), begun.get(index)) for index, each in enumerate(ordered))
        return History(
            lanes,
            dots,
            tuple(sorted(arcs)),
            _joins(dots, arcs, lanes),
            has_earlier,
            tuple(self._platform.troubles.values()),
            tuple(edges),
            _changes(dots, lanes),
            by_ref,
        )

    def _file(self, ref: SnapshotRef) -> Snapshot | None:
        if "~" in ref.branch:
            return None
        history = self._platform.branches.get(place_of(ref))
        return None if history is None else history.find(ref.snapshot_id)

    def _tags_of(self, ref: SnapshotRef) -> tuple[str, ...]:
        history = None if "~" in ref.branch else self._platform.branches.get(place_of(ref))
        return () if history is None else tuple(sorted(tag.name for tag in history.tags_of(ref.snapshot_id)))

    def _dot(self, ref: SnapshotRef, lane: int, *, is_read: bool) -> Dot:
        row, known_job = self._found[ref]
        snapshot, time_ms = self._file(ref), self._times[ref]
        fate = self._platform.fate(ref)
        job, barrier = (row.job, row.barrier_id) if row is not None else known_job or ("", None)
        if snapshot is None:
            return Dot(
                ref,
                lane,
                time_ms,
                "",
                job_of(job),
                _barrier(barrier),
                fate=fate,
                tags=self._tags_of(ref),
                is_read=is_read,
            )
        properties = snapshot.properties or {}
        history = self._platform.branches[place_of(ref)]
        return Dot(
            ref,
            lane,
            time_ms,
            operation_of(snapshot) or snapshot.commit_kind,
            job_of(snapshot.commit_user),
            _barrier(snapshot.commit_identifier),
            properties.get(RUN_PROPERTY, ""),
            properties.get(PARTITIONS_PROPERTY, ""),
            snapshot.total_record_count,
            snapshot.delta_record_count,
            snapshot.changes_rows,
            snapshot.id in history.unchanged,
            fate,
            self._tags_of(ref),
            history.taken_over.get(snapshot.id, ""),
            is_read,
        )

    def _lane(self, place: Place, by_ref: Mapping[SnapshotRef, int]) -> Lane:
        history = self._platform.branches.get(place)
        if place[3] == FORMER:
            main = self._platform.branches[(*place[:3], "main")]
            fork = fork_of_former_main(main, place)
            return Lane(place, "replaced", None if fork is None else by_ref.get(fork), main.was_branch)
        if history is None:
            begun = self._beginning_of_dropped(place, by_ref) if place[3] != "main" else None
            forks_at = None if begun is None else by_ref.get(begun)
            return Lane(place, self._platform.fate(SnapshotRef(*place, 1)), forks_at)
        forks_at = None
        # A branch that has become main has no lane to fork from.
        if history.begun_at is not None and place[3] != "main":
            branch, number = history.begun_at
            forks_at = by_ref.get(SnapshotRef(*place[:3], branch, number))
        return Lane(place, "", forks_at, made_ms=history.made_ms)

    def _beginning_of_dropped(self, place: Place, by_ref: Mapping[SnapshotRef, int]) -> SnapshotRef | None:
        """The snapshot that a branch which has been dropped was forked off at: lineage keeps it under both names."""
        catalog, database, table, branch = place
        store = self._platform.stores.get(catalog)
        if store is None:
            return None
        own = store.snapshots("sink", database=database, table=table, branch=branch)
        first = min(own, key=lambda row: row.snapshot_id, default=None)
        if first is not None:
            same = store.snapshots("sink", database=database, table=table, snapshot_id=first.snapshot_id)
            named = [row for row in same if row.branch != branch and row == replace(first, branch=row.branch)]
            if named:
                return min(named, key=lambda row: (row.branch != "main", row.branch)).ref(catalog)
        # It was written before lineage kept that; it goes on with the numbers of main.
        numbers = [ref.snapshot_id for ref in by_ref if place_of(ref) == place and "~" not in ref.branch]
        return SnapshotRef(catalog, database, table, "main", min(numbers, default=1) - 1)


def job_of(commit_user: str) -> str:
    """Who made a commit, as somebody has called him; empty if nobody has, and the name was drawn."""
    return "" if _DRAWN.fullmatch(commit_user) else commit_user


def _idle_branches(platform: Platform, by_ref: Mapping[SnapshotRef, int]) -> Iterable[Place]:
    for place, branch in platform.branches.items():
        if branch.begun_at is not None and not any(snapshot.id > branch.begun_at[1] for snapshot in branch.snapshots):
            begun = SnapshotRef(*place[:3], *branch.begun_at)
            if place[3] != "main" and begun in by_ref:
                yield place


def _changes(dots: Sequence[Dot], lanes: Sequence[Lane]) -> dict[int, int]:
    """For each snapshot that changed no rows the one before it that did, as far as it is there."""
    changes: dict[int, int] = {}
    newest: dict[int, int] = {index: lane.forks_at for index, lane in enumerate(lanes) if lane.forks_at is not None}
    for index, dot in enumerate(dots):
        if "~" in dot.ref.branch:
            continue
        if dot.changes_rows:
            newest[dot.lane] = index
        elif dot.lane in newest:
            changes[index] = changes.get(newest[dot.lane], newest[dot.lane])
    return changes


def _joins(dots: Sequence[Dot], arcs: Iterable[tuple[int, int]], lanes: Sequence[Lane]) -> tuple[tuple[int, int], ...]:
    """From the newest snapshot of a branch to each snapshot that took the branch over: by a merge, or by a publication, which
    says that it was made from it.
    """
    joins: dict[int, int] = {}
    for source, sink in arcs:
        (*table, branch), (*other, of_sink) = lanes[dots[source].lane].place, lanes[dots[sink].lane].place
        if table == other and branch != "main" and of_sink == "main":
            joins[sink] = max(source, joins.get(sink, source))
    of_lane: dict[Place, list[int]] = {}
    for index, dot in enumerate(dots):
        own = lanes[dot.lane].place
        if dot.takes_over and index not in joins:
            # A branch that became main has taken over what had been main.
            branch = FORMER if dot.takes_over == own[3] == "main" else dot.takes_over
            place = (*own[:3], branch)
            if place in of_lane:
                joins[index] = of_lane[place][-1]
        of_lane.setdefault(own, []).append(index)
    return tuple((source, sink) for sink, source in sorted(joins.items()))


def _upstream_first(places: Iterable[Place], edges: Iterable[Edge]) -> list[Place]:
    """Places by table, each table after those that it was made from; of a table main first, then its branches by name."""
    tables: dict[tuple[str, str, str], list[Place]] = {}
    for place in places:
        tables.setdefault(place[:3], []).append(place)
    sources: dict[tuple[str, str, str], set[tuple[str, str, str]]] = {table: set() for table in tables}
    for edge in edges:
        sink, source = place_of(edge.sink)[:3], place_of(edge.source)[:3]
        if sink in tables and source in tables and sink != source:
            sources[sink].add(source)
    level: dict[tuple[str, str, str], int] = {}

    def level_of(table: tuple[str, str, str]) -> int:
        # Deep chains of tables would be too deep for recursion.
        stack = [table]
        opened: set[tuple[str, str, str]] = set()
        while stack:
            top = stack[-1]
            waiting = [source for source in sources[top] if source not in level and source not in opened]
            opened.add(top)
            if waiting:
                stack += waiting
                continue
            stack.pop()
            level[top] = 1 + max((level.get(source, -1) for source in sources[top]), default=-1)
        return level[table]

    ordered = sorted(tables, key=lambda table: (level_of(table), table))
    return [
        place for table in ordered for place in sorted(tables[table], key=lambda place: (place[3] != "main", place))
    ]


def _barrier(number: int | None) -> int | None:
    return None if number == BATCH_COMMIT_IDENTIFIER else number


def _ms(moment: datetime) -> int:
    return round(moment.replace(tzinfo=UTC).timestamp() * 1000)
