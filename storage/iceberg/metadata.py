"""A version of the metadata of a table as Iceberg's readers have them: one JSON file, named by the snapshot it shows."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import CorruptData
from ..format.iceberg_types import FIRST_PARTITION_FIELD, highest_id, iceberg_fields, partition_fields
from ..metadata.schema import TableSchema
from ..metadata.snapshot import Snapshot
from .names import name_mapping

FORMAT_VERSION = 2
_LONGEST_AGE_MS = 2**63 - 1
# In the summary of a snapshot, by Paimon's Java library from 2.0 on too: which of Paimon's it shows, whatever its number.
_IDENTITY = "paimon-commit-identity"
_OPERATION = "operation"
_NAME_MAPPING = "schema.name-mapping.default"
_SPEC_ID = _ORDER_ID = 0


@dataclass(frozen=True, slots=True)
class IcebergSnapshot:
    """A snapshot of the table: that of Paimon's with the same number."""

    id: int
    parent_id: int | None
    time_ms: int
    summary: Mapping[str, str]
    manifest_list: str
    schema_id: int

    @property
    def identity(self) -> str | None:
        """What no other snapshot has; None if its writer does not say."""
        return self.summary.get(_IDENTITY)


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """One version. `schemas` and `partition`: as the file describes them."""

    uuid: str
    location: str
    updated_ms: int
    last_column_id: int
    schemas: tuple[Mapping[str, Any], ...]
    current_schema_id: int
    partition: tuple[Mapping[str, Any], ...]
    snapshots: tuple[IcebergSnapshot, ...]
    tags: Mapping[str, int]
    properties: Mapping[str, str]
    format_version: int = FORMAT_VERSION

    @property
    def current(self) -> IcebergSnapshot:
        """The snapshot that it shows."""
        return self.snapshots[-1]

    def says_as(self, other: "TableMetadata") -> bool:
        """Whether another version says the same, whenever it was written."""
        return self.to_json(0) == other.to_json(0)

    @classmethod
    def from_json(cls, data: bytes, path: str) -> "TableMetadata":
        """What a file holds. Raises CorruptData that names it."""
        try:
            value = json.loads(data)
            current = value["current-snapshot-id"]
            snapshots = [_snapshot(snapshot) for snapshot in value["snapshots"]]
            if not snapshots or snapshots[-1].id != current:
                raise ValueError(f"snapshot {current} is not the last of its snapshots")
            return cls(
                str(value["table-uuid"]),
                str(value["location"]),
                int(value["last-updated-ms"]),
                int(value["last-column-id"]),
                tuple(value["schemas"]),
                int(value["current-schema-id"]),
                tuple(value["partition-specs"][-1]["fields"]),
                tuple(snapshots),
                {
                    name: int(ref["snapshot-id"])
                    for name, ref in (value.get("refs") or {}).items()
                    if ref.get("type") == "tag"
                },
                dict(value.get("properties") or {}),
                int(value["format-version"]),
            )
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise CorruptData(f"Iceberg metadata {path} are damaged: {type(error).__name__}: {error}") from None

    def to_json(self, updated_ms: int | None = None) -> bytes:
        """The content of the file."""
        value = {
            "format-version": self.format_version,
            "table-uuid": self.uuid,
            "location": self.location,
            "last-sequence-number": self.current.id,
            "last-updated-ms": self.updated_ms if updated_ms is None else updated_ms,
            "last-column-id": self.last_column_id,
            "schemas": list(self.schemas),
            "current-schema-id": self.current_schema_id,
            "partition-specs": [{"spec-id": _SPEC_ID, "fields": list(self.partition)}],
            "default-spec-id": _SPEC_ID,
            "last-partition-id": FIRST_PARTITION_FIELD - 1 + len(self.partition),
            "sort-orders": [{"order-id": _ORDER_ID, "fields": []}],
            "default-sort-order-id": _ORDER_ID,
            "snapshots": [_snapshot_json(snapshot) for snapshot in self.snapshots],
            "current-snapshot-id": self.current.id,
            "properties": dict(self.properties),
            "refs": {
                name: {"snapshot-id": number, "type": "tag", "max-ref-age-ms": _LONGEST_AGE_MS}
                for name, number in sorted(self.tags.items())
            },
        }
        return json.dumps(value, indent=2, ensure_ascii=False).encode()


def identity_of(snapshot: Snapshot) -> str:
    """By what metadata tell a snapshot of Paimon's from another one of its number, as Paimon's Java library from 2.0 on does."""
    return snapshot.uuid or f"{snapshot.commit_user}:{snapshot.commit_identifier}:{snapshot.time_ms}"


def shown_snapshot(
    snapshot: Snapshot, parent_id: int | None, operation: str, totals: Mapping[str, int], manifest_list: str
) -> IcebergSnapshot:
    """The snapshot that shows one of Paimon's. `totals`: what it says of its files and rows."""
    counts = {key: str(number) for key, number in totals.items()}
    summary = {_OPERATION: operation, **counts, _IDENTITY: identity_of(snapshot)}
    return IcebergSnapshot(snapshot.id, parent_id, snapshot.time_ms, summary, manifest_list, snapshot.schema_id)


def described_schemas(schemas: Sequence[TableSchema]) -> tuple[dict[str, Any], ...]:
    """Versions of a schema as metadata have them. Raises Unsupported, naming the column, for what Iceberg lacks."""
    return tuple(
        {"type": "struct", "schema-id": schema.id, "fields": iceberg_fields(schema.fields)} for schema in schemas
    )


def described_partition(schema: TableSchema) -> tuple[dict[str, Any], ...]:
    """The partition spec of a table as metadata have it."""
    return tuple(partition_fields(schema.fields_named(schema.partition_keys)))


def highest_column(schemas: Sequence[Mapping[str, Any]]) -> int:
    """The highest id that versions of a schema have given."""
    return max(highest_id(schema["fields"]) for schema in schemas)


def properties_for(schemas: Sequence[TableSchema]) -> dict[str, str]:
    """What metadata say of a table besides."""
    return {_NAME_MAPPING: json.dumps(name_mapping(schemas), ensure_ascii=False)}


def _snapshot(value: Mapping[str, Any]) -> IcebergSnapshot:
    parent = value.get("parent-snapshot-id")
    return IcebergSnapshot(
        int(value["snapshot-id"]),
        None if parent is None else int(parent),
        int(value["timestamp-ms"]),
        dict(value["summary"]),
        str(value["manifest-list"]),
        int(value["schema-id"]),
    )


def _snapshot_json(snapshot: IcebergSnapshot) -> dict[str, Any]:
    parent = {} if snapshot.parent_id is None else {"parent-snapshot-id": snapshot.parent_id}
    return {
        "sequence-number": snapshot.id,
        "snapshot-id": snapshot.id,
        **parent,
        "timestamp-ms": snapshot.time_ms,
        "summary": dict(snapshot.summary),
        "manifest-list": snapshot.manifest_list,
        "schema-id": snapshot.schema_id,
    }
