"""How commands answer: `--format`, rows, and outcomes of actions."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from ..actions import Outcome
from ..session import Session
from ..warehouse.catalogs import CATALOG_NAME
from ..warehouse.forks import Forks
from ..warehouse.silent_catalogs import past_silent_catalogs, silent_catalogs
from .rendering import FORMATS, console, print_objects, print_rows, rendered_table, say

format_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True
)


def print_listing(names: Sequence[str], rows: Sequence[Sequence[Any]], form: str, title: str | None = None) -> None:
    """Print rows of plain values in one of the formats; `title` stands above a table alone."""
    if form == "table":
        console().print(rendered_table(names, rows, title))
    else:
        print_objects(names, rows, form)


def print_outcome(outcome: Outcome, form: str) -> None:
    """Print what an action gave. Exits with code 1 if that is not sound."""
    if form != "table":
        print_rows(outcome.to_arrow(), form)
    else:
        _print_for_people(outcome)
    if not outcome.sound:
        sys.exit(1)


def say_unknown(session: Session) -> None:
    """Say beside an answer which catalogs, and which tables that were made from theirs, it can tell nothing of."""
    silent = silent_catalogs(session)
    if not silent:
        return
    # Whoever has answered has brought lineage up to date.
    past = past_silent_catalogs(session, session.stores_to_ask(tables={}), Forks(session.catalog_of).of)
    names = ", ".join(name.removeprefix(f"{CATALOG_NAME}.") for name in past)
    say(
        f"Of the tables of {', '.join(silent)} nothing is known: no lineage of snapshots is recorded there (option "
        f"'data-lineage').{f' Nor of what was made from them: {names}.' if names else ''}",
        err=True,
    )


def _print_for_people(outcome: Outcome) -> None:
    for line in outcome.lines:
        say(line)
    if outcome.message:
        say(outcome.message)
    elif not outcome.lines:
        console().print(rendered_table(outcome.columns, outcome.rows))
