"""A branch as it was at one of its snapshots: what came after that is not there."""

from copy import copy

from ..errors import CommitConflict
from ..file_io import FileIO
from ..paths import TablePaths
from .snapshot import Snapshot
from .snapshot_files import SnapshotFiles
from .table_store import TableStore
from .witness import WitnessOf, no_witness


class EarlierSnapshotFiles(SnapshotFiles):
    """The snapshot files of a branch up to a number; 0: none."""

    def __init__(self, file_io: FileIO, paths: TablePaths, last: int, of: WitnessOf = no_witness) -> None:
        super().__init__(file_io, paths, of)
        self._last = last

    def find(self, snapshot_id: int) -> Snapshot | None:
        return super().find(snapshot_id) if snapshot_id <= self._last else None

    def listed_ids(self) -> list[int]:
        return [number for number in super().listed_ids() if number <= self._last]

    def _exists(self, snapshot_id: int) -> bool:
        return snapshot_id <= self._last and super()._exists(snapshot_id)


def seen_up_to(branch: TableStore, up_to: tuple[int, str] | None) -> TableStore:
    """A branch with what it had at a snapshot, by number and identity (0: none); None: with all that it has.

    Raises CommitConflict if it has another one of that number, or none any more.
    """
    if up_to is None:
        return branch
    number, identity = up_to
    there = branch.snapshots.find(number) if number else None
    if number and (there is None or there.identity != identity):
        raise CommitConflict(
            f"Branch {branch.identifier.branch!r} of {branch.identifier.full_name} does not have the snapshot {number} any more "
            "that is published."
        )
    seen = copy(branch)
    # What is computed lazily is found first in the instance.
    seen.__dict__["snapshots"] = EarlierSnapshotFiles(branch.file_io, branch.paths, number, branch.read_witness)
    return seen
