"""The context of a function that is run for other partitions than those of the step, or outside of any run."""

import logging
from collections.abc import Sequence
from typing import Any

import dagster as dg


class PartitionContext:
    """Looks like a step's context, but for the partitions. Without a step there is only a log besides."""

    def __init__(
        self,
        partition_keys: Sequence[str],
        partitions_def: dg.PartitionsDefinition[Any] | None,
        step: dg.AssetExecutionContext | None = None,
    ) -> None:
        self._keys = list(partition_keys)
        self._partitions_def = partitions_def
        self._step = step

    @property
    def log(self) -> Any:
        """The log of the step; outside a run, the logger `snapline`."""
        return logging.getLogger("snapline") if self._step is None else self._step.log

    @property
    def has_partition_key(self) -> bool:
        """Whether the function is called for partitions."""
        return bool(self._keys)

    @property
    def partition_keys(self) -> list[str]:
        """Dagster's keys of the partitions that are made, in their order."""
        return list(self._keys)

    @property
    def partition_key(self) -> str:
        """Raises DagsterInvariantViolationError unless there is exactly one."""
        if len(self._keys) != 1:
            raise dg.DagsterInvariantViolationError(
                f"There are {len(self._keys)} partitions: use partition_keys, which lists them."
            )
        return self._keys[0]

    @property
    def partition_key_range(self) -> dg.PartitionKeyRange:
        """From the first of the keys to the last. Raises IndexError without partitions."""
        return dg.PartitionKeyRange(self._keys[0], self._keys[-1])

    @property
    def partition_time_window(self) -> dg.TimeWindow:
        """From the start of the first partition to the end of the last."""
        assert isinstance(self._partitions_def, dg.TimeWindowPartitionsDefinition)
        first, last = (
            self._partitions_def.time_window_for_partition_key(value) for value in (self._keys[0], self._keys[-1])
        )
        return dg.TimeWindow(first.start, last.end)

    def __getattr__(self, name: str) -> Any:
        if self._step is None:
            raise AttributeError(f"There is no run here, and so no context.{name}: only partitions and a log.")
        return getattr(self._step, name)
