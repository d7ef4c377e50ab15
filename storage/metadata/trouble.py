"""Troubles: work that follows a commit (compaction, expiry, tags, listeners) and has failed, kept until it succeeds.

One small file for each kind of work, `trouble/<kind>.json` in the directory of the branch. The commit stands whatever
happens here: a trouble that cannot be kept is only logged. Paimon knows nothing of the directory and leaves it alone.
"""

import contextlib
import datetime as dt
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from .. import document
from ..arguments import shown
from ..document import read_document, sealed
from ..errors import CorruptData, StorageError
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
RESCALING = "rescaling of what came back"
ICEBERG = "metadata for readers of Iceberg"
LOG = "sending to the log"
MARKING = "marking of partitions"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A kind of work that fails: since when, when last, why, and after which snapshot the last time."""

    kind: str
    since_ms: int
    last_ms: int
    error: str
    snapshot_id: int | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any], source: str) -> "Trouble":
        """What a file holds. Raises CorruptData that names `source`."""
        after = value.get("snapshot_id")
        return cls(
            document.text(value.get("kind"), source, "kind"),
            document.moment(value.get("since_ms"), source, "since_ms"),
            document.moment(value.get("last_ms"), source, "last_ms"),
            document.text(value.get("error"), source, "error"),
            None if after is None else document.integer(after, source, "snapshot_id"),
        )

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
        """Every trouble, by kind. Raises CorruptData that names a file which is none."""
        troubles = (self.read(name) for name in self.names())
        return [trouble for trouble in troubles if trouble is not None]

    def names(self) -> list[str]:
        """The names of the files, whatever they hold."""
        return sorted(
            file.name
            for file in self._file_io.list_files(self._directory, or_in_place=True)
            if not file.name.startswith(".")
        )

    def read(self, name: str) -> Trouble | None:
        """The trouble that a file tells of; None if it is gone. Raises CorruptData that names the file."""
        path = f"{self._directory}/{name}"
        content = self._file_io.read_bytes_or_none(path)
        if content is None:
            return None
        try:
            trouble = Trouble.from_json(read_document(content, path), path)
            if _file_name(trouble.kind) != name:
                raise CorruptData(f"File {path} is damaged: it tells of {shown(trouble.kind)}.")
        except CorruptData as error:
            raise CorruptData(
                f"{error} It should tell which work after commits has failed. Delete it: what fails again is told again."
            ) from None
        return trouble

    def find(self, kind: str) -> Trouble | None:
        """The trouble with a kind of work, or None. Raises CorruptData that names the file."""
        return self.read(_file_name(kind))

    def record(self, kind: str, error: BaseException, now_ms: int, snapshot_id: int | None = None) -> None:
        """Keep that a kind of work has failed. Raises nothing: what goes wrong here is logged."""
        try:
            earlier: Trouble | None = None
            with contextlib.suppress(CorruptData):
                earlier = self.find(kind)
            # What names a file may hold what no text can be written with.
            text = " ".join(str(error).encode(errors="backslashreplace").decode().split()) or type(error).__name__
            if not isinstance(error, StorageError):
                text = f"{type(error).__name__}: {text}"
            trouble = Trouble(kind, earlier.since_ms if earlier else now_ms, now_ms, text, snapshot_id)
            content = json.dumps(sealed(asdict(trouble), _file_name(kind)), indent=2).encode()
            self._file_io.overwrite(f"{self._directory}/{_file_name(kind)}", content, of=self._of())
        except Exception as failure:
            _log.warning("%s: that %s has failed could not be kept: %s", self._directory, kind, failure)

    def content(self, kind: str) -> bytes | None:
        """What the file holds that tells of a kind of work, whatever that is; None if there is none."""
        return self._file_io.read_bytes_or_none(f"{self._directory}/{_file_name(kind)}")

    def clear_if(self, kind: str, content: bytes | None) -> None:
        """Forget a trouble that was there before the work was done, unless it has failed for somebody else meanwhile. Raises
        nothing.
        """
        if content is not None:
            with contextlib.suppress(Exception):
                self._file_io.delete_if(f"{self._directory}/{_file_name(kind)}", content)

    def clear(self, kind: str) -> None:
        """Forget the trouble with a kind of work, since it has succeeded. Raises nothing."""
        with contextlib.suppress(Exception):
            self._file_io.delete(f"{self._directory}/{_file_name(kind)}")


def _file_name(kind: str) -> str:
    return f"{kind.replace(' ', '-')}{_SUFFIX}"


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


def warn_of_waiting(store: "TableStore") -> None:
    """Say in the log that readers miss rows, if the compaction that they wait for has failed."""
    with contextlib.suppress(CorruptData):
        trouble = store.troubles.find(COMPACTION)
        if trouble is not None:
            _log.warning("%s: rows that wait for a compaction are not read: %s", store.identifier, trouble)
