"""The stages of a recovery as Dagster jobs, to be launched from the UI; and the whole as definitions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import dagster as dg

from ..session import Session
from ..table_assets import table_assets
from ..tables import TablesResource
from .left_to_do import left_to_do
from .plan import RecoveryPlan, bad_snapshot, plan_recovery
from .report import report
from .stages import Recovery
from .twins import BRANCHES, checks, comparison_metadata, twins


class PlanConfig(dg.Config):
    """`bad`: the bad snapshot, as `raw.flights@2` or `raw.flights@tag`; or a table, with `since` (a local time, for its first
    change from then on) or `partition` (values by column, for the newest snapshot that its rows come from).
    """

    bad: str
    since: str = ""
    partition: dict[str, str] = {}  # noqa: RUF012
    mode: Literal["full", "incremental"] = "full"

    def plan(self, session: Session) -> RecoveryPlan:
        since = datetime.fromisoformat(self.since) if self.since else None
        return plan_recovery(session, bad_snapshot(session, self.bad, since=since, partition=self.partition), self.mode)


class StartConfig(PlanConfig):
    branch: str


class BranchConfig(dg.Config):
    branch: str


class CorrectConfig(dg.Config):
    """`sql`: statements in which tables mean their branches. `undo_bad`: take the corrected table back to before instead."""

    branch: str
    sql: str = ""
    undo_bad: bool = False


class PublishConfig(dg.Config):
    """`replay`: bring to the branch what main got meanwhile. `discard_main`: give it up."""

    branch: str
    replay: bool = False
    discard_main: bool = False


def recovery_definitions(assets: Sequence[Any]) -> dg.Definitions:
    """The recovery graph of some assets, with a check for each twin, and the jobs that begin and end a recovery."""
    known = table_assets(assets)

    @dg.op
    def plan_the_recovery(context: dg.OpExecutionContext, config: PlanConfig, tables: TablesResource) -> None:
        context.add_output_metadata(_plan_metadata(config.plan(tables.session)))

    @dg.op
    def start_the_recovery(context: dg.OpExecutionContext, config: StartConfig, tables: TablesResource) -> None:
        plan = config.plan(tables.session)
        Recovery.start(tables.session, config.branch, plan)
        context.instance.add_dynamic_partitions(str(BRANCHES.name), [config.branch])
        context.add_output_metadata(_plan_metadata(plan))

    @dg.op
    def correct_the_source(context: dg.OpExecutionContext, config: CorrectConfig, tables: TablesResource) -> None:
        recovery = Recovery.open(tables.session, config.branch)
        said = [recovery.undo_bad()] if config.undo_bad else recovery.correct(config.sql)
        context.add_output_metadata({"done": dg.MetadataValue.md("\n".join(f"- {one}" for one in said))})

    @dg.op
    def publish_the_branch(context: dg.OpExecutionContext, config: PublishConfig, tables: TablesResource) -> None:
        recovery = Recovery(tables.session, config.branch)
        if config.replay:
            anew = recovery.replay()
            left = left_to_do(recovery, known)
            if left:
                raise dg.Failure(
                    f"Main's changes are on the branch now ({', '.join(anew) or 'sources alone'}). Materialize on it again: "
                    f"{', '.join(left)}; then publish."
                )
        done = recovery.publish(discard_main=config.discard_main)
        count = report(tables.session, recovery, done, known, context.instance, context.log_event)
        rows = [dg.TableRecord({"table": one.name, "main is": str(one.ref), "verdict": one.verdict}) for one in done]
        context.add_output_metadata({"tables": dg.MetadataValue.table(rows), "events": count})

    @dg.op
    def compare_the_branch(context: dg.OpExecutionContext, config: BranchConfig, tables: TablesResource) -> None:
        recovery = Recovery(tables.session, config.branch)
        found = {name: recovery.compare(name) for name in recovery.changed()}
        context.add_output_metadata(comparison_metadata(found))

    @dg.op
    def drop_the_branch(context: dg.OpExecutionContext, config: BranchConfig, tables: TablesResource) -> None:
        Recovery(tables.session, config.branch).drop()
        context.instance.delete_dynamic_partition(str(BRANCHES.name), config.branch)

    @dg.job(description="Show what a bad snapshot has spoilt. Nothing is changed.")
    def recovery_plan() -> None:
        plan_the_recovery()

    @dg.job(description="Branch every table that a bad snapshot has spoilt.")
    def recovery_start() -> None:
        start_the_recovery()

    @dg.job(description="Correct the source on the branch, by SQL or by taking it back.")
    def recovery_correct() -> None:
        correct_the_source()

    @dg.job(description="Show how the branch of each table differs from main.")
    def recovery_compare() -> None:
        compare_the_branch()

    @dg.job(description="Make the branch main's, on all tables or none, and tell Dagster.")
    def recovery_publish() -> None:
        publish_the_branch()

    @dg.job(description="Delete the branch of every table.")
    def recovery_drop() -> None:
        drop_the_branch()

    return dg.Definitions(
        assets=twins(assets),
        asset_checks=checks(assets),
        jobs=[recovery_plan, recovery_start, recovery_correct, recovery_compare, recovery_publish, recovery_drop],
    )


def _plan_metadata(plan: RecoveryPlan) -> dict[str, Any]:
    names = ("table", "bad from", "newest", "branch at", "what happens")
    rows = [dg.TableRecord(dict(zip(names, map(str, row), strict=True))) for row in plan.rows()]
    return {"mode": plan.mode, "plan": dg.MetadataValue.table(rows)}
