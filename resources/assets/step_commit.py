"""Who commits on behalf of a Dagster step: the same id whenever the step is tried again, another for any other step."""

import zlib

import dagster as dg

from storage import CommitId, Snapshot, Table

from .provenance import runs_that_told
from .repeated_runs import created_at, has_ended_well, of_one_root, runs_repeated

# How far clocks of hosts may differ, in seconds.
_CLOCK_SKEW = 3600.0
Context = dg.AssetExecutionContext | dg.AssetCheckExecutionContext


def step_of(context: Context) -> tuple[str, str]:
    """A step of a run: the run, and the op."""
    return context.run.run_id, str(context.op_execution_context.op_handle)


def code_version_of(context: dg.AssetExecutionContext) -> str | None:
    """The code version that an asset declares; None without one."""
    return context.assets_def.get_asset_spec(context.asset_key).code_version if context.has_assets_def else None


def step_commit_id(context: dg.AssetExecutionContext, job: str, table: Table, key: dg.AssetKey, part: str) -> CommitId:
    """The barrier of a step: the same whenever the step is tried again, another for any other step.

    A run that repeats another one in which the step did not succeed takes the barrier of that one, whether it died after its
    commit, or was only taken for dead and wakes up: whoever commits first does it for both. Where the step had succeeded
    before the run was asked for, something new is asked for.
    """
    instance = context.instance
    first, *later = reversed([context.run, *runs_repeated(instance, context.run, key)])
    commit_id = _barrier(context, first, job, part)
    for run in later:
        if _is_done(context, first, run, commit_id, table, key):
            first, commit_id = run, _barrier(context, run, job, part)
    return commit_id


def _is_done(
    context: dg.AssetExecutionContext,
    first: dg.DagsterRun,
    run: dg.DagsterRun,
    commit_id: CommitId,
    table: Table,
    key: dg.AssetKey,
) -> bool:
    """Whether a step with the barrier of the `first` run had succeeded before a run was asked for that repeats it."""
    instance = context.instance
    made = table.new_commit(commit_id).find_committed()
    asked_for, step_key = created_at(instance, run), str(context.op_execution_context.op_handle)
    if made is None:
        # It may have succeeded without a commit: an overwrite that brings what there is.
        tellers = [first.run_id]
    elif commit_id.made(made):
        ref = table.ref(made.id)
        tellers = [] if ref is None else runs_that_told(instance, key, ref, created_at(instance, first) - _CLOCK_SKEW)
    else:
        # Its snapshot has expired: who told of it is among those that repeat it.
        tellers = of_one_root(instance, first)
    return any(has_ended_well(instance, teller, step_key, asked_for) for teller in tellers)


def _barrier(context: dg.AssetExecutionContext, run: dg.DagsterRun, job: str, part: str) -> CommitId:
    created_ms = int(created_at(context.instance, run) * 1000)
    keys = ",".join(context.partition_keys) if context.has_partition_key or context.has_partition_key_range else ""
    step = f"{run.run_id}/{context.op_execution_context.op_handle}/{keys}/{part}"
    return CommitId.of_moment(job, created_ms, zlib.crc32(step.encode()))


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
