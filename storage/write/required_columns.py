"""Columns that must not be null by the newest schema of a table, and files that were written before.

A column becomes NOT NULL once no file holds a null of it. A writer that opened the table before may still bring one, and a
rollback an older file: so a commit is refused whose files may hold nulls where the newest schema has none.
"""

from collections.abc import Mapping, Sequence

from ..errors import CommitConflict
from ..metadata.manifest import DataFile, ManifestEntry
from ..metadata.schema import TableSchema
from ..metadata.table_store import TableStore


def became_required(old: TableSchema, new: TableSchema) -> list[str]:
    """The columns, by their names in the old schema, that might be null there and must not be any more."""
    required = {field.id for field in new.fields if not field.type.nullable}
    return [field.name for field in old.fields if field.type.nullable and field.id in required]


def nulls_told(schema: TableSchema, file: DataFile, field_id: int) -> int | None:
    """How many nulls of a column a file holds that was written with a schema, as its statistics tell; None if they do not."""
    names = {field.id: field.name for field in schema.fields}
    if field_id not in names:
        return file.row_count
    if not schema.field(names[field_id]).type.nullable:
        return 0
    counted_columns = schema.column_names if file.value_stats_columns is None else list(file.value_stats_columns)
    counts = file.value_stats.null_counts
    if len(counts) != len(counted_columns) or names[field_id] not in counted_columns:
        return None
    return counts[counted_columns.index(names[field_id])]


def refuse_nulls(store: TableStore, newest: TableSchema, added: Sequence[ManifestEntry]) -> None:
    """Raise CommitConflict if files that a commit adds may hold nulls of columns that must not be null by the newest schema."""
    required: Mapping[int, str] = {field.id: field.name for field in newest.fields if not field.type.nullable}
    for entry in added if required else ():
        if entry.file.schema_id == newest.id:
            continue
        written = store.schemas.get(entry.file.schema_id)
        for field_id, name in required.items():
            if entry.file.row_count and nulls_told(written, entry.file, field_id) != 0:
                raise CommitConflict(
                    f"Column {name!r} of {store.identifier} is NOT NULL since its schema {newest.id} or before, and a file that "
                    f"was written with schema {written.id} may hold nulls. A writer opens the table again and repeats the "
                    f"write; for older rows to come back, first ALTER TABLE … ALTER COLUMN {name} DROP NOT NULL."
                )
