"""The command `snapline` with all that is below it."""

import click

from ..actions import ACTIONS
from ..session import Session
from .action_commands import add_actions
from .completion import completion
from .lineage import LINEAGE
from .listings import LISTINGS
from .parameters import OrderedGroup
from .platform import PLATFORM
from .recovery import recovery
from .sql import SQL

_GROUPS = {
    "table": "Tables: listed, described, compacted, checked, dropped.",
    "snapshot": "Snapshots of a table: listed, rolled back to, expired.",
    "tag": "Tags: names of snapshots, which keep them readable.",
    "branch": "Branches of a table, or of several at once: created, judged, merged, published and deleted.",
    "partition": "Partitions of a table: dropped, expired.",
    "consumer": "Consumers: named readers of changes.",
    "database": "All tables of databases.",
}


@click.group(cls=OrderedGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="snapline")
@click.pass_context
def cli(context: click.Context) -> None:
    """Tables, their snapshots, and the lineage between them. State lives under SNAPLINE_HOME (default ./.snapline)."""
    context.obj = Session()


def _assemble() -> None:
    for command in (*PLATFORM, *SQL):
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
    for command in (*LINEAGE, recovery, completion):
        cli.add_command(command)


_assemble()
