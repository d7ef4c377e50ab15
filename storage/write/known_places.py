"""The highest sequence number of each bucket, and the number of buckets of each partition, as a writer knows them."""

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from ..errors import CorruptData
from ..metadata.live_files import highest_numbers
from ..metadata.manifest import ADD
from ..metadata.manifest_columns import FilePlace
from ..metadata.snapshot import Snapshot
from ..metadata.table_store import TableStore
from ..metadata.way_back import told_of_way_back

_SNAPSHOTS_TO_FOLLOW = 100


class KnownPlaces:
    """The highest sequence number of each bucket, and the number of buckets of each partition, at a snapshot.

    It goes on from one snapshot to the next by what they added, so that a writer that stays does not read everything
    again. Numbers of files that went stay: a number that is too high does no harm.
    """

    def __init__(self, store: TableStore, snapshot: Snapshot) -> None:
        self.highest: dict[tuple[bytes, int], int] = {}
        self.bucket_counts: dict[bytes, int] = {}
        self._snapshot = snapshot
        with told_of_way_back(store, snapshot):
            self._add(highest_numbers(store.manifests_of(snapshot), store.manifests))

    def advance(self, store: TableStore, snapshot: Snapshot) -> bool:
        """Go on to a later snapshot; False if the way there is not known."""
        if snapshot.identity == self._snapshot.identity:
            return True
        if snapshot.id - self._snapshot.id > _SNAPSHOTS_TO_FOLLOW:
            return False
        if snapshot.follows != self._snapshot.identity:
            # It is not the next one: this one may be another by now.
            here = _found(store, self._snapshot.id)
            if here is None or here.identity != self._snapshot.identity:
                return False
        for snapshot_id in range(self._snapshot.id + 1, snapshot.id + 1):
            following = snapshot if snapshot_id == snapshot.id else _found(store, snapshot_id)
            if following is None:
                return False
            for manifest in store.manifests.read_list(following.delta_manifest_list):
                entries = (entry for entry in store.manifests.read(manifest.name) if entry.kind == ADD)
                self._add((entry.file_place, entry.file.max_sequence_number) for entry in entries)
        self._snapshot = snapshot
        return True

    def _add(self, numbers: Iterable[tuple[FilePlace, int]]) -> None:
        for place, number in numbers:
            if place.bucket >= 0:
                self.bucket_counts[place.partition] = place.total_buckets
            own = place.partition, place.bucket
            self.highest[own] = max(self.highest.get(own, -1), number)


def _found(store: TableStore, snapshot_id: int) -> Snapshot | None:
    """The snapshot of that number; None where a file is damaged as well, which writers do not need."""
    try:
        return store.snapshots.find(snapshot_id)
    except CorruptData:
        return None


KNOWN_PLACES: WeakKeyDictionary[TableStore, KnownPlaces] = WeakKeyDictionary()
