"""Links from events in the Dagster UI to the launchpads of jobs, with the configuration filled in: nothing is typed that is
known, and nothing runs before somebody has looked at it and launched it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

# Not public API: the UI leaves this name out of its addresses.
from dagster._core.definitions.repository_definition import SINGLETON_REPOSITORY_NAME

from storage import SnapshotRef

from ..links.launchpad_path import launchpad_path, place_of

# The tables that recovery_definitions was given: of others there is no recovery to link to.
_recoverable: set[str] = set()
_PLAN_JOB, _PLAN_OP = "recovery_plan", "plan_the_recovery"
IF_IT_IS_BAD = "if_it_is_bad"


@dataclass(frozen=True)
class Launchpads:
    """Those of the jobs of a code location. Without one, as in a run that no workspace knows, a link is its text alone."""

    place: str | None

    @classmethod
    def of_run(cls, run: dg.DagsterRun) -> "Launchpads":
        """Those of the code location that a run is of."""
        if run.remote_job_origin is None:
            return cls(None)
        repository = run.remote_job_origin.repository_origin
        return cls(place_of(repository.repository_name, repository.code_location_origin.location_name))

    @classmethod
    def of_sensor(cls, context: dg.SensorEvaluationContext) -> "Launchpads":
        """Those of the code location that a sensor is of."""
        if context.code_location_origin is None:
            return cls(None)
        name = context.repository_name or SINGLETON_REPOSITORY_NAME
        return cls(place_of(name, context.code_location_origin.location_name))

    def link(self, text: str, job: str, op: str, config: Mapping[str, Any]) -> str:
        """A link, as Markdown, to the launchpad of a job of one op."""
        if self.place is None:
            return text
        return f"[{text}]({launchpad_path(self.place, job, op, config)})"


def can_be_recovered(tables: Mapping[str, Any]) -> None:
    """Let events of these tables lead to a recovery."""
    _recoverable.update(tables)


def if_it_is_bad(launchpads: Launchpads, ref: SnapshotRef) -> dict[str, Any]:
    """Metadata of a snapshot of main's: the way to a recovery from it, where there are recoveries of its table."""
    if ref.table_name not in _recoverable or ref.branch != "main" or launchpads.place is None:
        return {}
    text = f"Plan a recovery from {ref.table_name}@{ref.snapshot_id}"
    config = {"bad": f"{ref.table_name}@{ref.snapshot_id}", "mode": "incremental"}
    return {IF_IT_IS_BAD: dg.MetadataValue.md(launchpads.link(text, _PLAN_JOB, _PLAN_OP, config))}
