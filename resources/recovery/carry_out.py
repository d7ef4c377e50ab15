"""The stages of a recovery from outside of Dagster's runs, for the command line and the lineage browser: each is carried out,
and Dagster is told.
"""

from dataclasses import dataclass

from ..assets.dagster_instance import dagster_instance
from ..assets.platform_tables import platform_table_assets
from ..code_location import platform_definitions
from ..session import Session
from .branch_checks import published_checks
from .plan import RecoveryPlan
from .publish import Published
from .publish import publish as make_mains
from .report import report, report_branch
from .stages import Recovery
from .twins import BRANCHES
from .words import Words


def start(session: Session, branch: str, plan: RecoveryPlan) -> Recovery:
    """Branch every table of a plan. Raises what `Recovery.start` does."""
    begun = Recovery.start(session, branch, plan)
    with dagster_instance(session.settings) as instance:
        instance.add_dynamic_partitions(str(BRANCHES.name), [branch])
    tell_of_branch(session, begun)
    return begun


def tell_of_branch(session: Session, recovery: Recovery) -> None:
    """Tell Dagster what is right on the branch."""
    with dagster_instance(session.settings) as instance:
        report_branch(session, recovery, platform_table_assets(), instance, instance.report_runless_asset_event)


@dataclass(frozen=True)
class Publication:
    """What was published, of how many materializations Dagster was told."""

    tables: list[Published]
    events: int


def publish(
    session: Session,
    recovery: Recovery,
    words: Words,
    *,
    discard_main: bool = False,
    allow_incomplete: bool = False,
    allow_failed_checks: bool = False,
    follows: bool = False,
) -> Publication:
    """Make the branch main's, on all tables or none. What is chosen, and raised, is that of `recovery.publish.publish`."""
    assets = platform_table_assets()
    checks = list(platform_definitions().asset_checks or [])
    done = make_mains(
        session,
        recovery,
        assets,
        checks=checks,
        discard_main=discard_main,
        allow_incomplete=allow_incomplete,
        allow_failed_checks=allow_failed_checks,
        follows=follows,
        words=words,
    )
    with dagster_instance(session.settings) as instance:
        count = report(session, recovery, done, assets, instance, instance.report_runless_asset_event)
        for evaluation in published_checks(session, [table.name for table in done], checks):
            instance.report_runless_asset_event(evaluation)
    return Publication(done, count)


def drop(session: Session, branch: str) -> list[str]:
    """Delete the branch of every table; returns the tables. Raises NotFound."""
    tables = Recovery.open(session, branch).drop()
    forget_branch(session, branch)
    return tables


def forget_branch(session: Session, branch: str) -> None:
    """Let Dagster forget the branch's partitions."""
    with dagster_instance(session.settings) as instance:
        if branch in instance.get_dynamic_partitions(str(BRANCHES.name)):
            instance.delete_dynamic_partition(str(BRANCHES.name), branch)
