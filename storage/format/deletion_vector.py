"""Deletion vectors: positions of a data file's rows that are deleted, in an index file beside the data.

Follows `docs/format.md`, "Deletion vectors".
"""

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from ..errors import CorruptData, Unsupported
from ..file_io import FileIO

_MAGIC = 1581511376
_MAGIC_64_BIT = 1681511377


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where the vector of a data file lies: `length` bytes at `offset` of an index file, size and checksum around them."""

    path: str
    offset: int
    length: int

    def read(self, file_io: FileIO) -> np.ndarray:
        """The deleted positions (int64, ascending, from 0). Raises CorruptData if the bytes contradict their checksum."""
        if self.offset < 0 or self.length < 4:
            raise CorruptData(f"Index file {self.path} has no deletion vector of {self.length} bytes at {self.offset}.")
        data = file_io.read_bytes(self.path)[self.offset : self.offset + self.length + 8]
        # Its length counts the size and the checksum too.
        if len(data) >= 8 and struct.unpack_from("<i", data, 4)[0] == _MAGIC_64_BIT:
            raise Unsupported(f"Index file {self.path} holds a 64-bit deletion vector, which is not supported.")
        if len(data) != self.length + 8:
            raise CorruptData(f"Index file {self.path} ends before the deletion vector at {self.offset}.")
        (size,) = struct.unpack_from(">i", data)
        body = data[4 : 4 + self.length]
        (checksum,) = struct.unpack_from(">I", data, 4 + self.length)
        if size != self.length or zlib.crc32(body) != checksum:
            raise CorruptData(f"The deletion vector at {self.offset} of index file {self.path} is damaged.")
        if struct.unpack_from(">i", body)[0] != _MAGIC:
            raise CorruptData(f"The deletion vector at {self.offset} of index file {self.path} is none.")
        try:
            return np.asarray(BitMap.deserialize(body[4:]).to_array(), dtype=np.int64)
        except (ValueError, MemoryError) as error:
            raise CorruptData(
                f"The deletion vector at {self.offset} of index file {self.path} is none: {error}"
            ) from None
