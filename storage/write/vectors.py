"""The deletion vectors of a commit: which rows it marks as deleted, and the index manifest that says so.

Whoever marks rows of a file, or writes a file anew, has read it with the vector that it had then. The commit looks whether it
has that one still: if not, others have deleted rows of the same file, and the change is computed again. A bucket has one file
of vectors, which each change writes anew; tables without buckets have several. Follows `docs/format.md`, "Deletion vectors".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import NotFound, RowsChanged
from ..format.deletion_vector import DeletionVector, encode_index_file
from ..format.named_checksum import checksum
from ..metadata.index_manifest import (
    DELETION_VECTORS,
    IndexFile,
    index_file_of_vectors,
)
from ..metadata.manifest import ManifestEntry, Place
from ..metadata.table_store import TableStore

# A rough size of a vector beyond its bytes: magic number, size and checksum.
_AROUND_BYTES = 12


@dataclass(frozen=True, slots=True)
class MarkedFile:
    """Rows of a data file that a change deletes: their positions (int64, ascending), none if it has only read the file.

    `read`: the vector with which the file was read, None for a file without one. Pickles.
    """

    place: Place
    name: str
    read: DeletionVector | None
    positions: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64), compare=False)


@dataclass(frozen=True, slots=True)
class GivenVector:
    """The vector that a data file is to have, whatever it has: that of another snapshot, None for none."""

    place: Place
    name: str
    vector: DeletionVector | None


def files_read(entries: Sequence[ManifestEntry], vectors: Mapping[str, DeletionVector]) -> list[MarkedFile]:
    """What to say of files that were read with their vectors and of which no row is marked."""
    return [MarkedFile(entry.place, entry.file.name, vectors.get(entry.file.name)) for entry in entries]


def given_vectors(entries: Sequence[ManifestEntry], vectors: Mapping[str, DeletionVector]) -> list[GivenVector]:
    """Each of some files with its vector of another snapshot."""
    return [GivenVector(entry.place, entry.file.name, vectors.get(entry.file.name)) for entry in entries]


class VectorChange:
    """What a commit does to the deletion vectors of the snapshot that it is put on. Nothing is written before `write`.

    `files`: the index files of that snapshot; `live`: the data files after the commit, `gone`: the names of those that it takes
    away. Raises RowsChanged if a marked file has gone, or has another vector than the one that it was read with.
    """

    def __init__(
        self,
        store: TableStore,
        files: Sequence[IndexFile],
        live: Sequence[ManifestEntry],
        gone: Sequence[ManifestEntry],
        marked: Sequence[MarkedFile],
        given: Sequence[GivenVector],
    ) -> None:
        self._store = store
        self._files = files
        self._now = {name: vector for index in self._files for name, vector in index.vectors.items()}
        self._places = {entry.file.name: entry.place for entry in live}
        self._before = {name: index.place for index in self._files for name in index.vectors}
        there = self._places.keys() | {entry.file.name for entry in gone}
        # The new positions of files whose vector changes; none for a file that has no vector any more.
        self._changed: dict[str, np.ndarray | None] = {}
        for name in self._now.keys() - self._places.keys():
            self._changed[name] = None
        for mark in marked:
            self._refuse_changed(mark, there)
            if len(mark.positions) and mark.name in self._places:
                before = self._changed.get(mark.name)
                before = self._read(mark.name) if before is None else before
                self._changed[mark.name] = np.union1d(before, mark.positions)
        for restored in given:
            if restored.name in self._places and not self._is_same(restored.name, restored.vector):
                vector = restored.vector
                self._changed[restored.name] = None if vector is None else vector.read(store.file_io)

    @property
    def changes(self) -> bool:
        """Whether the index manifest becomes another one."""
        return bool(self._changed)

    def write(self, next_index: Callable[[str], str]) -> list[IndexFile]:
        """Write files of vectors; returns the index files of all kinds after the commit. `next_index` makes a name that ends as
        it is given.
        """
        rewritten = {self._place(name) for name in self._changed}
        kept = [index for index in self._files if not self._is_written_anew(index, rewritten)]

        def path_of(content: bytes) -> str:
            return self._store.paths.index(next_index(f"-{checksum(content)}"))

        for place in sorted(rewritten):
            for vectors in self._rolled(self._vectors_of(place)):
                bitmap64 = self._store.options.deletion_vectors_bitmap64
                path, content, placed = encode_index_file(vectors, path_of, bitmap64=bitmap64)
                self._store.file_io.write_bytes(path, content)
                kept.append(index_file_of_vectors(path, len(content), placed, place))
        return kept

    def _refuse_changed(self, mark: MarkedFile, there: set[str]) -> None:
        name = self._store.identifier
        if mark.name not in there:
            raise RowsChanged(
                f"Data file {mark.name} of {name} was read, and is not there any more. Read the table again and repeat the "
                "operation."
            )
        if not self._is_same(mark.name, mark.read):
            raise RowsChanged(
                f"Rows of data file {mark.name} of {name} have been deleted by another commit since it was read. Read the table "
                "again and repeat the operation."
            )

    def _is_same(self, name: str, wanted: DeletionVector | None) -> bool:
        """Whether a file has a vector of the same rows."""
        now = self._now.get(name)
        if now is None or wanted is None or now == wanted:
            return now == wanted
        if None not in (now.cardinality, wanted.cardinality) and now.cardinality != wanted.cardinality:
            return False
        try:
            return np.array_equal(now.read(self._store.file_io), wanted.read(self._store.file_io))
        except NotFound:
            # Others have written the index file anew, and the one that was read has expired.
            return False

    @property
    def _has_buckets(self) -> bool:
        """Whether each bucket has one file of vectors."""
        return self._store.options.bucket > 0 or bool(self._store.schema.primary_keys)

    def _read(self, name: str) -> np.ndarray:
        vector = self._now.get(name)
        return np.empty(0, np.int64) if vector is None else vector.read(self._store.file_io)

    def _place(self, name: str) -> Place:
        return self._places[name] if name in self._places else self._before[name]

    def _is_written_anew(self, index: IndexFile, places: set[Place]) -> bool:
        is_touched = any(name in self._changed for name in index.vectors)
        # Each bucket has one file.
        is_bucket = index.place in places and self._has_buckets
        return bool(index.vectors or is_bucket) and index.kind == DELETION_VECTORS and (is_touched or is_bucket)

    def _vectors_of(self, place: Place) -> dict[str, np.ndarray]:
        """The vectors of a place that have to be written, by data file."""
        held = {
            name
            for index in self._files
            if index.place == place and self._is_written_anew(index, {place})
            for name in index.vectors
        }
        added = {name for name in self._changed if self._place(name) == place}
        positions_of: dict[str, np.ndarray] = {}
        for name in sorted(held | added):
            positions = self._changed[name] if name in self._changed else self._read(name)
            if positions is not None and len(positions):
                positions_of[name] = positions
        return positions_of

    def _rolled(self, vectors: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
        """The vectors of each file to be written; a bucket's are in one."""
        limit = None if self._has_buckets else self._store.options.deletion_vector_file_size_bytes
        part: dict[str, np.ndarray] = {}
        size = 0
        for name, positions in vectors.items():
            part[name] = positions
            # Two bytes for each position are the most that a bitmap takes of many, nearly.
            size += 2 * len(positions) + _AROUND_BYTES
            if limit is not None and size > limit:
                yield part
                part, size = {}, 0
        if part:
            yield part
