"""`snapline recovery …`: the stages of a recovery on the command line."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, get_args

import click

from ..actions import Outcome
from ..actions.sentences import counted
from ..actions.values import partition_values
from ..assets.dagster_instance import dagster_instance
from ..assets.platform_tables import platform_table_assets
from ..code_location import platform_definitions
from ..recovery import Mode, Recovery, RecoveryPlan, bad_snapshot, carry_out, plan_recovery
from ..recovery.backfill import backfill as run_backfill
from ..recovery.drop_damaged import drop_damaged
from ..recovery.left_to_do import left_to_do
from ..recovery.plan import DEFAULT_MODE
from ..recovery.progress import progress, recoveries
from ..recovery.publish import MadeFrom, replay_and_publish
from ..recovery.remarks import differences_since
from ..recovery.words import COMMAND_LINE
from ..session import Session
from .error_log import errors_into
from .output import format_option, print_listing, print_outcome, say_unknown
from .parameters import OrderedGroup, Timestamp
from .progress import RUNNING, beside
from .rendering import console, print_rows, say

branch_argument = click.argument("branch")


@click.group(cls=OrderedGroup)
def recovery() -> None:
    """Repair a bad day: plan, start, correct, backfill, compare, publish or drop."""


def _opened(session: Session, branch: str) -> Recovery:
    return Recovery.open(session, branch)


def which_bad(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say what is bad, and how it is put right."""
    for option in (
        click.option("--mode", type=click.Choice(get_args(Mode)), default=DEFAULT_MODE, show_default=True),
        click.option("--partition", multiple=True, metavar="COLUMN=VALUE", help="Or: the newest snapshot of its rows."),
        click.option("--since", type=Timestamp(), help="Or: the table's first change at or after this local time."),
    ):
        command = option(command)
    return command


def _plan(session: Session, bad: str, mode: Any, since: datetime | None, partition: tuple[str, ...]) -> RecoveryPlan:
    ref = bad_snapshot(session, bad, since=since, partition=partition_values(partition))
    return plan_recovery(session, ref, mode)


@recovery.command()
@click.argument("bad", metavar="TABLE[@SNAPSHOT|@TAG]")
@which_bad
@format_option
@click.pass_obj
def plan(session: Session, bad: str, mode: Any, since: datetime | None, partition: tuple[str, ...], form: str) -> None:
    """Show which tables and partitions a bad snapshot has spoilt, and what would be done. Nothing is changed."""
    _print_plan(_plan(session, bad, mode, since, partition), form)
    say_unknown(session)


def _print_plan(planned: RecoveryPlan, form: str) -> None:
    print_listing(["table", "bad from", "newest", "branch at", "what happens"], planned.rows(), form)
    if planned.leaves:
        _say(planned.leaves, form)


def _say(text: str, form: str) -> None:
    """Print a sentence beside rows; for programs the rows alone stand on standard output."""
    say(text, err=form != "table")


@recovery.command()
@branch_argument
@click.option("--bad", required=True, metavar="TABLE[@SNAPSHOT|@TAG]", help="The first bad snapshot.")
@which_bad
@format_option
@click.pass_obj
def start(
    session: Session, branch: str, bad: str, mode: Any, since: datetime | None, partition: tuple[str, ...], form: str
) -> None:
    """Branch every table that is spoilt. No data is copied; main and its readers notice nothing."""
    planned = _plan(session, bad, mode, since, partition)
    carry_out.start(session, branch, planned)
    _print_plan(planned, form)
    _say(f"Branch {branch} is there, on {counted(len(planned.tables), 'table')}.", form)


@recovery.command("list")
@format_option
@click.pass_obj
def list_(session: Session, form: str) -> None:
    """List the recoveries, with what is left to do of each."""
    listed = recoveries(session, platform_table_assets())
    rows = [
        (
            recovery.branch,
            recovery.bad,
            recovery.mode,
            recovery.state,
            ", ".join(recovery.left),
            ", ".join(recovery.tables),
        )
        for recovery in listed
    ]
    print_listing(["recovery", "bad", "mode", "state", "left to do", "tables"], rows, form)
    for listed_recovery in listed:
        said = [f"{each}." for each in listed_recovery.overrides]
        for line in filter(None, [listed_recovery.unfinished, *listed_recovery.remarks, *said]):
            _say(f"{listed_recovery.branch}: {line}", form)
        if listed_recovery.trouble:
            _say(listed_recovery.trouble, form)


@recovery.command()
@branch_argument
@click.option("--sql", help="Statements to run; tables mean their branches.")
@click.option("--engine", type=click.Choice(["spark", "duckdb"]), show_default="duckdb", help="For --sql.")
@click.option("--undo-bad", is_flag=True, help="Or: take the source back to before the bad snapshot.")
@format_option
@click.pass_obj
def correct(session: Session, branch: str, sql: str | None, engine: str | None, undo_bad: bool, form: str) -> None:
    """Correct the source on the branch."""
    if (sql is None) != undo_bad:
        raise click.UsageError("Say how: --sql or --undo-bad, one of them.")
    if undo_bad and engine is not None:
        raise click.UsageError("--engine runs what --sql says: leave it out beside --undo-bad.")
    opened = _opened(session, branch)
    corrections = [opened.undo_bad()] if sql is None else opened.correct(sql, engine or "duckdb")
    carry_out.tell_of_branch(session, opened)
    print_outcome(Outcome(lines=corrections), form)


@recovery.command()
@branch_argument
@format_option
@click.pass_obj
def backfill(session: Session, branch: str, form: str) -> None:
    """Compute anew what was made from the source, on the branch, through Dagster. Goes on where it stopped. Exit code 1 if tables
    are left that no asset makes.
    """
    opened = _opened(session, branch)
    count = _backfill(session, opened, form)
    left = left_to_do(opened, platform_table_assets())
    done = f"{count} runs on branch {branch}." if count else f"Everything on branch {branch} is computed anew already."
    if left:
        done = f"{count} runs on branch {branch}. Left to compute: {', '.join(left)}."
    print_outcome(Outcome(done, sound=not left), form)


def _backfill(session: Session, recovery: Recovery, form: str) -> int:
    definitions, assets = platform_definitions(), platform_table_assets()
    out = console()
    # Spark talks of itself while it starts.
    with (
        errors_into(session.settings.home / "recovery.log"),
        dagster_instance(session.settings) as instance,
        out.status(RUNNING) as status,
        beside(status),
    ):
        return run_backfill(recovery, definitions, assets, instance, lambda what: _say(f"  {what}", form))


@recovery.command()
@branch_argument
@click.argument("tables", nargs=-1, metavar="[TABLE …]")
@format_option
@click.pass_obj
def compare(session: Session, branch: str, tables: tuple[str, ...], form: str) -> None:
    """Show how the branch of each table differs from main, or, once it is published, what that changed; for tables that are
    named, the first rows too.
    """
    opened = _opened(session, branch)
    compared = {name: opened.compare(name) for name in tables or opened.changed()}
    rows = [(name, value.rows_before, value.rows_after, value.describe()) for name, value in compared.items()]
    print_listing(["table", f"rows {opened.sides[0]}", opened.sides[1], "difference"], rows, form)
    for name in tables if form == "table" else ():
        examples = compared[name].examples
        if examples is not None and examples.num_rows:
            print_rows(examples, "table")
    for line in [*differences_since(opened), *_remarks(session, opened)]:
        _say(line, form)


def _remarks(session: Session, recovery: Recovery) -> tuple[str, ...]:
    """What is to be known of the branches of a recovery."""
    return progress(session, recovery.branch, platform_table_assets()).remarks


@recovery.command()
@branch_argument
@click.option("--replay", is_flag=True, help="First bring to the branch what main got since the recovery began.")
@click.option("--discard-main", is_flag=True, help="Give up what main got since the recovery began.")
@click.option("--allow-incomplete", is_flag=True, help="Publish though tables are left to compute; this is recorded.")
@click.option("--allow-failed-checks", is_flag=True, help="Publish though blocking checks fail; this is recorded.")
@format_option
@click.pass_obj
def publish(
    session: Session,
    branch: str,
    replay: bool,
    discard_main: bool,
    allow_incomplete: bool,
    allow_failed_checks: bool,
    form: str,
) -> None:
    """Make the branch main's, on all tables or none, and tell Dagster. Refused while something is left to compute. Can be
    repeated after a crash.
    """
    if replay and discard_main:
        raise click.UsageError("What main got is either brought along (--replay) or given up (--discard-main).")
    opened = _opened(session, branch)

    def replayed() -> None:
        opened.replay(MadeFrom(session, opened, platform_table_assets()))
        _backfill(session, opened, form)

    make_mains = partial(
        carry_out.publish,
        session,
        opened,
        COMMAND_LINE,
        discard_main=discard_main,
        allow_incomplete=allow_incomplete,
        allow_failed_checks=allow_failed_checks,
        follows=replay,
    )
    done = replay_and_publish(opened, replayed, make_mains, COMMAND_LINE) if replay else make_mains()
    rows = [(table.name, table.ref.snapshot_id, table.verdict) for table in done.tables]
    print_listing(["table", "main is snapshot", "verdict"], rows, form)
    for override in opened.record.overrides:
        _say(f"Recorded: {override}.", form)
    for remark in _remarks(session, opened):
        _say(remark, form)
    heard = (
        "Dagster was not told all of it"
        if done.events is None
        else f"Dagster was told of {done.events} materializations"
    )
    _say(f"Published {branch}; {heard}.", form)


@recovery.command()
@branch_argument
@click.option("--discard-damaged", is_flag=True, help="Give up one whose file cannot be read, and keep that aside.")
@format_option
@click.pass_obj
def drop(session: Session, branch: str, discard_damaged: bool, form: str) -> None:
    """Delete the branch of every table, published or not."""
    if discard_damaged:
        tables, path = drop_damaged(session, branch)
        carry_out.forget_branch(session, branch)
        lines = [f"The damaged file is kept as {path}."]
    else:
        tables, lines = carry_out.drop(session, branch), []
    print_outcome(Outcome(f"Dropped branch {branch} of {', '.join(tables) or 'no table'}.", lines=lines), form)
