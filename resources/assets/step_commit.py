"""Who commits on behalf of a Dagster step: the same id whenever the step is tried again, another for any other step."""

import zlib
from collections.abc import Iterator

import dagster as dg

from storage import CommitId, Snapshot, Table

from .provenance import is_reported

BACKFILL_TAG = "dagster/backfill"
_PARENT_BACKFILL_TAG = "dagster/parent_backfill_id"
Context = dg.AssetExecutionContext | dg.AssetCheckExecutionContext


def step_of(context: Context) -> tuple[str, str]:
    """A step of a run: the run, and the op."""
    return context.run.run_id, str(context.op_execution_context.op_handle)


def code_version_of(context: dg.AssetExecutionContext) -> str | None:
    """The code version that an asset declares; None without one."""
    return context.assets_def.get_asset_spec(context.asset_key).code_version if context.has_assets_def else None


def step_commit_id(context: dg.AssetExecutionContext, job: str, table: Table, key: dg.AssetKey, part: str) -> CommitId:
    """The barrier of a step: the same whenever the step is tried again, another for any other step.

    A run that was started because an earlier one died takes the barrier of that one, if it had committed and died before
    Dagster heard of it: then nothing is committed twice.
    """
    for run in _earlier_runs(context):
        earlier = _barrier(context, run, job, part)
        made = table.new_commit(earlier).find_committed()
        if made is None:
            continue
        if not earlier.made(made):
            # Its snapshot has expired: Dagster has heard of it, or nothing is committed again.
            if not _has_materialized(context.instance, run, key):
                return earlier
            continue
        ref = table.ref(made.id)
        if ref is not None and not is_reported(context.instance, key, ref):
            return earlier
    return _barrier(context, context.run, job, part)


def _has_materialized(instance: dg.DagsterInstance, run: dg.DagsterRun, key: dg.AssetKey) -> bool:
    """Whether Dagster has heard from a run that it made an asset."""
    records = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records
    events = (record.event_log_entry.dagster_event for record in records)
    return any(event is not None and event.asset_key == key for event in events)


def _barrier(context: dg.AssetExecutionContext, run: dg.DagsterRun, job: str, part: str) -> CommitId:
    record = context.instance.get_run_record_by_id(run.run_id)
    created_ms = int(record.create_timestamp.timestamp() * 1000) if record else 0
    keys = ",".join(context.partition_keys) if context.has_partition_key or context.has_partition_key_range else ""
    step = f"{run.run_id}/{context.op_execution_context.op_handle}/{keys}/{part}"
    return CommitId.of_moment(job, created_ms, zlib.crc32(step.encode()))


def _earlier_runs(context: dg.AssetExecutionContext) -> Iterator[dg.DagsterRun]:
    """The runs that this one repeats: those it was re-executed from, and those of the backfills that its own repeats."""
    run: dg.DagsterRun | None = context.run
    while run is not None and run.parent_run_id:
        run = context.instance.get_run_by_id(run.parent_run_id)
        if run is not None:
            yield run
    backfill = context.run.tags.get(BACKFILL_TAG)
    while backfill:
        backfill_record = context.instance.get_backfill(backfill)
        backfill = backfill_record.tags.get(_PARENT_BACKFILL_TAG) if backfill_record and backfill_record.tags else None
        if backfill:
            yield from context.instance.get_runs(dg.RunsFilter(tags={BACKFILL_TAG: backfill}))


def unless_long_ago(
    context: dg.AssetExecutionContext, snapshot: Snapshot | None, commit_id: CommitId, what: str
) -> Snapshot | None:
    """The snapshot of a commit; None, and a warning, if it landed so long ago that it has expired."""
    if snapshot is None or commit_id.made(snapshot):
        return snapshot
    context.log.warning(
        f"commit {commit_id.identifier} of {what} landed long ago, and its snapshot has expired: nothing is committed again"
    )
    return None
