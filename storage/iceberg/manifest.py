"""Iceberg's manifests and lists of them, in Avro, with the fields that Paimon's Java library writes and reads."""

import datetime as dt
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..data_types import DataField
from ..errors import CorruptData
from ..file_io import FileIO
from ..format import avro
from ..format.iceberg_types import FIRST_PARTITION_FIELD, column_type, partition_fields
from .bounds import encoded

EXISTING, ADDED, DELETED = 0, 1, 2
_DATA = 0
_EPOCH = dt.datetime(1970, 1, 1)
_TIMES = {
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
}
_COUNTS = ("added", "existing", "deleted")


@dataclass(frozen=True, slots=True)
class Entry:
    """A data file in a manifest, and what a snapshot did with it. `file` is the record of it."""

    status: int
    snapshot_id: int
    sequence_number: int
    file: dict[str, Any]

    @property
    def is_live(self) -> bool:
        """Whether the file is part of the table."""
        return self.status != DELETED

    @property
    def url(self) -> str:
        """Where the file lies."""
        return str(self.file["file_path"])

    def existing(self) -> "Entry":
        """The file as a later manifest holds it that it is copied into."""
        return replace(self, status=EXISTING)

    def deleted(self, snapshot_id: int) -> "Entry":
        """The entry that says that a snapshot has taken the file away."""
        return replace(self, status=DELETED, snapshot_id=snapshot_id)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a list says of a manifest."""

    url: str
    size_bytes: int
    sequence_number: int
    min_sequence_number: int
    snapshot_id: int
    # Of files, then of rows, of entries by their status: added, existing, deleted.
    file_counts: tuple[int, int, int]
    row_counts: tuple[int, int, int]
    partitions: tuple[dict[str, Any], ...]


def write_manifest(
    file_io: FileIO,
    path: str,
    url: str,
    entries: Sequence[Entry],
    partition: Sequence[DataField],
    sequence_number: int,
    codec: str,
) -> Manifest:
    """Write a manifest; returns what a list says of it. `partition`: the partition columns."""
    spec = json.dumps(partition_fields(partition))
    head = {"partition-spec": spec, "partition-spec-id": "0", "format-version": "2", "content": "data"}
    data = avro.write_records(_manifest_schema(partition), map(_record, entries), codec, path, head)
    file_io.write_bytes(path, data)
    chosen = [[entry for entry in entries if entry.status == status] for status in (ADDED, EXISTING, DELETED)]
    files = tuple(len(some) for some in chosen)
    rows = tuple(sum(entry.file["record_count"] for entry in some) for some in chosen)
    lowest = min(entry.sequence_number for entry in entries)
    summaries = tuple(_summary(entries, number, field) for number, field in enumerate(partition))
    return Manifest(url, len(data), sequence_number, lowest, sequence_number, files, rows, summaries)  # type: ignore[arg-type]


def read_manifest(file_io: FileIO, path: str) -> list[Entry]:
    """The entries of a manifest. Raises CorruptData that names it."""
    try:
        return [
            Entry(
                record["status"],
                record["snapshot_id"],
                record["sequence_number"],
                _plain_partition(record["data_file"]),
            )
            for record in avro.read_records(file_io.read_bytes(path), path)
        ]
    except (LookupError, TypeError, ValueError) as error:
        raise CorruptData(f"Iceberg manifest {path} is damaged: {type(error).__name__}: {error}") from None


def write_list(file_io: FileIO, path: str, manifests: Iterable[Manifest], codec: str, *, legacy: bool) -> None:
    """Write a list of manifests. `legacy`: with the names of fields that Iceberg had up to 1.4."""
    records = [
        {
            "manifest_path": manifest.url,
            "manifest_length": manifest.size_bytes,
            "partition_spec_id": 0,
            "content": _DATA,
            "sequence_number": manifest.sequence_number,
            "min_sequence_number": manifest.min_sequence_number,
            "added_snapshot_id": manifest.snapshot_id,
            **dict(zip(_count_names("files", legacy=legacy), manifest.file_counts, strict=True)),
            **dict(zip(_count_names("rows", legacy=legacy), manifest.row_counts, strict=True)),
            "partitions": list(manifest.partitions),
        }
        for manifest in manifests
    ]
    file_io.write_bytes(path, avro.write_records(_list_schema(legacy=legacy), records, codec, path))


def read_list(file_io: FileIO, path: str) -> list[Manifest]:
    """The manifests in a list. Raises CorruptData that names it, also for one of deletes, which are not written here."""
    manifests = []
    try:
        for record in avro.read_records(file_io.read_bytes(path), path):
            if record["content"] != _DATA:
                raise CorruptData(f"Iceberg manifest list {path} lists deletes of rows, which are not written here.")
            legacy = "added_files_count" not in record
            files = tuple(record[name] for name in _count_names("files", legacy=legacy))
            rows = tuple(record[name] for name in _count_names("rows", legacy=legacy))
            manifests.append(
                Manifest(
                    record["manifest_path"],
                    record["manifest_length"],
                    record["sequence_number"],
                    record["min_sequence_number"],
                    record["added_snapshot_id"],
                    files,
                    rows,
                    tuple(record["partitions"] or ()),
                )
            )
    except (LookupError, TypeError, ValueError) as error:
        raise CorruptData(f"Iceberg manifest list {path} is damaged: {type(error).__name__}: {error}") from None
    return manifests


def _count_names(what: str, *, legacy: bool) -> list[str]:
    infix = "data_" if legacy and what == "files" else ""
    return [f"{status}_{infix}{what}_count" for status in _COUNTS]


def _record(entry: Entry) -> dict[str, Any]:
    return {
        "status": entry.status,
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.sequence_number,
        "data_file": entry.file,
    }


def _plain_partition(file: dict[str, Any]) -> dict[str, Any]:
    """The record of a data file whose partition is held as it is written: days and microseconds as numbers."""
    return {**file, "partition": {name: _plain(value) for name, value in file["partition"].items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return (value.replace(tzinfo=None) - _EPOCH) // dt.timedelta(microseconds=1)
    return (value - _EPOCH.date()).days if isinstance(value, dt.date) else value


def partition_record(fields: Sequence[DataField], values: Sequence[Any]) -> dict[str, Any]:
    """The record of a partition from its values (as `storage.values` holds them)."""
    pairs = zip(fields, values, strict=True)
    return {
        avro_name(field.name): value // 1000 if value is not None and field.type.is_timestamp else value
        for field, value in pairs
    }


def _summary(entries: Sequence[Entry], number: int, field: DataField) -> dict[str, Any]:
    """What a list says of one partition column of a manifest."""
    values = [entry.file["partition"][avro_name(field.name)] for entry in entries]
    present = [value for value in values if value is not None and value == value]
    kind = str(column_type(field))
    factor = 1000 if field.type.is_timestamp else 1
    low, high = (
        (None, None)
        if not present
        else (encoded(end * factor if factor > 1 else end, kind) for end in (min(present), max(present)))
    )
    return {
        "contains_null": None in values,
        "contains_nan": any(value is not None and value != value for value in values),
        "lower_bound": low,
        "upper_bound": high,
    }


# --- schemas


def avro_name(name: str) -> str:
    """A column's name as Iceberg spells it in Avro, which knows letters, digits and underscores."""

    def spelled(match: re.Match[str]) -> str:
        return f"_x{ord(match[0]):X}"

    clean = re.sub(r"[^A-Za-z0-9_]", spelled, name)
    return f"_{clean}" if clean[:1].isdigit() else clean


def _field(name: str, field_id: int, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}
    return {"name": name, "type": kind, "field-id": field_id}


def _record_type(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    pair = _record_type(f"k{key_id}_v{value_id}", _field("key", key_id, "int"), _field("value", value_id, value))
    return {"type": "array", "items": pair, "logicalType": "map"}


def _partition_type(field: DataField) -> Any:
    kind = str(column_type(field))
    return _TIMES.get(kind, kind)


def _manifest_schema(partition: Sequence[DataField]) -> Any:
    columns = [
        _field(avro_name(field.name), number, _partition_type(field), optional=field.type.nullable)
        for number, field in enumerate(partition, FIRST_PARTITION_FIELD)
    ]
    file = _record_type(
        "r2",
        _field("content", 134, "int"),
        _field("file_path", 100, "string"),
        _field("file_format", 101, "string"),
        _field("partition", 102, _record_type("r102", *columns)),
        _field("record_count", 103, "long"),
        _field("file_size_in_bytes", 104, "long"),
        _field("null_value_counts", 110, _map(121, 122, "long"), optional=True),
        _field("lower_bounds", 125, _map(126, 127, "bytes"), optional=True),
        _field("upper_bounds", 128, _map(129, 130, "bytes"), optional=True),
        _field("referenced_data_file", 143, "string", optional=True),
        _field("content_offset", 144, "long", optional=True),
        _field("content_size_in_bytes", 145, "long", optional=True),
    )
    return avro.parse(
        _record_type(
            "manifest_entry",
            _field("status", 0, "int"),
            _field("snapshot_id", 1, "long", optional=True),
            _field("sequence_number", 3, "long", optional=True),
            _field("file_sequence_number", 4, "long", optional=True),
            _field("data_file", 2, file),
        )
    )


def _list_schema(*, legacy: bool) -> Any:
    summary = _record_type(
        "r508",
        _field("contains_null", 509, "boolean"),
        _field("contains_nan", 518, "boolean", optional=True),
        _field("lower_bound", 510, "bytes", optional=True),
        _field("upper_bound", 511, "bytes", optional=True),
    )
    counts = [
        _field(name, number, kind)
        for what, first, kind in (("files", 504, "int"), ("rows", 512, "long"))
        for number, name in enumerate(_count_names(what, legacy=legacy), first)
    ]
    return avro.parse(
        _record_type(
            "manifest_file",
            _field("manifest_path", 500, "string"),
            _field("manifest_length", 501, "long"),
            _field("partition_spec_id", 502, "int"),
            _field("content", 517, "int"),
            _field("sequence_number", 515, "long"),
            _field("min_sequence_number", 516, "long"),
            _field("added_snapshot_id", 503, "long", optional=True),
            *counts,
            _field("partitions", 507, {"type": "array", "items": summary, "element-id": 508}, optional=True),
        )
    )
