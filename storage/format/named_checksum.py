"""The checksum that the name of an index file bears: CRC-32 of its content."""

from zlib import crc32


def checksum(content: bytes) -> str:
    """Eight hexadecimal digits."""
    return f"{crc32(content):08x}"
