"""How far work that takes long has come: told to whoever watches, in the thread that does the work; nobody is told otherwise."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TypeVar

_T = TypeVar("_T")
# Called with how much is done, and how much there is to do, None where that is not known before the end.
Tell = Callable[[int, int | None], None]
# Called with what is worked on, and what is counted ("raw.flights", "buckets compacted"), when some work begins; the context
# lasts as long as the work does.
Watch = Callable[[str, str], AbstractContextManager[Tell]]

_watch: ContextVar[Watch | None] = ContextVar("snapline_progress", default=None)


@contextmanager
def watched_by(watch: Watch) -> Iterator[None]:
    """Tell of the work of this thread, or task, while the context lasts; who watched before is told nothing meanwhile."""
    before = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(before)


def progress_of(on: str, counted: str) -> AbstractContextManager[Tell]:
    """Some work, of which the context is told how far it has come."""
    watch = _watch.get()
    return nullcontext(lambda done, total: None) if watch is None else watch(on, counted)


def progress_of_each(items: Iterable[_T], on: str, counted: str, total: int | None = None) -> Iterator[_T]:
    """Some items, as they are worked on one by one. `total`: how many there are, where they cannot tell."""
    if _watch.get() is None:
        yield from items
        return
    if isinstance(items, Collection):
        total = len(items)
    with progress_of(on, counted) as tell:
        tell(0, total)
        for done, item in enumerate(items, 1):
            yield item
            tell(done, total)


def progress_text(on: str, counted: str, done: int, total: int | None) -> str:
    """How far some work has come, as a line: "raw.flights: 3 of 12 buckets compacted"."""
    return f"{on}: {done:,} {counted}" if total is None else f"{on}: {done:,} of {total:,} {counted}"
