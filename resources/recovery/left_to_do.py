"""What a recovery has left to compute anew, told from the snapshots on its branches."""

from collections.abc import Mapping, Sequence

from lineage import sources_of

from ..properties import PARTITIONS_PROPERTY
from ..table_assets import TableAsset
from .record import TableRecord
from .stages import Recovery


def left_to_do(recovery: Recovery, assets: Mapping[str, TableAsset]) -> list[str]:
    """The tables that have not been computed anew since one of their inputs changed, each after its inputs."""
    found: list[str] = []
    tables = recovery.tables
    for name in table_order(assets):
        one = tables.get(name)
        if one is None or one.corrected:
            continue
        asset = assets[name]
        if any(other in found for other in asset.inputs.values()) or not _is_current(recovery, asset, one):
            found.append(name)
    return found


def _is_current(recovery: Recovery, asset: TableAsset, record: TableRecord) -> bool:
    """Whether all partitions to be computed anew were, from the newest snapshots of what the branch has of the inputs."""
    made: set[str] = set()
    read: dict[tuple[str, str], int] = {}
    for snapshot in recovery.branched(asset.name).store.snapshots.backwards():
        if snapshot.id <= (record.branch_at or 0):
            break
        if not snapshot.commit_user.startswith("recovery/"):
            continue
        keys = (snapshot.properties or {}).get(PARTITIONS_PROPERTY)
        made.update(keys.split(",") if keys else ["*"])
        for source in sources_of(snapshot):
            place = (source.database, source.table)
            read[place] = min(read.get(place, source.snapshot_id), source.snapshot_id)
    if not _wanted(asset, record) <= made:
        return False
    for other in asset.inputs.values():
        head = recovery.table(other).last_change()
        if recovery.is_branched(other) and head and read.get((head.database, head.table), 0) < head.snapshot_id:
            return False
    return True


def _wanted(asset: TableAsset, record: TableRecord) -> set[str]:
    """Dagster's keys of the partitions to be computed anew; `*` where a run makes the whole table."""
    if asset.partitions_def is None or asset.partition_column is None:
        return {"*"}
    return wanted_keys(asset, record.partitions)


def wanted_keys(asset: TableAsset, partitions: Sequence[Mapping[str, object]] | None) -> set[str]:
    """Dagster's keys of some partitions of the table, of those that Dagster knows; of all if None."""
    assert asset.partitions_def is not None
    known = set(asset.partitions_def.get_partition_keys())
    return known if partitions is None else {partition_key_of(asset, one) for one in partitions} & known


def table_order(assets: Mapping[str, TableAsset]) -> list[str]:
    """Names of tables, each after its inputs."""
    found: dict[str, None] = {}

    def add(name: str) -> None:
        for source in assets[name].inputs.values():
            if source in assets and source not in found:
                add(source)
        found[name] = None

    for name in assets:
        if name not in found:
            add(name)
    return list(found)


def partition_key_of(asset: TableAsset, partition: Mapping[str, object]) -> str:
    """Dagster's partition key of a partition of the table, given by column."""
    column = asset.partition_column
    if isinstance(column, Mapping):
        return "|".join(str(partition[column[dimension]]) for dimension in sorted(column))
    return str(partition[str(column)])
