"""Index manifests: which index files a snapshot has, and the deletion vectors in them. Other writers make them.

Follows `docs/format.md`, "Deletion vectors".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import CorruptData
from ..format import avro
from ..format.deletion_vector import DeletionVector
from .table_store import TableStore


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index file, and the deletion vectors in it by the names of the data files that they are for."""

    path: str
    size_bytes: int
    vectors: Mapping[str, DeletionVector]


def read_index_manifest(store: TableStore, name: str) -> list[IndexFile]:
    """The index files that an index manifest lists. Raises CorruptData that names it."""
    path = store.paths.manifest(name)
    records = avro.read_records(store.file_io.read_bytes(path), path)
    try:
        found = []
        for record in records:
            file = record.get("_EXTERNAL_PATH") or f"{store.paths.root}/index/{record['_FILE_NAME']}"
            vectors = {}
            if record["_INDEX_TYPE"] == "DELETION_VECTORS":
                for one in record["_DELETIONS_VECTORS_RANGES"] or ():
                    vectors[str(one["f0"])] = DeletionVector(file, int(one["f1"]), int(one["f2"]))
            found.append(IndexFile(file, int(record["_FILE_SIZE"]), vectors))
        return found
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptData(
            f"Index manifest {path} is damaged: its records are not those of one: {type(error).__name__}: {error}"
        ) from None
