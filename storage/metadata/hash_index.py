"""The hash index of tables with dynamic buckets: which hashes of keys each bucket of each partition holds.

An index file belongs to one bucket and holds the hashes of its keys (`format/binary_row.py`), each once, in no particular
order: 4 bytes each, the highest first, and nothing else. The index manifest of a snapshot lists those that count, one for a
bucket at the most. A hash that is in no file is that of a new key. Follows `docs/format.md`, "Dynamic buckets".
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import CorruptData
from ..format import avro
from .index_manifest import HASH, read_index_records
from .manifest import Place
from .snapshot import Snapshot
from .table_store import TableStore

_RANGE_SCHEMA = avro.record(
    "record__DELETIONS_VECTORS_RANGES",
    ("f0", "string"),
    ("f1", "int"),
    ("f2", "int"),
    ("_CARDINALITY", avro.nullable("long")),
)
_GLOBAL_SCHEMA = avro.record(
    "record__GLOBAL_INDEX",
    ("_ROW_RANGE_START", "long"),
    ("_ROW_RANGE_END", "long"),
    ("_INDEX_FIELD_ID", "int"),
    ("_EXTRA_FIELD_IDS", avro.nullable({"type": "array", "items": "int"})),
    ("_INDEX_META", avro.nullable("bytes")),
    ("_SOURCE_META", avro.nullable("bytes")),
)
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
        ("_DELETIONS_VECTORS_RANGES", avro.nullable({"type": "array", "items": ["null", _RANGE_SCHEMA]})),
        ("_EXTERNAL_PATH", avro.nullable("string")),
        ("_GLOBAL_INDEX", avro.nullable(_GLOBAL_SCHEMA)),
    )
)
_BIG_ENDIAN = np.dtype(">i4")


@dataclass(frozen=True, slots=True)
class HashFile:
    """An index file of one bucket."""

    partition: bytes
    bucket: int
    name: str
    size_bytes: int
    hash_count: int

    @property
    def place(self) -> Place:
        return self.partition, self.bucket


# The index files of a partition, by bucket.
HashFiles = Mapping[int, HashFile]


def hash_files(store: TableStore, snapshot: Snapshot | None) -> dict[bytes, dict[int, HashFile]]:
    """The index files of a snapshot, by partition and bucket. Raises CorruptData, NotFound for a manifest that is not sound."""
    listed: dict[bytes, dict[int, HashFile]] = {}
    if snapshot is None or snapshot.index_manifest is None:
        return listed
    for record in read_index_records(store, snapshot.index_manifest):
        if record["_INDEX_TYPE"] == HASH:
            file = HashFile(
                bytes(record["_PARTITION"]),
                int(record["_BUCKET"]),
                str(record["_FILE_NAME"]),
                int(record["_FILE_SIZE"]),
                int(record["_ROW_COUNT"]),
            )
            listed.setdefault(file.partition, {})[file.bucket] = file
    return listed


def read_hashes(store: TableStore, file: HashFile) -> np.ndarray:
    """The hashes (int32) in an index file. Raises CorruptData if it does not hold as many as its manifest says."""
    path = store.paths.index(file.name)
    content = store.file_io.read_bytes(path)
    if len(content) != 4 * file.hash_count:
        raise CorruptData(
            f"Index file {path} is damaged: it has {len(content)} bytes, and {file.hash_count} hashes of 4 bytes by its "
            "manifest. Without it nobody knows which bucket a key is in: restore it, or overwrite the partition."
        )
    return np.frombuffer(content, _BIG_ENDIAN).astype(np.int32)


def write_hashes(store: TableStore, place: Place, name: str, hashes: np.ndarray) -> HashFile:
    """Write the index file of a bucket. `hashes`: int32, each once."""
    content = hashes.astype(_BIG_ENDIAN).tobytes()
    store.file_io.write_bytes(store.paths.index(name), content)
    return HashFile(*place, name, len(content), len(hashes))


def write_changed(
    store: TableStore,
    snapshot: Snapshot | None,
    name: str,
    dropped: Collection[Place],
    added: Collection[HashFile],
) -> None:
    """Write the index manifest that follows a snapshot's: the index files of some buckets go, others come in the place of
    those of their buckets. What it says of other kinds of indexes stays as it is.
    """
    gone = {*dropped, *(file.place for file in added)}
    before = (
        []
        if snapshot is None or snapshot.index_manifest is None
        else read_index_records(store, snapshot.index_manifest)
    )
    records = [
        record
        for record in before
        if record["_INDEX_TYPE"] != HASH or (bytes(record["_PARTITION"]), int(record["_BUCKET"])) not in gone
    ]
    records += [_record(file) for file in added]
    path = store.paths.manifest(name)
    store.file_io.write_bytes(path, avro.write_records(_SCHEMA, records, store.options.manifest_compression, name))


def _record(file: HashFile) -> dict[str, Any]:
    return {
        "_VERSION": 1,
        "_KIND": 0,
        "_PARTITION": file.partition,
        "_BUCKET": file.bucket,
        "_INDEX_TYPE": HASH,
        "_FILE_NAME": file.name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": file.hash_count,
        "_DELETIONS_VECTORS_RANGES": None,
        "_EXTERNAL_PATH": None,
        "_GLOBAL_INDEX": None,
    }
