"""Reads of a handle are of the table and the branch that it was opened for, not of a later one of the same name."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from .metadata.table_store import TableStore


class _Handle(Protocol):
    _store: TableStore


H = TypeVar("H", bound=_Handle)
P = ParamSpec("P")
T = TypeVar("T")


def of_same_table(read: Callable[Concatenate[H, P], T]) -> Callable[Concatenate[H, P], T]:
    """A public method that reads by names which a later table has as well (snapshots, tags, consumers …). It raises NotFound
    if the table was dropped, renamed or made anew, or the branch deleted or made anew, by the time it has read.
    """

    @wraps(read)
    def guarded(handle: H, *arguments: P.args, **named: P.kwargs) -> T:
        with handle._store.of_same_table():
            return read(handle, *arguments, **named)

    return cast(Callable[Concatenate[H, P], T], guarded)
