"""The manifests of a snapshot: those of the one before, those of them written anew that hold what was taken away, one with what
came, and small ones merged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..data_types import DataField
from ..file_io import FileIO
from ..options import TableOptions
from .location import Location, same_file
from .manifest import ADDED, DELETED, Entry, Manifest, read_manifest, write_list, write_manifest

# About as many files as fill a manifest of the usual size.
_MOST_ENTRIES = 20_000


@dataclass(slots=True)
class Changed:
    """Files and rows that a snapshot added and took away."""

    added_files: int = 0
    added_rows: int = 0
    deleted_files: int = 0
    deleted_rows: int = 0


@dataclass(slots=True)
class ManifestSet:
    """Makes the manifests of one snapshot. `written`: the files it has written."""

    place: Location
    options: TableOptions
    partition: Sequence[DataField]
    snapshot_id: int
    name: str
    written: list[str] = field(default_factory=list)
    count: int = 0
    changed: Changed = field(default_factory=Changed)

    @property
    def _file_io(self) -> FileIO:
        return self.place.file_io

    @property
    def _codec(self) -> str:
        return self.options.metadata_iceberg_manifest_compression.lower()

    def follow(
        self, manifests: Sequence[Manifest], added: dict[str, Callable[[], Entry]], removed: set[str] | None
    ) -> list[Manifest]:
        """The manifests after some, with the files that came and without those that went, each by what its URLs have in common
        (`same_file`); None for all that are not among those that came.
        """
        new = dict(added)
        kept = [kept_manifest for manifest in manifests for kept_manifest in self._without(manifest, new, removed)]
        entries = [make() for make in new.values()]
        self.changed.added_files = len(entries)
        self.changed.added_rows = sum(entry.file["record_count"] for entry in entries)
        merged = self._merged([*kept, *self._write(entries)])
        # Those that were merged at once nobody has seen.
        names = {self.place.file(merged_manifest.url) for merged_manifest in merged}
        self._file_io.delete_quietly([path for path in self.written if path not in names])
        self.written = [path for path in self.written if path in names]
        return merged

    def write_list(self, manifests: Sequence[Manifest]) -> str:
        """Write the list of manifests; returns its URL."""
        path = self.place.file(f"snap-{self.snapshot_id}-{self.name}.avro")
        self.written.append(path)
        legacy = self.options.metadata_iceberg_manifest_legacy_version
        write_list(self._file_io, path, manifests, self._codec, legacy=legacy)
        return self.place.url(path)

    def _without(
        self, manifest: Manifest, new: dict[str, Callable[[], Entry]], removed: set[str] | None
    ) -> list[Manifest]:
        """A manifest as it is, if nothing of it has gone, or else what is written in its place."""
        if removed is not None and not removed:
            return [manifest]
        entries = [live_entry for live_entry in self._entries(manifest) if live_entry.is_live]
        gone = set()
        for entry in entries:
            key = same_file(entry.url)
            is_known = new.pop(key, None) is not None
            if not is_known and (removed is None or key in removed):
                gone.add(key)
                self.changed.deleted_files += 1
                self.changed.deleted_rows += entry.file["record_count"]
        if not gone:
            return [manifest]
        return self._write(
            [
                live_entry.deleted(self.snapshot_id) if same_file(live_entry.url) in gone else live_entry.existing()
                for live_entry in entries
            ]
        )

    def _merged(self, manifests: list[Manifest]) -> list[Manifest]:
        """The manifests, small ones written into one once they are many."""
        target = self.options.manifest_target_file_size_bytes
        small = [candidate for candidate in manifests if candidate.size_bytes < target * 2 // 3]
        few = len(small) < self.options.metadata_iceberg_compaction_min_file_num
        full = sum(candidate.size_bytes for candidate in small) >= target
        if few or not (full or len(small) >= self.options.metadata_iceberg_compaction_max_file_num):
            return manifests
        entries = []
        for manifest in small:
            for entry in self._entries(manifest):
                if entry.snapshot_id == self.snapshot_id:
                    entries.append(entry)
                elif entry.status != DELETED:
                    entries.append(entry.existing() if entry.status == ADDED else entry)
        return [*(candidate for candidate in manifests if candidate not in small), *self._write(entries)]

    def _entries(self, manifest: Manifest) -> list[Entry]:
        return read_manifest(self._file_io, self.place.file(manifest.url))

    def _write(self, entries: Sequence[Entry]) -> list[Manifest]:
        manifests = []
        for start in range(0, len(entries), _MOST_ENTRIES):
            some = entries[start : start + _MOST_ENTRIES]
            self.count += 1
            path = self.place.file(f"{self.name}-m{self.count}.avro")
            self.written.append(path)
            url = self.place.url(path)
            manifests.append(
                write_manifest(self._file_io, path, url, some, self.partition, self.snapshot_id, self._codec)
            )
        return manifests
