"""What a publication tells Dagster: each partition of main that it replaced is materialized, with true provenance."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import dagster as dg

from lineage import sources_of
from storage import NotFound, SnapshotRef, Table

from ..assets.materialization import tag_name
from ..assets.partition_values import values_in
from ..assets.provenance import provenance_tags
from ..assets.table_asset import TableAsset
from ..assets.ui_metadata import (
    CommitNumbers,
    page_metadata,
    partition_metadata,
    recovery_page_metadata,
    table_metadata,
)
from ..session import Session
from ..warehouse.snapshot_properties import PARTITIONS_PROPERTY
from .heads import UNREAD
from .left_to_do import has_changed, table_order, wanted_keys
from .publish import Published
from .record import TableRecord
from .stages import Recovery
from .twins import event_partition, has_own_partitions, twin_key

Log = Callable[[dg.AssetMaterialization], None]


def report(
    session: Session,
    recovery: Recovery,
    published: list[Published],
    assets: Mapping[str, TableAsset],
    instance: dg.DagsterInstance,
    log: Log,
) -> int:
    """Tell Dagster of every table that was published, sources before what was made from them; returns the number of events.

    Partitions get their tags on main. Telling again what Dagster knows does nothing.
    """
    record, tables = recovery.record, recovery.tables
    count = 0
    refs = {each.name: each.ref for each in published}
    for name in [name for name in table_order(assets) if name in refs]:
        ref, asset = refs[name], assets[name]
        table = session.table(name)
        snapshot = table.snapshot(ref.snapshot_id)
        assert snapshot is not None
        # Of a table that was dropped since, or made anew, main has not what was read.
        gone = {each for each in record.tables if each not in recovery.planned}
        base = {each: number for each, number in record.base.items() if number != UNREAD and each not in gone}
        tags = _tags(session, asset, ref, refs, base, instance)
        numbers = CommitNumbers.of(table, snapshot)
        metadata = table_metadata(table, snapshot, sources_of(snapshot), numbers) | {"recovery": recovery.branch}
        metadata |= recovery_page_metadata(recovery.branch)
        for key in _partitions(table, recovery, asset, tables[name]):
            known = instance.fetch_materializations(
                dg.AssetRecordsFilter(asset.key, asset_partitions=[key] if key is not None else None), limit=1
            ).records
            event = known[0].asset_materialization if known else None
            if event is not None and event.metadata.get("snapshot") == dg.IntMetadataValue(ref.snapshot_id):
                continue
            own: dict[str, Any] = {}
            if key is not None:
                values = values_in(table, asset.partitions([key]) or {})[key]
                own = partition_metadata(table, snapshot, values, numbers)
                if asset.tag_partitions:
                    table.tags.create(tag_name(key), snapshot_id=snapshot.id, replace=True)
            log(dg.AssetMaterialization(asset.key, partition=key, metadata=metadata | own, tags=tags))
            count += 1
    return count


def report_branch(
    session: Session, recovery: Recovery, assets: Mapping[str, TableAsset], instance: dg.DagsterInstance, log: Log
) -> int:
    """Tell Dagster what is right on the branch already, so that no twin looks missing that nothing is to be made for: what was
    corrected, the partitions that are not to be computed anew, and the inputs that are read as main had them. Returns the
    number of events; telling again what Dagster knows does nothing.
    """
    tables = recovery.tables
    read = {other for name in tables if name in assets for other in assets[name].inputs.values()}
    count = 0
    for name in [name for name in table_order(assets) if name in tables or name in read]:
        asset, record = assets[name], tables.get(name)
        for ref, keys in _right_already(session, recovery, asset, record):
            count += _report_twin(session, recovery, asset, ref, keys, instance, log)
    return count


def _right_already(
    session: Session, recovery: Recovery, asset: TableAsset, record: TableRecord | None
) -> Iterator[tuple[SnapshotRef, list[str | None]]]:
    """The snapshots that hold what is right, as the branch or main has them, with the twin's own partitions."""
    every: list[str | None] = [None]
    if has_own_partitions(asset) and asset.partitions_def is not None:
        every = list(asset.partitions_def.get_partition_keys())
    if record is None:
        try:
            ref = recovery.table(asset.name).last_change()
        except NotFound:
            return
    elif record.corrected:
        ref = recovery.branched(asset.name).last_change() if has_changed(recovery, asset.name, record) else None
    elif record.partitions is None or record.branch_at is None or every == [None]:
        return
    else:
        ref = session.table(asset.name).ref(record.branch_at)
        wanted = wanted_keys(recovery, asset, record.partitions)
        every = [each for each in every if each not in wanted]
    if ref is not None:
        table = session.table(ref.table_name) if ref.branch == "main" else recovery.branched(asset.name)
        held = (
            {asset.partition_key(partition, table) for partition in table.partitions(ref.snapshot_id)}
            if every != [None]
            else set()
        )
        yield ref, [each for each in every if each is None or each in held]


def _report_twin(
    session: Session,
    recovery: Recovery,
    asset: TableAsset,
    ref: SnapshotRef,
    keys: list[str | None],
    instance: dg.DagsterInstance,
    log: Log,
) -> int:
    key, count = twin_key(asset.name), 0
    metadata: dict[str, Any] = {"snapshot": ref.snapshot_id, "branch": ref.branch, "recovery": recovery.branch}
    metadata |= page_metadata(ref) | recovery_page_metadata(recovery.branch)
    metadata["what"] = "as main has it" if ref.branch == "main" else "corrected on the branch"
    tags = {"dagster/data_version": ref.data_version, "dagster/data_version_is_user_provided": "true"}
    for each in keys:
        partition = event_partition(asset, recovery.branch, each)
        known = instance.fetch_materializations(
            dg.AssetRecordsFilter(key, asset_partitions=[partition]), limit=1
        ).records
        event = known[0].asset_materialization if known else None
        if event is not None and all(
            event.metadata.get(name) == dg.MetadataValue.int(value)
            if isinstance(value, int)
            else event.metadata.get(name) == dg.MetadataValue.text(value)
            for name, value in (("snapshot", ref.snapshot_id), ("branch", ref.branch))
        ):
            continue
        log(dg.AssetMaterialization(key, partition=partition, metadata=metadata, tags=tags))
        count += 1
    return count


def _partitions(table: Table, recovery: Recovery, asset: TableAsset, record: TableRecord) -> Iterator[str | None]:
    """The Dagster partitions of a table that the recovery has changed; None for a table without."""
    if asset.partitions_def is None or asset.partition_column is None:
        yield None
        return
    branch = table.on_branch(recovery.branch)
    keys_wanted = wanted_keys(recovery, asset, branch.changed_partitions(after=record.branch_at))
    for snapshot in branch.snapshots.all():
        if snapshot.id > (record.branch_at or 0):
            listed = (snapshot.properties or {}).get(PARTITIONS_PROPERTY)
            keys_wanted.update(listed.split(",") if listed else [])
    yield from sorted(keys_wanted & set(asset.partitions_def.get_partition_keys()))


def _tags(
    session: Session,
    asset: TableAsset,
    ref: SnapshotRef,
    published: Mapping[str, SnapshotRef],
    base: Mapping[str, int],
    instance: dg.DagsterInstance,
) -> dict[str, str]:
    """The versions that main's rows were made from, as Dagster keeps them."""
    sources = {}
    for name in asset.inputs.values():
        source = published.get(name) or (
            session.table(name).ref(base[name]) if name in base and session.catalog.exists(name) else None
        )
        if source is not None:
            sources[dg.AssetKey(name.split("."))] = source
    return {
        "dagster/data_version": ref.data_version,
        "dagster/data_version_is_user_provided": "true",
        "dagster/code_version": asset.code_version,
        **provenance_tags(instance, sources),
    }
