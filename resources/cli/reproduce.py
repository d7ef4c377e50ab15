"""`snapline reproduce`: make a snapshot again, and say how what comes out differs."""

import click

from ..assets.platform_tables import platform_table_assets
from ..assets.reproduce import Reproducer
from ..session import Session
from ..spark_session import start_spark
from .completion import complete_table
from .output import format_option, print_listing
from .parameters import Command
from .rendering import print_rows, say


@click.command(cls=Command)
@click.argument("target", metavar="TABLE@SNAPSHOT|TABLE@TAG", shell_complete=complete_table)
@click.option("--engine", type=click.Choice(["spark", "duckdb"]), show_default="duckdb", help="For SQL.")
@click.option("--keep", is_flag=True, help="Keep the scratch branch, to look at.")
@format_option
@click.pass_obj
def reproduce(session: Session, target: str, engine: str | None, keep: bool, form: str) -> None:
    """Make a snapshot again from exactly the snapshots it was made from, and say how what comes out differs.

    Works for what a table asset or an SQL statement made of tables; records of topics are not read again. Exit code 1 if there
    are differences.
    """
    reproduced = Reproducer(session, platform_table_assets, lambda: start_spark(session.settings)).reproduce(
        session.ref(target), engine=engine, keep=keep
    )
    for warning in reproduced.warnings:
        say(f"Warning: {warning}", err=True)
    comparison = reproduced.comparison
    if form == "table":
        say(f"{reproduced.ref}: {comparison.describe()}")
        if not comparison.identical and comparison.examples is not None:
            print_rows(comparison.examples, "table")
        if reproduced.branch:
            say(f"The rows are on the branch {reproduced.branch}.")
    else:
        row = (str(reproduced.ref), comparison.identical, comparison.describe(), reproduced.branch or None)
        print_listing(["snapshot", "identical", "difference", "branch"], [row], form)
    if not comparison.identical:
        raise SystemExit(1)
