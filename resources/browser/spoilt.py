"""What a bad snapshot has spoilt, and what is sound: by table, with snapshots, partitions and rows.

The tables are those of `snapline impact`; whether one is spoilt now is what `snapline recovery plan` says of it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from lineage import LineageUnavailable, impact, sinks_at
from storage import InvalidRequest, NotFound, Snapshot, SnapshotRef, StorageError, Table

from ..actions.sentences import short_partition
from ..recovery.made_good import made_good
from ..recovery.spoilt import ROLLED_BACK, Spoilt
from ..session import Session
from ..warehouse.catalogs import CATALOG_NAME
from ..warehouse.partition_condition import condition
from ..warehouse.silent_catalogs import past_silent_catalogs, silent_catalogs
from .facts import Facts, Place, Platform, place_of

# More are counted, not named.
SHOWN = 20
# Rows of more partitions are those of the whole table.
_NAMED_PARTITIONS = 100
# Answers that are kept.
_KEPT = 8


@dataclass(frozen=True)
class Affected:
    """A table, or a branch of it, that a bad snapshot went into.

    `first`: its first snapshot that did, or that came after; `newest`: its newest change, None if the table is gone.
    `snapshots`: those since that hold something of it, the first ones with what has become of them; also what lineage alone
    knows. `partitions`: those that were written since; None for a table without any,
    or if that cannot be told. `rows`: the rows that these have now. `is_spoilt`: whether rows of the newest come from the bad
    snapshot; `why`: how it became good, or what is not known.
    """

    first: SnapshotRef
    newest: SnapshotRef | None
    snapshots: tuple[tuple[SnapshotRef, str], ...]
    snapshot_count: int
    partitions: tuple[str, ...] | None
    rows: int | None
    is_spoilt: bool
    why: str = ""


@dataclass(frozen=True)
class Damage:
    """Everything that a snapshot went into: what is spoilt now, what is good again, and the names of all other tables.
    `in_recovery`: branches of recoveries that are not published, as far as they are right: main is not for that.
    `silent`: catalogs that record no lineage of snapshots, of whose tables nothing can be said, and as little of those that
    were made from them, which are `unknown`.
    """

    bad: SnapshotRef
    spoilt: tuple[Affected, ...]
    good_again: tuple[Affected, ...]
    sound: tuple[str, ...]
    in_recovery: tuple[Affected, ...] = ()
    silent: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def places(self) -> frozenset[tuple[str, str, str, str]]:
        """Catalog, database, table and branch of what is spoilt, for colours."""
        refs = (affected.first for affected in self.spoilt)
        return frozenset((ref.catalog, ref.database, ref.table, ref.branch) for ref in refs)


def damage_of(session: Session, bad: SnapshotRef, platform: Platform | None = None) -> Damage:
    """What a snapshot has spoilt. `platform`: what there is now.

    Raises NotFound for a snapshot that nobody knows; LineageUnavailable.
    """
    there = platform or Facts(session).platform()
    refuse_unknown(session, bad, there)
    stores = there.stores
    judge = Spoilt(session, bad, stores) if bad.catalog == CATALOG_NAME else None
    firsts = [ref for ref in impact(stores, bad, there.forks) if not session.is_main_now(ref)]
    places = {place_of(ref) for ref in firsts}
    if judge is not None:
        judge.read(places)
    known: dict[Place, list[SnapshotRef]] = {}
    for _, ref in sinks_at(stores, places):
        known.setdefault(place_of(ref), []).append(ref)
    all_affected = [_affected(session, ref, judge, there, known.get(place_of(ref), ())) for ref in firsts]
    reached = {_name(affected.first) for affected in all_affected}
    silent = tuple(silent_catalogs(session))
    unknown = tuple(name for name in past_silent_catalogs(session, stores, there.forks) if name not in reached)
    good = [affected for affected in all_affected if not affected.is_spoilt]
    in_recovery = [each for each in good if judge is not None and judge.is_in_open_recovery(each.first)]
    return Damage(
        bad,
        tuple(affected for affected in all_affected if affected.is_spoilt),
        tuple(affected for affected in good if affected not in in_recovery),
        tuple(name for name in _all_tables(session, silent) if name not in reached and name not in unknown),
        tuple(in_recovery),
        silent,
        unknown,
    )


class Damages:
    """What snapshots have spoilt, for as long as the platform is the same."""

    def __init__(self) -> None:
        self._platform: Platform | None = None
        self._read: dict[SnapshotRef, Damage] = {}

    def read(self, session: Session, bad: SnapshotRef, platform: Platform) -> Damage:
        """As `damage_of`."""
        # Two threads that meet here read the same twice.
        kept = dict(self._read) if platform is self._platform else {}
        if bad not in kept:
            kept[bad] = damage_of(session, bad, platform)
            self._platform, self._read = platform, dict(list(kept.items())[-_KEPT:])
        return kept[bad]


def refuse_unknown(session: Session, ref: SnapshotRef, platform: Platform | None = None) -> None:
    """Raise NotFound for a snapshot that is in no table, and that lineage does not know either."""
    if ref.catalog in session.catalog_names():
        try:
            if session.catalog_of(ref.catalog).table(ref.table_name).snapshots.find(ref.snapshot_id) is not None:
                return
        except (NotFound, InvalidRequest):
            pass
        where = {"database": ref.database, "table": ref.table, "branch": ref.branch, "snapshot_id": ref.snapshot_id}
        stores = session.stores_to_ask(ref.catalog) if platform is None else platform.stores
        if ref.catalog not in stores:
            raise NotFound(f"The lineage of catalog {ref.catalog!r} is out of reach.")
        store = stores[ref.catalog]
        if store.has_snapshots("sink", **where) or store.has_snapshots("source", **where):
            return
    raise NotFound(f"There is no snapshot {ref} in catalog {ref.catalog!r}, and lineage knows of none.")


def _affected(
    session: Session, first: SnapshotRef, judge: Spoilt | None, platform: Platform, known: Iterable[SnapshotRef]
) -> Affected:
    listed = _known_since(first, judge, platform, known)
    shown = tuple((ref, platform.fate(ref)) for ref in listed[:SHOWN])

    def affected(newest: SnapshotRef | None, is_spoilt: bool, why: str) -> Affected:
        return Affected(first, newest, shown, len(listed), None, None, is_spoilt, why)

    try:
        table = session.catalog_of(first.catalog).table(first.table_name)
        newest = table.last_change()
        if newest is None or "~" in first.branch:
            return affected(newest, False, "Its number belongs to another snapshot now.")
        partitions, rows = _partitions_and_rows(table, first)
        is_spoilt, why = _judged(judge, first, newest, platform)
        return replace(affected(newest, is_spoilt, why), partitions=partitions, rows=rows)
    except NotFound:
        return affected(None, False, "The table, or the branch, is gone.")
    except (StorageError, LineageUnavailable) as error:
        # Nobody can say that it is sound.
        return affected(None, True, f"It cannot be read: {error}")


def _known_since(
    first: SnapshotRef, judge: Spoilt | None, platform: Platform, known: Iterable[SnapshotRef]
) -> list[SnapshotRef]:
    """The snapshots from the first bad one on that hold something of it, also those that have expired and lineage, of which they
    are `known`, or a tag still knows.
    """
    place = place_of(first)
    if "~" in first.branch:
        return [first]
    refs = {ref.snapshot_id: ref for ref in known if ref.snapshot_id >= first.snapshot_id}
    refs[first.snapshot_id] = first
    history = platform.branches.get(place)
    since = [] if history is None else [each for each in history.known if each.id >= first.snapshot_id]
    good_from = _good_from(judge, place, since)
    is_repaired = False
    for snapshot in since:
        ref = SnapshotRef(*place, snapshot.id, snapshot.time_ms)
        is_good = (
            not snapshot.changes_rows or snapshot.id >= good_from or _goes_back_before(snapshot, first.snapshot_id)
        )
        if judge is not None and not is_good:
            is_repaired = is_repaired or bool(judge.repair(snapshot))
            # What came after a repair may be bad again.
            is_good = is_repaired and not judge.is_spoilt(ref)
        if is_good:
            refs.pop(snapshot.id, None)
        else:
            refs[snapshot.id] = ref
    return [refs[number] for number in sorted(refs)]


def _good_from(judge: Spoilt | None, place: Place, snapshots: Sequence[Snapshot]) -> float:
    """The number of the snapshot that made a table good, after which none was spoilt again; infinity if there is none."""
    good_from = inf
    for snapshot in reversed(snapshots if judge is not None else ()):
        assert judge is not None
        if snapshot.changes_rows:
            if judge.is_spoilt(SnapshotRef(*place, snapshot.id, snapshot.time_ms)):
                break
            good_from = snapshot.id
    return good_from


def _goes_back_before(snapshot: Snapshot, first: int) -> bool:
    """Whether a snapshot is a rollback to one from before the first bad one: its rows are that one's."""
    target = snapshot.number(ROLLED_BACK)
    return target is not None and target < first


def _judged(judge: Spoilt | None, first: SnapshotRef, newest: SnapshotRef, platform: Platform) -> tuple[bool, str]:
    """Whether a table is spoilt now, and why not."""
    if judge is None:
        return True, "Whether it has been made good since is told of this warehouse's own tables alone."
    if judge.is_spoilt(newest):
        return True, ""
    history = platform.branches.get(place_of(first))
    reason = made_good(judge, first, newest, () if history is None else reversed(history.snapshots)).describe()
    return False, f"{reason[0].upper()}{reason[1:]}."


def _partitions_and_rows(table: Table, first: SnapshotRef) -> tuple[tuple[str, ...] | None, int | None]:
    """The partitions that were written from a snapshot on, and the rows that they have now; of a table without any, all rows."""
    if not table.schema.partition_keys:
        return None, table.count()
    before = table.snapshots.find(first.snapshot_id - 1)
    if table.snapshots.find(first.snapshot_id) is None or (before is None and first.snapshot_id > 1):
        # Once the first one has expired, nobody can say which partitions it, and those after it, changed.
        return None, table.count()
    changed = table.changed_partitions(after=None if before is None else before.id)
    names = tuple(short_partition(partition) for partition in changed)
    return names, _rows_of(table, changed)


def _rows_of(table: Table, partitions: Sequence[dict[str, object]]) -> int:
    if not partitions:
        return 0
    return table.count(where=condition(partitions) if len(partitions) <= _NAMED_PARTITIONS else None)


def _all_tables(session: Session, silent: Collection[str]) -> list[str]:
    names: list[str] = []
    for catalog in session.catalog_names():
        if catalog in silent:
            continue
        try:
            names += [f"{catalog}.{name}" for name in session.catalog_of(catalog).tables()]
        except (StorageError, LineageUnavailable):
            # One that cannot be read is not said to be sound.
            continue
    return names


def _name(ref: SnapshotRef) -> str:
    return f"{ref.catalog}.{ref.database}.{ref.table}"
