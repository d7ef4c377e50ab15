"""Checksums over whole files, kept inside of them where their formats have room for what readers do not know.

| format | where | over what |
|---|---|---|
| Avro | metadata `snapline.crc32` of the header | the whole file |
| Parquet | metadata `snapline.crc32` of the footer | the rows, and the footer; pages have checksums of their own |
| ORC | field 9000 of the postscript | the whole file |

Each counts the name of the file in, and itself as zeros. Files of other writers have none. Follows `docs/damage.md`.
"""

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import CorruptData

KEY = "snapline.crc32"
UNKNOWN = "0" * 8
_AVRO_FIELD = KEY.encode() + b"\x10"
# A text of 16 characters, which is the second field of Thrift's record.
_PARQUET_FIELD = KEY.encode() + b"\x18\x10"
_PARQUET_MAGIC = b"PAR1"
# Field 9000 of 4 bytes: 9000 << 3 | 5 as a varint.
_ORC_FIELD = b"\xc5\xb2\x04"
_HEADER_BYTES = 1 << 16


def damaged(path: str, what: str) -> CorruptData:
    """The error that says that a file is damaged."""
    return CorruptData(f"Data file {path} is damaged: {what}.")


def _hex(number: int) -> bytes:
    return f"{number:08x}".encode()


def _seed(path: str) -> int:
    return zlib.crc32(path.rsplit("/", 1)[-1].encode(errors="surrogatepass"))


# --- Avro


def seal_avro(data: bytes, name: str) -> bytes:
    """A container file that was written with the metadata KEY = UNKNOWN, with its checksum."""
    start = data.index(_AVRO_FIELD) + len(_AVRO_FIELD)
    return data[:start] + _hex(zlib.crc32(data, _seed(name))) + data[start + 8 :]


def check_avro(data: bytes, path: str) -> None:
    """Raise CorruptData if a container file names a checksum that it does not have."""
    position = data.find(_AVRO_FIELD, 0, _HEADER_BYTES)
    if position < 0:
        return
    start = position + len(_AVRO_FIELD)
    checksum = zlib.crc32(data[:start], _seed(path))
    checksum = zlib.crc32(memoryview(data)[start + 8 :], zlib.crc32(UNKNOWN.encode(), checksum))
    if data[start : start + 8] != _hex(checksum):
        raise damaged(path, "its content does not have the checksum that it names")


# --- Parquet and ORC: written through a stream


class Sealing:
    """A stream for writers of pyarrow's that puts a checksum into the end of a file, which is held back for that."""

    def __init__(self, stream: Any, path: str) -> None:
        self._stream = stream
        self._path = path
        self._held: bytearray | None = None
        self._checksum = 0
        self._position = 0
        self._failure: Exception | None = None
        self.closed = False

    def write(self, data: Any) -> int:
        """Write bytes, and count them in; returns how many."""
        size = len(data)
        self._position += size
        if self._held is not None:
            self._held += data
        else:
            self._checksum = zlib.crc32(data, self._checksum)
            try:
                self._stream.write(data)
            except Exception as error:
                self._failure = error
                raise
        return size

    @contextmanager
    def failing_as_it_does(self) -> Iterator[None]:
        """Errors of the stream go on as they are, of which pyarrow's writer of ORC makes a text of several lines."""
        try:
            yield
        except Exception:
            if self._failure is not None:
                raise self._failure from None
            raise

    def tell(self) -> int:
        """How many bytes were written."""
        return self._position

    def flush(self) -> None: ...

    def writable(self) -> bool:
        """True: it is written only."""
        return True

    def close(self) -> None:
        """What is held back is written by `finish_parquet` and `finish_orc`; whoever closes before them gives up."""
        self.closed = True

    def hold_end(self) -> None:
        """From now on everything is held back."""
        self._held = bytearray()

    def finish_parquet(self, change: Callable[[bytes], bytes] | None = None) -> int:
        """Write the end of a file whose footer has KEY = UNKNOWN twice; returns the size of the file.

        `change` gives the footer to write instead of the one that is there.
        """
        held = self._held or bytearray()
        start = len(held) - 8 - int.from_bytes(held[-8:-4], "little")
        rows, footer = held[:start], held[start:]
        if change is not None:
            changed = change(bytes(footer[:-8]))
            self._position += len(changed) - len(footer[:-8])
            footer = bytearray(changed + len(changed).to_bytes(4, "little") + _PARQUET_MAGIC)
        field = footer.rfind(_PARQUET_FIELD) + len(_PARQUET_FIELD)
        footer[field : field + 8] = _hex(zlib.crc32(rows, self._checksum))
        footer[field + 8 : field + 16] = _hex(zlib.crc32(footer, _seed(self._path)))
        self._stream.write(bytes(rows + footer))
        return self._position

    def finish_orc(self) -> int:
        """Write the end of a file, with a checksum in its postscript; returns the size of the file."""
        held = self._held or bytearray()
        length = held[-1]
        field = _ORC_FIELD + bytes(4)
        if length + len(field) > 255:
            self._stream.write(bytes(held))
            return self._position
        held[-1] = length + len(field)
        start = len(held) - 1 - length
        held[start:start] = field
        checksum = zlib.crc32(_seed(self._path).to_bytes(4, "little"), zlib.crc32(held, self._checksum))
        held[start + len(_ORC_FIELD) : start + len(field)] = checksum.to_bytes(4, "little")
        self._stream.write(bytes(held))
        return self._position + len(field)


def check_parquet_end(end: memoryview, path: str) -> None:
    """Raise CorruptData if a footer names a checksum that it does not have. `end`: the file from its footer on."""
    _parquet_field(end, path)


def check_parquet_rows(data: memoryview, path: str) -> None:
    """Raise CorruptData if a whole file names a checksum that it does not have, of its rows or its footer."""
    start = len(data) - footer_bytes(data[-8:], len(data), path)
    field = _parquet_field(data[start:], path)
    if field is not None and bytes(data[start + field : start + field + 8]) != _hex(zlib.crc32(data[:start])):
        raise damaged(path, "its pages do not have the checksum that it names")


def footer_bytes(last: bytes | memoryview, size_bytes: int, path: str) -> int:
    """How long the end of a Parquet file is, from its footer on, as its last 8 bytes tell. Raises CorruptData."""
    length = int.from_bytes(last[:4], "little") + 8
    if bytes(last[4:]) != _PARQUET_MAGIC or length > size_bytes:
        raise CorruptData(f"Data file {path} is not a readable Parquet file: its end is not that of one.")
    return length


def _parquet_field(end: memoryview, path: str) -> int | None:
    footer = bytearray(end)
    position = footer.rfind(_PARQUET_FIELD)
    if position < 0:
        return None
    field = position + len(_PARQUET_FIELD)
    named = bytes(footer[field + 8 : field + 16])
    footer[field + 8 : field + 16] = UNKNOWN.encode()
    if named != _hex(zlib.crc32(footer, _seed(path))):
        raise damaged(path, "its footer does not have the checksum that it names")
    return field


def check_orc(data: memoryview, path: str) -> None:
    """Raise CorruptData if a file names a checksum that it does not have."""
    start = len(data) - 1 - data[-1] if len(data) else -1
    if start < 0 or bytes(data[start : start + len(_ORC_FIELD)]) != _ORC_FIELD:
        return
    number = start + len(_ORC_FIELD)
    checksum = zlib.crc32(data[number + 4 :], zlib.crc32(bytes(4), zlib.crc32(data[:number])))
    checksum = zlib.crc32(_seed(path).to_bytes(4, "little"), checksum)
    if bytes(data[number : number + 4]) != checksum.to_bytes(4, "little"):
        raise damaged(path, "its content does not have the checksum that it names")
