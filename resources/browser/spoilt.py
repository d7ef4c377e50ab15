"""What a bad snapshot has spoilt, and what is sound: by table, with snapshots, partitions and rows.

The tables are those of `snapline impact`; whether one is spoilt now is what `snapline recovery plan` says of it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lineage import LineageUnavailable
from storage import InvalidRequest, NotFound, Snapshot, SnapshotRef, StorageError, Table

from ..partition_condition import condition
from ..recovery.spoilt import ROLLED_BACK, Spoilt
from ..session import CATALOG_NAME, Session

# More are counted, not named.
SHOWN = 20
# Rows of more partitions are those of the whole table.
_NAMED_PARTITIONS = 100


@dataclass(frozen=True)
class Affected:
    """A table, or a branch of it, that a bad snapshot went into.

    `first`: its first snapshot that did, or that came after; `newest`: its newest change, None if the table is gone.
    `snapshots`: those since, the first ones by name. `partitions`: those that were written since; None for a table without any,
    or if that cannot be told. `rows`: the rows that these have now. `is_spoilt`: whether rows of the newest come from the bad
    snapshot; `why`: how it became good, or what is not known.
    """

    first: SnapshotRef
    newest: SnapshotRef | None
    snapshots: tuple[SnapshotRef, ...]
    snapshot_count: int
    partitions: tuple[str, ...] | None
    rows: int | None
    is_spoilt: bool
    why: str = ""


@dataclass(frozen=True)
class Damage:
    """Everything that a snapshot went into: what is spoilt now, what is good again, and the names of all other tables.
    `silent`: catalogs that record no lineage of snapshots, of whose tables nothing can be said.
    """

    bad: SnapshotRef
    spoilt: tuple[Affected, ...]
    good_again: tuple[Affected, ...]
    sound: tuple[str, ...]
    silent: tuple[str, ...] = ()

    @property
    def places(self) -> frozenset[tuple[str, str, str, str]]:
        """Catalog, database, table and branch of what is spoilt, for colours."""
        refs = (affected.first for affected in self.spoilt)
        return frozenset((ref.catalog, ref.database, ref.table, ref.branch) for ref in refs)


def damage_of(session: Session, bad: SnapshotRef) -> Damage:
    """What a snapshot has spoilt. Raises NotFound for one that nobody knows; LineageUnavailable."""
    refuse_unknown(session, bad)
    judge = Spoilt(session, bad) if bad.catalog == CATALOG_NAME and "~" not in bad.branch else None
    found = [_affected(session, ref, judge) for ref in session.impact(bad)]
    reached = {_name(affected.first) for affected in found}
    silent = tuple(name for name in session.catalog_names() if not session.records_lineage(name))
    return Damage(
        bad,
        tuple(affected for affected in found if affected.is_spoilt),
        tuple(affected for affected in found if not affected.is_spoilt),
        tuple(name for name in _all_tables(session, silent) if name not in reached),
        silent,
    )


def refuse_unknown(session: Session, ref: SnapshotRef) -> None:
    """Raise NotFound for a snapshot that is in no table, and that lineage does not know either."""
    if ref.catalog in session.catalog_names():
        try:
            if session.catalog_of(ref.catalog).table(ref.table_name).store.snapshots.find(ref.snapshot_id) is not None:
                return
        except (NotFound, InvalidRequest):
            pass
        where = {"database": ref.database, "table": ref.table, "branch": ref.branch, "snapshot_id": ref.snapshot_id}
        store = session.stores_to_ask(ref.catalog)[ref.catalog]
        if store.has_snapshots("sink", **where) or store.has_snapshots("source", **where):
            return
    raise NotFound(f"There is no snapshot {ref} in catalog {ref.catalog!r}, and lineage knows of none.")


def _affected(session: Session, first: SnapshotRef, judge: Spoilt | None) -> Affected:
    try:
        table = session.catalog_of(first.catalog).table(first.table_name)
        newest = table.last_change()
        if newest is None or "~" in first.branch:
            return Affected(
                first, newest, (first,), 1, None, None, False, "Its number belongs to another snapshot now."
            )
        since = [
            one.id for one in table.store.snapshots.all()
            if one.id >= first.snapshot_id and one.changes_rows and not _goes_back_before(one, first.snapshot_id)
        ]  # fmt: skip
        refs = [table.ref(number) for number in since[:SHOWN]]
        partitions, rows = _partitions_and_rows(table, first)
        is_spoilt, why = _judged(judge, newest)
        return Affected(
            first, newest, tuple(ref for ref in refs if ref is not None), len(since), partitions, rows, is_spoilt, why
        )
    except NotFound:
        return Affected(first, None, (first,), 1, None, None, False, "The table, or the branch, is gone.")
    except (StorageError, LineageUnavailable) as error:
        # Nobody can say that it is sound.
        return Affected(first, None, (first,), 1, None, None, True, f"It cannot be read: {error}")


def _goes_back_before(snapshot: Snapshot, first: int) -> bool:
    """Whether a snapshot is a rollback to one from before the first bad one: its rows are that one's."""
    target = snapshot.number(ROLLED_BACK)
    return target is not None and target < first


def _judged(judge: Spoilt | None, newest: SnapshotRef) -> tuple[bool, str]:
    """Whether a table is spoilt now, and why not."""
    if judge is None:
        return True, "Whether it has been made good since is told of this warehouse's own tables alone."
    if judge.is_spoilt(newest):
        return True, ""
    name = judge.repaired_by(newest) if newest.branch == "main" else ""
    return False, f"Repaired by recovery {name}." if name else "Production has made it good since."


def _partitions_and_rows(table: Table, first: SnapshotRef) -> tuple[tuple[str, ...] | None, int | None]:
    """The partitions that were written from a snapshot on, and the rows that they have now; of a table without any, all rows."""
    if not table.schema.partition_keys:
        return None, table.count()
    before = table.store.snapshots.find(first.snapshot_id - 1)
    if table.store.snapshots.find(first.snapshot_id) is None or (before is None and first.snapshot_id > 1):
        # Once the first one has expired, nobody can say which partitions it, and those after it, changed.
        return None, table.count()
    changed = table.changed_partitions(after=None if before is None else before.id)
    names = tuple(", ".join(str(value) for value in partition.values()) for partition in changed)
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
