"""Index manifests: which index files a snapshot has, and the deletion vectors in them. Other writers make them.

Follows `docs/format.md`, "Deletion vectors".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .. import document
from ..document import file_name
from ..errors import CorruptData
from ..format import avro
from ..format.deletion_vector import DeletionVector
from .table_store import TableStore


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index file, and the deletion vectors in it by the names of the data files that they are for."""

    path: str
    size_bytes: int
    # Whether it lies outside of the table.
    is_external: bool
    vectors: Mapping[str, DeletionVector]


def read_index_manifest(store: TableStore, name: str) -> list[IndexFile]:
    """The index files that an index manifest lists. Raises CorruptData that names it."""
    path = store.paths.manifest(name)
    records = avro.read_records(store.file_io.read_bytes(path), path)
    try:
        found = []
        for record in records:
            file, external = (
                store.paths.index(file_name(record["_FILE_NAME"], path, "_FILE_NAME")),
                record.get("_EXTERNAL_PATH"),
            )
            if external:
                file = store.file_io.external_path(document.text(external, path, "_EXTERNAL_PATH"), path)
            vectors = {}
            if record["_INDEX_TYPE"] == "DELETION_VECTORS":
                for one in record["_DELETIONS_VECTORS_RANGES"] or ():
                    vectors[str(one["f0"])] = DeletionVector(file, int(one["f1"]), int(one["f2"]))
            found.append(IndexFile(file, int(record["_FILE_SIZE"]), bool(external), vectors))
        return found
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptData(
            f"Index manifest {path} is damaged: its records are not those of one: {type(error).__name__}: {error}"
        ) from None
