"""Kafka tables for those who have engines: read and written with the codec that DuckDB is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from ..errors import Unsupported
from ..identifier import Identifier
from ..kafka.definition import CONNECTORS, KafkaColumn, KafkaTable
from ..kafka.options import options_of_reads
from ..kafka.ranges import OffsetRange, bounded_ranges
from ..kafka.read import KafkaScan
from ..kafka.table_checks import check_table, check_writable
from ..kafka.write import write_rows
from ..metadata.derived_columns import derived_texts
from ..metadata.schema import TableSchema
from .duckdb_json import DuckDbJson

__all__ = [
    "CONNECTORS",
    "KafkaColumn",
    "OffsetRange",
    "check_topic_table",
    "check_topic_writable",
    "options_of_reads",
    "read_topic",
    "scan_topic",
    "topic_table_like",
    "write_topic",
]


def check_topic_table(table: KafkaTable) -> None:
    """Raise InvalidRequest, NotFound or Unsupported for a definition whose parts do not fit together."""
    check_table(table, DuckDbJson())


def check_topic_writable(table: KafkaTable) -> None:
    """Raise InvalidRequest for a table that can be read and not written."""
    check_writable(check_table(table, DuckDbJson()))


def topic_table_like(schema: TableSchema, identifier: Identifier, options: Mapping[str, str]) -> KafkaTable:
    """A Kafka table with the columns of a table of the store; its primary key is one where records are upserts. Raises
    Unsupported for a table with columns that are computed.
    """
    if derived_texts(schema.options):
        raise Unsupported(
            "Computed columns and watermarks of a table are not taken over into a Kafka table: list the columns instead of LIKE."
        )
    columns = tuple(KafkaColumn(each.name, each.type, comment=each.description) for each in schema.fields)
    keys = tuple(schema.primary_keys) if options.get("connector") == "upsert-kafka" else ()
    order = tuple(column.name for column in columns)
    return KafkaTable(identifier, columns, options, keys, schema.comment, order=order)


def scan_topic(table: KafkaTable, columns: Sequence[str] | None = None) -> tuple[KafkaScan, list[OffsetRange]]:
    """A read of some columns, by default of all, and the offsets between which it is bounded now."""
    scan = KafkaScan.of(table, DuckDbJson(), columns)
    return scan, bounded_ranges(scan.checked.options, str(table.identifier))


def read_topic(table: KafkaTable, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a table, up to where it is bounded."""
    scan, ranges = scan_topic(table, columns)
    return scan.to_arrow(ranges)


def write_topic(table: KafkaTable, batches: Iterable[pa.Table], kinds: Iterable[pa.Array] | None = None) -> int:
    """Write rows of the columns that the table takes; says how many. See `storage.kafka.write.write_rows`."""
    return write_rows(check_table(table, DuckDbJson()), batches, kinds)


def with_options(table: KafkaTable, options: dict[str, str]) -> KafkaTable:
    """The same table with other options, for one read or one write."""
    return replace(table, options={**table.options, **options})
