"""Index manifests: which index files a snapshot has: hash indexes of buckets, and deletion vectors, which other writers make.

Follows `docs/format.md`, "Deletion vectors" and "Dynamic buckets".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from .. import document
from ..document import file_name
from ..errors import CorruptData, Unsupported
from ..format import avro
from ..format.deletion_vector import DeletionVector
from .snapshot import Snapshot
from .table_store import TableStore

# The kind of index that says which keys a bucket holds (`hash_index.py`).
HASH = "HASH"
_NEEDED = {"_INDEX_TYPE", "_PARTITION", "_BUCKET", "_FILE_SIZE", "_ROW_COUNT"}
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index file, and the deletion vectors in it by the names of the data files that they are for."""

    path: str
    size_bytes: int
    # Whether it lies outside of the table.
    is_external: bool
    vectors: Mapping[str, DeletionVector]
    kind: str = ""


def read_index_manifest(store: TableStore, name: str) -> list[IndexFile]:
    """The index files that an index manifest lists. Raises CorruptData that names it."""
    return _read(store, name, lambda record, path: _index_file(store, record, path))


def read_index_records(store: TableStore, name: str) -> list[dict[str, Any]]:
    """The records of an index manifest as they are, their files named by one segment of a path. Raises CorruptData."""

    def checked(record: dict[str, Any], path: str) -> dict[str, Any]:
        file_name(record["_FILE_NAME"], path, "_FILE_NAME")
        missing = _NEEDED - record.keys()
        if missing:
            raise LookupError(min(missing))
        return record

    return _read(store, name, checked)


def _read(store: TableStore, name: str, build: Callable[[dict[str, Any], str], _T]) -> list[_T]:
    path = store.paths.manifest(name)
    records = avro.read_records(store.file_io.read_bytes(path), path)
    try:
        return [build(record, path) for record in records]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptData(
            f"Index manifest {path} is damaged: its records are not those of one: {type(error).__name__}: {error}"
        ) from None


def _index_file(store: TableStore, record: dict[str, Any], path: str) -> IndexFile:
    external = record.get("_EXTERNAL_PATH")
    file = store.paths.index(file_name(record["_FILE_NAME"], path, "_FILE_NAME"))
    if external:
        file = store.file_io.external_path(document.text(external, path, "_EXTERNAL_PATH"), path)
    vectors = {}
    if record["_INDEX_TYPE"] == "DELETION_VECTORS":
        for part in record["_DELETIONS_VECTORS_RANGES"] or ():
            vectors[str(part["f0"])] = DeletionVector(file, int(part["f1"]), int(part["f2"]))
    return IndexFile(file, int(record["_FILE_SIZE"]), bool(external), vectors, str(record["_INDEX_TYPE"]))


def refuse_index(store: TableStore, *snapshots: Snapshot | None) -> None:
    """Raise Unsupported for snapshots whose rows their data files alone do not tell: a commit that takes files away, or adds
    them again, would have to change their index manifest with them. A hash index says nothing of rows.
    """
    for snapshot in snapshots:
        if snapshot is None or snapshot.index_manifest is None:
            continue
        if any(file.kind != HASH for file in read_index_manifest(store, snapshot.index_manifest)):
            raise Unsupported(
                f"Snapshot {snapshot.id} of {store.identifier} has an index manifest ('deletion-vectors.enabled', or an index "
                "that is not of keys by bucket). Its files can be read here, not replaced. Nothing is done; let the engine do "
                "it that wrote them."
            )
