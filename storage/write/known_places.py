"""The highest sequence number of each bucket, and the number of buckets of each partition, as a writer knows them."""

from collections.abc import Iterable
from weakref import WeakKeyDictionary

from ..errors import CorruptData
from ..metadata.live_files import live_files
from ..metadata.manifest import ADD, ManifestEntry
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
            self._add(live_files(store.manifests_of(snapshot), store.manifests.read))

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
                self._add(entry for entry in store.manifests.read(manifest.name) if entry.kind == ADD)
        self._snapshot = snapshot
        return True

    def _add(self, entries: Iterable[ManifestEntry]) -> None:
        for entry in entries:
            if entry.bucket >= 0:
                self.bucket_counts[entry.partition] = entry.total_buckets
            highest = max(self.highest.get(entry.place, -1), entry.file.max_sequence_number)
            self.highest[entry.place] = highest


def _found(store: TableStore, snapshot_id: int) -> Snapshot | None:
    """The snapshot of that number; None where a file is damaged as well, which writers do not need."""
    try:
        return store.snapshots.find(snapshot_id)
    except CorruptData:
        return None


KNOWN_PLACES: WeakKeyDictionary[TableStore, KnownPlaces] = WeakKeyDictionary()
