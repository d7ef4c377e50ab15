"""Troubles: work that follows a commit (compaction, expiry, tags, listeners) and has failed, kept until it succeeds.

One small file for each kind of work, `trouble/<kind>.json` in the directory of the branch. The commit stands whatever
happens here: a trouble that cannot be kept is only logged. Paimon knows nothing of the directory and leaves it alone.
"""

import contextlib
import datetime as dt
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

from ..errors import StorageError
from ..file_io import FileIO
from ..paths import TablePaths
from .witness import WitnessOf, no_witness

if TYPE_CHECKING:
    from .table_store import TableStore

_log = logging.getLogger(__name__)
T = TypeVar("T")
_SUFFIX = ".json"
COMPACTION, EXPIRY, FILE_DELETION = "compaction", "expiry", "deletion of files that nobody needs"
TAG_CREATION, TAG_DELETION, LISTENERS = "creation of due tags", "deletion of old tags", "telling the listeners"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A kind of work that fails: since when, when last, why, and after which snapshot the last time."""

    kind: str
    since_ms: int
    last_ms: int
    error: str
    snapshot_id: int | None = None

    def __str__(self) -> str:
        since = dt.datetime.fromtimestamp(self.since_ms // 1000).isoformat(sep=" ")
        after = "" if self.snapshot_id is None else f", last after snapshot {self.snapshot_id}"
        return f"{self.kind} has failed since {since}{after}: {self.error}"


class TroubleFiles:
    """The troubles of one branch."""

    def __init__(self, file_io: FileIO, paths: TablePaths, of: WitnessOf = no_witness) -> None:
        self._file_io = file_io
        self._of = of
        self._directory = paths.trouble_directory

    def all(self) -> list[Trouble]:
        """Every trouble, by kind; files that cannot be read are left out."""
        names = sorted(file.name for file in self._file_io.list_files(self._directory) if file.name.endswith(_SUFFIX))
        troubles = (self.find(name.removesuffix(_SUFFIX).replace("-", " ")) for name in names)
        return [trouble for trouble in troubles if trouble is not None]

    def find(self, kind: str) -> Trouble | None:
        """The trouble with a kind of work, or None."""
        text = self._file_io.read_text_or_none(self._path(kind))
        if text is None:
            return None
        try:
            return Trouble(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def record(self, kind: str, error: BaseException, now_ms: int, snapshot_id: int | None = None) -> None:
        """Keep that a kind of work has failed. Raises nothing: what goes wrong here is logged."""
        try:
            earlier = self.find(kind)
            text = " ".join(str(error).split()) or type(error).__name__
            if not isinstance(error, StorageError):
                text = f"{type(error).__name__}: {text}"
            trouble = Trouble(kind, earlier.since_ms if earlier else now_ms, now_ms, text, snapshot_id)
            content = json.dumps(asdict(trouble), indent=2).encode()
            self._file_io.overwrite(self._path(kind), content, of=self._of())
        except Exception as failure:
            _log.warning("%s: that %s has failed could not be kept: %s", self._directory, kind, failure)

    def clear(self, kind: str) -> None:
        """Forget the trouble with a kind of work, since it has succeeded. Raises nothing."""
        with contextlib.suppress(Exception):
            self._file_io.delete(self._path(kind))

    def _path(self, kind: str) -> str:
        return f"{self._directory}/{kind.replace(' ', '-')}{_SUFFIX}"


def afterwards(store: "TableStore", kind: str, act: Callable[[], T], default: T, snapshot_id: int | None = None) -> T:
    """What some work returns that follows what has landed already. If it fails, that is logged and kept, and `default`
    comes back: the call that it follows has succeeded. Once it has done something, its trouble is over.
    """
    try:
        result = act()
    except Exception as error:
        what = "" if snapshot_id is None else f"snapshot {snapshot_id} is committed, but "
        _log.warning("%s: %s%s has failed: %s", store.identifier, what, kind, " ".join(str(error).split()))
        _log.debug("%s", kind, exc_info=error)
        store.troubles.record(kind, error, store.clock.now_ms(), snapshot_id)
        return default
    if result:
        store.troubles.clear(kind)
    return result
