"""Compute anew, in this process, what a recovery has left to do: as runs of Dagster, one for each table."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from storage import Clock, StorageError

from ..assets.table_asset import TableAsset
from ..links.launchpad_path import RECOVERY_TAG
from .left_to_do import left_to_do, wanted_keys
from .stages import Recovery
from .twins import BRANCHES, event_partition, has_own_partitions, twin_key


class BackfillFailed(StorageError):
    """A run failed; those before it are done, and the backfill goes on with this one when it is started again."""


def backfill(
    recovery: Recovery,
    definitions: dg.Definitions,
    assets: Mapping[str, TableAsset],
    instance: dg.DagsterInstance,
    tell: Callable[[str], None],
) -> int:
    """Run what is left to do; returns the number of runs. `told` hears of each. Raises BackfillFailed.

    What was done before is not done again.
    """
    instance.add_dynamic_partitions(str(BRANCHES.name), [recovery.branch])
    count = 0
    for name in left_to_do(recovery, assets):
        if name not in assets:
            tell(f"{name}: no asset makes it. Write to its branch by SQL, as in a correction.")
            continue
        asset = assets[name]
        for tags, what in _runs(asset, recovery, recovery.tables[name].partitions):
            tell(f"{name}{what}")
            _run(definitions, asset, instance, {**tags, RECOVERY_TAG: recovery.branch})
            count += 1
    return count


def _runs(
    asset: TableAsset, recovery: Recovery, partitions: Sequence[Mapping[str, Any]] | None
) -> Iterator[tuple[dict[str, str], str]]:
    """Run tags, and which partitions they ask for: a run for each range without a gap."""
    if not has_own_partitions(asset) or asset.partitions_def is None:
        yield {"dagster/partition": recovery.branch}, ""
        return
    every = list(asset.partitions_def.get_partition_keys())
    wanted = wanted_keys(recovery, asset, partitions)
    positions = [number for number, key in enumerate(every) if key in wanted]
    start = 0
    for index, position in enumerate(positions):
        if index + 1 == len(positions) or positions[index + 1] != position + 1:
            first, last = every[positions[start]], every[position]
            yield (
                {
                    "dagster/asset_partition_range_start": event_partition(asset, recovery.branch, first),
                    "dagster/asset_partition_range_end": event_partition(asset, recovery.branch, last),
                },
                f" {first}" if first == last else f" {first} to {last}",
            )
            start = index + 1


def _run(definitions: dg.Definitions, asset: TableAsset, instance: dg.DagsterInstance, tags: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        job = definitions.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            run_id=Clock().unique_name(),
            instance=instance,
            tags=tags,
            asset_selection=[twin_key(asset.name)],
            raise_on_error=False,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
    if not result.success:
        failures = [event.step_failure_data for event in result.all_events if event.is_step_failure]
        message = "; ".join(dict.fromkeys(map(_said, failures)))
        raise BackfillFailed(f"Run {result.run_id} of {asset.name} failed: {message}")


def _said(failure: Any) -> str:
    """What a step has failed with, in one line: what the asset said, or else the message of the first cause."""
    if failure.user_failure_data is not None and failure.user_failure_data.description:
        return " ".join(failure.user_failure_data.description.split())
    error = failure.error
    while error is not None and error.cause is not None:
        error = error.cause
    return "no reason is known" if error is None else " ".join(error.message.split())
