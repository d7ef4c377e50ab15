"""Deletion vectors: positions of a data file's rows that are deleted, in an index file beside the data.

Follows `docs/format.md`, "Deletion vectors".
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyroaring import BitMap, BitMap64

from ..errors import CorruptData
from ..file_io import FileIO
from .named_checksum import bears_checksum, check_named

_VERSION = b"\x01"
_MAGIC = struct.pack(">i", 1581511376)
_MAGIC_64_BIT = struct.pack("<i", 1681511377)
# Around each vector lie its size and its checksum.
_AROUND = 8
# Positions from here on have no place in 32 bits as Java counts them.
_MOST_ROWS = 2**31
# Bytes.
_MOST_READ_WHOLE = 1 << 16


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where the vector of a data file lies: at `offset` of an index file. `length` is that of its bytes; of a 64-bit one with
    the size and the checksum around them. `cardinality`: how many rows it deletes, and `file_size` (bytes): of the index file,
    if they are known.
    """

    path: str
    offset: int
    length: int
    cardinality: int | None = None
    file_size: int | None = field(default=None, compare=False)

    def read(self, file_io: FileIO) -> np.ndarray:
        """The deleted positions (int64, ascending, from 0). Raises CorruptData if the bytes contradict their checksum."""
        if self.offset < 0 or self.length < 4:
            raise CorruptData(f"Index file {self.path} has no deletion vector of {self.length} bytes at {self.offset}.")
        data = self._bytes(file_io)
        is_64_bit = data[4:8] == _MAGIC_64_BIT
        length = self.length - _AROUND if is_64_bit else self.length
        if len(data) < length + _AROUND or length < 4:
            raise CorruptData(f"Index file {self.path} ends before the deletion vector at {self.offset}.")
        (size,) = struct.unpack_from(">i", data)
        body = data[4 : 4 + length]
        (checksum,) = struct.unpack_from(">I", data, 4 + length)
        if size != length or zlib.crc32(body) != checksum:
            raise CorruptData(f"The deletion vector at {self.offset} of index file {self.path} is damaged.")
        if not is_64_bit and body[:4] != _MAGIC:
            raise CorruptData(f"The deletion vector at {self.offset} of index file {self.path} is none.")
        try:
            bitmap: Any = (BitMap64 if is_64_bit else BitMap).deserialize(body[4:])
            return np.asarray(bitmap.to_array(), dtype=np.uint64).astype(np.int64)
        except (ValueError, MemoryError, OverflowError) as error:
            raise CorruptData(
                f"The deletion vector at {self.offset} of index file {self.path} is none: {error}"
            ) from None

    def _bytes(self, file_io: FileIO) -> bytes:
        """What the file holds from the offset on. A small file is read whole: what is another one's has its own checksums, but
        not those of the name.
        """
        end = self.offset + self.length + _AROUND
        if (self.file_size or _MOST_READ_WHOLE + 1) > _MOST_READ_WHOLE or not bears_checksum(self.path):
            return file_io.read_range(self.path, self.offset, end)
        content = file_io.read_bytes(self.path)
        check_named(self.path, content)
        return content[self.offset : end]


def encode_index_file(
    vectors: Mapping[str, np.ndarray], path_of: Callable[[bytes], str], *, bitmap64: bool
) -> tuple[str, bytes, dict[str, DeletionVector]]:
    """The path and the content of an index file, and where the vector of each data file lies in it once it has been written.

    `vectors`: the deleted positions (int64, ascending) by the name of the data file. `path_of` gives the path of a content.
    """
    content = bytearray(_VERSION)
    places: dict[str, tuple[int, int, int]] = {}
    for name, positions in vectors.items():
        body = _body(positions, bitmap64=bitmap64)
        length = len(body) + (_AROUND if bitmap64 else 0)
        places[name] = len(content), length, len(positions)
        content += struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    path = path_of(bytes(content))
    placed = {name: DeletionVector(path, *place, len(content)) for name, place in places.items()}
    return path, bytes(content), placed


def _body(positions: np.ndarray, *, bitmap64: bool) -> bytes:
    if len(positions) and (positions[0] < 0 or positions[-1] >= _MOST_ROWS):
        raise CorruptData(f"A deletion vector has no place for row {positions[-1]}.")
    bitmap = BitMap(positions.astype(np.uint32))
    bitmap.run_optimize()
    if not bitmap64:
        return _MAGIC + bitmap.serialize()
    # One 32-bit bitmap, of the positions whose upper half is 0.
    return _MAGIC_64_BIT + struct.pack("<QI", 1, 0) + bitmap.serialize()
