"""The checksum that the name of an index file bears: CRC-32 of its content."""

import re
from zlib import crc32

from ..errors import CorruptData

_WITH_CHECKSUM = re.compile(r"index-[0-9a-f-]{36}-\d+-([0-9a-f]{8})")


def checksum(content: bytes) -> str:
    """Eight hexadecimal digits."""
    return f"{crc32(content):08x}"


def bears_checksum(path: str) -> bool:
    """Whether the name of an index file bears one; those of other writers, and of earlier versions, do not."""
    return _WITH_CHECKSUM.fullmatch(path.rpartition("/")[2]) is not None


def check_named(path: str, content: bytes, remedy: str = "") -> None:
    """Raise CorruptData if an index file does not hold what its name says."""
    named = _WITH_CHECKSUM.fullmatch(path.rpartition("/")[2])
    if named is not None and named[1] != checksum(content):
        raise CorruptData(
            f"Index file {path} is damaged: its checksum is {checksum(content)}, {named[1]} by its name. {remedy}".rstrip()
        )
