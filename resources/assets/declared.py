"""What is declared of assets, checks, sensors and schedules: what cannot be is refused by name, and what fails in a run says so
in a line.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import dagster as dg

from storage import Identifier, InvalidRequest, NotFound, Unsupported

_CALLED = {
    str: "text",
    timedelta: "timedelta",
    bool: "True or False",
    int: "whole number",
    dg.DefaultSensorStatus: "dagster.DefaultSensorStatus",
}


def check_types(subject: str, given: Mapping[str, tuple[object, type]]) -> None:
    """Raise InvalidRequest for the first argument, with its value and type, that is not of that type."""
    for name, (value, kind) in given.items():
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise InvalidRequest(f"{subject}: {name}={value!r} is no {_CALLED[kind]}.")


def check_sensor(
    subject: str,
    name: object,
    minimum_interval_seconds: object,
    default_status: object = dg.DefaultSensorStatus.STOPPED,
) -> None:
    """Raise InvalidRequest for what is said of when a sensor looks and cannot be."""
    check_types(
        subject,
        {
            "name": (name, str),
            "minimum_interval_seconds": (minimum_interval_seconds, int),
            "default_status": (default_status, dg.DefaultSensorStatus),
        },
    )
    if isinstance(minimum_interval_seconds, int) and minimum_interval_seconds < 1:
        raise InvalidRequest(f"{subject}: minimum_interval_seconds={minimum_interval_seconds}: give at least 1.")


def named_table(subject: str, name: object) -> Identifier:
    """The table of a name with its database. Raises InvalidRequest for anything else."""
    if not isinstance(name, str) or "." not in name or "$" in name:
        raise InvalidRequest(f"{subject}: {name!r} is no name of a table, such as 'core.flights'.")
    return Identifier.parse(name)


def named_tables(subject: str, argument: str, names: object) -> tuple[str, ...]:
    """Names of tables, each with its database. Raises InvalidRequest for a text, no name at all, and a name that comes twice."""
    if isinstance(names, str):
        raise InvalidRequest(f"{subject}: {argument}={names!r} is one text: give names of tables, as [{names!r}].")
    if not isinstance(names, Collection) or isinstance(names, bytes | Mapping):
        raise InvalidRequest(f"{subject}: {argument}={names!r} is no list: give names of tables, as ['core.flights'].")
    if not names:
        raise InvalidRequest(f"{subject}: {argument} names no table: name some.")
    given = [str(named_table(subject, name)) for name in names]
    if twice := [name for name in given if given.count(name) > 1]:
        raise InvalidRequest(f"{subject}: {argument} names {twice[0]} twice. Name it once.")
    return tuple(names)


def refuse_unknown_argument(name: str, known: Collection[str], of: str, *, own: Collection[str] = ()) -> None:
    """Raise InvalidRequest for an argument that is none of the `known` ones of a function of Dagster's, with the one that is
    meant, maybe one of our `own`, or else all that there are.
    """
    if name not in known:
        close = difflib.get_close_matches(name, [*known, *own], n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Those of {of} are: {', '.join(known)}."
        raise InvalidRequest(f"there is no argument {name!r}. {hint}")


def check_kinds(subject: str, argument: str, given: object, kinds: tuple[type, ...], called: str) -> None:
    """Raise InvalidRequest for what is no list, and for the first of its values that is of none of some kinds."""
    if not isinstance(given, Collection) or isinstance(given, str | bytes | Mapping):
        raise InvalidRequest(f"{subject}: {argument}={given!r} is no list: give {called}.")
    for value in given:
        if not isinstance(value, kinds):
            raise InvalidRequest(f"{subject}: {argument} holds {value!r}, which is none of {called}.")


@contextmanager
def failing_in_a_line() -> Iterator[None]:
    """Within a run, what its author can mend fails the step with its message alone."""
    try:
        yield
    except (InvalidRequest, NotFound, Unsupported) as error:
        raise dg.Failure(" ".join(str(error).split()), allow_retries=False) from None
