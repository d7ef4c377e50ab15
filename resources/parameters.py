"""What parameters of the command line mean: times, lengths of time, partitions; and groups that keep their order."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from storage import InvalidRequest, parse_duration_ms

# So long ago there was a day in the calendar.
_LONGEST = timedelta(days=365_000)


class OrderedGroup(click.Group):
    """Lists its commands in the order in which they are written down."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class Duration(click.ParamType):
    """A length of time: `1 d`, `12 h`, `30 min`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> timedelta:
        return value if isinstance(value, timedelta) else duration(value)


class Timestamp(click.ParamType):
    """A local date and time: `2024-05-01`, `2024-05-01T12:30`, `2024-05-01 12:30:15.250`."""

    name = "timestamp"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> datetime:
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
            # The first and the last day of the calendar are none everywhere on Earth.
            _ = moment.timestamp()
            return moment
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r} is no date and time, such as 2024-05-01 12:30.", param, context)


def duration(text: str) -> timedelta:
    """The length of time that `1 d`, `12 h`, `30 min` say. Raises InvalidRequest."""
    milliseconds = parse_duration_ms(text)
    if milliseconds > _LONGEST / timedelta(milliseconds=1):
        raise InvalidRequest(f"{text!r} is too long: {_LONGEST.days} d are the most.")
    return timedelta(milliseconds=milliseconds)


def partition_values(texts: Sequence[str]) -> dict[str, str]:
    """A partition, from texts such as `month=2013-01`: values by column. Raises InvalidRequest."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, pairs, strict=True):
        if not name or not equals:
            raise InvalidRequest(f"{text!r} is no partition: write column=value, as in --partition month=2013-01.")
    names = [name for name, _, _ in pairs]
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise InvalidRequest(f"{twice[0]!r} is given twice: one partition has one value of each column.")
    return {name: value for name, _, value in pairs}
