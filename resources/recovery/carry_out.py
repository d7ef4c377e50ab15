"""The stages of a recovery from outside of Dagster's runs, for the command line and the lineage browser: each is carried out,
and Dagster is told. What was carried out is done also where Dagster's databases are away, or damaged: that it was not told is
logged.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg

from storage import hidden, outcome

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

_log = logging.getLogger(__name__)
_LATER = "publishing, once more too, tells it"
_REPEAT = "What was done before stays done. Mend the store, then repeat the call, which goes on from there."


@outcome(_REPEAT)
def start(session: Session, branch: str, plan: RecoveryPlan) -> Recovery:
    """Branch every table of a plan. Raises what `Recovery.start` does."""
    begun = Recovery.start(session, branch, plan)

    def tell(instance: dg.DagsterInstance) -> None:
        instance.add_dynamic_partitions(str(BRANCHES.name), [branch])
        _report_branch(session, begun, instance)

    _told(session, f"Recovery {branch!r} has begun", tell)
    return begun


def tell_of_branch(session: Session, recovery: Recovery) -> None:
    """Tell Dagster what is right on the branch."""
    said = f"What was done on the branch of recovery {recovery.branch!r} is done"
    _told(session, said, lambda instance: _report_branch(session, recovery, instance))


def _report_branch(session: Session, recovery: Recovery, instance: dg.DagsterInstance) -> None:
    report_branch(session, recovery, platform_table_assets(), instance, instance.report_runless_asset_event)


def _told(session: Session, done: str, tell: Callable[[dg.DagsterInstance], None], later: str = _LATER) -> bool:
    """Tell Dagster of what was carried out; whether it could be, of all of it. Whatever Dagster, or its database, raises comes
    too late to be taken for a failure of that: it is logged in a line. `later`: how it comes to know.
    """
    try:
        with dagster_instance(session.settings) as instance:
            tell(instance)
    except Exception as error:
        reason = hidden(str(error).strip().partition("\n")[0]) or type(error).__name__
        _log.warning("%s, but Dagster could not be told all of it: %s. Look at its database; %s.", done, reason, later)
        return False
    return True


@dataclass(frozen=True)
class Publication:
    """What was published, of how many materializations Dagster was told; None if it could not be."""

    tables: list[Published]
    events: int | None


@outcome(_REPEAT)
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
    events = 0

    def tell(instance: dg.DagsterInstance) -> None:
        nonlocal events
        events = report(session, recovery, done, assets, instance, instance.report_runless_asset_event)
        for evaluation in published_checks(session, [table.name for table in done], checks):
            instance.report_runless_asset_event(evaluation)

    was_told = _told(session, f"Recovery {recovery.branch!r} is published", tell)
    return Publication(done, events if was_told else None)


def drop(session: Session, branch: str) -> list[str]:
    """Delete the branch of every table; returns the tables. Raises NotFound."""
    tables = Recovery.open(session, branch).drop()
    forget_branch(session, branch)
    return tables


def forget_branch(session: Session, branch: str) -> None:
    """Let Dagster forget the branch's partitions."""

    def forget(instance: dg.DagsterInstance) -> None:
        if branch in instance.get_dynamic_partitions(str(BRANCHES.name)):
            instance.delete_dynamic_partition(str(BRANCHES.name), branch)

    _told(
        session,
        f"Recovery {branch!r} is dropped",
        forget,
        f"its partition {branch!r} of {BRANCHES.name} stays until then",
    )
