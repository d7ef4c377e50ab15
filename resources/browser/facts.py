"""What all catalogs hold: their tables and branches, and what those have been through. Read again once it is some seconds old."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lineage import LineageStore, LineageUnavailable
from storage import BranchHistory, NotFound, SnapshotRef, StorageError, Table

from ..session import Session

# Catalog, database, table, branch.
Place = tuple[str, str, str, str]
# What is shown may be as old as this.
_FRESH_S = 2.0


def place_of(ref: SnapshotRef) -> Place:
    """Where a snapshot is: one whose number was given again, where it was."""
    return ref.catalog, ref.database, ref.table, ref.branch.partition("~")[0]


@dataclass(frozen=True, slots=True)
class Platform:
    """The branches of all tables by place. `troubles`: in a sentence each, what could not be read, by place or catalog."""

    branches: Mapping[Place, BranchHistory]
    stores: Mapping[str, LineageStore]
    troubles: Mapping[Place | str, str] = field(default_factory=dict)

    def fate(self, ref: SnapshotRef) -> str:
        """What has become of a snapshot, in the words of `Session.fate`."""
        if "~" in ref.branch:
            return "replaced"
        place = place_of(ref)
        history = self.branches.get(place)
        if history is not None:
            return history.fate(ref.snapshot_id)
        return "damaged" if place in self.troubles or (*place[:3], "main") in self.troubles else "dropped"


class Facts:
    """Reads the platform for any number of threads. What a branch has been through is read once, then what came after it."""

    def __init__(self, session: Session, now: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._now = now
        self._lock = threading.Lock()
        self._known: dict[Place, BranchHistory] = {}
        self._platform: Platform | None = None
        self._read_at = 0.0

    def platform(self) -> Platform:
        """What there is now, or was a moment ago. Raises LineageUnavailable if no lineage can be read."""
        with self._lock:
            if self._platform is None or self._now() - self._read_at > _FRESH_S:
                self._platform = self._read()
                self._read_at = self._now()
            return self._platform

    def _read(self) -> Platform:
        session = self._session
        troubles: dict[Place | str, str] = {}
        found: dict[Place, BranchHistory] = {}
        stores = session.stores_to_ask()
        for catalog in session.catalog_names():
            if catalog not in stores:
                troubles[catalog] = f"The lineage of catalog {catalog!r} is out of reach: what it holds is left out."
            try:
                names = session.catalog_of(catalog).tables()
            except (StorageError, LineageUnavailable) as error:
                troubles[catalog] = f"Catalog {catalog!r} cannot be read: {error}"
                continue
            for name in names:
                self._read_table(catalog, name, found, troubles)
        self._known = found
        return Platform(found, stores, troubles)

    def _read_table(
        self, catalog: str, name: str, found: dict[Place, BranchHistory], troubles: dict[Place | str, str]
    ) -> None:
        database, _, table_name = name.partition(".")
        main: Place = (catalog, database, table_name, "main")
        try:
            table = self._session.catalog_of(catalog).table(name)
            found[main] = table.history(self._known.get(main))
            branches = table.branches.names()
        except NotFound:
            # It has been dropped this moment.
            return
        except StorageError as error:
            troubles[main] = f"{name} cannot be read: {error}"
            return
        for branch in branches:
            self._read_branch(table, (catalog, database, table_name, branch), found, troubles)

    def _read_branch(
        self, table: Table, place: Place, found: dict[Place, BranchHistory], troubles: dict[Place | str, str]
    ) -> None:
        try:
            found[place] = table.on_branch(place[3]).history(self._known.get(place))
        except NotFound:
            return
        except StorageError as error:
            troubles[place] = f"Branch {place[3]!r} of {place[1]}.{place[2]} cannot be read: {error}"
