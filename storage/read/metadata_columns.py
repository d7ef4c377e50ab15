"""Columns that tell where a row comes from: they are metadata of files and snapshots, are stored nowhere, and are read only
where somebody asks for them by name. `*` does not have them.

A column of the table comes before metadata of its name; `__paimon_` before the name always means the metadata, and so are
some of them called by Paimon's Spark connector. Follows decision 0050.
"""

from collections.abc import Sequence

import pyarrow as pa

from ..errors import InvalidRequest, Unsupported
from ..metadata.schema import TableSchema

PREFIX = "__paimon_"
_TYPES: dict[str, pa.DataType] = {
    "snapshot_id": pa.int64(),
    "sequence_number": pa.int64(),
    "row_kind": pa.string(),
    "commit_time": pa.timestamp("ms"),
    "job": pa.string(),
    "barrier": pa.int64(),
    "file_path": pa.string(),
    "bucket": pa.int32(),
    "level": pa.int32(),
    "partition": pa.string(),
    "schema_id": pa.int64(),
    "row_index": pa.int64(),
}
# What may be unknown, or is not there in tables without a key.
_NULLABLE = ("snapshot_id", "sequence_number", "commit_time", "job", "barrier")
METADATA_COLUMNS = tuple(_TYPES)
# What a snapshot says, so that it has to be known which one wrote a row.
OF_SNAPSHOTS = frozenset({"snapshot_id", "commit_time", "job", "barrier"})


def metadata_of(name: str) -> str | None:
    """The metadata that a name means where no column of the table has it, whatever its case; None if it means none."""
    key = name.lower().removeprefix(PREFIX)
    return key if key in _TYPES else None


def metadata_field(name: str) -> pa.Field:
    """The Arrow field of a metadata column, under a name that means it."""
    key = metadata_of(name)
    assert key is not None
    return pa.field(name, _TYPES[key], key in _NULLABLE)


def metadata_among(schema: TableSchema, names: Sequence[str]) -> tuple[str, ...]:
    """Which of some names are metadata of rows, as they are written: no column of the table has them.

    Raises InvalidRequest for a name that is asked for twice, Unsupported for a table whose rows lie in several files each.
    """
    own = set(schema.column_names)
    metadata_names = tuple(name for name in names if name not in own and metadata_of(name) is not None)
    if len(set(metadata_names)) < len(metadata_names):
        raise InvalidRequest(f"Metadata columns are asked for twice: {', '.join(metadata_names)}. Ask once for each.")
    if metadata_names and schema.options.get("data-evolution.enabled", "false") == "true":
        raise Unsupported(
            f"{metadata_names[0]!r} is not told of tables with 'data-evolution.enabled': there the columns of a row lie in "
            "several files."
        )
    return metadata_names


def refuse_metadata(schema: TableSchema, names: Sequence[str], where: str, hint: str = "") -> None:
    """Raise InvalidRequest for metadata columns in a place that takes the table's own columns alone."""
    metadata_names = metadata_among(schema, sorted(names))
    if metadata_names:
        own = hint or f"Those are {', '.join(schema.column_names)}."
        raise InvalidRequest(
            f"{metadata_names[0]!r} is metadata of the rows, and {where} takes the table's own columns. {own}"
        )
