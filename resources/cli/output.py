"""How commands answer: `--format`, rows, and outcomes of actions."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from ..actions import Outcome
from .rendering import FORMATS, console, print_objects, print_rows, rendered_table

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


def _print_for_people(outcome: Outcome) -> None:
    for line in outcome.lines:
        click.echo(line)
    if outcome.message:
        click.echo(outcome.message)
    elif not outcome.lines:
        console().print(rendered_table(outcome.columns, outcome.rows))
