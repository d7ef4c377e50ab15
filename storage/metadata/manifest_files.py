"""Read and write the manifests of a table, which all its branches share.

Manifests have unique names and never change, so what was decoded is kept in memory and shared by all tables of the process.
Those of many entries are decoded as columns, others entry by entry; both give the same. Follows
`docs/format.md`, "Manifest lists and manifests".
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..data_types import DataType
from ..errors import CorruptData, NotFound
from ..file_io import FileIO
from ..format import avro
from ..format.binary_row import EMPTY_ROW, decode
from ..format.column_stats import merge_ranges
from ..paths import TablePaths
from .manifest import (
    DELETE,
    DecodedFiles,
    DecodedManifest,
    ManifestEntry,
    ManifestFile,
    collector_paused,
    decoded_files,
    entry_of,
    entry_record,
    manifest_file,
    stats_record,
)
from .manifest_columns import read_manifests
from .manifest_schemas import LIST_SCHEMA, LIST_TYPES, MANIFEST_SCHEMA, MANIFEST_TYPES

# So many entries are decoded together at most, but for larger manifests.
_ENTRIES_TOGETHER = 100_000


class ManifestFiles:
    """Reads and writes the manifests of a table (all branches share them)."""

    def __init__(
        self,
        file_io: FileIO,
        paths: TablePaths,
        codec: str,
        *,
        from_disk: bool = False,
        refuse_gone: Callable[[], None] = lambda: None,
    ) -> None:
        """`from_disk`: what other tables of the process have read before is not believed. `refuse_gone`: asked where a file is
        not there; raises NotFound that says so if the table has gone.
        """
        self._file_io = file_io
        self._refuse_gone = refuse_gone
        self._paths = paths
        self._codec = codec
        # What whoever lists them says of manifests.
        self._sizes: dict[str, int] = {}
        self._own = decoded_files(from_disk=True) if from_disk else None

    def read_list(self, name: str, size_bytes: int | None = None) -> tuple[ManifestFile, ...]:
        """The manifests of a manifest list, in order. `size_bytes`: what the snapshot says of its size."""
        if size_bytes is not None:
            self._sizes[name] = size_bytes
        path = self._paths.manifest(name)
        listed: tuple[ManifestFile, ...] | None = self._cache.find(self._key(path))
        if listed is None:
            listed = self._records(self._content(name), path, LIST_TYPES, manifest_file)
            self._cache.put(self._key(path), listed)
        self._sizes.update((each.name, each.size_bytes) for each in listed)
        return listed

    def read(self, name: str) -> tuple[ManifestEntry, ...]:
        """The entries of a manifest, in order. Raises Unsupported for entries that cannot be understood."""
        return self._read_together([name])[0].entries

    def read_each(self, manifests: Sequence[ManifestFile]) -> Iterator[DecodedManifest]:
        """Manifests, in order. Many small ones are read together."""
        group: list[str] = []
        size = 0
        for each in manifests:
            own = each.added_file_count + each.deleted_file_count
            if group and size + own > _ENTRIES_TOGETHER:
                yield from self._read_together(group)
                group, size = [], 0
            group.append(each.name)
            size += own
        yield from self._read_together(group)

    def decoded(self, name: str) -> Any:
        """What `keep` was given of another file of the directory; None if that is not known."""
        return self._cache.find(self._key(self._paths.manifest(name)))

    def keep(self, name: str, decoded: tuple[Any, ...]) -> None:
        """Keep what was decoded of another file of the directory that never changes."""
        self._cache.put(self._key(self._paths.manifest(name)), decoded)

    def _read_together(self, names: Sequence[str]) -> list[DecodedManifest]:
        """Manifests, of which those that are not known yet are decoded together."""
        paths = {name: self._paths.manifest(name) for name in names}
        known = {name: self._cache.find(self._key(path)) for name, path in paths.items()}
        missing = {name: self._content(name) for name, decoded in known.items() if decoded is None}
        with collector_paused():
            columns = read_manifests([(data, paths[name]) for name, data in missing.items()], self._file_io)
        for (name, data), own in zip(missing.items(), columns, strict=True):
            entries = None if own is not None else self._records(data, paths[name], MANIFEST_TYPES, entry_of)
            known[name] = DecodedManifest(entries, own)
            self._cache.put(self._key(paths[name]), known[name])
        return [known[name] for name in names]

    @property
    def _cache(self) -> DecodedFiles:
        return self._own or decoded_files(from_disk=False)

    def _content(self, name: str) -> bytes:
        """The bytes of a file. Raises CorruptData if whoever lists it says that it has more or fewer."""
        path = self._paths.manifest(name)
        try:
            data = self._file_io.read_bytes(path)
        except NotFound:
            self._refuse_gone()
            raise
        if len(data) != self._sizes.get(name, len(data)):
            raise CorruptData(f"Manifest {path} is damaged: it has {len(data)} bytes instead of {self._sizes[name]}.")
        return data

    def _records(
        self, data: bytes, path: str, types: str, build: Callable[[dict[str, Any], FileIO, str], Any]
    ) -> tuple[Any, ...]:
        with collector_paused():
            records = avro.read_records(data, path, types)
            try:
                return tuple(build(record, self._file_io, path) for record in records)
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                raise CorruptData(
                    f"Manifest {path} is damaged: its records are not those of one: {type(error).__name__}: {error}"
                ) from None

    def _key(self, path: str) -> tuple[str, ...]:
        # What one catalog allows, another does not.
        return self._file_io.protocol, path, *self._file_io.external_roots

    def write(
        self, name: str, entries: Sequence[ManifestEntry], partition_types: Sequence[DataType], schema_id: int
    ) -> ManifestFile:
        """Write a manifest and return what a list says of it."""
        data = avro.write_records(MANIFEST_SCHEMA, map(entry_record, entries), self._codec, name)
        self._write(name, data, DecodedManifest(entries))
        deleted = sum(entry.kind == DELETE for entry in entries)
        partitions = [
            decode(row, partition_types) for row in {entry.partition for entry in entries} if row != EMPTY_ROW
        ]
        buckets = [entry.bucket for entry in entries]
        levels = [entry.file.level for entry in entries]
        return ManifestFile(
            name,
            len(data),
            len(entries) - deleted,
            deleted,
            merge_ranges(partitions, partition_types),
            schema_id,
            min(buckets),
            max(buckets),
            min(levels),
            max(levels),
        )

    def write_list(self, name: str, manifests: Sequence[ManifestFile]) -> int:
        """Write a manifest list; returns its size in bytes."""
        records = [
            {
                "_VERSION": 2,
                "_FILE_NAME": manifest.name,
                "_FILE_SIZE": manifest.size_bytes,
                "_NUM_ADDED_FILES": manifest.added_file_count,
                "_NUM_DELETED_FILES": manifest.deleted_file_count,
                "_PARTITION_STATS": stats_record(manifest.partition_stats),
                "_SCHEMA_ID": manifest.schema_id,
                "_MIN_BUCKET": manifest.min_bucket,
                "_MAX_BUCKET": manifest.max_bucket,
                "_MIN_LEVEL": manifest.min_level,
                "_MAX_LEVEL": manifest.max_level,
            }
            for manifest in manifests
        ]
        data = avro.write_records(LIST_SCHEMA, records, self._codec, name)
        self._write(name, data, tuple(manifests))
        return len(data)

    def _write(self, name: str, data: bytes, decoded: Any) -> None:
        path = self._paths.manifest(name)
        self._file_io.write_bytes(path, data)
        # The next commit reads it.
        self._cache.put(self._key(path), decoded)
