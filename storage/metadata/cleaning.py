"""Orphan cleanings that are under way: each says which files it may take, before it looks who needs what.

Whoever has written files long before they are needed looks here once they are. Follows `docs/protocols.md`, "Commit", step 8.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ..document import file_name, integer, read_document, sealed
from ..errors import CorruptData, NotFound
from ..file_io import FileIO
from ..paths import TablePaths
from .snapshot import Snapshot
from .snapshot_files import SnapshotFiles
from .witness import WitnessOf, no_witness

_ALWAYS = 2**62


@dataclass(frozen=True)
class Cleaning:
    """One of them. `until_ms`: it takes files that were last written by then, by the clock of the file system, in milliseconds
    since 1970. `newest`: number and identity of each branch's newest snapshot before it looked who needs what.
    """

    until_ms: int
    newest: Mapping[str, tuple[int, str]]


class CleaningFiles:
    """The cleanings of a table, of all branches: a file for each while it lasts, and until a later one finds what is left."""

    def __init__(self, file_io: FileIO, root: str, of: WitnessOf = no_witness) -> None:
        self._file_io = file_io
        self._root = root
        self._of = of
        self._directory = f"{root}/cleaning"

    def begin(self, name: str, cleaning: Cleaning) -> str:
        """Say that one is under way; returns the path of its file. Raises NotFound if the table has gone."""
        path = f"{self._directory}/{name}"
        document = {
            "untilMillis": cleaning.until_ms,
            "newest": {key: list(value) for key, value in cleaning.newest.items()},
        }
        if not self._file_io.create_exclusively(path, json.dumps(sealed(document, name)).encode(), of=self._of()):
            raise NotFound(f"{path} is there already. Clean again.")
        return path

    def end(self, name: str) -> None:
        """Say that it is not under way any more, or was not begun."""
        self._file_io.delete(f"{self._directory}/{name}")

    def forget(self, before_ms: int) -> None:
        """Take away what cleanings have left that died by a time."""
        for file in self._file_io.list_files(self._directory):
            if file.modified_ms is not None and file.modified_ms <= before_ms:
                self._file_io.delete(f"{self._directory}/{file.name}")

    def paths(self) -> list[str]:
        """The files, whatever they hold."""
        listed = self._file_io.list_files(self._directory, or_in_place=True)
        return [f"{self._directory}/{file.name}" for file in listed if not file.name.startswith(".")]

    def read(self, path: str) -> Cleaning | None:
        """What a file says; None if it has gone. Raises CorruptData that names the file."""
        content = self._file_io.read_bytes_or_none(path)
        if content is None:
            return None
        document = read_document(content, path)
        newest = document.get("newest")
        if not isinstance(newest, dict) or not all(
            isinstance(each, list) and len(each) == 2 for each in newest.values()
        ):
            raise CorruptData(f"File {path} is damaged: newest does not say what the newest snapshots were.")
        return Cleaning(
            integer(document.get("untilMillis"), path, "untilMillis"),
            {key: (integer(value[0], path, key), file_name(value[1], path, key)) for key, value in newest.items()},
        )

    def all(self) -> list[Cleaning]:
        """Those under way. One whose file cannot be read may take everything, and has seen nothing."""
        cleanings = []
        for path in self.paths():
            try:
                cleaning = self.read(path)
            except CorruptData:
                cleaning = Cleaning(_ALWAYS, {})
            if cleaning is not None:
                cleanings.append(cleaning)
        return cleanings

    def has_seen(self, cleaning: Cleaning, snapshot: Snapshot) -> bool:
        """Whether a snapshot was there, on any branch, when a cleaning looked who needs what."""
        for branch, (number, identity) in cleaning.newest.items():
            if number < snapshot.id:
                continue
            snapshots = SnapshotFiles(self._file_io, TablePaths(self._root, branch))
            existing = [snapshots.find(value) for value in (snapshot.id, number)]
            if [each and each.identity for each in existing] == [snapshot.identity, identity]:
                return True
        return False
