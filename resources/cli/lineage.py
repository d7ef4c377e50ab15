"""Commands that ask lineage, and that send it elsewhere."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import click

from lineage import LineageGraph, dot, mermaid, rows, text_tree
from storage import InvalidRequest, SnapshotRef

from ..actions import Outcome, Reach
from ..actions.lineage import rebuild_lineage
from ..actions.values import partition_values
from ..openlineage_export import client_of, export
from ..session import Session
from ..warehouse.catalogs import CATALOG_NAME
from ..warehouse.row_comparison import compare_rows
from .completion import complete_table
from .output import format_option, print_listing, print_outcome, say_unknown
from .parameters import Command, Timestamp
from .rendering import print_rows, say

Direction = Literal["up", "down"]
_FORMATS = ("tree", "table", "json", "csv", "mermaid", "dot")


@dataclass(frozen=True)
class Question:
    """What was asked of `snapline lineage`."""

    session: Session
    target: str | None
    direction: Direction | None
    hops: int | None
    partition: Sequence[str]
    of_tables: bool
    against: str | None
    compare: tuple[str, str] | None
    form: str | None
    page: str | None

    def refuse_beside(self, chosen: str, *names: str) -> None:
        """Raise InvalidRequest if options were given that mean nothing beside another one."""
        given: Mapping[str, object] = {
            "a table": self.target,
            "--up or --down": self.direction,
            "--hops": self.hops,
            "--partition": self.partition,
            "--tables": self.of_tables,
            "--against": self.against,
            "--format": self.form,
            "--html": self.page,
        }
        useless = [name for name in names if given[name]]
        if useless:
            raise InvalidRequest(f"{', '.join(useless)} cannot be combined with {chosen}: leave one of them out.")

    @property
    def listing_form(self) -> str:
        """The format of an answer that is rows and no graph."""
        form = self.form or "table"
        if form not in ("table", "json", "csv"):
            raise InvalidRequest(f"--format {form} draws a graph: this answer is a table, json or csv.")
        return form


@click.command(cls=Command)
@click.argument(
    "target", required=False, metavar="[CATALOG.]TABLE[@SNAPSHOT|@TAG] | rebuild", shell_complete=complete_table
)
@click.option("--up", is_flag=True, help="What it was made from (default).")
@click.option("--down", is_flag=True, help="What was made from it.")
@click.option("--hops", type=click.IntRange(min=1), help="How far to go. Default: as far as there is.")
@click.option("--partition", multiple=True, metavar="COLUMN=VALUE", help="Of the snapshots that its rows come from.")
@click.option("--tables", "of_tables", is_flag=True, help="Which tables jobs make from which, without snapshots.")
@click.option("--against", metavar="TABLE@SNAPSHOT", help="Only what one of both was made from, and the other was not.")
@click.option(
    "--compare", nargs=2, metavar="LEFT RIGHT", help="Two snapshots: where they part, and how their rows differ."
)
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), show_default="tree", help="tree, mermaid and dot are of a graph."
)
@click.option("--html", "page", type=click.Path(dir_okay=False), help="Write a page to look at, that needs no server.")
@click.pass_obj
def lineage(session: Session, /, up: bool, down: bool, **given: object) -> None:
    """Show which snapshots a snapshot was made from, or which it fed; `rebuild` reads all lineage off the tables.

    Snapshots that were taken back by a rollback, or cannot be read any more, are marked: expired, replaced, dropped.
    """
    if up and down:
        raise InvalidRequest("--up and --down are two questions: ask one after the other.")
    question = Question(session, direction="up" if up else "down" if down else None, **given)  # type: ignore[arg-type]
    if question.compare is not None:
        _print_comparison(question, *question.compare)
    elif question.target is None:
        raise click.UsageError("Say of which snapshot: TABLE[@SNAPSHOT|@TAG]; or --compare LEFT RIGHT.")
    elif question.target == "rebuild":
        _rebuild(question)
    elif question.of_tables:
        _print_tables(question, question.target)
    elif question.against is not None:
        _print_difference(question, question.target, question.against)
    elif question.page is not None:
        _write_page(question, question.target, question.page)
    else:
        _print_graphs(question, question.target)


def _rebuild(question: Question) -> None:
    question.refuse_beside("rebuild", "--up or --down", "--tables", "--against", "--hops", "--partition", "--html")
    form = question.listing_form
    print_outcome(rebuild_lineage(Reach(question.session, CATALOG_NAME, question.session.table)), form)


def _print_tables(question: Question, target: str) -> None:
    question.refuse_beside("--tables", "--against", "--hops", "--partition", "--html")
    names = question.session.neighbour_tables(target, question.direction or "up")
    print_listing(["table"], [(name,) for name in names], question.listing_form)


def _print_difference(question: Question, target: str, against: str) -> None:
    question.refuse_beside("--against", "--up or --down", "--hops", "--partition", "--html")
    session = question.session
    first, second = _known_ref(session, target), _known_ref(session, against)
    difference = session.ancestry_difference(first, second)
    listed = [(str(ref), str(first)) for ref in difference.only_first]
    listed += [(str(ref), str(second)) for ref in difference.only_second]
    print_listing(["made from", "only"], listed, question.listing_form)


def _write_page(question: Question, target: str, page: str) -> None:
    # Dagster and a web server wait behind it: only those who ask for a page pay.
    from ..browser.alone import alone_page

    question.refuse_beside("--html", "--partition", "--format")
    ref = _known_ref(question.session, target)
    html = alone_page(question.session, ref, question.direction or "both", question.hops)
    Path(page).write_text(html, encoding="utf-8")
    say(f"The history of {ref} is in {page}.")


def _print_graphs(question: Question, target: str) -> None:
    session, direction, hops = question.session, question.direction or "up", question.hops
    if question.partition:
        graphs = session.partition_lineage(target, partition_values(question.partition), direction, hops)
    else:
        graphs = [session.lineage(_known_ref(session, target), direction, hops)]
    form = question.form or "tree"
    listed = [row for graph in graphs for row in rows(graph)]
    if form == "json":
        print(json.dumps(listed, indent=2, ensure_ascii=False))
    elif form in ("table", "csv"):
        names = list(listed[0]) if listed else ["snapshot"]
        print_listing(names, [tuple(row.values()) for row in listed], form)
    else:
        for graph in graphs:
            say(_drawn(session, graph, form))


def _drawn(session: Session, graph: LineageGraph, form: str) -> str:
    drawings = {"mermaid": mermaid, "dot": dot}
    return drawings[form](graph) if form in drawings else text_tree(graph, session.fate)


def _print_comparison(question: Question, left_text: str, right_text: str) -> None:
    """Where the ancestries of two snapshots part, every snapshot of either, and how the rows differ."""
    question.refuse_beside(
        "--compare", "a table", "--up or --down", "--tables", "--against", "--hops", "--partition", "--html"
    )
    session, form = question.session, question.listing_form
    left, right = _known_ref(session, left_text), _known_ref(session, right_text)
    compared = session.compare_ancestries(left, right)
    sides = {"left": f"only {left}", "right": f"only {right}", "both": "both"}
    listed = [(str(ref), sides[side]) for ref, side in compared.rows()]
    differences = compare_rows(session, left, right)
    # For programs the list alone stands on standard output.
    beside = form != "table"
    say(compared.describe(), err=beside)
    print_listing(["snapshot", "in the ancestry of"], listed, form)
    say(f"Rows: {differences.describe()}.", err=beside)
    examples = None if differences.comparison is None else differences.comparison.examples
    if not beside and examples is not None and examples.num_rows:
        print_rows(examples, "table")


def _known_ref(session: Session, target: str) -> SnapshotRef:
    """The snapshot that a target names; if it cannot be read any more, that is said beside the answer."""
    ref = session.known_ref(target)
    if fate := session.fate(ref):
        say(f"Snapshot {ref} is {fate}: this is what lineage knows of it.", err=True)
    return ref


@click.command("export-openlineage", cls=Command)
@click.option("--url", help="Send to an OpenLineage server.")
@click.option("--file", "path", type=click.Path(dir_okay=False), help="Or: append to a file, an event a line.")
@click.option("--since", type=Timestamp(), help="Only what was committed since then (UTC).")
@click.option("--namespace", default="snapline", show_default=True, help="Of the jobs.")
@format_option
@click.pass_obj
def export_openlineage(
    session: Session, url: str | None, path: str | None, since: datetime | None, namespace: str, form: str
) -> None:
    """Send lineage as OpenLineage events. A period can be sent again: events of a commit always have the same run id."""
    client = client_of(url, path)
    try:
        done = export(session, client, since, namespace)
    except RuntimeError as error:
        # What a transport says of a file, or of a server.
        raise InvalidRequest(f"Events could not be sent: {error}. Send them again.") from None
    finally:
        client.close()
    until = f", up to {done.until.isoformat(' ')} UTC" if done.until else ""
    print_outcome(Outcome(f"Sent {done.events} events{until}."), form)


@click.command(cls=Command)
@click.argument("target", metavar="TABLE@SNAPSHOT|TABLE@TAG", shell_complete=complete_table)
@format_option
@click.pass_obj
def impact(session: Session, target: str, form: str) -> None:
    """Show what a bad snapshot has spoilt: of each table downstream the first snapshot that it, or one after it, went into."""
    spoilt = session.impact(_known_ref(session, target))
    print_listing(["table", "from snapshot on"], [(ref.table_name, ref.snapshot_id) for ref in spoilt], form)
    say_unknown(session)


@click.command(cls=Command)
@click.argument("table", shell_complete=complete_table)
@format_option
@click.pass_obj
def freshness(session: Session, table: str, form: str) -> None:
    """Show how far a table is behind the tables that it was made from. Exit code 1 if one of those cannot be read."""
    damaged: list[str] = []
    listed = [
        (
            each.source.table_name,
            each.source.snapshot_id,
            each.newest.snapshot_id,
            each.snapshots_behind,
            str(timedelta(milliseconds=each.behind_ms)),
        )
        for each in session.freshness(table, damaged.append)
    ]
    print_listing(["source", "made from", "newest", "changes behind", "time behind"], listed, form)
    for line in damaged:
        say(line, err=True)
    if damaged:
        sys.exit(1)


@click.command(cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="TABLE …", shell_complete=complete_table)
@click.option("--on", required=True, metavar="SOURCE", help="The table that all of them were made from.")
@format_option
@click.pass_obj
def aligned(session: Session, names: Sequence[str], on: str, form: str) -> None:
    """Show the newest snapshots of tables that were made from the same snapshot of a source."""
    newest = {name: table.snapshot() for name, table in session.aligned(names, on).items()}
    print_listing(["table", "snapshot"], [(name, each and each.id) for name, each in newest.items()], form)
