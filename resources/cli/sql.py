"""`snapline query` and `snapline sql`."""

import sys
from contextlib import nullcontext
from pathlib import Path

import click

from storage import InvalidRequest

from ..session import Session
from ..sql.duckdb_select import run_query
from .output import format_option
from .parameters import Command
from .progress import RUNNING, beside
from .rendering import console, print_rows
from .shell import print_results, run_shell


@click.command(cls=Command)
@click.argument("sql")
@format_option
@click.pass_obj
def query(session: Session, sql: str, form: str) -> None:
    """Run a SELECT in DuckDB's own SQL, over tables, system tables (core."flights$snapshots") and lineage (paimon.*)."""
    print_rows(run_query(session, sql), form)


@click.command(cls=Command)
@click.argument("statement", required=False)
@click.option(
    "-f", "--file", "script", type=click.Path(exists=True, dir_okay=False), help="Run the statements of a file."
)
@click.option(
    "--engine", type=click.Choice(["spark", "duckdb"]), default="spark", show_default=True, help="DuckDB needs no JVM."
)
@format_option
@click.pass_obj
def sql(session: Session, statement: str | None, script: str | None, engine: str, form: str) -> None:
    """Run SQL statements, those of a file, or, with neither, those that are typed in.

    Queries, table definitions, INSERT, DELETE, UPDATE, MERGE, CALL sys.*: what docs/sql.md lists. Each statement answers as soon
    as it is done, with `--format json` or `csv` by a document of its own.
    """
    out = console()
    if statement is not None and script is not None:
        raise InvalidRequest("Give a statement or a file, not both.")
    if statement is None and script is None and sys.stdin.isatty():
        run_shell(session.statements, engine, form, out, session.settings.home / "sql_history")
        return
    text = statement
    if text is None:
        try:
            text = Path(script).read_text(encoding="utf-8") if script else sys.stdin.read()
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"{script or 'What is read'} is no text in UTF-8: {error}.") from None
    with out.status(RUNNING) if out.is_terminal else nullcontext() as status, beside(status):
        print_results(session.statements.each(text, engine), form, out)
