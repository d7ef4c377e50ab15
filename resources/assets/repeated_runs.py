"""Which runs a run repeats, and when a step of one of them ended well."""

from collections.abc import Iterator

import dagster as dg

BACKFILL_TAG = "dagster/backfill"
_PARENT_BACKFILL_TAG = "dagster/parent_backfill_id"
_ROOT_RUN_TAG = "dagster/root_run_id"
# Dagster's tags of what a run is for.
_PARTITION_TAGS = ("dagster/partition", "dagster/asset_partition_range")


def runs_repeated(instance: dg.DagsterInstance, run: dg.DagsterRun, key: dg.AssetKey) -> Iterator[dg.DagsterRun]:
    """The runs that one repeats, the last of them first: those it was re-executed from, then that of the backfill that its own
    repeats which made the asset for the same partitions, and those which that one was re-executed from.
    """
    before: dg.DagsterRun | None = run
    while before is not None:
        if before.parent_run_id:
            before = instance.get_run_by_id(before.parent_run_id)
        else:
            before = _run_of_parent_backfill(instance, before, key)
        if before is not None:
            yield before


def _run_of_parent_backfill(instance: dg.DagsterInstance, run: dg.DagsterRun, key: dg.AssetKey) -> dg.DagsterRun | None:
    backfill = run.tags.get(BACKFILL_TAG)
    while backfill:
        record = instance.get_backfill(backfill)
        backfill = (record.tags or {}).get(_PARENT_BACKFILL_TAG) if record else None
        for other in instance.get_runs(dg.RunsFilter(tags={BACKFILL_TAG: backfill})) if backfill else ():
            if _partitions_of(other) == _partitions_of(run) and key in (other.asset_selection or (key,)):
                return other
    return None


def _partitions_of(run: dg.DagsterRun) -> dict[str, str]:
    return {name: value for name, value in run.tags.items() if name.startswith(_PARTITION_TAGS)}


def of_one_root(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    """The ids of the runs that were re-executed from the same one, with it and their own re-executions."""
    root = run.root_run_id or run.run_id
    return [root, *(each.run_id for each in instance.get_runs(dg.RunsFilter(tags={_ROOT_RUN_TAG: root})))]


def created_at(instance: dg.DagsterInstance, run: dg.DagsterRun) -> float:
    """When a run was asked for, in seconds since 1970; 0 where Dagster does not know."""
    record = instance.get_run_record_by_id(run.run_id)
    return record.create_timestamp.timestamp() if record else 0.0


def has_ended_well(instance: dg.DagsterInstance, run_id: str, step_key: str, before: float) -> bool:
    """Whether a step of a run had succeeded before a time, in seconds since 1970."""
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_SUCCESS).records
    entries = (record.event_log_entry for record in records)
    return any(entry.step_key == step_key and entry.timestamp < before for entry in entries)
