"""The path of one column through snapshots: which columns of which snapshots it was computed from, and where that ends."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from lineage import LineageStore, current_columns, trace
from storage import NotFound, SnapshotRef, StorageError, Table

from ..recovery.spoilt import ROLLED_BACK
from ..session import Session
from .rows_of import change_of

# No picture of a column has more.
_MOST_STEPS = 500


@dataclass(frozen=True, slots=True)
class ColumnStep:
    """A column of a snapshot, so many hops away, and what it was computed from; `carried`: the snapshots of its own table whose
    values of it were taken over as they are, with its name there; `ends`: why the path goes no further.
    """

    hops: int
    ref: SnapshotRef
    column: str
    sources: tuple[tuple[SnapshotRef, str], ...] = ()
    ends: str = ""
    carried: tuple[tuple[SnapshotRef, str], ...] = ()


def column_path(
    session: Session, stores: Mapping[str, LineageStore], ref: SnapshotRef, column: str
) -> list[ColumnStep]:
    """The steps from a column upwards, nearest first. Raises NotFound if the snapshot has no such column."""
    steps: list[ColumnStep] = []
    # Columns of what a compaction left were computed by the change before it.
    start = (change_of(session, ref), column)
    seen = {start}
    frontier = [start]
    hops = 0
    while frontier and len(steps) < _MOST_STEPS:
        following: list[tuple[SnapshotRef, str]] = []
        for place in frontier:
            step = _step(session, stores, *place, hops)
            steps.append(step)
            for source in (*step.sources, *step.carried):
                if source not in seen:
                    seen.add(source)
                    following.append(source)
        frontier, hops = following, hops + 1
    return steps


def _step(session: Session, stores: Mapping[str, LineageStore], ref: SnapshotRef, column: str, hops: int) -> ColumnStep:
    try:
        table = session.catalog_of(ref.catalog).table(ref.table_name)
        snapshot = table.snapshot(ref.snapshot_id)
    except NotFound:
        if hops == 0:
            raise
        return ColumnStep(hops, ref, column, ends="it is gone, and with it what it said of its columns")
    except StorageError as error:
        if hops == 0:
            raise
        return ColumnStep(hops, ref, column, ends=f"it cannot be read any more: {error}")
    assert snapshot is not None
    names = [field.name for field in table.pinned(snapshot.id).schema.fields]
    if column not in names:
        if hops == 0:
            raise NotFound(f"Snapshot {ref} has no column {column!r}. It has {', '.join(names)}.")
        return ColumnStep(hops, ref, column, ends="it has no column of this name")
    target = snapshot.number(ROLLED_BACK) if snapshot.operation == "ROLLBACK" else None
    if target is not None:
        taken = tuple(_carried(session, ref, table, column, [replace(ref, snapshot_id=target)]))
        ends = "" if taken else f"snapshot {target}, to which the table went back, has no such column"
        return ColumnStep(hops, ref, column, carried=taken, ends=ends)
    current = session.sources_of(snapshot)
    computed = current_columns(snapshot, current)
    # Of a catalog that records no lineage, its snapshots still say it.
    made_from = trace(stores, ref, "up", 1).snapshots or list(current.values())
    if not made_from:
        return ColumnStep(hops, ref, column, ends="it was made from no other snapshot")
    carried = tuple(_carried(session, ref, table, column, made_from))
    if not computed and not carried:
        return ColumnStep(hops, ref, column, ends="its writer named no columns that it read")
    sources = [
        (source, name)
        for catalog, database, table_name, name in computed.get(column, [])
        for source in made_from
        if (source.catalog, source.database, source.table) == (catalog, database, table_name)
    ]
    ends = "" if sources or carried else "it is a constant, or was computed from no column that is known"
    return ColumnStep(hops, ref, column, tuple(each for each in sources if each not in carried), ends, carried)


def _carried(
    session: Session, ref: SnapshotRef, table: Table, column: str, made_from: Iterable[SnapshotRef]
) -> Iterator[tuple[SnapshotRef, str]]:
    """The snapshots of the same table that a snapshot went on from, as an UPDATE does, or took over from a branch, each with the
    name that a column had there: columns are known by their numbers.
    """
    number = next(field.id for field in table.pinned(ref.snapshot_id).schema.fields if field.name == column)
    for source in made_from:
        if (source.catalog, source.database, source.table) != (ref.catalog, ref.database, ref.table):
            continue
        name = column
        # Of what is gone, the name is all that is known.
        with suppress(StorageError):
            fields = (
                session.catalog_of(source.catalog).table(source.table_name).pinned(source.snapshot_id).schema.fields
            )
            there = [field.name for field in fields if field.id == number]
            if not there:
                continue
            name = there[0]
        yield source, name
