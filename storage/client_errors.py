"""Errors that Kafka's client raises as SystemError: it calls callbacks while an error of its own is set, or sets none at all."""

from itertools import islice
from typing import TypeVar

from .errors import causes

E = TypeVar("E", bound=BaseException)
NO_REASON = "its client broke off and gave no reason, as it does when a broker stops meanwhile"


def client_error(error: BaseException, kind: type[E]) -> E | None:
    """The error of the client behind one of Python's, however many lie between; None if the client set none."""
    return next((cause for cause in islice(causes(error), 1, None) if isinstance(cause, kind)), None)
