"""The command `snapline` with all that is below it."""

import click

from ..actions import ACTIONS
from ..session import Session
from .action_commands import add_actions
from .completion import completion
from .lazy_commands import LazyCommand, LazyGroup
from .lineage import aligned, export_openlineage, freshness, impact, lineage
from .listings import LISTINGS
from .parameters import OrderedGroup
from .ui import ui

_GROUPS = {
    "table": "Tables: listed, described, compacted, checked, dropped.",
    "snapshot": "Snapshots of a table: listed, rolled back to, expired.",
    "tag": "Tags: names of snapshots, which keep them readable.",
    "branch": "Branches of a table, or of several at once: created, judged, merged, published and deleted.",
    "partition": "Partitions of a table: dropped, expired.",
    "consumer": "Consumers: named readers of changes.",
    "log": "Logs: copies of what tables commit, in a system such as Kafka.",
    "database": "All tables of databases.",
}

# By name: the module, and what the command's own help says first.
_LAZY = {
    "demo": (".demo", "Materialize the whole demo through Dagster."),
    "browse": (".browse", "Open the lineage browser alone, for those who run Dagster's webserver elsewhere."),
    "query": (
        ".sql",
        'Run a SELECT in DuckDB\'s own SQL, over tables, system tables (core."flights$snapshots") and lineage (paimon.*).',
    ),
    "sql": (".sql", "Run SQL statements, those of a file, or, with neither, those that are typed in."),
    "reproduce": (
        ".reproduce",
        "Make a snapshot again from exactly the snapshots it was made from, and say how what comes out differs.",
    ),
    "recovery": (".recovery", "Repair a bad day: plan, start, correct, backfill, compare, publish or drop."),
}


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="snapline")
@click.pass_context
def cli(context: click.Context) -> None:
    """Tables, their snapshots, and the lineage between them. State lives under SNAPLINE_HOME (default ./.snapline)."""
    context.obj = Session()


def _assemble() -> None:
    lazy = {name: LazyCommand(name, module, name, meaning) for name, (module, meaning) in _LAZY.items()}
    for command in (lazy["demo"], ui, lazy["browse"], lazy["query"], lazy["sql"]):
        cli.add_command(command)
    groups = {name: OrderedGroup(name, help=meaning) for name, meaning in _GROUPS.items()}
    # Actions of other packages may have nouns of their own.
    for action in ACTIONS.values():
        for noun in action.command[:1]:
            groups.setdefault(noun, OrderedGroup(noun, help=f"Actions on {noun}."))
    for group in groups.values():
        cli.add_command(group)
    for (noun, verb), listing in LISTINGS.items():
        groups[noun].add_command(listing, verb)
    add_actions(cli, groups)
    for listing in LISTINGS.values():
        # `snapline tags T` is what the documents say, `snapline tag list T` the same in noun and verb.
        cli.add_command(listing)
    for command in (
        lineage,
        export_openlineage,
        lazy["reproduce"],
        impact,
        freshness,
        aligned,
        lazy["recovery"],
        completion,
    ):
        cli.add_command(command)


_assemble()
