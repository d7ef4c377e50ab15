"""Index manifests: which index files a snapshot has: deletion vectors of data files, and hash indexes of buckets.

Each names all index files of the table; a commit that changes one writes the manifest anew, any other goes on with the one
that there is. Follows `docs/format.md`, "Deletion vectors" and "Dynamic buckets".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .. import document
from ..document import file_name
from ..errors import CorruptData, Unsupported
from ..format import avro
from ..format.deletion_vector import DeletionVector
from .manifest import ADD, Place
from .snapshot import Snapshot
from .table_store import TableStore

DELETION_VECTORS = "DELETION_VECTORS"
# The kind of index that says which keys a bucket holds (`hash_index.py`).
HASH = "HASH"
_VERSION = 1
_SCHEMA = avro.parse(
    avro.record(
        "record",
        ("_VERSION", "int"),
        ("_KIND", "int"),
        ("_PARTITION", "bytes"),
        ("_BUCKET", "int"),
        ("_INDEX_TYPE", "string"),
        ("_FILE_NAME", "string"),
        ("_FILE_SIZE", "long"),
        ("_ROW_COUNT", "long"),
        (
            "_DELETIONS_VECTORS_RANGES",
            avro.nullable(
                {
                    "type": "array",
                    "items": avro.nullable(
                        avro.record(
                            "record__DELETIONS_VECTORS_RANGES",
                            ("f0", "string"),
                            ("f1", "int"),
                            ("f2", "int"),
                            ("_CARDINALITY", avro.nullable("long")),
                        )
                    ),
                }
            ),
        ),
        ("_EXTERNAL_PATH", avro.nullable("string")),
        (
            "_GLOBAL_INDEX",
            avro.nullable(
                avro.record(
                    "record__GLOBAL_INDEX",
                    ("_ROW_RANGE_START", "long"),
                    ("_ROW_RANGE_END", "long"),
                    ("_INDEX_FIELD_ID", "int"),
                    ("_EXTRA_FIELD_IDS", avro.nullable({"type": "array", "items": "int"})),
                    ("_INDEX_META", avro.nullable("bytes")),
                    ("_SOURCE_META", avro.nullable("bytes")),
                )
            ),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index file, and the deletion vectors in it by the names of the data files that they are for."""

    path: str
    size_bytes: int
    # Whether it lies outside of the table.
    is_external: bool
    vectors: Mapping[str, DeletionVector]
    place: Place = (b"", 0)
    kind: str = DELETION_VECTORS
    # What the manifest says of it, for those who write it into another one.
    record: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), compare=False)


def read_index_manifest(store: TableStore, name: str) -> list[IndexFile]:
    """The index files that an index manifest lists. Raises CorruptData that names it."""
    files: tuple[IndexFile, ...] | None = store.manifests.decoded(name)
    if files is None:
        files = _read(store, name)
        store.manifests.keep(name, files)
    return list(files)


def _read(store: TableStore, name: str) -> tuple[IndexFile, ...]:
    path = store.paths.manifest(name)
    records = avro.read_records(store.file_io.read_bytes(path), path)
    try:
        index_files = []
        for record in records:
            external = record.get("_EXTERNAL_PATH")
            file = store.paths.index(file_name(record["_FILE_NAME"], path, "_FILE_NAME"))
            if external:
                file = store.file_io.external_path(document.text(external, path, "_EXTERNAL_PATH"), path)
            vectors = {}
            size_bytes = int(record["_FILE_SIZE"])
            if record["_INDEX_TYPE"] == DELETION_VECTORS:
                for each in record["_DELETIONS_VECTORS_RANGES"] or ():
                    count = each.get("_CARDINALITY")
                    vectors[str(each["f0"])] = DeletionVector(
                        file, int(each["f1"]), int(each["f2"]), None if count is None else int(count), size_bytes
                    )
            place = bytes(record["_PARTITION"]), int(record["_BUCKET"])
            kind = str(record["_INDEX_TYPE"])
            int(record["_ROW_COUNT"])
            index_files.append(IndexFile(file, size_bytes, bool(external), vectors, place, kind, record))
        return tuple(index_files)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptData(
            f"Index manifest {path} is damaged: its records are not those of one: {type(error).__name__}: {error}"
        ) from None


def write_index_manifest(store: TableStore, name: str, files: Sequence[IndexFile]) -> None:
    """Write an index manifest that lists index files."""
    path = store.paths.manifest(name)
    records = [dict(file.record) for file in files]
    store.file_io.write_bytes(path, avro.write_records(_SCHEMA, records, store.options.manifest_compression, path))
    # The next commit reads it.
    store.manifests.keep(name, tuple(files))


def index_file_of_vectors(path: str, size_bytes: int, vectors: Mapping[str, DeletionVector], place: Place) -> IndexFile:
    """An index file of deletion vectors that has been written to `path`, as a manifest lists it."""
    ranges = [
        {"f0": name, "f1": vector.offset, "f2": vector.length, "_CARDINALITY": vector.cardinality}
        for name, vector in vectors.items()
    ]
    record = _record(path, size_bytes, place, DELETION_VECTORS, len(vectors), ranges)
    return IndexFile(path, size_bytes, False, vectors, place, DELETION_VECTORS, record)


def index_file_of_hashes(path: str, size_bytes: int, hash_count: int, place: Place) -> IndexFile:
    """The hash index of a bucket that has been written to `path`, as a manifest lists it."""
    record = _record(path, size_bytes, place, HASH, hash_count, None)
    return IndexFile(path, size_bytes, False, MappingProxyType({}), place, HASH, record)


def _record(
    path: str, size_bytes: int, place: Place, kind: str, count: int, ranges: Sequence[Mapping[str, Any]] | None
) -> dict[str, Any]:
    partition, bucket = place
    return {
        "_VERSION": _VERSION,
        "_KIND": ADD,
        "_PARTITION": partition,
        "_BUCKET": bucket,
        "_INDEX_TYPE": kind,
        "_FILE_NAME": path.rsplit("/", 1)[-1],
        "_FILE_SIZE": size_bytes,
        "_ROW_COUNT": count,
        "_DELETIONS_VECTORS_RANGES": ranges,
        "_EXTERNAL_PATH": None,
        "_GLOBAL_INDEX": None,
    }


def index_files_of(store: TableStore, snapshot: Snapshot | None) -> list[IndexFile]:
    """The index files of a snapshot; none without one."""
    if snapshot is None or snapshot.index_manifest is None:
        return []
    return read_index_manifest(store, snapshot.index_manifest)


def vectors_of(store: TableStore, snapshot: Snapshot | None) -> dict[str, DeletionVector]:
    """The deletion vector of each data file of a snapshot that has one, by the file's name."""
    return {name: vector for file in index_files_of(store, snapshot) for name, vector in file.vectors.items()}


def marked_places(store: TableStore, snapshots: Sequence[Snapshot]) -> set[Place]:
    """The buckets of which snapshots may have changed deletion vectors."""
    places: set[Place] = set()
    for snapshot in snapshots:
        before = store.snapshots.find(snapshot.id - 1)
        if snapshot.index_manifest == (None if before is None else before.index_manifest):
            continue
        sides = [{file.path: file.place for file in index_files_of(store, side)} for side in (before, snapshot)]
        changed = sides[0].keys() ^ sides[1].keys()
        places |= {side[path] for side in sides for path in changed & side.keys()}
    return places


def refuse_index(store: TableStore, *snapshots: Snapshot | None) -> None:
    """Raise Unsupported for snapshots with index files that are neither deletion vectors nor hash indexes: a commit that takes
    data files away, or adds them again, would have to change those with them.
    """
    for snapshot in snapshots:
        for file in index_files_of(store, snapshot):
            if file.kind not in (DELETION_VECTORS, HASH):
                raise Unsupported(
                    f"Snapshot {snapshot.id if snapshot else 0} of {store.identifier} has an index of kind {file.kind}. Its "
                    "files can be read here, not replaced. Nothing is done; let the engine do it that wrote them."
                )
