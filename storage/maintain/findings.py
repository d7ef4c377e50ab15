"""What a check finds: what is broken, and what only looks so; and going on after what cannot be read."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from ..errors import StorageError
from ..metadata.table_store import TableStore
from ..metadata.trouble import Trouble

# Of those that share what is broken.
_MOST_NAMED = 10
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, order=True)
class BrokenInvariant:
    """Something that must be true and is not."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class FailedWork(BrokenInvariant):
    """Not broken: work that follows commits and has failed. The rows are all there."""

    @classmethod
    def of(cls, store: TableStore, trouble: Trouble) -> "FailedWork":
        """What a trouble of a branch tells."""
        return cls(str(store.identifier), str(trouble))


class Unfinished(BrokenInvariant):
    """Not broken: what has begun and is not done, so that writers are refused. The rows are all there."""

    @classmethod
    def of(cls, store: TableStore, what: str) -> "Unfinished":
        """What has begun on a branch."""
        return cls(str(store.identifier), what)


class KeptAside(BrokenInvariant):
    """Not broken any more: a file that was damaged, and that a command has put in a place where nobody reads it."""

    @classmethod
    def of(cls, path: str) -> "KeptAside":
        """A file by its path."""
        return cls(path, "was damaged and is kept aside. Delete it once nobody wants to know what it held.")


class Report:
    """What was found, and the way to go on after a file that cannot be read."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.found: set[BrokenInvariant] = set()

    def add(self, where: str, what: str) -> None:
        """Report something of what is looked at."""
        self.found.add(BrokenInvariant(f"{self._name} {where}", what))

    def attempt(self, where: str, act: Callable[[], _T]) -> _T | None:
        """What a function returns; if it cannot, that is reported and it is None."""
        try:
            return act()
        except (StorageError, OSError, pa.ArrowException) as error:
            self.add(where, str(error))
        # Whoever asks what is broken is not told less because something is broken in a way nobody thought of.
        except Exception as error:
            self.add(where, f"{type(error).__name__}: {error}")
        return None


def once(broken: Iterable[BrokenInvariant]) -> list[BrokenInvariant]:
    """In order, what is the same of several snapshots, such as a file that they share, in one line with the others."""
    places: dict[str, list[str]] = {}
    for each in sorted(broken):
        places.setdefault(each.what, []).append(each.where)
    return [BrokenInvariant(first, f"{what}{_others(others)}") for what, (first, *others) in places.items()]


def _others(places: Sequence[str]) -> str:
    more = f", {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
    return f" (the same of {', '.join(places[:_MOST_NAMED])}{more})" if places else ""
