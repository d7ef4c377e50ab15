"""What a recovery has left to compute anew, told from the snapshots on its branches."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from storage import NotFound, Snapshot, SnapshotRef, Table

from ..assets.table_asset import TableAsset
from ..warehouse.snapshot_properties import PARTITIONS_PROPERTY
from .record import TableRecord
from .replay import is_written, own_snapshots, replayed_until
from .stages import Recovery

WHOLE = "*"
_KEPT = 1000
# Whether two snapshots hold the same rows: by the branch, the first, and the second with its identity.
_SAME: dict[tuple[str, str, int, int, str], bool] = {}


def left_to_do(recovery: Recovery, assets: Mapping[str, TableAsset]) -> list[str]:
    """The tables that have not been computed anew since one of their inputs changed, each after its inputs.

    One of the plan that no asset makes is left until it has been written on its branch after its inputs; those come last.
    """
    tables = recovery.tables
    inputs: dict[str, Collection[str]] = {}
    left: set[str] = set()
    for name in table_order(assets):
        record = tables.get(name)
        if record is not None and not record.corrected:
            inputs[name] = assets[name].inputs.values()
            if not _is_current(recovery, assets[name], record):
                left.add(name)
    for name, record in recovery.planned.items():
        if name in tables and name not in assets and not record.corrected and not _is_mains(recovery, name, record):
            inputs[name] = _inputs_by_hand(recovery, name, tables[name])
            if not _is_current_by_hand(recovery, name, tables[name], inputs[name]):
                left.add(name)
    while more := {name for name, read in inputs.items() if name not in left and not left.isdisjoint(read)}:
        left |= more
    return [name for name in inputs if name in left]


def _inputs_by_hand(recovery: Recovery, name: str, record: TableRecord) -> set[str]:
    """The tables that the newest rows of a table were made from, on main and on the branch."""
    made = list(_own_snapshots(recovery, name, record))
    newest = None if record.main is None else recovery.snapshot_of_main(name, record.main)
    known = [*made, *([] if newest is None else [newest])]
    return {_plain(source) for snapshot in known for source in _sources(recovery, snapshot)} - {name}


def _sources(recovery: Recovery, snapshot: Snapshot) -> list[SnapshotRef]:
    """The sources of a snapshot that are in the recovery's own catalog."""
    return [source for source in recovery.sources(snapshot) if source.catalog == recovery.catalog_name]


def _plain(ref: SnapshotRef) -> str:
    """The name of a table without its branch."""
    return f"{ref.database}.{ref.table}"


def _is_mains(recovery: Recovery, name: str, record: TableRecord) -> bool:
    """Whether a table was branched, by a statement that has not written yet, and holds what main has."""
    return record.partitions == [] and record.replayed_at is None and not has_changed(recovery, name, record)


def _is_current_by_hand(recovery: Recovery, name: str, record: TableRecord, inputs: Collection[str]) -> bool:
    """Whether a table, or each partition of it that the plan names, was written on its branch after all of its inputs: from
    what the recovery has of them now, or, where a statement read none of them, later; and after a replay that found other rows
    on main.
    """
    made = [
        snapshot
        for snapshot in _own_snapshots(recovery, name, record)
        if (snapshot.changes_rows or snapshot.operation == "ROLLBACK") and snapshot.id > (record.replayed_at or 0)
    ]
    if not record.partitions:
        return _are_after(recovery, made, inputs)
    branch = recovery.branched(name)
    written = {snapshot.id: _written_partitions(branch, snapshot) for snapshot in made}
    return all(
        _are_after(recovery, [snapshot for snapshot in made if _holds(written[snapshot.id], wanted)], inputs)
        for wanted in record.partitions
    )


def _written_partitions(branch: Table, snapshot: Snapshot) -> list[dict[str, Any]] | None:
    """The partitions that a snapshot has changed; None for all of them."""
    if snapshot.operation == "ROLLBACK":
        return None
    try:
        return branch.changed_partitions(after=snapshot.id - 1, until=snapshot.id)
    except NotFound:
        # What has expired tells nothing of its partitions.
        return []


def _holds(written: list[dict[str, Any]] | None, wanted: Mapping[str, Any]) -> bool:
    return written is None or dict(wanted) in written


def _are_after(recovery: Recovery, made: Sequence[Snapshot], inputs: Collection[str]) -> bool:
    """Whether there are snapshots, newest first, and they were made after all inputs."""
    if not made:
        return False
    read: dict[tuple[str, str], int] = {}
    for source_ref in (source for snapshot in made for source in _sources(recovery, snapshot)):
        place = (_plain(source_ref), source_ref.branch)
        read[place] = max(source_ref.snapshot_id, read.get(place, 0))
    for other in inputs:
        needed = _as_read(recovery, other)
        if needed is None:
            continue
        known = read.get((other, needed.branch))
        if known is not None:
            if known < needed.snapshot_id:
                return False
        elif needed.branch == recovery.branch and made[0].time_ms < _time_of(recovery, needed):
            return False
    return True


def _time_of(recovery: Recovery, ref: SnapshotRef) -> int:
    snapshot = recovery.table(_plain(ref)).snapshot(ref.snapshot_id)
    return 0 if snapshot is None else snapshot.time_ms


def has_changed(recovery: Recovery, name: str, record: TableRecord) -> bool:
    """Whether the branch of a table was written to by other than a replay of main."""
    return recovery.is_branched(name) and is_written(recovery.branched(name), record.branch_at)


def is_corrected(recovery: Recovery, name: str, record: TableRecord) -> bool:
    """Whether what was written to the branch of a table has changed any of its rows, and not changed all of them back."""
    if not has_changed(recovery, name, record):
        return False
    branch = recovery.branched(name)
    try:
        if record.branch_at is not None and not replayed_until(branch):
            return not _hold_the_same(branch, record.branch_at, branch.snapshot())
        # Replays of main have changed rows too: each own snapshot is asked.
        return any(
            not _hold_the_same(branch, snapshot.id - 1, snapshot)
            for snapshot in _own_snapshots(recovery, name, record)
            if snapshot.changes_rows or snapshot.operation == "ROLLBACK"
        )
    except NotFound:
        # What has expired tells no difference.
        return True


def _hold_the_same(branch: Table, before: int, after: Snapshot | None) -> bool:
    """Whether two snapshots of a branch hold the same rows; pages ask again and again."""
    if after is None or before == 0:
        return False
    key = (branch.location, str(branch.identifier), before, after.id, after.identity)
    if key not in _SAME:
        if len(_SAME) >= _KEPT:
            _SAME.clear()
        _SAME[key] = branch.snapshots.hold_the_same(before, after.id)
    return _SAME[key]


def _own_snapshots(recovery: Recovery, name: str, record: TableRecord) -> Iterator[Snapshot]:
    """What was committed to the branch since it began, as `own_snapshots`."""
    if recovery.is_branched(name):
        yield from own_snapshots(recovery.branched(name), record.branch_at)


def makings(recovery: Recovery, name: str, record: TableRecord) -> dict[str, Snapshot]:
    """The newest snapshot by which the branch made each partition anew, by Dagster's key; `*`: the whole table."""
    newest: dict[str, Snapshot] = {}
    for snapshot in _own_snapshots(recovery, name, record):
        if snapshot.commit_user.startswith("recovery/"):
            keys = (snapshot.properties or {}).get(PARTITIONS_PROPERTY)
            for key in keys.split(",") if keys else [WHOLE]:
                newest.setdefault(key, snapshot)
    return newest


def _is_current(recovery: Recovery, asset: TableAsset, record: TableRecord) -> bool:
    """Whether all partitions to be computed anew were, from what the recovery has of the inputs now."""
    made = makings(recovery, asset.name, record)
    wanted = _wanted(recovery, asset, record)
    if not wanted <= set(made):
        return False
    needed = [ref for ref in (_as_read(recovery, other) for other in asset.inputs.values()) if ref is not None]
    for snapshot in {made[key].id: made[key] for key in wanted}.values():
        read = {
            (source.database, source.table, source.branch): source.snapshot_id for source in recovery.sources(snapshot)
        }
        if any(read.get((ref.database, ref.table, ref.branch), 0) < ref.snapshot_id for ref in needed):
            return False
    return True


def _as_read(recovery: Recovery, name: str) -> SnapshotRef | None:
    """The snapshot at which a run on the branch would have to read a table; None if there was none when the recovery began."""
    try:
        seen = recovery.table(name)
        record = recovery.tables.get(name)
        until = None if record is None else record.computed_at
        if until is not None and recovery.is_branched(name) and not is_written(seen, until):
            # Rows of production that a publication has brought beside it, at its last moment.
            return seen.last_change(until)
        return seen.last_change()
    except NotFound:
        return None


def _wanted(recovery: Recovery, asset: TableAsset, record: TableRecord) -> set[str]:
    """Dagster's keys of the partitions to be computed anew; `*` (WHOLE) where a run makes the whole table."""
    if asset.partitions_def is None or asset.partition_column is None:
        return {WHOLE}
    return wanted_keys(recovery, asset, record.partitions)


def wanted_keys(recovery: Recovery, asset: TableAsset, partitions: Sequence[Mapping[str, object]] | None) -> set[str]:
    """Dagster's keys of some partitions of the table, of those that Dagster knows; of all if None."""
    assert asset.partitions_def is not None
    known = set(asset.partitions_def.get_partition_keys())
    if not partitions:
        return known if partitions is None else set()
    table = recovery.table(asset.name)
    return {asset.partition_key(partition, table) for partition in partitions} & known


def table_order(assets: Mapping[str, TableAsset]) -> list[str]:
    """Names of tables, each after its inputs."""
    order: dict[str, None] = {}

    def add(name: str) -> None:
        for source in assets[name].inputs.values():
            if source in assets and source not in order:
                add(source)
        order[name] = None

    for name in assets:
        if name not in order:
            add(name)
    return list(order)
