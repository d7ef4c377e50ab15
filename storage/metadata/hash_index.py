"""The hash index of tables with dynamic buckets: which hashes of keys each bucket of each partition holds.

An index file belongs to one bucket and holds the hashes of its keys (`format/binary_row.py`), each once, in no particular
order: 4 bytes each, the highest first, and nothing else. The name of one that was written here ends with the checksum of them.
The index manifest of a snapshot lists those that count, one for a
bucket at the most. A hash that is in no file is that of a new key. Follows `docs/format.md`, "Dynamic buckets".
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from ..errors import CorruptData
from ..format.named_checksum import check_named, checksum
from .index_manifest import HASH, IndexFile, index_file_of_hashes, index_files_of
from .manifest import DecodedFiles, Place
from .snapshot import Snapshot
from .table_store import TableStore

_BIG_ENDIAN = np.dtype(">i4")
# So many hashes are kept for each open table, 4 bytes each: what it has read or written last, which never changes.
_KEPT = 8_000_000
_known: WeakKeyDictionary[TableStore, DecodedFiles] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class HashFile:
    """The index file of a bucket. `name`: its file's name."""

    name: str
    path: str
    hash_count: int
    place: Place


# The index files of a partition, by bucket.
HashFiles = Mapping[int, HashFile]


def hash_files(store: TableStore, snapshot: Snapshot | None) -> dict[bytes, dict[int, HashFile]]:
    """The index files of a snapshot, by partition and bucket. Raises CorruptData, NotFound for a manifest that is not sound."""
    return by_partition(index_files_of(store, snapshot))


def by_partition(files: Iterable[IndexFile]) -> dict[bytes, dict[int, HashFile]]:
    """Those of some index files that are hash indexes, by partition and bucket."""
    by_bucket: dict[bytes, dict[int, HashFile]] = {}
    for file in files:
        if file.kind == HASH:
            partition, bucket = file.place
            name, count = str(file.record["_FILE_NAME"]), int(file.record["_ROW_COUNT"])
            by_bucket.setdefault(partition, {})[bucket] = HashFile(name, file.path, count, file.place)
    return by_bucket


def known_hashes(store: TableStore, file: HashFile) -> np.ndarray:
    """As `read_hashes`, for a writer: what the open table has read or written before is not read again. Not to be changed."""
    known = _known.setdefault(store, DecodedFiles(_KEPT))
    hashes: np.ndarray | None = known.find((file.path,))
    if hashes is None:
        hashes = read_hashes(store, file)
        known.put((file.path,), hashes)
    return hashes


def read_hashes(store: TableStore, file: HashFile) -> np.ndarray:
    """The hashes (int32) in an index file. Raises CorruptData if it does not hold as many as its manifest says, each once, or not
    those that were written.
    """
    content = store.file_io.read_bytes(file.path)
    if len(content) != 4 * file.hash_count:
        raise CorruptData(
            f"Index file {file.path} is damaged: it has {len(content)} bytes, and {file.hash_count} hashes of 4 bytes by its "
            f"manifest. {_REMEDY}"
        )
    check_named(file.path, content, _REMEDY)
    hashes = np.frombuffer(content, _BIG_ENDIAN).astype(np.int32)
    if len(np.unique(hashes)) < len(hashes):
        # As files of other writers tell damage.
        raise CorruptData(f"Index file {file.path} is damaged: it holds a hash more than once. {_REMEDY}")
    return hashes


_REMEDY = "Without it nobody knows which bucket a key is in: restore it, or overwrite the partition."


def write_hashes(store: TableStore, place: Place, next_index: Callable[[str], str], hashes: np.ndarray) -> IndexFile:
    """Write the index file of a bucket. `hashes`: int32, each once. `next_index` makes a name that ends as it is given."""
    content = hashes.astype(_BIG_ENDIAN).tobytes()
    path = store.paths.index(next_index(f"-{checksum(content)}"))
    store.file_io.write_bytes(path, content)
    _known.setdefault(store, DecodedFiles(_KEPT)).put((path,), hashes)
    return index_file_of_hashes(path, len(content), len(hashes), place)
