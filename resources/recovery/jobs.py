"""The stages of a recovery as Dagster jobs, to be launched from the UI; and the whole as definitions."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import dagster as dg
from pydantic import Field

from storage import InvalidRequest, StorageError

from ..assets.declared import check_kinds
from ..assets.launchpad import Launchpads, can_be_recovered
from ..assets.run_progress import progress_in_log
from ..assets.table_asset import TableAsset, check_assets, table_assets
from ..assets.tables import TablesResource
from ..assets.ui_metadata import page_metadata, recovery_page_metadata
from ..links.launchpad_path import RECOVERY_TAG
from ..session import Session
from .backfill import backfill
from .branch_checks import published_checks
from .pages import (
    asset_link,
    comparison_page,
    differing_rows_page,
    dropped_page,
    list_page,
    page,
    plan_page,
    state_page,
    table,
    text,
    ways_to_start,
)
from .plan import DEFAULT_MODE, Mode, RecoveryPlan, bad_snapshot, plan_recovery
from .progress import progress, recoveries
from .publish import MadeFrom, publish, replay_and_publish
from .record import names
from .refusal import Refused
from .remarks import differences_since
from .report import report, report_branch
from .stages import Recovery
from .twins import BRANCHES, checks_of_twins, twins
from .words import JOBS, OPS


class PlanConfig(dg.Config):
    """What is bad."""

    bad: str = Field(
        description="The first bad snapshot: `raw.flights@2` or `raw.flights@tag`; or a table, with `since` or `partition`."
    )
    since: str = Field("", description="A local time, 2024-06-01T08:00: bad is the table's first change from then on.")
    partition: dict[str, str] = Field(
        {}, description="Values by column: bad is the newest snapshot that the rows of this partition come from."
    )
    mode: Mode = Field(
        DEFAULT_MODE,
        description="full: all that was made from it is computed anew. incremental: what came after the last good snapshot.",
    )

    def plan(self, session: Session) -> RecoveryPlan:
        """The recovery from the bad snapshot that this describes. Raises InvalidRequest for a `since` that is no date and time,
        NotFound if there is no such table, snapshot or partition.
        """
        try:
            since = datetime.fromisoformat(self.since) if self.since else None
        except ValueError:
            raise InvalidRequest(
                f"since: {self.since!r} is no date and time. Write it as 2024-06-01 or 2024-06-01T08:00."
            ) from None
        return plan_recovery(session, bad_snapshot(session, self.bad, since=since, partition=self.partition), self.mode)


class StartConfig(PlanConfig):
    """What is bad, and what the recovery is to be called."""

    branch: str = Field(description="The name of the recovery, which is that of its branch: a new one.")


class BranchConfig(dg.Config):
    """Which recovery."""

    branch: str = Field(description="The name of a recovery: recovery_list shows them.")


class CorrectConfig(BranchConfig):
    """How the source is corrected: by `sql` or `undo_bad`."""

    sql: str = Field("", description="Statements to run; the names of tables mean their branches.")
    undo_bad: bool = Field(False, description="Or: take the corrected table back to before the bad snapshot.")


class PublishConfig(BranchConfig):
    """What is to be done with what main got meanwhile, and with what is left."""

    replay: bool = Field(False, description="First bring to the branch what main got since the recovery began.")
    discard_main: bool = Field(False, description="Give up what main got since the recovery began.")
    allow_incomplete: bool = Field(False, description="Publish though tables are left to compute; this is recorded.")
    allow_failed_checks: bool = Field(
        False, description="Publish though blocking checks fail on the branch; this is recorded."
    )


@contextmanager
def _refusals(context: dg.OpExecutionContext, branch: str = "") -> Iterator[None]:
    """Tag the run with its recovery, and log how far long work has come; what is refused ends the run with one line, in the words
    of its configuration.
    """
    if branch:
        context.instance.add_run_tags(context.run_id, {RECOVERY_TAG: branch})
    try:
        with progress_in_log(context.log):
            yield
    except StorageError as error:
        raise Refused(error, {"recovery": branch} if branch else None) from None


def recovery_definitions(assets: Sequence[Any], checks: Sequence[Any] = ()) -> dg.Definitions:
    """The recovery graph of some assets, with a check for each twin, and the jobs that begin and end a recovery.

    Those of `checks` that are `sql_check`s run on the twins too, and the blocking ones gate the publication. Raises
    InvalidRequest for what are no assets, or no checks.
    """
    check_assets("recovery_definitions", assets)
    check_kinds("recovery_definitions", "checks", checks, (dg.AssetChecksDefinition,), "asset checks")
    can_be_recovered(table_assets(assets))
    graph = dg.Definitions(assets=twins(assets), asset_checks=checks_of_twins(assets, checks))
    known = table_assets(assets)
    return dg.Definitions.merge(
        graph,
        dg.Definitions(
            jobs=[
                *_jobs_that_look(known),
                *_jobs_that_begin(known),
                _backfill_job(known, graph),
                *_jobs_of_a_branch(known),
                _publish_job(known, checks),
            ]
        ),
    )


def _jobs_that_look(known: dict[str, TableAsset]) -> list[dg.JobDefinition]:
    """Those that change nothing before a recovery is begun."""

    @dg.op
    def list_the_recoveries(context: dg.OpExecutionContext, tables: TablesResource) -> None:
        with _refusals(context):
            listed = recoveries(tables.session, known)
            context.add_output_metadata({"recoveries": page(list_page(listed, Launchpads.of_run(context.run)))})

    @dg.op
    def plan_the_recovery(context: dg.OpExecutionContext, config: PlanConfig, tables: TablesResource) -> None:
        with _refusals(context):
            plan = config.plan(tables.session)
            taken = names(tables.session.catalog)
            context.add_output_metadata(
                {
                    "plan": page(plan_page(plan), ways_to_start(plan, taken, Launchpads.of_run(context.run))),
                    **page_metadata(plan.bad),
                }
            )

    @dg.job(description="List the recoveries, with what is left to do of each.")
    def recovery_list() -> None:
        list_the_recoveries()

    @dg.job(description="Show what a bad snapshot has spoilt. Nothing is changed.")
    def recovery_plan() -> None:
        plan_the_recovery()

    return [recovery_list, recovery_plan]


def _jobs_that_begin(known: dict[str, TableAsset]) -> list[dg.JobDefinition]:
    """Those that come before anything is computed anew."""

    @dg.op
    def start_the_recovery(context: dg.OpExecutionContext, config: StartConfig, tables: TablesResource) -> None:
        with _refusals(context, config.branch):
            plan = config.plan(tables.session)
            recovery = Recovery.start(tables.session, config.branch, plan)
            context.instance.add_dynamic_partitions(str(BRANCHES.name), [config.branch])
            report_branch(tables.session, recovery, known, context.instance, context.log_event)
            context.add_output_metadata(
                {"started": page(plan_page(plan), _state(context, tables, config, known)), **_seen(config)}
            )

    @dg.op
    def correct_the_source(context: dg.OpExecutionContext, config: CorrectConfig, tables: TablesResource) -> None:
        with _refusals(context, config.branch):
            if bool(config.sql.strip()) == config.undo_bad:
                raise InvalidRequest("Say in what way it is corrected: by sql or by undo_bad: true, one of them.")
            recovery = Recovery.open(tables.session, config.branch)
            corrections = [recovery.undo_bad()] if config.undo_bad else recovery.correct(config.sql)
            report_branch(tables.session, recovery, known, context.instance, context.log_event)
            listed = "\n".join(f"- {text(correction)}" for correction in corrections)
            context.add_output_metadata(
                {"corrected": page(listed, _state(context, tables, config, known)), **_seen(config)}
            )

    @dg.job(description="Branch every table that a bad snapshot has spoilt.")
    def recovery_start() -> None:
        start_the_recovery()

    @dg.job(
        description="Correct the source on the branch, by SQL or by taking it back.", config=_chosen("recovery_correct")
    )
    def recovery_correct() -> None:
        correct_the_source()

    return [recovery_start, recovery_correct]


def _backfill_job(known: dict[str, TableAsset], graph: dg.Definitions) -> dg.JobDefinition:
    @dg.op
    def compute_what_is_left(context: dg.OpExecutionContext, config: BranchConfig, tables: TablesResource) -> None:
        with _refusals(context, config.branch):
            recovery = Recovery.open(tables.session, config.branch)
            runnable = dg.Definitions.merge(
                graph,
                dg.Definitions(resources={"tables": tables, "spark": tables.spark}, executor=dg.in_process_executor),
            )
            progress: list[str] = []

            def tell(line: str) -> None:
                progress.append(line)
                context.log.info(line)

            count = backfill(recovery, runnable, known, context.instance, tell)
            listed = "\n".join(f"- {_linked(each)}" for each in progress) or "Nothing was left to compute."
            context.add_output_metadata(
                {"runs": count, "computed": page(listed, _state(context, tables, config, known)), **_seen(config)}
            )

    @dg.job(
        description="Compute anew on the branch what is left, as runs of the twins. Goes on where it stopped.",
        config=_chosen("recovery_backfill"),
    )
    def recovery_backfill() -> None:
        compute_what_is_left()

    return recovery_backfill


def _jobs_of_a_branch(known: dict[str, TableAsset]) -> list[dg.JobDefinition]:
    """Those that compare the branch with main, and delete it."""

    @dg.op
    def compare_the_branch(context: dg.OpExecutionContext, config: BranchConfig, tables: TablesResource) -> None:
        with _refusals(context, config.branch):
            recovery = Recovery.open(tables.session, config.branch)
            comparisons = {name: recovery.compare(name) for name in recovery.changed()}
            sides, state = recovery.sides, _state(context, tables, config, known)
            since = "\n".join(f"- {text(difference)}" for difference in differences_since(recovery))
            context.add_output_metadata(
                {
                    "comparison": page(
                        comparison_page(comparisons, sides), since, state, differing_rows_page(comparisons, sides)
                    ),
                    **_seen(config),
                }
            )

    @dg.op
    def drop_the_branch(context: dg.OpExecutionContext, config: BranchConfig, tables: TablesResource) -> None:
        with _refusals(context, config.branch):
            dropped = Recovery.open(tables.session, config.branch).drop()
            if config.branch in context.instance.get_dynamic_partitions(str(BRANCHES.name)):
                context.instance.delete_dynamic_partition(str(BRANCHES.name), config.branch)
            context.add_output_metadata({"dropped": page(dropped_page(config.branch, dropped))})

    @dg.job(description="Show how the branch of each table differs from main.", config=_chosen("recovery_compare"))
    def recovery_compare() -> None:
        compare_the_branch()

    @dg.job(description="Delete the branch of every table.", config=_chosen("recovery_drop"))
    def recovery_drop() -> None:
        drop_the_branch()

    return [recovery_compare, recovery_drop]


def _publish_job(known: dict[str, TableAsset], checks: Sequence[Any]) -> dg.JobDefinition:
    @dg.op
    def publish_the_branch(context: dg.OpExecutionContext, config: PublishConfig, tables: TablesResource) -> None:
        with _refusals(context, config.branch):
            if config.replay and config.discard_main:
                raise InvalidRequest(
                    "What main got is either brought along (replay: true) or given up (discard_main: true)."
                )
            recovery = Recovery.open(tables.session, config.branch)
            make_mains = partial(
                publish,
                tables.session,
                recovery,
                known,
                checks=checks,
                discard_main=config.discard_main,
                allow_incomplete=config.allow_incomplete,
                allow_failed_checks=config.allow_failed_checks,
                follows=config.replay,
                words=JOBS,
            )

            def replayed() -> None:
                recovery.replay(MadeFrom(tables.session, recovery, known))

            done = replay_and_publish(recovery, replayed, make_mains, JOBS) if config.replay else make_mains()
            count = report(tables.session, recovery, done, known, context.instance, context.log_event)
            for evaluation in published_checks(tables.session, [stage.name for stage in done], checks):
                context.instance.report_runless_asset_event(evaluation)
            rows = [(asset_link(stage.name), stage.ref.snapshot_id, text(stage.verdict)) for stage in done]
            listed = table(("table", "main is at snapshot", "how"), rows)
            context.add_output_metadata(
                {"events": count, "published": page(listed, _state(context, tables, config, known)), **_seen(config)}
            )

    @dg.job(
        description="Make the branch main's, on all tables or none, and tell Dagster.",
        config=_chosen("recovery_publish"),
    )
    def recovery_publish() -> None:
        publish_the_branch()

    return recovery_publish


def _state(
    context: dg.OpExecutionContext,
    tables: TablesResource,
    config: BranchConfig | StartConfig,
    known: dict[str, TableAsset],
) -> str:
    """How far the recovery of a run has come, and the ways on."""
    return state_page(progress(tables.session, config.branch, known), Launchpads.of_run(context.run), context.job_name)


def _seen(config: BranchConfig | StartConfig) -> dict[str, Any]:
    """Where the recovery of a run is seen in the lineage browser."""
    return recovery_page_metadata(config.branch)


def _linked(line: str) -> str:
    """What is said of a table, which it begins with; the table as a link."""
    match = re.match(r"[^\s:]+", line)
    name = match[0] if match else ""
    return f"{asset_link(name)}{text(line.removeprefix(name))}"


def _chosen(job: str) -> dg.PartitionedConfig[Any]:
    """The configuration of a job for a recovery that is chosen in the launchpad, from those that there are."""

    def configured(branch: str) -> dict[str, Any]:
        return {"ops": {OPS[job]: {"config": {"branch": branch}}}}

    return dg.PartitionedConfig(BRANCHES, run_config_for_partition_key_fn=configured)
