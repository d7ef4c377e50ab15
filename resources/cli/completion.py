"""Completion in shells: commands and options by click, and the names of tables, tags, branches and consumers."""

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, get_completion_class

from storage import StorageError, Table

from ..actions import Kind
from ..session import Session
from .parameters import Command

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_NAMES_OF: dict[str, Callable[[Table], list[str]]] = {
    "tag": lambda table: [each.name for each in table.tags.list()],
    "branch": lambda table: table.branches.names(),
    "consumer": lambda table: [each.name for each in table.consumers.list()],
}


def names_for(kind: Kind) -> Complete | None:
    """What completes a parameter whose values are names of something there is; None for other kinds."""
    if kind.names == "table":
        return complete_table
    read = _NAMES_OF.get(kind.names)
    if read is None:
        return None

    def complete(context: click.Context, parameter: click.Parameter, beginning: str) -> list[CompletionItem]:
        tables = context.params.get("table") or context.params.get("tables")
        name = tables[0] if isinstance(tables, tuple) and tables else tables
        try:
            return _beginning(read(Session().table(str(name))), beginning) if name else []
        except (StorageError, OSError):
            # The command itself says what is wrong.
            return []

    return complete


def complete_table(context: click.Context, parameter: click.Parameter, beginning: str) -> list[CompletionItem]:
    """The tables whose names begin so."""
    try:
        return _beginning(Session().catalog.tables(), beginning)
    except (StorageError, OSError):
        return []


def _beginning(names: list[str], beginning: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(beginning)]


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options, and the names of tables, tags, branches and consumers.

    For bash: `source <(snapline completion bash)`, also in ~/.bashrc.
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    click.echo(shell_class(context.find_root().command, {}, "snapline", "_SNAPLINE_COMPLETE").source())
