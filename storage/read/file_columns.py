"""Where the columns of a reading schema are in a file that was written under another version of it."""

from collections.abc import Collection, Sequence

import pyarrow as pa

from ..data_types import DataField
from ..metadata.schema import KEY_PREFIX
from .evolution import evolve


class FileColumns:
    """Where the columns of the reading schema are in a file that was written under another version of it."""

    def __init__(self, file_fields: Sequence[DataField], names: Sequence[str], trimmed: Collection[int] = ()) -> None:
        self._by_id = {field.id: field for field in file_fields}
        self._trimmed = trimmed
        self._names = set(names)

    def type_of(self, field: DataField) -> object:
        old = self._by_id.get(field.id)
        return old.type if old else None

    def source(self, field: DataField) -> str | None:
        """Name in the file of a column, or None if the file does not have it."""
        old = self._by_id.get(field.id)
        return old.name if old is not None and old.name in self._names else None

    def sources(self, fields: Sequence[DataField]) -> list[str | None]:
        return [self.source(field) for field in fields]

    def key_source(self, field: DataField) -> str | None:
        """Name in the file of a key column; files in thin mode have only the value column."""
        old = self._by_id.get(field.id)
        keyed = f"{KEY_PREFIX}{old.name}" if old else ""
        return keyed if keyed in self._names else self.source(field)

    def column(self, batch: pa.RecordBatch, field: DataField, source: str | None) -> pa.Array:
        if source is None:
            return pa.nulls(batch.num_rows, field.type.to_arrow())
        old, trims_char = self._by_id[field.id], field.id in self._trimmed
        return evolve(batch.column(source), old.type, field.type, field.name, trims_char=trims_char)
