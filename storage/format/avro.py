"""Avro object container files: the encoding of manifest lists and manifests.

Schemas are given by the caller; field order and unions stand there exactly as the format wants them.
"""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
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
_PLAIN = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "array", "map", "enum", "fixed")


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


def write_records(
    parsed_schema: Any,
    records: Iterable[dict[str, Any]],
    codec: str,
    name: str,
    metadata: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """A whole container file with a checksum, for a file of that name. `codec` is the value of `manifest.compression`,
    `metadata` what its head says besides.
    """
    if codec not in _CODECS:
        raise Unsupported(f"Manifests cannot be compressed with {codec!r}. Supported: {', '.join(_CODECS)}.")
    buffer = io.BytesIO()
    # The mark between blocks comes from the name, which no other file has, so that equal calls make equal files.
    mark = hashlib.md5(name.encode(), usedforsecurity=False).digest()
    head = {**metadata, KEY: UNKNOWN}
    fastavro.writer(buffer, parsed_schema, records, codec=_CODECS[codec], metadata=head, sync_marker=mark)
    return seal_avro(buffer.getvalue(), name)


def field_names(data: bytes, name: str) -> list[str]:
    """The fields of the records of a container file. Raises CorruptData, naming the file, if it is not one."""
    check_avro(data, name)
    try:
        schema: Any = fastavro.reader(io.BytesIO(data)).writer_schema
        # Paimon up to 1.0 writes the records of data files as a union with null.
        return [field["name"] for field in _not_null(schema)["fields"]]
    # The bytes are in memory: whatever goes wrong is their fault, and each codec has errors of its own.
    except Exception as error:
        raise CorruptData(
            f"{name} is not a readable Avro file ({len(data)} bytes): {type(error).__name__}: {error}"
        ) from None


def is_of_java(data: bytes) -> bool:
    """Whether Java has written a container file that can be read: its schema names records and namespaces apart."""
    schema = fastavro.reader(io.BytesIO(data)).metadata["avro.schema"]
    return '"namespace":"org.apache.paimon' in schema.replace(" ", "")


def iterate_records(source: io.BytesIO, name: str) -> Iterator[Any]:
    """The records of a container file, one after the other. Raises CorruptData, naming the file, if it breaks off."""
    try:
        yield from fastavro.reader(source)
    except Exception as error:
        raise CorruptData(f"{name} is not a readable Avro file: {type(error).__name__}: {error}") from None


def types_of(parsed_schema: Any) -> str:
    """The types of a schema, as `read_records` compares them."""
    return json.dumps(parsed_schema)


def read_records(data: bytes, name: str, types: str | None = None) -> list[dict[str, Any]]:
    """All records of a container file. `types`: those that its fields may have, besides null.

    Raises CorruptData, naming the file, if it is not one, or has other types.
    """
    check_avro(data, name)
    try:
        reader = fastavro.reader(io.BytesIO(data))
        wrong = types and _wrong_type(str(reader.metadata["avro.schema"]), types)
        if wrong:
            raise CorruptData(f"{name} is damaged: field {wrong} is of another type than the format says.")
        return list(reader)  # type: ignore[arg-type]
    except CorruptData:
        raise
    except Exception as error:
        raise CorruptData(
            f"{name} is not a readable Avro file ({len(data)} bytes): {type(error).__name__}: {error}"
        ) from None


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a container file: the schema of its records as JSON text, their bytes, and how many records each has."""

    schema: str
    blocks: list[bytes]
    counts: list[int]


def read_blocks(data: bytes, name: str, types: str) -> Blocks | None:
    """The blocks of a container file; None if `read_records` would raise an error before the first record of one."""
    try:
        check_avro(data, name)
        reader = fastavro.block_reader(io.BytesIO(data))
        schema = str(reader.metadata["avro.schema"])
        if _wrong_type(schema, types):
            return None
        blocks: list[Any] = list(reader)
        return Blocks(schema, [block.bytes_.getvalue() for block in blocks], [block.num_records for block in blocks])
    # Which error it is, `read_records` says.
    except Exception:
        return None


def read_array(data: bytes, items: str) -> list[Any]:
    """The items of an encoded array; their type as JSON text. Raises ValueError if it is none."""
    return list(_read_value(data, _array_of(items)))


@lru_cache(maxsize=64)
def _array_of(items: str) -> Any:
    return fastavro.parse_schema({"type": "array", "items": json.loads(items)})


@lru_cache(maxsize=64)
def _wrong_type(actual: str, wanted: str) -> str | None:
    """The first field of a schema whose type is another than a schema wants; both as JSON text."""
    return _first_wrong(json.loads(actual), json.loads(wanted), "")


def _first_wrong(actual: Any, wanted: Any, field: str) -> str | None:
    if not _kinds(actual) <= _kinds(wanted) | {"null"}:
        return field
    actual, wanted = _not_null(actual), _not_null(wanted)
    if not isinstance(actual, dict) or not isinstance(wanted, dict):
        return None
    if wanted["type"] == "array":
        return _first_wrong(actual["items"], wanted["items"], field)
    if wanted["type"] == "record":
        types = {each["name"]: each["type"] for each in wanted["fields"]}
        for item in actual["fields"]:
            name = item["name"]
            wrong = _first_wrong(item["type"], types[name], name) if name in types else None
            if wrong is not None:
                return wrong
    return None


def _kinds(avro_type: Any) -> set[str]:
    """The kinds of value that a type allows; a `long` allows an `int`, and a time is told from a number."""
    if isinstance(avro_type, list):
        return set().union(*map(_kinds, avro_type))
    if isinstance(avro_type, dict) and "logicalType" in avro_type:
        return {"time", *_kinds(avro_type["type"])}
    kind = avro_type["type"] if isinstance(avro_type, dict) else avro_type
    if isinstance(kind, dict | list):
        return _kinds(kind)
    # A name stands for a record that was described before.
    return {"int", "long"} if kind == "long" else {kind if kind in _PLAIN else "record"}


def _not_null(avro_type: Any) -> Any:
    """The type beside null of a union of two; other types as they are."""
    others = [each for each in avro_type if each != "null"] if isinstance(avro_type, list) else [avro_type]
    return others[0] if len(others) == 1 else avro_type


def write_datum(parsed_schema: Any, record: dict[str, Any]) -> bytes:
    """One record without a head, as messages have it. Raises ValueError for a value that the schema does not take."""
    buffer = io.BytesIO()
    try:
        fastavro.schemaless_writer(buffer, parsed_schema, record)
    except (TypeError, KeyError, OverflowError) as error:
        raise ValueError(str(error)) from None
    return buffer.getvalue()


def read_datum(data: bytes, parsed_schema: Any) -> dict[str, Any]:
    """The record that a message holds. Raises ValueError if it is none of the schema, or if something is left over."""
    return dict(_read_value(data, parsed_schema))


def _read_value(data: bytes, parsed_schema: Any) -> Any:
    buffer = io.BytesIO(data)
    try:
        record: Any = fastavro.schemaless_reader(buffer, parsed_schema, None)
    except (IndexError, EOFError):
        raise ValueError("It ends too early, or is of another schema.") from None
    # The bytes are in memory: whatever goes wrong is their fault.
    except Exception as error:
        raise ValueError(f"It is of another schema, or damaged ({type(error).__name__}: {error}).") from None
    if left := len(data) - buffer.tell():
        raise ValueError(f"{left} bytes are left over.")
    return record
