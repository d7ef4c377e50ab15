"""What all catalogs hold: their tables and branches, and what those have been through. Read again once it is some seconds old."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from lineage import LineageStore, LineageUnavailable
from storage import BranchHistory, Clock, NotFound, SnapshotRef, StorageError, Table

from ..recovery import record as recovery_record
from ..recovery.unfinished import open_publications
from ..session import Session
from ..warehouse.catalogs import CATALOG_NAME

# Catalog, database, table, branch.
Place = tuple[str, str, str, str]
# What is shown may be as old as this. What lineage lacks of tables that look as they did is looked for beside, so often.
_FRESH_S = 2.0
_LINEAGE_FRESH_S = 30.0
# Who asks for a first page waits so long for all of it.
_PATIENCE_S = 0.3
SO_FAR = "This is what is known so far"
_log = logging.getLogger(__name__)


def place_of(ref: SnapshotRef) -> Place:
    """Where a snapshot is: one whose number was given again, where it was."""
    return ref.catalog, ref.database, ref.table, ref.branch.partition("~")[0]


@dataclass(frozen=True)
class Platform:
    """The branches of all tables by place. `troubles`: in a sentence each, what could not be read, by place or catalog.

    `recoveries`: by catalog, database and table the recoveries that are open, by name. `unfinished`: by the name of each recovery
    whose publication is open, what ends that. `read_ms`: when it was read.
    `is_partial`: it is still being read, for the first time. `rows`: how many there are on the newest snapshot of a main, as far
    as metadata tell.
    """

    branches: Mapping[Place, BranchHistory]
    stores: Mapping[str, LineageStore]
    troubles: Mapping[Place | str, str] = field(default_factory=dict)
    recoveries: Mapping[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)
    unfinished: Mapping[str, str] = field(default_factory=dict)
    read_ms: int = 0
    is_partial: bool = False
    rows: Mapping[Place, int] = field(default_factory=dict)

    def forks(self, place: Place) -> list[tuple[Place, int]]:
        """The branches that were forked off one, each with the number of the snapshot that it began with."""
        return self._forks.get(place, [])

    @cached_property
    def _forks(self) -> dict[Place, list[tuple[Place, int]]]:
        forks: dict[Place, list[tuple[Place, int]]] = {}
        for place, history in self.branches.items():
            if history.begun_at is not None:
                branch, number = history.begun_at
                forks.setdefault((*place[:3], branch), []).append((place, number))
        return forks

    def open_recoveries(self, ref: SnapshotRef) -> tuple[str, ...]:
        """The recoveries that are open on the table of a snapshot, by name."""
        return self.recoveries.get((ref.catalog, ref.database, ref.table), ())

    def came_later(self, ref: SnapshotRef, time_ms: int) -> bool:
        """Whether a snapshot that lineage knows, committed then, is missing here for having come after this was read."""
        return time_ms >= self.read_ms and self.fate(ref) in ("taken back", "dropped")

    def fate(self, ref: SnapshotRef) -> str:
        """What has become of a snapshot, in the words of `Session.fate`."""
        if "~" in ref.branch:
            return "replaced"
        place = place_of(ref)
        history = self.branches.get(place)
        if history is not None:
            return history.fate(ref.snapshot_id)
        if self.is_partial:
            return ""
        return "damaged" if place in self.troubles or (*place[:3], "main") in self.troubles else "dropped"


class Facts:
    """Reads the platform for any number of threads. What a branch has been through is read once, then what came after it."""

    def __init__(self, session: Session, now: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[Place, BranchHistory] = {}
        self._rows: dict[Place, int] = {}
        self._platform: Platform | None = None
        self._troubles: Mapping[Place | str, str] = {}
        self._read_at = self._lineage_read_at = 0.0
        self._reading: threading.Thread | None = None
        self._found: dict[Place, BranchHistory] = {}

    def platform(self, refs: Iterable[SnapshotRef] = ()) -> Platform:
        """What there is now, or was a moment ago: the same object while nothing changes. If it knows of none of `refs` that
        they can be read, it is read again. Raises LineageUnavailable if no lineage can be read.
        """
        with self._lock:
            now = self._now()
            known = self._platform
            if known is None or now - self._read_at > _FRESH_S or any(known.fate(ref) for ref in refs):
                self._refresh(now)
                self._read_at = now
            assert self._platform is not None
            return self._platform

    def read_beside(self) -> None:
        """Read the platform in a thread, before anybody asks: the first time every snapshot's file is read."""

        def read() -> None:
            # Who asks is told what is wrong.
            with suppress(Exception):
                self.platform()

        self._reading = threading.Thread(target=read, daemon=True)
        self._reading.start()

    def so_far(self) -> Platform:
        """As `platform`; while that is being read beside for the first time, what is known by now."""
        reading = self._reading
        if reading is not None and self._platform is None:
            reading.join(_PATIENCE_S)
        if reading is None or self._platform is not None or not reading.is_alive():
            return self.platform()
        stores = {name: store for name, store in self._session.lineage_stores.items() if _answer({name: store})}
        histories = dict(self._found)
        said = f"{SO_FAR}: {len({place[:3] for place in histories})} tables have been read"
        note = f"{said}, and lineage is being brought up to date. The page is loaded again in a moment."
        return Platform(histories, stores, {"": note}, read_ms=Clock().now_ms(), is_partial=True, rows=dict(self._rows))

    def _refresh(self, now: float) -> None:
        read_ms = Clock().now_ms()
        branches, troubles = self._tables()
        recovery_names = recovery_record.names(self._session.catalog)
        unfinished = open_publications(self._session.catalog, recovery_names)
        recoveries = self._open_recoveries(recovery_names, unfinished)
        before = self._platform
        if before is not None and _answer(before.stores):
            if now - self._lineage_read_at > _LINEAGE_FRESH_S:
                self._lineage_read_at = now
                threading.Thread(target=self._reconcile, args=(before,), daemon=True).start()
            is_same = recoveries == before.recoveries and unfinished == before.unfinished
            if is_same and troubles == self._troubles and branches == before.branches:
                return
            stores = self._session.stores_to_ask(tables=_changed(before.branches, branches))
        else:
            stores = self._session.stores_to_ask()
            self._lineage_read_at = now
            # What was committed while lineage was brought up to date is there as well.
            read_ms = Clock().now_ms()
            branches, troubles = self._tables()
        away: dict[Place | str, str] = {
            catalog: f"The lineage of catalog {catalog!r} is out of reach: what it holds is left out."
            for catalog in self._session.catalog_names()
            if catalog not in stores
        }
        self._platform = Platform(
            branches, stores, {**away, **troubles}, recoveries, unfinished, read_ms, rows=dict(self._rows)
        )
        self._troubles = troubles

    def _reconcile(self, before: Platform) -> None:
        """Bring the lineage of all tables up to date, also of those that look as they did; who asks meanwhile does not wait."""
        try:
            count = self._session.reconcile_all()
        except (StorageError, LineageUnavailable) as error:
            _log.warning("Lineage could not be brought up to date: %s", error)
            return
        with self._lock:
            if count and self._platform is before:
                self._platform = replace(before)

    def _tables(self) -> tuple[dict[Place, BranchHistory], dict[Place | str, str]]:
        session = self._session
        troubles: dict[Place | str, str] = {}
        histories: dict[Place, BranchHistory] = {}
        self._found = histories
        for catalog in session.catalog_names():
            try:
                names = session.catalog_of(catalog).tables()
            except (StorageError, LineageUnavailable) as error:
                troubles[catalog] = f"Catalog {catalog!r} cannot be read: {error}"
                continue
            for name in names:
                self._read_table(catalog, name, histories, troubles)
        self._known = histories
        return histories, troubles

    def _open_recoveries(
        self, names: Sequence[str], unfinished: Mapping[str, str]
    ) -> dict[tuple[str, str, str], tuple[str, ...]]:
        catalog = self._session.catalog
        opened: dict[tuple[str, str, str], tuple[str, ...]] = {}
        for branch in names:
            try:
                record = recovery_record.read_record(catalog, branch)
            except StorageError:
                # Its own page says what is wrong with it.
                continue
            is_open = record is not None and (record.status == recovery_record.OPEN or branch in unfinished)
            for name in record.tables if record is not None and is_open else ():
                database, _, table = name.partition(".")
                place = (CATALOG_NAME, database, table)
                opened[place] = (*opened.get(place, ()), branch)
        return opened

    def _read_table(
        self, catalog: str, name: str, histories: dict[Place, BranchHistory], troubles: dict[Place | str, str]
    ) -> None:
        database, _, table_name = name.partition(".")
        main: Place = (catalog, database, table_name, "main")
        try:
            table = self._session.catalog_of(catalog).table(name)
            known = self._known.get(main)
            histories[main] = table.history(known)
            if histories[main] is not known:
                self._count(table, main, histories[main])
            branches = table.branches.names()
        except NotFound:
            # It has been dropped this moment.
            return
        except StorageError as error:
            troubles[main] = f"{name} cannot be read: {error}"
            return
        for branch in branches:
            self._read_branch(table, (catalog, database, table_name, branch), histories, troubles)

    def _count(self, table: Table, main: Place, history: BranchHistory) -> None:
        self._rows.pop(main, None)
        # What is damaged is told where it is looked for, and what expires this moment is read again.
        with suppress(StorageError):
            count = table.row_count(history.snapshots[-1]) if history.snapshots else None
            if count is not None:
                self._rows[main] = count

    def _read_branch(
        self, table: Table, place: Place, histories: dict[Place, BranchHistory], troubles: dict[Place | str, str]
    ) -> None:
        try:
            histories[place] = table.on_branch(place[3]).history(self._known.get(place))
        except NotFound:
            return
        except StorageError as error:
            troubles[place] = f"Branch {place[3]!r} of {place[1]}.{place[2]} cannot be read: {error}"


def _changed(before: Mapping[Place, BranchHistory], now: Mapping[Place, BranchHistory]) -> dict[str, set[str]]:
    """The tables that are not as they were, by catalog."""
    changed_tables: dict[str, set[str]] = {}
    for place, history in now.items():
        if before.get(place) != history:
            changed_tables.setdefault(place[0], set()).add(f"{place[1]}.{place[2]}")
    return changed_tables


def _answer(stores: Mapping[str, LineageStore]) -> bool:
    try:
        for store in stores.values():
            store.has_snapshots("sink")
    except LineageUnavailable:
        return False
    return True
