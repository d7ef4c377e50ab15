"""Errors that Kafka's client raises as SystemError: it calls callbacks while an error of its own is set, or sets none at all."""

from typing import TypeVar

E = TypeVar("E", bound=BaseException)
NO_REASON = "its client broke off and gave no reason, as it does when a broker stops meanwhile"


def client_error(error: BaseException, kind: type[E]) -> E | None:
    """The error of the client behind one of Python's, however many lie between; None if the client set none."""
    cause = error.__cause__ or error.__context__
    seen: set[int] = set()
    while cause is not None and not isinstance(cause, kind) and id(cause) not in seen:
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return cause if isinstance(cause, kind) else None
