"""Avro object container files: the encoding of manifest lists and manifests.

Schemas are given by the caller; field order and unions stand there exactly as the format wants them.
"""

import hashlib
import io
from collections.abc import Iterable, Iterator
from typing import Any

import fastavro

from ..errors import CorruptData, Unsupported
from .seal import KEY, UNKNOWN, check_avro, seal_avro

_CODECS = {
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "deflate": "deflate",
    "snappy": "snappy",
    "null": "null",
    "none": "null",
}


def nullable(avro_type: Any) -> list[Any]:
    """The union with null, null first: the other order makes Java fail."""
    return ["null", avro_type]


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    """An Avro record schema. Fields whose type is a union get the default null."""
    return {
        "type": "record",
        "name": name,
        "namespace": "org.apache.paimon.avro.generated",
        "fields": [
            {"name": field, "type": kind, "default": None} if isinstance(kind, list) else {"name": field, "type": kind}
            for field, kind in fields
        ],
    }


def parse(schema: dict[str, Any]) -> Any:
    """Prepare a schema for writing."""
    return fastavro.parse_schema(schema)


def write_records(parsed_schema: Any, records: Iterable[dict[str, Any]], codec: str, name: str) -> bytes:
    """A whole container file with a checksum, for a file of that name. `codec` is the value of `manifest.compression`."""
    if codec not in _CODECS:
        raise Unsupported(f"Manifests cannot be compressed with {codec!r}. Supported: {', '.join(_CODECS)}.")
    buffer = io.BytesIO()
    # The mark between blocks comes from the name, which no other file has, so that equal calls make equal files.
    mark = hashlib.md5(name.encode(), usedforsecurity=False).digest()
    fastavro.writer(buffer, parsed_schema, records, codec=_CODECS[codec], metadata={KEY: UNKNOWN}, sync_marker=mark)
    return seal_avro(buffer.getvalue(), name)


def field_names(data: bytes, name: str) -> list[str]:
    """The fields of the records of a container file. Raises CorruptData, naming the file, if it is not one."""
    check_avro(data, name)
    try:
        schema: Any = fastavro.reader(io.BytesIO(data)).writer_schema
        return [field["name"] for field in schema["fields"]]
    # The bytes are in memory: whatever goes wrong is their fault, and each codec has errors of its own.
    except Exception as error:
        raise CorruptData(
            f"{name} is not a readable Avro file ({len(data)} bytes): {type(error).__name__}: {error}"
        ) from None


def iterate_records(source: io.BytesIO, name: str) -> Iterator[Any]:
    """The records of a container file, one after the other. Raises CorruptData, naming the file, if it breaks off."""
    try:
        yield from fastavro.reader(source)
    except Exception as error:
        raise CorruptData(f"{name} is not a readable Avro file: {type(error).__name__}: {error}") from None


def read_records(data: bytes, name: str) -> list[dict[str, Any]]:
    """All records of a container file. Raises CorruptData, naming the file, if it is not one."""
    check_avro(data, name)
    try:
        return list(fastavro.reader(io.BytesIO(data)))  # type: ignore[arg-type]
    except Exception as error:
        raise CorruptData(
            f"{name} is not a readable Avro file ({len(data)} bytes): {type(error).__name__}: {error}"
        ) from None
