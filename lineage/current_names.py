"""Sources of a snapshot by the names that their tables have today: what a snapshot says of itself was written down once."""

from collections.abc import Callable, Mapping
from functools import cached_property

from storage import Catalog, CorruptData, Identifier, NotFound, Snapshot, SnapshotRef

from .entities import SourceColumn, columns_of, moment_of_ms, replaced_branch, sources_of


class CurrentNames:
    """What the tables of a catalog are called now, by the names that they had."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def of(self, ref: SnapshotRef, sink: Snapshot) -> SnapshotRef:
        """The same snapshot by its table's name of today."""
        if ref.catalog != self._catalog.name:
            return ref
        named = self._since(ref, sink.time_ms)
        if ref.time_ms is None or (earlier := self._since(ref, ref.time_ms)) == named:
            return named
        # The table was renamed before the sink was committed, or another one had got its name by then.
        is_earlier = committed_at(named, self._catalog) != ref.time_ms == committed_at(earlier, self._catalog)
        return earlier if is_earlier else named

    def is_gone(self, ref: SnapshotRef) -> bool:
        """Whether there is no table of a snapshot's name in the catalog, so that nobody can say what it was called later."""
        return ref.catalog == self._catalog.name and f"{ref.database}.{ref.table}" not in self._tables

    def _since(self, ref: SnapshotRef, then_ms: int) -> SnapshotRef:
        """What a name of a time is today."""
        for until, name in self._by_former_name.get(f"{ref.database}.{ref.table}", []):
            if then_ms <= until:
                now = Identifier.parse(name)
                return SnapshotRef(ref.catalog, now.database, now.table, ref.branch, ref.snapshot_id, ref.time_ms)
        return ref

    @cached_property
    def _tables(self) -> frozenset[str]:
        return frozenset(self._catalog.tables())

    @cached_property
    def _by_former_name(self) -> dict[str, list[tuple[int, str]]]:
        """Until when a table had a name, in milliseconds, and what it is called now; in order."""
        names: dict[str, list[tuple[int, str]]] = {}
        for name in self._tables:
            for former in self._catalog.former_names(name):
                names.setdefault(former.name, []).append((former.until_ms, name))
        return {former_name: sorted(listed) for former_name, listed in names.items()}


def current_sources(snapshot: Snapshot, catalog_of: Callable[[str], Catalog]) -> dict[SnapshotRef, SnapshotRef]:
    """What a snapshot says that it was made from: each source as it was called then, and as it is found now.

    One whose number belongs to another snapshot by now has a branch of its own, as in lineage.
    """
    return {source: _current(source, snapshot, catalog_of) for source in sources_of(snapshot)}


def current_columns(snapshot: Snapshot, sources: Mapping[SnapshotRef, SnapshotRef]) -> dict[str, list[SourceColumn]]:
    """The columns that those of a snapshot were computed from, by the names that `sources`, of `current_sources`, give."""
    tables = {(ref.catalog, ref.database, ref.table): now for ref, now in sources.items()}
    current: dict[str, list[SourceColumn]] = {}
    for name, columns in columns_of(snapshot).items():
        for catalog, database, table, column in columns:
            now = tables.get((catalog, database, table))
            place = (catalog, database, table) if now is None else (now.catalog, now.database, now.table)
            current.setdefault(name, []).append((*place, column))
    return current


def _current(ref: SnapshotRef, sink: Snapshot, catalog_of: Callable[[str], Catalog]) -> SnapshotRef:
    try:
        catalog = catalog_of(ref.catalog)
    except NotFound:
        return ref
    there = committed_at(ref, catalog)
    if there is not None and ref.time_ms in (None, there):
        return ref
    named = CurrentNames(catalog).of(ref, sink)
    if named != ref:
        there = committed_at(named, catalog)
    if ref.time_ms is None or there == ref.time_ms or (there is None and not is_of_former(named, catalog)):
        return named
    branch = replaced_branch(named.branch, moment_of_ms(ref.time_ms))
    return SnapshotRef(named.catalog, named.database, named.table, branch, named.snapshot_id, ref.time_ms)


def committed_at(ref: SnapshotRef, catalog: Catalog) -> int | None:
    """When the snapshot was committed that has this name now, in milliseconds; None if there is none, or it is damaged."""
    try:
        table = catalog.table(ref.table_name)
        snapshot_read = table.snapshots.find(ref.snapshot_id)
        if snapshot_read is None:
            tags = (tag for tag in table.tags.list() if tag.is_of_its_branch)
            snapshot_read = next((tag.snapshot for tag in tags if tag.snapshot.id == ref.snapshot_id), None)
    except (CorruptData, NotFound):
        return None
    return None if snapshot_read is None else snapshot_read.time_ms


def is_of_former(ref: SnapshotRef, catalog: Catalog) -> bool:
    """Whether a snapshot is of another table of the same name, or was taken back by deleting it: its branch has not come to
    that number, and has been written since.
    """
    try:
        latest = catalog.table(ref.table_name).snapshots.latest()
    except (CorruptData, NotFound):
        return False
    return (
        latest is not None and ref.time_ms is not None and latest.id < ref.snapshot_id and ref.time_ms < latest.time_ms
    )
