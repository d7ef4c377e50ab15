"""One operation is stopped before each call that it makes to the file system, and another one runs to its end there.

Of an operation of many calls every fifth one is tried; `make interleavings` stops at every second.
"""

import shutil
from collections.abc import Callable
from typing import Any

from storage import Catalog, StorageError
from tests.crash.failing_files import FailingFileIO
from tests.scale import amount

Act = Callable[[Catalog], Any]
_MANY = 60
_STEP = amount(5, 1, full=2)
# The warehouse of every tenth stop is left to the readers that look at what a test leaves behind.
_LEFT = 10


class Interrupted(FailingFileIO):
    """Calls `beside` before the call of a number."""

    def __init__(self, number: int | None, beside: Callable[[], object], url: str) -> None:
        super().__init__(url=url)
        self.stop_at(number, beside)

    def stop_at(self, number: int | None, beside: Callable[[], object]) -> None:
        """Call `beside` before the call of a later number, and at no other one from now on."""
        self._number, self._beside = number, beside

    def _call(self, name: str, path: str, act: Callable[[], Any], torn: Callable[[], Any] | None = None) -> Any:
        if len(self.calls) == self._number:
            self._beside()
        return super()._call(name, path, act, torn)


def acknowledged(act: Act, catalog: Catalog) -> bool:
    try:
        act(catalog)
    except StorageError:
        return False
    return True


def calls_of(url: str, prepare: Act, act: Act) -> list[Any]:
    """The calls to the file system that an operation makes."""
    prepare(Catalog(f"{url}/whole"))
    counted = Interrupted(None, lambda: None, url)
    act(Catalog(f"{url}/whole", file_io=counted))
    assert len(counted.calls) > 3
    return counted.calls


def each_stop(url: str, prepare: Act, first: Act, beside: Act) -> Any:
    """The catalog, and who was acknowledged, after `beside` ran before each call of `first` in turn."""
    for number, call in stops(calls_of(url, prepare, first)):
        warehouse = f"{url}/{number}"
        prepare(Catalog(warehouse))
        was: list[bool] = []
        files = Interrupted(number, lambda at=warehouse, was=was: was.append(acknowledged(beside, Catalog(at))), url)
        done = acknowledged(first, Catalog(warehouse, file_io=files))
        yield call, Catalog(warehouse), done, was[0]
        leave(warehouse, number)


def stops(calls: list[Any]) -> list[tuple[int, Any]]:
    """The numbers of the calls before which is stopped, with the calls."""
    return list(enumerate(calls))[:: _STEP if len(calls) > _MANY else 1]


def leave(warehouse: str, number: int) -> None:
    """Take the local warehouse of a stop away, unless it is among those that are kept."""
    scheme, _, path = warehouse.rpartition("://")
    if number % (_LEFT * _STEP) and scheme in ("", "file"):
        shutil.rmtree(path)
