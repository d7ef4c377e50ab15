"""Index manifests: which index files a snapshot has, and the deletion vectors in them. Other writers make them.

Follows `docs/format.md`, "Deletion vectors".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import CorruptData, Unsupported
from ..format import avro
from ..format.deletion_vector import DeletionVector
from .snapshot import Snapshot
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


def refuse_index(store: TableStore, *snapshots: Snapshot | None) -> None:
    """Raise Unsupported for snapshots whose rows their data files alone do not tell: a commit that takes files away, or adds
    them again, would have to change their index manifest with them.
    """
    for snapshot in snapshots:
        if snapshot is not None and snapshot.index_manifest is not None:
            raise Unsupported(
                f"Snapshot {snapshot.id} of {store.identifier} has an index manifest ('deletion-vectors.enabled', or an index "
                "of keys by bucket). Its files can be read here, not replaced. Nothing is done; let the engine do it that "
                "wrote them."
            )
