"""Commands that refuse options which are given twice, groups that keep their order, and times as parameters."""

from collections import Counter
from datetime import datetime
from typing import Any

import click

from .progress import bars

# Ports of TCP that a server can be given.
PORT = click.IntRange(1, 65535)


class Command(click.Command):
    """What every command of `snapline` is: an option is given once, unless it is declared to be repeated."""

    def invoke(self, ctx: click.Context) -> Any:
        """Carry the command out, and show on a terminal how far long work has come."""
        with bars():
            return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. Raises click.UsageError for an option that is given twice, where Click takes the last value."""
        if not ctx.resilient_parsing:
            _, _, given = self.make_parser(ctx).parse_args(list(args))
            # What is eager, such as --help, answers in place of the command.
            for parameter, times in Counter(given).items():
                if isinstance(parameter, click.Option) and times > 1 and not (parameter.multiple or parameter.is_eager):
                    raise click.UsageError(f"Option {' / '.join(parameter.opts)} is given twice. Give it once.", ctx)
        return super().parse_args(ctx, args)


class OrderedGroup(click.Group):
    """Lists its commands in the order in which they are written down."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands in the order in which they were added."""
        return list(self.commands)


# Older versions of Click that are allowed too have no type arguments here.
class Timestamp(click.ParamType):  # type: ignore[type-arg]
    """A local date and time: `2024-05-01`, `2024-05-01T12:30`, `2024-05-01 12:30:15.250`."""

    name = "timestamp"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> datetime:
        """The moment that a text says, without time zone: local time. Raises click.BadParameter for a text that says none, and
        for a moment that local time cannot express.
        """
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
            # The first and the last day of the calendar are none everywhere on Earth.
            _ = moment.timestamp()
            return moment
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is no date and time, such as 2024-05-01 12:30.", param, context)
