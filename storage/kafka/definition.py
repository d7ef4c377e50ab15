"""What a Kafka table is: its columns in the order of their declaration, its key, and the options of its connector.

A physical column is a field of the record's key or value; a metadata column says something of the record, under a key of the
connector or of a format; both may be read, and written unless a metadata column is VIRTUAL. Computed columns are the engines'.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from ..data_types import DataField, DataType
from ..errors import NotFound
from ..identifier import Identifier
from ..metadata.derived_columns import ComputedColumn, Watermark

CONNECTORS = ("kafka", "upsert-kafka")


@dataclass(frozen=True, slots=True)
class KafkaColumn:
    """A physical column, or one of metadata: then `metadata` is its key."""

    name: str
    type: DataType
    metadata: str | None = None
    is_virtual: bool = False
    comment: str | None = None

    @property
    def field(self) -> DataField:
        """The column as the store has columns."""
        return DataField(0, self.name, self.type, self.comment)


@dataclass(frozen=True)
class KafkaTable:
    """A table that is a topic. `identifier`: its name in the catalog."""

    identifier: Identifier
    columns: tuple[KafkaColumn, ...]
    options: Mapping[str, str]
    primary_key: tuple[str, ...] = ()
    comment: str | None = None
    computed: tuple[ComputedColumn, ...] = ()
    watermark: Watermark | None = None
    # All columns, computed ones as well, as they were declared.
    order: tuple[str, ...] = field(default=())

    @property
    def connector(self) -> str:
        """`kafka` or `upsert-kafka`."""
        return self.options["connector"]

    @property
    def physical(self) -> tuple[KafkaColumn, ...]:
        """The columns that stand in keys and values."""
        return tuple(column for column in self.columns if column.metadata is None)

    @property
    def metadata(self) -> tuple[KafkaColumn, ...]:
        """The columns of metadata."""
        return tuple(column for column in self.columns if column.metadata is not None)

    @property
    def written(self) -> tuple[KafkaColumn, ...]:
        """The columns that an INSERT supplies, in the order of their declaration."""
        return tuple(column for column in self.columns if not column.is_virtual)

    @property
    def schema(self) -> pa.Schema:
        """What a query reads, without what is computed."""
        return pa.schema([column.field.to_arrow() for column in self.columns])

    def column(self, name: str) -> KafkaColumn:
        """A column by its name. Raises NotFound that lists them."""
        for column in self.columns:
            if column.name == name:
                return column
        listed = ", ".join(column.name for column in self.columns)
        raise NotFound(f"{self.identifier} has no column {name!r}. Columns: {listed}.")
