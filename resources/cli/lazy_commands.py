"""Commands that are imported when they are called: Dagster, Spark and DuckDB wait behind them, and cost seconds to import."""

from importlib import import_module

import click

from .parameters import OrderedGroup


class LazyCommand(click.Command):
    """The place of a command: its name and what it is for, which lists and completions need, without its module."""

    def __init__(self, name: str, module: str, attribute: str, meaning: str) -> None:
        """`module` is relative to this package; `meaning` is the first sentence of the command's help."""
        super().__init__(name, help=meaning)
        self._module = module
        self._attribute = attribute

    def load(self) -> click.Command:
        """The command itself."""
        command: click.Command = getattr(import_module(self._module, __package__), self._attribute)
        return command


class LazyGroup(OrderedGroup):
    """A group that loads a command when it is called, and none to list them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command's name, the command itself with its module imported, and the arguments left for it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, LazyCommand) else command, rest


def commands_of(group: click.Group) -> dict[str, click.Command]:
    """The commands of a group by name, in order, those that wait loaded."""
    return {
        name: command.load() if isinstance(command, LazyCommand) else command
        for name, command in group.commands.items()
    }
