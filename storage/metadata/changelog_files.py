"""Changelogs that outlive their snapshots: copies of the snapshot files, kept for readers of changes alone.

Follows `docs/format.md`, "Expiry".
"""

import re
from collections.abc import Iterator

from ..errors import CorruptData, DirectoryInPlace
from ..file_io import FileIO
from ..paths import TablePaths
from .snapshot import Snapshot
from .unchanged import unchanged
from .witness import WitnessOf, no_witness

_CHANGELOG_FILE = re.compile(r"changelog-(\d+)")


class ChangelogFiles:
    """The kept changelogs of one branch, by the ids of their snapshots."""

    def __init__(self, file_io: FileIO, paths: TablePaths, of: WitnessOf = no_witness) -> None:
        self._file_io = file_io
        self._paths = paths
        self._of = of

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The long-lived changelog of a number; None if there is none."""
        path = self._paths.changelog(snapshot_id)
        try:
            text = self._file_io.read_text_or_none(path)
            return None if text is None else Snapshot.from_json(text, path)
        except DirectoryInPlace:
            raise
        except CorruptData as error:
            raise CorruptData(
                f"{error} Restore the file, or delete it by hand: what it alone told readers of changes is lost then."
            ) from None

    def ids(self) -> list[int]:
        """The numbers of those that there are, ascending."""
        matches = (
            _CHANGELOG_FILE.fullmatch(file.name)
            for file in self._file_io.list_files(self._paths.changelog_directory, or_in_place=True)
        )
        return sorted(int(match[1]) for match in matches if match)

    def all(self) -> Iterator[Snapshot]:
        """Every kept changelog, ascending."""
        for snapshot_id in self.ids():
            changelog = self.find(snapshot_id)
            if changelog is not None:
                yield changelog

    def keep(self, snapshot: Snapshot) -> bool:
        """Keep the changelog of a snapshot that is about to expire; False if it is kept already."""
        data = snapshot.to_json(f"changelog-{snapshot.id}").encode()
        return self._file_io.create_exclusively(self._paths.changelog(snapshot.id), data, of=self._of())

    def hand_over(self, target: "ChangelogFiles", *, below: int) -> None:
        """Give another branch those below an id. One that cannot be read comes there as it is."""
        for snapshot_id in self.ids():
            content = self._file_io.read_bytes_or_none(self._paths.changelog(snapshot_id))
            if content is not None and snapshot_id < below:
                target._file_io.create_exclusively(target._paths.changelog(snapshot_id), content, of=target._of())

    def delete_if(self, snapshot: Snapshot) -> bool:
        """Forget the changelog of a snapshot, if its number still stands for it; says whether it did."""
        path = self._paths.changelog(snapshot.id)
        content = unchanged(self._file_io, path, Snapshot.from_json, snapshot)
        return content is not None and self._file_io.delete_if(path, content)

    def write_hints(self) -> None:
        """Tell other readers of the format which there are."""
        ids = self.ids()
        for name, snapshot_id in zip(("EARLIEST", "LATEST"), ids[:1] + ids[-1:], strict=False):
            path = f"{self._paths.changelog_directory}/{name}"
            self._file_io.overwrite(path, str(snapshot_id).encode(), of=self._of())
