"""What is declared of assets and checks: a wrong type is refused by name, and what fails in a run says so in a line."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import dagster as dg

from storage import Identifier, InvalidRequest, NotFound, Unsupported

_CALLED = {str: "text", timedelta: "timedelta", bool: "True or False"}


def check_types(subject: str, given: Mapping[str, tuple[object, type]]) -> None:
    """Raise InvalidRequest for the first argument, with its value and type, that is not of that type."""
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise InvalidRequest(f"{subject}: {name}={value!r} is no {_CALLED[kind]}.")


def named_table(subject: str, name: object) -> Identifier:
    """The table of a name with its database. Raises InvalidRequest for anything else."""
    if not isinstance(name, str) or "." not in name or "$" in name:
        raise InvalidRequest(f"{subject}: {name!r} is no name of a table, such as 'core.flights'.")
    return Identifier.parse(name)


@contextmanager
def failing_in_a_line() -> Iterator[None]:
    """Within a run, what its author can mend fails the step with its message alone."""
    try:
        yield
    except (InvalidRequest, NotFound, Unsupported) as error:
        raise dg.Failure(" ".join(str(error).split()), allow_retries=False) from None
