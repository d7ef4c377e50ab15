"""Texts that people write as values: lengths of time, partitions."""

from collections.abc import Sequence
from datetime import timedelta

from storage import InvalidRequest, parse_duration_ms

# So long ago there was a day in the calendar.
_LONGEST = timedelta(days=365_000)


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
